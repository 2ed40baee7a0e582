"""Models and health on stdout, as a table for people or JSON lines for programs."""

import json
import sys
from dataclasses import asdict

from trireme_client.printing import print_table
from trireme_client.results import Health, ModelMetadata, ModelState, TensorMetadata


def print_states(states: list[ModelState], as_json: bool) -> None:
    if as_json:
        _print_json(*states)
    else:
        rows = [(state.name, state.version, state.state, state.reason) for state in states]
        print_table(("model", "version", "state", "reason"), rows)


def print_metadata(models: list[ModelMetadata], as_json: bool) -> None:
    if as_json:
        _print_json(*models)
        return
    for model in models:
        title = f"{model.name} ({model.platform}, batches up to {model.max_batch_size})"
        rows = [_tensor_row(f"in   {tensor.name}", tensor) for tensor in model.inputs]
        rows += [_tensor_row(f"out  {tensor.name}", tensor) for tensor in model.outputs]
        print_table((title, "type", "shape"), rows)


def print_health(health: Health, as_json: bool) -> None:
    if as_json:
        _print_json(health)
    else:
        print_table(("live", "ready"), [(_yes(health.live), _yes(health.ready))])


def _print_json(*values: ModelState | ModelMetadata | Health) -> None:
    for value in values:
        sys.stdout.write(json.dumps(asdict(value)) + "\n")


def _tensor_row(title: str, tensor: TensorMetadata) -> tuple[str, str, str]:
    return title, tensor.datatype, " x ".join("any" if size == -1 else str(size) for size in tensor.shape)


def _yes(value: bool) -> str:
    return "yes" if value else "no"
