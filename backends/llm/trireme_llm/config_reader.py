"""Takes values out of a parsed config.json and knows in the end which keys nobody asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from trireme_llm.errors import UnsupportedCheckpoint

T = TypeVar("T")
REQUIRED = object()


class ConfigReader:
    """Typed access to one JSON object. `place` names it in errors."""

    def __init__(self, values: Mapping[str, object], place: str) -> None:
        self._values = values
        self._place = place
        self._read: set[str] = set()

    def has(self, key: str) -> bool:
        """Whether the key is there with a value."""
        return self._values.get(key) is not None

    def optional(self, key: str, kind: type[T], default: T) -> T:
        """The value, or the default where the key is missing or null."""
        self._read.add(key)
        value = self._values.get(key)
        return default if value is None else self._typed(key, value, kind)

    def maybe(self, key: str, kind: type[T]) -> T | None:
        """The value, or None where the key is missing or null."""
        self._read.add(key)
        value = self._values.get(key)
        return None if value is None else self._typed(key, value, kind)

    def required(self, key: str, kind: type[T]) -> T:
        value = self.maybe(key, kind)
        if value is None:
            raise UnsupportedCheckpoint(f"{self._place} lacks {key!r}")
        return value

    def section(self, key: str) -> ConfigReader:
        """A nested object."""
        return ConfigReader(self.required(key, dict), f"{self._place}, {key!r}")

    def refuse_unread(self, irrelevant: frozenset[str]) -> None:
        """Raise if a key may matter and was not understood."""
        unknown = sorted(set(self._values) - self._read - irrelevant)
        if unknown:
            raise UnsupportedCheckpoint(f"{self._place} has keys this engine does not understand: {', '.join(unknown)}")

    def _typed(self, key: str, value: object, kind: type[T]) -> T:
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        wrong_bool = isinstance(value, bool) and kind is not bool
        if not isinstance(value, kind) or wrong_bool:
            raise UnsupportedCheckpoint(f"{self._place}: {key!r} is {value!r}; {kind.__name__} is needed")
        return value
