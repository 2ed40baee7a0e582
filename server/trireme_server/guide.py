"""What to do with a server that is ready: its endpoints, and one call per entry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from trireme_server.manifest import Manifest
from trireme_server.repository import Entry
from trireme_server.serve_config import ServeConfig

_EXAMPLE_TEXT = "A trireme has three banks of oars."
_COMMANDS = {
    "sentence-embedding": f'embed "{_EXAMPLE_TEXT}"',
    "text-classification": f'classify "{_EXAMPLE_TEXT}"',
    "token-classification": f'extract "{_EXAMPLE_TEXT}"',
    "reranking": f'rerank --query "How many oars?" "{_EXAMPLE_TEXT}"',
    "image-classification": "classify-image picture.jpg",
    "image-embedding": "embed-image picture.jpg",
}


def guide(config: ServeConfig, entries: Sequence[Entry], manifests: Mapping[str, Manifest]) -> list[str]:
    """Lines to print when everything is ready."""
    host = config.url_host
    lines = [
        "",
        f"HTTP     http://{host}:{config.http_port}",
        f"gRPC     {host}:{config.grpc_port}",
        f"metrics  http://{host}:{config.metrics_port}/metrics",
        f"truth    http://{host}:{config.health_port}/ready  (/status, /metrics)",
    ]
    for entry in entries:
        lines += ["", f"{entry.name}:", *_calls(config, host, entry, manifests.get(entry.name))]
    return [*lines, "", "Ctrl-C stops it."]


def _calls(config: ServeConfig, host: str, entry: Entry, manifest: Manifest | None) -> Iterator[str]:
    url = f"http://{host}:{config.http_port}/v2/models/{entry.name}"
    yield f"  curl {_curl(entry, url)}"
    if manifest is not None and manifest.task in _COMMANDS:
        server = "" if config.grpc_port == 8001 else f" --url {host}:{config.grpc_port}"
        yield f"  trireme {_COMMANDS[manifest.task]} --model {entry.name}{server}"


def _curl(entry: Entry, url: str) -> str:
    types = entry.model.config.input_types
    name = entry.model.config.first_input
    if name is None or set(types.values()) != {"BYTES"}:
        return f"{url}  # what it takes and gives"
    if entry.is_decoupled:
        return f"{url}/generate -d '{json.dumps({name: _EXAMPLE_TEXT})}'"
    if name == "image":
        return f"{url}/infer -H 'Inference-Header-Content-Length: 0' --data-binary @picture.jpg --output answer.bin"
    shape = [1, 1] if entry.model.config.max_batch_size else [1]
    tensors = [{"name": each, "shape": shape, "datatype": "BYTES", "data": [_EXAMPLE_TEXT]} for each in types]
    return f"{url}/infer -d '{json.dumps({'inputs': tensors})}'"
