"""Runs a coroutine, on uvloop where that is installed: it leaves the server more of the machine."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.run(coroutine)
    return uvloop.run(coroutine)
