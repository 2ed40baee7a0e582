"""Networks loaded without Triton, and a small text encoder in the form the exporter gives to real ones."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from small_networks import TEXT_WIDTH as WIDTH
from trireme_export.text_network import Pooling, TextNetwork
from trireme_network import load_for_onnxruntime
from trireme_network.model_config import read_model_config
from trireme_network.network import Network
from trireme_triton.cold_start import ColdStart

VOCABULARY, LONGEST, HEADS = 100, 160, 4


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Callable[..., Network]]:
    """`load(file, config, kind)`: a ready network from an ONNX file's content (or path) and a parsed config."""
    loaded = []

    def load_network(file: bytes | Path, parsed: Mapping[str, Any], kind: str = "CPU") -> Network:
        path = tmp_path / "model.onnx"
        path.write_bytes(file if isinstance(file, bytes) else file.read_bytes())
        loaded.append(load_for_onnxruntime.load(read_model_config(parsed), tmp_path, kind, ColdStart()))
        return loaded[-1]

    yield load_network
    for network in loaded:
        network.close()


class SmallEncoder(torch.nn.Module):
    """Two layers of a Transformer encoder with random weights, called as the exporter calls real encoders."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = torch.nn.Parameter(torch.randn(VOCABULARY, WIDTH))
        self.places = torch.nn.Parameter(torch.randn(LONGEST, WIDTH))
        self.kinds = torch.nn.Parameter(torch.randn(2, WIDTH))
        self.layers = torch.nn.ModuleList(
            torch.nn.ModuleDict({name: torch.nn.Linear(WIDTH, WIDTH) for name in ("query", "key", "value", "out")})
            for _ in range(2)
        )

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        position_ids: torch.Tensor,
        token_type_ids: torch.Tensor,
    ) -> Any:
        hidden = torch.nn.functional.embedding(input_ids, self.words)
        hidden = hidden + torch.nn.functional.embedding(token_type_ids, self.kinds)
        hidden = hidden + torch.nn.functional.embedding(position_ids, self.places)
        for layer in self.layers:
            query, key, value = (self._heads(layer[name](hidden)) for name in ("query", "key", "value"))
            scores = query @ key.transpose(2, 3) / (WIDTH // HEADS) ** 0.5 + attention_mask
            mixed = (torch.softmax(scores, dim=-1) @ value).transpose(1, 2).reshape(hidden.shape)
            hidden = torch.nn.functional.layer_norm(hidden + torch.tanh(layer["out"](mixed)), (WIDTH,))
        return SimpleNamespace(last_hidden_state=hidden)

    def _heads(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.reshape(*hidden.shape[:2], HEADS, -1).transpose(1, 2)


@pytest.fixture(scope="session")
def encoder() -> SmallEncoder:
    return SmallEncoder().eval()


@pytest.fixture(scope="session")
def text_file(encoder: SmallEncoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The encoder as a segment-aware graph: input_ids and attention_mask [batch, length] to vectors [batch, S, 16]."""
    rows = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations inside the exporter itself
        program = torch.onnx.export(
            TextNetwork(encoder, Pooling.MEAN).eval(),
            (torch.ones(2, 20, dtype=torch.int64), torch.tensor([[1] * 12 + [2] * 8, [1] * 20])),
            input_names=["input_ids", "attention_mask"],
            output_names=["vectors"],
            dynamic_shapes=(rows, rows),
            opset_version=18,
            dynamo=True,
            verbose=False,
        )
    path = tmp_path_factory.mktemp("text") / "model.onnx"
    program.save(str(path))
    return path


@pytest.fixture(scope="session")
def reference(encoder: SmallEncoder) -> Callable[[np.ndarray], np.ndarray]:
    """`reference(ids)`: the vector of one text by itself, in float64, without segments or padding."""
    exact = SmallEncoder().double()
    exact.load_state_dict(encoder.state_dict())

    def compute(ids: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            tokens = torch.from_numpy(ids)[None]
            hidden = exact(tokens, torch.zeros(1), torch.arange(len(ids))[None], torch.zeros_like(tokens))
            return hidden.last_hidden_state[0].mean(dim=0).numpy()

    return compute
