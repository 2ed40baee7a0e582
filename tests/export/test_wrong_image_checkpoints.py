"""A user's image checkpoint made wrong on purpose is refused: what was wrong, what is allowed, what to do."""

import json

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file
from trireme_export.commands import export
from trireme_export.errors import CheckpointRefused
from trireme_export.library_config import library_refusals

from .test_wrong_checkpoints import edit, refusal, rewrite
from .tiny_image_models import LABELS, write_tiny_image_classifier, write_tiny_image_encoder

PROCESSOR = "preprocessor_config.json"


@pytest.fixture
def vit(tmp_path):
    write_tiny_image_classifier(tmp_path / "own", "vit")
    return tmp_path / "own"


@pytest.fixture
def convnext(tmp_path):
    write_tiny_image_classifier(tmp_path / "own", "convnext")
    return tmp_path / "own"


@pytest.fixture
def mobilenet(tmp_path):
    write_tiny_image_classifier(tmp_path / "own", "mobilenet_v2")
    return tmp_path / "own"


@pytest.fixture
def efficientnet(tmp_path):
    write_tiny_image_classifier(tmp_path / "own", "efficientnet")
    return tmp_path / "own"


def test_a_renamed_head(vit):
    rewrite(vit / "model.safetensors", lambda tensors: tensors.update(head=tensors.pop("classifier.weight")))
    said = refusal(vit)
    assert "missing: classifier.weight; not used by this architecture: head" in said
    assert "take the checkpoint that was saved for this task" in said


def test_a_dropped_tensor(convnext):
    dropped = "convnext.encoder.stages.0.layers.0.dwconv.bias"
    rewrite(convnext / "model.safetensors", lambda tensors: tensors.pop(dropped))
    assert f"missing: {dropped}" in refusal(convnext)


def test_a_tensor_of_another_kind_of_number(convnext):
    name = "convnext.layernorm.bias"
    rewrite(convnext / "model.safetensors", lambda tensors: tensors.update({name: tensors[name].to(torch.int64)}))
    assert f"tensor {name} is torch.int64 [32]; needed is torch.float32 [32]" in refusal(convnext)


def test_weights_that_are_not_finite(vit):
    rewrite(vit / "model.safetensors", lambda tensors: tensors["classifier.bias"].fill_(float("nan")))
    assert "tensor classifier.bias holds numbers that are not finite" in refusal(vit)


def test_labels_in_another_order(vit):
    edit(vit / "config.json", label2id={label: index for index, label in enumerate(sorted(set(LABELS)))})
    said = refusal(vit)
    assert "id2label and label2id contradict each other" in said
    assert "in which order the model was trained" in said


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"id2label": {"0": "cat", "1": "dog"}}, "names 2 labels, but classifier.weight has rows for 7"),
        ({"id2label": {"0": "cat", "2": "dog"}}, "2 labels must have 0 to 1"),
        ({"id2label": None}, "names 2 labels, but classifier.weight has rows for 7"),
        ({"id2label": {}}, "id2label is {}; it must name every logit"),
        ({"id2label": {"0": "score"}}, "one label, whose softmax is always 1"),
        ({"problem_type": "regression"}, "problem_type is 'regression'; single_label_classification"),
    ],
)
def test_labels_that_cannot_be_right(vit, changes, named):
    edit(vit / "config.json", **({"label2id": None} | changes))
    assert named in refusal(vit)


@pytest.mark.parametrize("index", [7, -1, "6", True])
def test_an_index_that_no_class_has(vit, index):
    labels = {label: number for number, label in enumerate(LABELS)} | {"crane": index}
    edit(vit / "config.json", label2id=labels)
    assert "id2label and label2id contradict each other" in refusal(vit)


