"""The stage `embedding`: what a network gives for a text or an image becomes one vector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from trireme_triton.parameters import InvalidParameter, parameter
from trireme_triton.tensors import Answer, Inputs

from trireme_stages.pooling import pool_hidden_states
from trireme_stages.segments import Windows, joined, read_vectors, read_windows, split_requests
from trireme_stages.stage import Dims, Model, Signature, answer_parsed

_SMALLEST_NORM = np.float32(1e-12)  # a zero vector stays zero, as in torch.nn.functional.normalize


@dataclass(frozen=True, kw_only=True)
class EmbeddingParameters:
    """`pooling` is `none` for a network that pools itself and gives `embedding`, else it gives `hidden_states`.

    `windows` says how the vectors of a text's windows are combined; `none` is for one vector each, as of images.
    """

    pooling: Literal["none", "mean", "cls"] = "none"
    windows: Literal["mean", "max", "none"] = "mean"
    normalize: bool = True
    dimensions: int | None = parameter(None, minimum=1)

    def __post_init__(self) -> None:
        if self.windows == "none" and self.pooling != "none":
            raise InvalidParameter(
                "parameter 'windows' is 'none', so 'pooling' must be too: there are no tokens to pool"
            )

    def signature(self) -> Signature:
        """D is the network's width."""
        outputs: dict[str, tuple[str, Dims]] = {"embedding": ("TYPE_FP32", (self.dimensions or "D",))}
        if self.windows == "none":
            return Signature(inputs={"embedding": ("TYPE_FP32", ("D",))}, outputs=outputs)
        network: dict[str, tuple[str, Dims]] = {"embedding": ("TYPE_FP32", (-1, "D"))}
        if self.pooling != "none":
            network = {"hidden_states": ("TYPE_FP32", (-1, "D")), "attention_mask": ("TYPE_INT64", (-1,))}
        return Signature(
            inputs={**network, "windows": ("TYPE_INT32", (1,))},
            outputs=outputs,
        )


class Embedding:
    """The vectors of a text's windows, not yet normalised, are combined; the first `dimensions` are kept, normalised.

    Keeping the first dimensions suits vectors trained for it: Matryoshka representation learning, arXiv:2205.13147.
    """

    Parameters = EmbeddingParameters

    def __init__(self, parameters: EmbeddingParameters, model: Model) -> None:
        self._parameters = parameters
        self._width = model.sizes["D"]
        if (parameters.dimensions or 1) > self._width:
            raise InvalidParameter(
                f"parameter 'dimensions' is {parameters.dimensions}; the network gives {self._width}"
            )

    def answer(self, batch: Sequence[Inputs]) -> list[Answer]:
        """All texts or images of all requests are computed as one array."""
        return answer_parsed(batch, self._windows, self._embeddings)

    def _windows(self, inputs: Inputs) -> Windows:
        if self._parameters.windows == "none":
            return read_vectors("embedding", inputs, self._width)
        if self._parameters.pooling == "none":
            return read_windows("embedding", inputs, self._width)
        return pool_hidden_states(inputs, self._width, self._parameters.pooling)

    def _embeddings(self, requests: Sequence[Windows]) -> Iterator[Answer]:
        windows, how = joined(requests), self._parameters.windows
        vectors = (windows.rows if how == "none" else windows.combined(how))[:, : self._parameters.dimensions]
        if self._parameters.normalize:
            norms = np.sqrt(np.einsum("td,td->t", vectors, vectors))
            vectors = vectors / np.maximum(norms, _SMALLEST_NORM)[:, None]
        for (embedding,) in split_requests(requests, np.ascontiguousarray(vectors)):
            yield {"embedding": embedding}
