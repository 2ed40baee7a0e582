"""A model config's `parameters` become one frozen dataclass. Knows nothing of Triton's API or of any backend."""

from __future__ import annotations

import dataclasses
import math
import re
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Parameters = TypeVar("Parameters")


class InvalidParameter(ValueError):
    """A parameter of a model's config is unknown, missing, ill-typed or out of range."""


def parameter(
    default: object = dataclasses.MISSING,
    *,
    key: str | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
) -> Any:
    """A dataclass field that is read from the config parameter `key` (default: the field's own name).

    `minimum` and `maximum` bound a number, or every number of a tuple, inclusively.
    """
    return dataclasses.field(default=default, metadata={"key": key, "minimum": minimum, "maximum": maximum})


def raw_parameters(model_config: Mapping[str, Any]) -> dict[str, str]:
    """The parameters of a parsed model config: `{"key": {"string_value": "x"}}` gives `{"key": "x"}`."""
    return {key: value["string_value"] for key, value in model_config.get("parameters", {}).items()}


def read_parameters(
    cls: type[Parameters], raw: Mapping[str, str], *, ignored_prefixes: tuple[str, ...] = ()
) -> Parameters:
    """An instance of the dataclass `cls` made from `raw`.

    Keys that start with one of `ignored_prefixes` are skipped unless a field reads them.
    Field types: `str`, `int`, `float`, `bool`, `Literal` of strings, `tuple` of floats, and each of these `| None`.

    Raises:
        InvalidParameter: a key no field reads, a required key that is missing, or a value a field cannot take.
    """
    fields = {field.metadata.get("key") or field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    unknown = [key for key in raw if key not in fields and not key.startswith(ignored_prefixes)]
    if unknown:
        raise InvalidParameter(f"unknown parameter {unknown[0]!r}; known are {', '.join(sorted(fields))}")
    hints = get_type_hints(cls)
    values = {}
    for key, field in fields.items():
        hint = _without_none(hints[field.name])
        if key in raw:
            values[field.name] = _parse(key, raw[key], hint, field.metadata)
        elif field.default is dataclasses.MISSING:
            raise InvalidParameter(f"parameter {key!r} is missing; it must be {_allowed(hint, field.metadata)}")
    return cls(**values)


def _without_none(hint: object) -> object:
    """`X` for `X | None`, and any other type as it is."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    (inner,) = (part for part in get_args(hint) if part is not types.NoneType)
    return inner


def _parse(key: str, text: str, hint: object, bounds: Mapping[str, Any]) -> object:
    """`text` as the type `hint`, within `bounds`."""
    try:
        value = _parser(hint)(text)
        if _within(value, bounds):
            return value
    except ValueError:
        pass
    raise InvalidParameter(f"parameter {key!r} is {text!r}; it must be {_allowed(hint, bounds)}")


def _parser(hint: object) -> Callable[[str], object]:
    if get_origin(hint) is Literal:
        return lambda text: _one_of(text, get_args(hint))
    if get_origin(hint) is tuple:
        return lambda text: _numbers(text, get_args(hint))
    parsers: dict[object, Callable[[str], object]] = {str: str, int: _integer, float: _number, bool: _boolean}
    return parsers[hint]


def _integer(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,18}", text):  # int() would also take "1_000", " 1" and other alphabets' digits
        raise ValueError(text)
    return int(text)


def _number(text: str) -> float:
    if not re.fullmatch(r" *[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)? *", text):  # float() takes "1_0" too
        raise ValueError(text)
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _boolean(text: str) -> bool:
    return _one_of(text, ("true", "false")) == "true"


def _one_of(text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise ValueError(text)
    return text


def _numbers(text: str, items: tuple[object, ...]) -> tuple[float, ...]:
    values = tuple(_number(part) for part in text.split(","))
    if Ellipsis not in items and len(values) != len(items):
        raise ValueError(text)
    return values


def _within(value: Any, bounds: Mapping[str, Any]) -> bool:
    minimum, maximum = bounds.get("minimum"), bounds.get("maximum")
    numbers = value if isinstance(value, tuple) else (value,)
    return all((minimum is None or number >= minimum) and (maximum is None or number <= maximum) for number in numbers)


def _allowed(hint: object, bounds: Mapping[str, Any]) -> str:
    """What a parameter of this type may be, in words."""
    if get_origin(hint) is Literal:
        return f"one of {', '.join(get_args(hint))}"
    if get_origin(hint) is tuple:
        count = "" if Ellipsis in get_args(hint) else f"{len(get_args(hint))} "
        return f"{count}numbers separated by commas{_range(bounds)}"
    words: dict[object, str] = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
    return words[hint] + _range(bounds)


def _range(bounds: Mapping[str, Any]) -> str:
    minimum, maximum = bounds.get("minimum"), bounds.get("maximum")
    if minimum is not None and maximum is not None:
        return f" from {minimum} to {maximum}"
    if minimum is not None:
        return f" of at least {minimum}"
    return "" if maximum is None else f" of at most {maximum}"