def test_a_class_that_shares_its_name_may_be_the_first_or_the_last_in_the_other_list(vit):
    edit(vit / "config.json", label2id={label: LABELS.index(label) for label in LABELS})
    options = ["--repository", str(vit / "repository"), "--dry-run"]
    result = CliRunner().invoke(export, [str(vit), *options])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("key", ["interpolate_pos_encoding", "auto_map", "window_size"])
def test_a_config_key_that_the_library_would_ignore(vit, key):
    edit(vit / "config.json", **{key: {"AutoModel": "modeling.Model"}})
    assert f"config.json: {key}: not known for vit, so not safe to ignore" in refusal(vit)


def test_a_config_without_a_size(vit):
    edit(vit / "config.json", num_attention_heads=None)
    assert "num_attention_heads: missing, and vit cannot be built without" in refusal(vit)


def test_images_of_one_channel(vit):
    edit(vit / "config.json", num_channels=1)
    assert "num_channels is 1; only 3 can be exported" in refusal(vit)


def test_a_classifier_of_another_family(vit):
    edit(vit / "config.json", architectures=["SwinForImageClassification"])
    said = refusal(vit)
    assert "SwinForImageClassification, but the classifier of model_type vit is ViTForImageClassification" in said


def test_a_model_for_another_task(vit):
    edit(vit / "config.json", architectures=["ViTForMaskedImageModeling"])
    said = refusal(vit)
    assert "names the architecture ViTForMaskedImageModeling; ViTForImageClassification is exported as" in said
    assert "say --task image-classification or image-embedding" in said


def test_a_family_that_is_not_known(vit):
    edit(vit / "config.json", model_type="beit")
    assert "model_type is 'beit'; known are bert, convnext, convnextv2, deberta-v2, deit" in refusal(vit)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--task", "text-classification"), "a model of images; image-classification or image-embedding can be asked"),
        (("--task", "image-embedding", "--pooling", "mean"), "--pooling is for sentence embedding"),
        (("--normalize",), "--normalize is for vectors; a classifier gives labels"),
    ],
)
def test_options_that_do_not_fit(vit, options, said):
    assert said in refusal(vit, *options)


def test_an_encoder_is_no_classifier(tmp_path):
    write_tiny_image_encoder(tmp_path / "own", "swin")
    said = refusal(tmp_path / "own", "--task", "image-classification")
    assert "missing: classifier.bias, classifier.weight" in said


def test_a_checkpoint_without_an_image_processor(vit):
    (vit / PROCESSOR).unlink()
    said = refusal(vit)
    assert f"there is no {PROCESSOR}, so nobody knows how its images are resized" in said
    assert "copy that of the model it was trained from" in said


def test_settings_in_two_files(vit):
    (vit / "processor_config.json").write_text("{}")
    assert "processor_config.json is there, which the library prefers" in refusal(vit)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"crop_pct": 0.9}, "crop_pct is not known for ViTImageProcessor"),
        ({"pad_to_multiple": 32}, "pad_to_multiple is not known for ViTImageProcessor, so not safe to ignore"),
        ({"do_resize": False}, "do_resize is false, so its images have any size"),
        ({"resample": 4}, "resample is 4; 0 (nearest), 1 (lanczos), 2 (bilinear), 3 (bicubic) can be exported"),
        ({"resample": "bicubic"}, "resample is 'bicubic'; 0 (nearest)"),
        ({"size": {"height": 48, "width": 64}}, "size is {'height': 48, 'width': 64}; shortest_edge, or a height"),
        (
            {"size": {"shortest_edge": 48, "longest_edge": 60}},
            "size is {'longest_edge': 60, 'shortest_edge': 48}; shortest_edge, or",
        ),
        ({"size": {"side": 48}}, "the transformers library refuses it"),
        ({"size": {"shortest_edge": 48}}, "do_center_crop is false, so images keep their shape"),
        ({"do_center_crop": True}, "crop_size is {}; a height and width that are equal can be exported"),
        ({"do_center_crop": True, "crop_size": {"height": 64, "width": 64}}, "the library adds a black frame"),
        ({"size": {"height": 64, "width": 64}}, "images of 64 pixels: the transformers library refuses it"),
        ({"image_mean": [0.5, 0.5]}, "the transformers library refuses it"),
        ({"image_mean": [0.5, float("nan"), 0.5]}, "says nothing"),
        ({"rescale_factor": 0}, "says nothing"),
        ({"size": {"height": 48.5, "width": 48.5}}, "48.5"),
        ({"image_processor_type": "PoolFormerImageProcessor"}, "PoolFormerImageProcessor is not known; known are Bit"),
        ({"image_processor_type": "NoSuchProcessor"}, "the transformers library refuses it"),
        ({"do_pad": True}, "do_pad is True; only False can be exported"),
        ({"data_format": "channels_last"}, "data_format is 'channels_last'; only 'channels_first'"),
    ],
)
def test_an_image_processor_that_cannot_be_followed(vit, changes, said):
    edit(vit / PROCESSOR, **changes)
    assert said in refusal(vit)


