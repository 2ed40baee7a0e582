"""A stage loads only with a config that fits it."""

import pytest
from trireme_stages.registry import STAGES, find_stage, load_stage, stage_name
from trireme_triton.parameters import InvalidParameter, read_parameters
from trireme_triton.progress import UNHEARD

REQUIRED = {"tokenize": {"max_length": "8"}, "image": {"size": "8"}}


@pytest.fixture
def classification_config(config_of, tmp_path, labels):
    (tmp_path / "labels.json").write_bytes(labels("a", "b")["labels.json"])
    return config_of("classification", {}, {"C": 2})


def load_into(folder, config):
    return load_stage(find_stage(stage_name(config)), config, folder, UNHEARD)


@pytest.mark.parametrize("stage", sorted(STAGES))
def test_every_stage_refuses_unknown_parameters_and_names_its_own(stage):
    parameters = find_stage(stage).Parameters
    with pytest.raises(InvalidParameter, match="unknown parameter 'sise'; known are ") as refused:
        read_parameters(parameters, {**REQUIRED.get(stage, {}), "sise": "1"})
    assert all(name in str(refused.value) for name in REQUIRED.get(stage, {}))


@pytest.mark.parametrize("name", [None, "", "tokenise"])
def test_the_parameter_stage_must_name_a_stage(name):
    config = {"parameters": {"stage": {"string_value": name}} if name is not None else {}}
    with pytest.raises(
        InvalidParameter, match=r"'stage' is .*; it must be one of classification, embedding, entities, image,"
    ):
        stage_name(config)


def test_parameters_of_the_launcher_are_ignored(classification_config, tmp_path):
    classification_config["parameters"]["trireme.generation"] = {"string_value": "3"}
    load_into(tmp_path, classification_config)


def test_a_tensor_too_many_or_too_few_is_refused(classification_config, tmp_path):
    extra = {"name": "extra", "data_type": "TYPE_FP32", "dims": [1]}
    classification_config["output"].append(extra)
    with pytest.raises(
        InvalidParameter, match="outputs are extra, label, score, scores; this stage has label, score, s"
    ):
        load_into(tmp_path, classification_config)
    del classification_config["output"][1:]
    with pytest.raises(InvalidParameter, match="outputs are label; this stage has label, score, scores"):
        load_into(tmp_path, classification_config)


@pytest.mark.parametrize(
    ("data_type", "dims"), [("TYPE_FP16", [-1, 2]), ("TYPE_FP32", [2]), ("TYPE_FP32", [2, 2]), ("TYPE_FP32", [-1, -1])]
)
def test_a_tensor_of_another_type_or_shape_is_refused(classification_config, tmp_path, data_type, dims):
    classification_config["input"][0].update(data_type=data_type, dims=dims)
    with pytest.raises(InvalidParameter, match=r"input 'logits' is TYPE_.* in the config; this stage needs TYPE_FP32"):
        load_into(tmp_path, classification_config)


def test_sizes_that_contradict_each_other_are_refused(classification_config, tmp_path):
    classification_config["output"][2]["dims"] = [3]
    with pytest.raises(InvalidParameter, match=r"output 'scores' is TYPE_FP32 \[3\] .* TYPE_FP32 \[C \(=2\)\]"):
        load_into(tmp_path, classification_config)


def test_dims_may_be_strings_as_in_json(classification_config, tmp_path):
    for tensor in classification_config["input"] + classification_config["output"]:
        tensor["dims"] = [str(size) for size in tensor["dims"]]
    load_into(tmp_path, classification_config)


@pytest.mark.parametrize("size", [0, None])
def test_a_model_without_a_batch_dimension_is_refused(classification_config, tmp_path, size):
    classification_config.pop("max_batch_size")
    if size is not None:
        classification_config["max_batch_size"] = size
    with pytest.raises(InvalidParameter, match="max_batch_size must be at least 1"):
        load_into(tmp_path, classification_config)
