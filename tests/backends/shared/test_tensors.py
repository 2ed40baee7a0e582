"""What is read from requests. Responses are tested on the real server, see tests/backends/stages."""

import numpy as np
import pytest
from trireme_triton.tensors import InvalidRequest, bytes_column, or_refusal


def test_a_column_of_bytes_is_read():
    values = np.array([[b"a"], [b"b\0"]], np.object_)
    assert bytes_column("text", values) == [b"a", b"b\0"]


@pytest.mark.parametrize(
    "values",
    [
        np.array([b"a"], np.object_),
        np.array([[b"a", b"b"]], np.object_),
        np.empty((0, 1), np.object_),
        np.empty((1, 0), np.object_),
        np.zeros((2, 1), np.int64),
    ],
)
def test_any_other_shape_or_type_is_refused(values):
    with pytest.raises(InvalidRequest, match=r"input 'text' has shape .*\[batch, 1\]") as refused:
        bytes_column("text", values)
    assert refused.value.reason == "shape"


def test_a_refusal_becomes_a_value_and_other_errors_do_not():
    def refuse(inputs):
        raise InvalidRequest("no")

    def fail(inputs):
        raise ZeroDivisionError

    assert str(or_refusal(refuse, {})) == "no"
    with pytest.raises(ZeroDivisionError):
        or_refusal(fail, {})