def test_a_convnext_that_is_cropped_twice(convnext):
    edit(convnext / PROCESSOR, do_center_crop=True, crop_size={"height": 32, "width": 32})
    assert "after a size of 48; only the same can be exported" in refusal(convnext)


def test_a_convnext_that_is_resized_to_a_height_and_a_width(convnext):
    edit(convnext / PROCESSOR, size={"height": 48, "width": 48})
    assert "shortest_edge, or a height" in refusal(convnext)


def test_a_processor_of_another_family_is_taken_where_the_checkpoint_names_it(mobilenet):
    edit(mobilenet / PROCESSOR, image_processor_type="BitImageProcessor")
    result = CliRunner().invoke(export, [str(mobilenet), "--repository", str(mobilenet / "repository"), "--dry-run"])
    assert result.exit_code == 0, result.output
    assert "the shorter side to 56 pixels (bilinear), the centre of 48 x 48" in result.output


@pytest.mark.parametrize("name", ["ViTFeatureExtractor", "ViTImageProcessorFast"])
def test_names_of_older_versions_are_understood(vit, name):
    changed = {"image_processor_type": None, "feature_extractor_type": name}
    edit(vit / PROCESSOR, **(changed if "Extractor" in name else {"image_processor_type": name}), size=48)
    result = CliRunner().invoke(export, [str(vit), "--repository", str(vit / "repository"), "--dry-run"])
    assert result.exit_code == 0, result.output
    assert "both sides to 48 pixels (bilinear)" in result.output


def test_a_pickle_is_refused_and_converted_when_it_is_allowed(efficientnet, monkeypatch, tmp_path):
    monkeypatch.setenv("TRIREME_CACHE", str(tmp_path / "cache"))
    torch.save(load_file(efficientnet / "model.safetensors"), efficientnet / "pytorch_model.bin")
    (efficientnet / "model.safetensors").unlink()
    assert "pytorch_model.bin is a pickle, which can run code" in refusal(efficientnet)
    options = ["--repository", str(tmp_path / "repository"), "--allow-pickle", "--dry-run"]
    result = CliRunner().invoke(export, [str(efficientnet), *options])
    assert result.exit_code == 0, result.output
    assert "architecture: EfficientNetForImageClassification" in result.output


def test_a_file_that_holds_something_else(vit):
    (vit / PROCESSOR).write_text(json.dumps(["x"]))
    assert f"{PROCESSOR} is not a JSON object" in refusal(vit)


def test_what_a_library_says_at_length_is_cut_and_says_what_to_do():
    with pytest.raises(CheckpointRefused) as refused, library_refusals("config.json"):
        raise ValueError("one of: " + "a-model, " * 400)
    said = str(refused.value)
    assert said.startswith("config.json: the transformers library refuses it: one of: a-model,")
    assert len(said) < 600
    assert "Correct what it names, or take the file that the model was saved with" in said
