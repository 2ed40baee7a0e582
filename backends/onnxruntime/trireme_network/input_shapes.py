"""Whether a request's tensors have the shapes of the config. Triton checks them first, but not all of them.

It cuts the batch dimension to 32 bits before it looks: what a multiple of 2**32 rows leaves has no batch dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trireme_triton.tensors import Array, Inputs, InvalidRequest

from trireme_network.graph import ANY
from trireme_network.model_config import TensorConfig


class InputShapes:
    """The shapes that a config allows. `batches`: a batch dimension comes before the config's own."""

    def __init__(self, inputs: Sequence[TensorConfig], *, batches: bool) -> None:
        self._batches = batches
        rows = (ANY,) if batches else ()
        self._allowed: Mapping[str, tuple[int, ...]] = {tensor.name: rows + tensor.dims for tensor in inputs}

    def check(self, request: Inputs) -> None:
        """Runtimes answer empty tensors with NaN, so these are refused as well.

        Raises:
            InvalidRequest: names the tensor, its shape and the shapes that are allowed.
        """
        for name, values in request.items():
            if not values.size:
                raise _refusal(name, values, "every dimension must be at least 1")
            if not _fits(values.shape, self._allowed[name]):
                raise _refusal(name, values, f"it must be {self._in_words(name)}")
        if self._batches and len({len(values) for values in request.values()}) > 1:
            shapes = ", ".join(f"{name!r} has shape {list(values.shape)}" for name, values in request.items())
            raise InvalidRequest(f"input {shapes}; all must have the same batch dimension", reason="shape")

    def _in_words(self, name: str) -> str:
        words = ["any" if dim == ANY else str(dim) for dim in self._allowed[name]]
        return f"[{', '.join(['batch', *words[1:]] if self._batches else words)}]"


def _fits(shape: tuple[int, ...], allowed: tuple[int, ...]) -> bool:
    return len(shape) == len(allowed) and all(want in (dim, ANY) for dim, want in zip(shape, allowed, strict=True))


def _refusal(name: str, values: Array, allowed: str) -> InvalidRequest:
    return InvalidRequest(f"input {name!r} has shape {list(values.shape)}; {allowed}", reason="shape")
