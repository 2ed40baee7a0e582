"""The module Dense of sentence-transformers: a linear layer with an activation on the pooled vector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.intake import load_strictly, read_settings
from trireme_export.sentence_layout import IN_PLACE
from trireme_export.weights import read_weights

ACTIVATIONS: dict[str, type[nn.Module]] = {
    f"torch.nn.modules.{place}": activation
    for place, activation in {
        "activation.GELU": nn.GELU,
        "activation.ReLU": nn.ReLU,
        "activation.Sigmoid": nn.Sigmoid,
        "activation.Tanh": nn.Tanh,
        "linear.Identity": nn.Identity,
    }.items()
}
_KEYS = {"in_features", "out_features", "bias", "activation_function"}


class Dense(nn.Module):
    """(..., in_features) -> (..., width)."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.width: int = config["out_features"]
        self.linear = nn.Linear(config["in_features"], self.width, bias=config["bias"])
        self.activation = ACTIVATIONS[config["activation_function"]]()

    def forward(self, vectors: Tensor) -> Tensor:
        activated: Tensor = self.activation(self.linear(vectors))
        return activated


def read_dense(checkpoint: Checkpoint, folder: str, width: int, cache: Path) -> Dense:
    """The module whose files are in `folder` of the checkpoint, for vectors of `width`, ready for inference.

    Raises:
        CheckpointRefused: its config has other keys or another activation than known, it or its tensors do not fit.
    """
    name = f"{folder}/config.json"
    config = read_settings(checkpoint, name, _KEYS, {**IN_PLACE, "use_residual": False})
    if missing := sorted(_KEYS - config.keys()):
        raise CheckpointRefused(f"{checkpoint.uri}: {name}: {', '.join(missing)}: missing")
    if not isinstance(config["activation_function"], str) or config["activation_function"] not in ACTIVATIONS:
        raise CheckpointRefused(
            f"{checkpoint.uri}: {name}: activation_function is {config['activation_function']!r}; "
            f"{', '.join(ACTIVATIONS)} can be exported"
        )
    if config["in_features"] != width:
        raise CheckpointRefused(
            f"{checkpoint.uri}: {name}: in_features is {config['in_features']!r}; the encoder's vectors have {width}"
        )
    weights = read_weights(checkpoint, cache, folder)
    outputs = weights["linear.weight"].shape[:1] if "linear.weight" in weights else ()
    if type(config["out_features"]) is not int or outputs != (config["out_features"],):
        raise CheckpointRefused(
            f"{checkpoint.uri}: {name}: out_features is {config['out_features']!r}; linear.weight of its weights has "
            f"{sum(outputs)} rows"
        )
    if type(config["in_features"]) is not int or type(config["bias"]) is not bool:
        raise CheckpointRefused(f"{checkpoint.uri}: {name}: in_features must be a whole number, and bias true or false")
    dense = Dense(config)
    load_strictly(dense, weights, lambda tensor: tensor)
    return dense.eval()
