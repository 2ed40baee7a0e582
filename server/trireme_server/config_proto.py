"""Triton's `config.pbtxt` as the protobuf ModelConfig, and what is read from it. The one module that knows protobuf.

The message comes from tritonclient's generated module, which is loaded from its file: importing the package would
load gRPC as well and cost the start half a second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

PREFERENCE = 1000  # an instance that is idle is chosen so many times for once that another idle one is


class InvalidConfig(Exception):
    """A config.pbtxt that cannot be read. The text names the file and the place."""


@cache
def _generated_module() -> Any:
    package = find_spec("tritonclient")
    assert package is not None, "tritonclient is a dependency of trireme"
    assert package.submodule_search_locations, "it is a package"
    file = Path(package.submodule_search_locations[0], "grpc", "model_config_pb2.py")
    spec = spec_from_file_location("trireme_server_model_config_pb2", file)
    assert spec is not None, "the file has the suffix of a Python module"
    assert spec.loader is not None, "and so has a loader"
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class ModelConfig:
    """One model's config, read only. `overridden` gives a changed copy."""

    def __init__(self, message: Any) -> None:
        self._message = message

    @property
    def backend(self) -> str:
        """The backend's name; empty for an ensemble."""
        return str(self._message.backend)

    @property
    def max_batch_size(self) -> int:
        return int(self._message.max_batch_size)

    @property
    def steps(self) -> tuple[str, ...]:
        """The models an ensemble is made of, each once; empty for any other model."""
        return tuple(dict.fromkeys(step.model_name for step in self._message.ensemble_scheduling.step))

    @property
    def version(self) -> int | None:
        """The one version that it tells Triton to serve; None: it leaves that to Triton."""
        versions = self._message.version_policy.specific.versions
        return int(versions[0]) if len(versions) == 1 else None

    @property
    def step_versions(self) -> dict[str, int]:
        """The version of each step that an ensemble asks for, where it does."""
        steps = self._message.ensemble_scheduling.step
        return {step.model_name: int(step.model_version) for step in steps if step.model_version > 0}

    @property
    def parameters(self) -> dict[str, str]:
        return {key: value.string_value for key, value in self._message.parameters.items()}

    @property
    def is_ensemble(self) -> bool:
        return bool(self._message.HasField("ensemble_scheduling"))

    @property
    def is_decoupled(self) -> bool:
        return bool(self._message.model_transaction_policy.decoupled)

    @property
    def batches_dynamically(self) -> bool:
        return bool(self._message.HasField("dynamic_batching"))

    @property
    def instance_count(self) -> int | None:
        """How many instances the config asks for; None when it leaves that to the machine."""
        counts = [max(1, group.count) for group in self._message.instance_group]
        return sum(counts) if counts else None

    @property
    def ragged_inputs(self) -> tuple[str, ...]:
        """The inputs whose shape may differ from request to request."""
        return tuple(each.name for each in self._message.input if -1 in each.dims)

    @property
    def first_input(self) -> str | None:
        return next((str(each.name) for each in self._message.input), None)

    @property
    def input_types(self) -> dict[str, str]:
        """Input name -> datatype as the inference protocol writes it, such as BYTES."""
        types = _generated_module().DataType
        names = {each.name: types.Name(each.data_type).removeprefix("TYPE_") for each in self._message.input}
        return {name: "BYTES" if kind == "STRING" else kind for name, kind in names.items()}

    @property
    def is_complete(self) -> bool:
        """Whether it can be loaded without Triton asking the backend to complete it."""
        tensors = [*self._message.input, *self._message.output]
        described = all(each.data_type and (each.dims or each.HasField("reshape")) for each in tensors)
        has_both = bool(self._message.input) and bool(self._message.output)
        return bool(self._message.backend or self._message.platform) and has_both and described

    def overridden(
        self,
        *,
        parameters: dict[str, str],
        without: str | None = None,
        instances: int | None = None,
        ragged: bool = False,
    ) -> ModelConfig:
        """A copy with `parameters` added and the one named `without` left out, with `instances` instances of which
        the first is preferred while it is idle, and `allow_ragged_batch` where shapes vary."""
        message = type(self._message)()
        message.CopyFrom(self._message)
        for key, value in parameters.items():
            message.parameters[key].string_value = value
        if without is not None:
            del message.parameters[without]
        if instances is not None:
            del message.instance_group[:]
            for number in range(instances):
                group = message.instance_group.add(count=1, kind="KIND_CPU")
                group.rate_limiter.priority = 1 + number * PREFERENCE
        for tensor in message.input:
            if ragged and tensor.name in self.ragged_inputs:
                tensor.allow_ragged_batch = True
        return ModelConfig(message)

    def of_version(self, version: int) -> ModelConfig:
        """A copy that tells Triton to serve this version, unless the config says itself which."""
        message = type(self._message)()
        message.CopyFrom(self._message)
        if not message.HasField("version_policy"):
            message.version_policy.specific.versions[:] = [version]
        return ModelConfig(message)

    def renamed(self, names: Mapping[str, str]) -> ModelConfig:
        """A copy in which the model and the steps that `names` knows have other names."""
        message = type(self._message)()
        message.CopyFrom(self._message)
        message.name = names.get(message.name, message.name)
        for step in message.ensemble_scheduling.step:
            step.model_name = names.get(step.model_name, step.model_name)
        return ModelConfig(message)

    def to_text(self) -> str:
        """The whole config as a config.pbtxt."""
        from google.protobuf import text_format

        return str(text_format.MessageToString(self._message))

    def to_json(self) -> str:
        """The whole config as Triton's load request takes it."""
        from google.protobuf import json_format

        return json.dumps(json_format.MessageToDict(self._message, preserving_proto_field_name=True))


def read_config(file: Path) -> ModelConfig:
    """The config in `file`.

    Raises:
        InvalidConfig: it cannot be read or is not a ModelConfig.
    """
    from google.protobuf import text_format

    try:
        text = file.read_text(encoding="utf-8")
        return ModelConfig(text_format.Parse(text, _generated_module().ModelConfig()))
    except (OSError, UnicodeDecodeError, text_format.ParseError) as error:
        raise InvalidConfig(f"{file}: {error}") from error
