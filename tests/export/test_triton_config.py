"""Configs are generated, committed, and say what the steps agree on."""

import pytest
from google.protobuf import text_format
from trireme_export.catalogue import CATALOGUE, SentenceEmbedding, TextClassification
from trireme_export.heads import read_head
from trireme_export.image_assembly import MOST_LABELS
from trireme_export.labelling import Labelling
from trireme_export.steps import classification_steps, embedding_steps, image_classification_steps
from trireme_export.triton_config import config_files, pinned
from trireme_export.versions import pinned_version
from tritonclient.grpc import model_config_pb2 as pb

from .conftest import PROJECT

REPOSITORY = PROJECT / "model_repository"
MINILM_WIDTH, IMAGENET_CLASSES = 384, 1000


def description(entry):
    if isinstance(entry.task, SentenceEmbedding):
        return embedding_steps(entry.task.windows, MINILM_WIDTH, normalize=True)
    if isinstance(entry.task, TextClassification):
        return classification_steps(entry.task.windows, read_head(entry.task.head))
    labels = Labelling(labels=("",) * IMAGENET_CLASSES, function="softmax")
    return image_classification_steps(entry.task.preprocessing, labels, MOST_LABELS)


def parsed(name, version=1):
    texts = config_files(name, description(CATALOGUE[name]), version)
    return {model: text_format.Parse(text, pb.ModelConfig()) for model, text in texts.items()}


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_committed_configs_are_those_that_an_export_writes(name):
    version = pinned_version(REPOSITORY / name / "config.pbtxt")  # an export here may have added one
    for model, text in config_files(name, description(CATALOGUE[name]), version).items():
        assert (REPOSITORY / model / "config.pbtxt").read_text() == text, f"export {name} again and commit {model}"


def test_every_committed_config_belongs_to_the_catalogue():
    generated = {model for name in CATALOGUE for model in config_files(name, description(CATALOGUE[name]), 1)}
    ours = {
        path.parent.name for path in REPOSITORY.glob("*/config.pbtxt") if path.read_text().startswith("# Generated")
    }
    assert ours == generated


@pytest.mark.parametrize("name", CATALOGUE)
def test_an_ensemble_feeds_every_input_with_a_tensor_of_the_same_type_and_shape(name):
    configs = parsed(name)
    ensemble = configs.pop(name)
    tensors = {tensor.name: tensor for tensor in ensemble.input}
    for step in ensemble.ensemble_scheduling.step:
        model = configs[step.model_name]
        assert set(step.input_map) == {tensor.name for tensor in model.input}
        assert set(step.output_map) == {tensor.name for tensor in model.output}
        for tensor in model.input:
            given = tensors[step.input_map[tensor.name]]
            assert (given.data_type, given.dims) == (tensor.data_type, tensor.dims)
        assert not set(step.output_map.values()) & tensors.keys(), "two tensors of the ensemble share a name"
        tensors |= {step.output_map[tensor.name]: tensor for tensor in model.output}
    for tensor in ensemble.output:
        assert (tensors[tensor.name].data_type, tensors[tensor.name].dims) == (tensor.data_type, tensor.dims)


@pytest.mark.parametrize("name", CATALOGUE)
def test_configs_say_nothing_of_the_machine(name):
    for model, config in parsed(name).items():
        assert not config.instance_group, model
        assert config.max_batch_size == 64
        assert not config.optimization.execution_accelerators.cpu_execution_accelerator
        assert config.HasField("dynamic_batching") == (model != name)


def test_public_tensors_are_stable():
    outputs = {name: [tensor.name for tensor in parsed(name)[name].output] for name in CATALOGUE}
    assert outputs == {
        "embed": ["embedding", "windows"],
        "guard": ["label", "score", "scores", "windows"],
        "vision": ["label", "score"],
    }


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_config_names_its_version_so_that_two_versions_are_never_mixed(name, tmp_path):
    texts = config_files(name, description(CATALOGUE[name]), 7)
    for model, config in parsed(name, 7).items():
        assert list(config.version_policy.specific.versions) == [7]
        (tmp_path / model).write_text(texts[model])
        assert pinned_version(tmp_path / model) == 7
    assert {step.model_version for step in parsed(name, 7)[name].ensemble_scheduling.step} == {7}


def test_a_config_from_before_there_were_versions_gets_one(tmp_path):
    for text in config_files("embed", description(CATALOGUE["embed"]), 3).values():
        config = text_format.Parse(text, pb.ModelConfig())
        config.ClearField("version_policy")
        for step in config.ensemble_scheduling.step:
            step.model_version = -1
        (tmp_path / "old").write_text(text_format.MessageToString(config))
        assert pinned_version(tmp_path / "old") is None
        assert pinned(text_format.MessageToString(config), 3) == text
