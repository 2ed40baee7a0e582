"""`config.pbtxt` of every model of an entry, built as Triton's own protobuf messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from trireme_export.catalogue import MAX_BATCH_SIZE
from trireme_export.install import GENERATED
from trireme_export.steps import EntrySteps, Step, TensorSpec

HEADER = f"{GENERATED}; a test regenerates and compares it.\n"


def config_files(entry: str, description: EntrySteps, version: int) -> dict[str, str]:
    """Model name to the text of its `config.pbtxt` in `version`: the three steps, then the ensemble."""
    configs = [_step_config(entry, step) for step in description.steps]
    configs.append(_ensemble_config(entry, description))
    return {config.name: _text(config, version) for config in configs}


def pinned(text: str, version: int) -> str:
    """A config.pbtxt that names no version yet, with one."""
    return _text(text_format.Parse(text, pb.ModelConfig()), version)


def _text(config: pb.ModelConfig, version: int) -> str:
    config.version_policy.specific.versions[:] = [version]
    for step in config.ensemble_scheduling.step:
        step.model_version = version
    return HEADER + text_format.MessageToString(config)


def _step_config(entry: str, step: Step) -> pb.ModelConfig:
    config = pb.ModelConfig(
        name=f"{entry}_{step.suffix}",
        backend=step.backend,
        max_batch_size=MAX_BATCH_SIZE if step.batches else 0,
        input=_inputs(_full(step, step.inputs)),
        output=_outputs(_full(step, step.outputs)),
        dynamic_batching=pb.ModelDynamicBatching() if step.batches else None,
        parameters={key: pb.ModelParameter(string_value=value) for key, value in step.parameters.items()},
    )
    if step.gpu_accelerator is not None:
        accelerator = config.optimization.execution_accelerators.gpu_execution_accelerator.add()
        accelerator.name = step.gpu_accelerator
    return config


def _full(step: Step, specs: Iterable[TensorSpec]) -> list[TensorSpec]:
    """With the batch dimension where Triton adds none."""
    return [spec if step.batches else replace(spec, dims=(-1, *spec.dims)) for spec in specs]


def _ensemble_config(entry: str, description: EntrySteps) -> pb.ModelConfig:
    outputs = {spec.name: spec for step in description.steps for spec in step.outputs}  # of equal names the last step's
    scheduling = pb.ModelEnsembling()
    available: dict[str, str] = {spec.name: spec.name for spec in description.steps[0].inputs}
    for step in description.steps:
        names = {spec.name: _ensemble_tensor(step, spec, description) for spec in step.outputs}
        scheduling.step.add(
            model_name=f"{entry}_{step.suffix}",
            input_map={spec.name: available[spec.name] for spec in step.inputs},
            output_map=names,
        )
        available |= names
    return pb.ModelConfig(
        name=entry,
        platform="ensemble",
        max_batch_size=MAX_BATCH_SIZE,
        input=_inputs(description.steps[0].inputs),
        output=_outputs(outputs[name] for name in description.public),
        ensemble_scheduling=scheduling,
    )


def _ensemble_tensor(step: Step, spec: TensorSpec, description: EntrySteps) -> str:
    """A public tensor keeps its name inside the ensemble; what only steps see carries the name of its step."""
    last = description.steps[-1]
    shadowed = step is not last and any(spec.name == other.name for other in last.outputs)
    return spec.name if spec.name in description.public and not shadowed else f"{step.suffix}_{spec.name}"


def _inputs(specs: Iterable[TensorSpec]) -> list[pb.ModelInput]:
    return [pb.ModelInput(name=spec.name, data_type=spec.data_type, dims=spec.dims) for spec in specs]


def _outputs(specs: Iterable[TensorSpec]) -> list[pb.ModelOutput]:
    return [pb.ModelOutput(name=spec.name, data_type=spec.data_type, dims=spec.dims) for spec in specs]
