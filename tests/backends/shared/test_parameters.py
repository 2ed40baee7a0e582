"""A model's parameters are read strictly."""

from dataclasses import FrozenInstanceError, dataclass
from typing import Literal

import pytest
from trireme_triton.parameters import InvalidParameter, parameter, raw_parameters, read_parameters


@dataclass(frozen=True, kw_only=True)
class Options:
    name: str
    count: int = parameter(3, minimum=1, maximum=9)
    ratio: float = 0.5
    flag: bool = True
    mode: Literal["fast", "exact"] = "fast"
    triple: tuple[float, float, float] = (0.0, 0.0, 0.0)
    any_number: tuple[float, ...] | None = parameter(None, minimum=0)
    limit: int | None = None
    runtime: Literal["a", "b"] = parameter("a", key="trireme.runtime")


def read(**raw: str) -> Options:
    return read_parameters(Options, {"name": "x", **raw})


def test_every_type_is_parsed():
    options = read_parameters(
        Options,
        {
            "name": "",
            "count": "9",
            "ratio": "-1e-3",
            "flag": "false",
            "mode": "exact",
            "triple": "1,2.5, -3",
            "any_number": "1,2",
            "limit": "-7",
            "trireme.runtime": "b",
        },
    )
    assert options == Options(
        name="",
        count=9,
        ratio=-1e-3,
        flag=False,
        mode="exact",
        triple=(1.0, 2.5, -3.0),
        any_number=(1.0, 2.0),
        limit=-7,
        runtime="b",
    )


def test_what_is_left_out_keeps_its_default():
    assert read() == Options(name="x")


def test_the_result_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        read().count = 4  # type: ignore[misc]


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("count", "0", "an integer from 1 to 9"),
        ("count", "10", "an integer from 1 to 9"),
        ("count", "3.0", "an integer"),
        ("count", " 3", "an integer"),
        ("count", "1_0", "an integer"),
        ("count", "٣", "an integer"),
        ("count", "", "an integer"),
        ("ratio", "nan", "a number"),
        ("ratio", "1_0e-1", "a number"),
        ("ratio", "٣", "a number"),
        ("ratio", "inf", "a number"),
        ("ratio", "half", "a number"),
        ("flag", "True", "true or false"),
        ("flag", "1", "true or false"),
        ("mode", "Fast", "one of fast, exact"),
        ("triple", "1,2", "3 numbers separated by commas"),
        ("triple", "1,2,x", "3 numbers separated by commas"),
        ("any_number", "1,-2", "numbers separated by commas of at least 0"),
        ("limit", "none", "an integer"),
        ("trireme.runtime", "c", "one of a, b"),
    ],
)
def test_an_ill_typed_value_is_refused_with_what_is_allowed(key, value, allowed):
    with pytest.raises(InvalidParameter) as refused:
        read(**{key: value})
    assert repr(key) in str(refused.value)
    assert repr(value) in str(refused.value)
    assert allowed in str(refused.value)


def test_an_unknown_parameter_is_refused_with_the_known_ones():
    with pytest.raises(InvalidParameter, match=r"unknown parameter 'cuont'; known are .*count.*trireme\.runtime"):
        read(cuont="3")


def test_a_field_with_a_key_of_its_own_is_not_read_by_its_name():
    with pytest.raises(InvalidParameter, match="unknown parameter 'runtime'"):
        read(runtime="a")


def test_a_missing_parameter_is_named():
    with pytest.raises(InvalidParameter, match="'name' is missing; it must be a string"):
        read_parameters(Options, {})


def test_an_ignored_prefix_skips_unknown_keys_but_not_known_ones():
    raw = {"name": "x", "trireme.generation": "7", "trireme.runtime": "b"}
    assert read_parameters(Options, raw, ignored_prefixes=("trireme.",)).runtime == "b"
    with pytest.raises(InvalidParameter, match=r"trireme\.generation"):
        read_parameters(Options, raw)


def test_raw_parameters_are_the_string_values_of_a_config():
    assert raw_parameters({"parameters": {"a": {"string_value": "1"}}}) == {"a": "1"}
    assert raw_parameters({}) == {}
