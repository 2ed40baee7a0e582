"""A user's own checkpoint of timm: what is installed answers as timm does, and what is wrong is refused.

timm comes with an extra (`pip install '.[timm]'`), since its torchvision must be built for the same torch; without it
only what needs no network of timm's is tested.
"""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image
from safetensors.torch import load_file, save_file
from trireme_export.checkpoint import open_checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.inspect_command import inspect
from trireme_export.task_detection import detect_task
from trireme_export.timm_config import read_timm_config

from .conftest import run, write_json
from .test_own_image import answers, encoded, photographs
from .test_wrong_checkpoints import edit, refusal, rewrite
from .tiny_image_models import SIZE, stir

try:
    import timm
except (ImportError, RuntimeError):
    timm = None

needs_timm = pytest.mark.skipif(timm is None, reason="timm is not installed here")
LABELS = ["cat", "dog", "oar", "sail"]
_VIT = {"img_size": SIZE, "embed_dim": 32, "depth": 2, "num_heads": 4}
_CONVNEXT = {"depths": [1, 1, 2, 1], "dims": [8, 16, 24, 32]}
_SWIN = {"img_size": SIZE, "embed_dim": 8, "depths": [1, 2], "num_heads": [1, 2], "window_size": 3}
TINY = {  # architecture to the arguments that make it small, and its preprocessing
    "resnet10t": ({}, {"crop_pct": 0.95, "interpolation": "bilinear"}),
    "efficientnet_b0": ({}, {"crop_pct": 0.875, "crop_mode": "squash", "interpolation": "lanczos"}),
    "tf_efficientnet_lite0": ({}, {"crop_pct": 0.9}),
    "mobilenetv2_050": ({}, {"crop_mode": "squash", "crop_pct": 1.0, "interpolation": "nearest"}),
    "mobilenetv3_small_050": ({}, {}),
    "convnext_tiny": (_CONVNEXT, {"mean": [0.5] * 3, "std": [0.25] * 3}),
    "convnextv2_tiny": (_CONVNEXT, {}),
    "vit_tiny_patch16_224": (_VIT, {"crop_pct": 0.9}),
    "deit_tiny_distilled_patch16_224": (_VIT, {}),
    "swin_tiny_patch4_window7_224": (_SWIN, {}),
    "swinv2_tiny_window8_256": (_SWIN, {}),
}
QUICK = ("resnet10t", "mobilenetv3_small_050", "vit_tiny_patch16_224")
FAMILIES = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in TINY]


def write_tiny_timm(folder, name, classes=4):
    """As timm's own `save_for_hf` writes it; the model."""
    args, preprocessing = TINY[name]
    torch.manual_seed(3)
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in args.items()}
    model = timm.create_model(name, pretrained=False, num_classes=classes, **given).eval()
    stir(model)
    config = {"pretrained_cfg": {"input_size": [3, SIZE, SIZE], **preprocessing}}
    if classes:
        config["label_names"] = LABELS
    timm.models.save_for_hf(model, str(folder), model_config=config, model_args=args, safe_serialization=True)
    edit(folder / "config.json", pretrained_cfg=cfg_of(folder) | config["pretrained_cfg"])
    return model


def cfg_of(folder):
    return json.loads((folder / "config.json").read_bytes())["pretrained_cfg"]


def library_rows(model, folder, images):
    """What timm makes of the images: its transforms for evaluation, and its model."""
    data = timm.data.resolve_data_config(pretrained_cfg=cfg_of(folder))
    transform = timm.data.create_transform(**data, is_training=False)
    with torch.inference_mode():
        return np.concatenate([model(transform(image)[None]).numpy() for image in images])


def sizes_that_are_cut_alike():
    """Photographs far larger than they are resized to, where resampling a part is exact to a level."""
    return photographs()[0][0], photographs()[1][0]


@needs_timm
@pytest.mark.parametrize("name", FAMILIES)
def test_a_classifier_gives_timms_logits_and_labels(name, folder, repository):
    model = write_tiny_timm(folder, name)
    said = run(folder, "--repository", repository)
    assert f"architecture: {name} (timm)" in said
    assert "labels: cat, dog, oar, sail (softmax: one of them)" in said
    image, file = sizes_that_are_cut_alike()
    (logits,) = library_rows(model, folder, [image])
    best = np.argsort(-logits, kind="stable")
    scores = torch.from_numpy(logits).softmax(dim=0).numpy()
    for _, rows, answer in answers(repository, [file]):
        np.testing.assert_allclose(rows[0], logits, atol=0.02 * np.abs(logits).max())
        np.testing.assert_allclose(answer["score"][0], scores[best], atol=0.01)
        assert answer["label"][0, 0].decode() == LABELS[best[0]]


@needs_timm
@pytest.mark.parametrize("name", FAMILIES)
def test_vectors_are_what_a_model_without_classes_gives(name, folder, repository):
    model = write_tiny_timm(folder, name)
    said = run(folder, "--repository", repository, "--task", "image-embedding")
    assert "timm's pooled features; the classifier's head is dropped" in said
    image, file = sizes_that_are_cut_alike()
    model.reset_classifier(0)
    (vector,) = library_rows(model, folder, [image])
    for _, _, answer in answers(repository, [file]):
        np.testing.assert_allclose(answer["embedding"][0], vector, atol=0.02 * np.abs(vector).max())


@needs_timm
def test_an_encoder_gives_vectors(folder, repository):
    model = write_tiny_timm(folder, "vit_tiny_patch16_224", classes=0)
    run(folder, "--repository", repository, "--normalize")
    image, file = sizes_that_are_cut_alike()
    (vector,) = library_rows(model, folder, [image])
    for _, _, answer in answers(repository, [file]):
        np.testing.assert_allclose(answer["embedding"][0], vector / np.linalg.norm(vector), atol=0.01)


@needs_timm
def test_classes_without_names_are_numbered(folder, repository):
    write_tiny_timm(folder, "resnet10t")
    edit(folder / "config.json", label_names=None)
    said = run(folder, "--repository", repository, "--dry-run")
    assert "LABEL_0, LABEL_1, LABEL_2, LABEL_3 (softmax: one of them; config.json gives them no other names)" in said


@needs_timm
def test_the_odd_pixel_is_cut_as_torchvision_does(folder, repository):
    """resize 50 (48 / 0.95), 62 wide: 14 columns go; of 73, 25: twelve before the square."""
    write_tiny_timm(folder, "resnet10t")
    run(folder, "--repository", repository)
    image = Image.new("RGB", (73, 50))
    image.putdata([(x * 3, y * 5, 0) for y in range(50) for x in range(73)])
    for pixels, _, _ in answers(repository, [encoded(image)]):
        assert pixels[0, 0, 0].tolist() == [12 * 3, 1 * 5, 0]


@needs_timm
def test_a_renamed_head_a_dropped_tensor_and_too_few_classes(folder):
    write_tiny_timm(folder, "resnet10t")
    whole = load_file(folder / "model.safetensors")
    rewrite(folder / "model.safetensors", lambda tensors: tensors.update(head=tensors.pop("fc.weight")))
    assert "missing: fc.weight; not used by this architecture: head" in refusal(folder)
    save_file({name: tensor for name, tensor in whole.items() if name != "bn1.weight"}, folder / "model.safetensors")
    assert "missing: bn1.weight" in refusal(folder)
    save_file(whole, folder / "model.safetensors")
    edit(folder / "config.json", num_classes=3, label_names=None)
    assert "num_classes is 3, and the head has 4 rows" in refusal(folder)


@needs_timm
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"interpolation": "random"}, "interpolation is 'random'; nearest, bilinear, bicubic, lanczos"),
        ({"crop_mode": "border"}, "crop_mode is 'border'; center, squash can be exported"),
        ({"input_size": [3, 48, 64]}, "equal sides can be exported"),
        ({"crop_pct": 1.2}, "crop_pct is 1.2"),
        ({"mean": [0.5, 0.5]}, "pretrained_cfg: the timm library refuses it"),
        ({"input_size": [3, 8, 8]}, "images of 8 pixels"),
    ],
)
def test_preprocessing_that_cannot_be_followed(folder, changes, said):
    write_tiny_timm(folder, "vit_tiny_patch16_224")
    edit(folder / "config.json", pretrained_cfg=cfg_of(folder) | changes)
    assert said in refusal(folder)


def config(**changes):
    whole = {
        "architecture": "resnet18.a1_in1k",
        "num_classes": 3,
        "num_features": 512,
        "global_pool": "avg",
        "pretrained_cfg": {"input_size": [3, 224, 224], "num_classes": 3, "label_offset": 0},
        **changes,
    }
    return {key: value for key, value in whole.items() if value is not None}


def test_a_config_of_the_hub_is_understood():
    read = read_timm_config(config(model_args={"num_classes": 3, "in_chans": 3, "global_pool": "avg"}))
    assert (read.architecture, read.num_classes) == ("resnet18", 3)
    assert read.model_args == {"in_chans": 3, "global_pool": "avg"}
    assert read.labelling.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert read_timm_config(config(label_names=["a", "b", "c"])).labelling.labels == ("a", "b", "c")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"auto_map": {}}, "config.json: auto_map: not known for timm, so not safe to ignore"),
        ({"architecture": "beit_base_patch16_224"}, "architecture is 'beit_base_patch16_224'; known are timm's resnet"),
        ({"architecture": ["resnet18"]}, "architecture is"),
        ({"pretrained_cfg": None}, "pretrained_cfg, and model_args if there are any, must be objects"),
        ({"pretrained_cfg": {"zoom": 2}}, "pretrained_cfg: zoom: not known for timm"),
        ({"pretrained_cfg": {"custom_load": True}}, "custom_load is True; only False can be exported"),
        ({"num_classes": "3"}, "num_classes is '3'; it must be a number"),
        ({"num_classes": 1}, "num_classes is 1, whose softmax is always 1"),
        ({"model_args": {"checkpoint_path": "x.pth"}}, "model_args: checkpoint_path: no arguments of a network"),
        ({"model_args": {"in_chans": 1}}, "in_chans is 1; only 3 can be exported"),
        ({"model_args": {"global_pool": "max"}}, "global_pool is 'avg', and 'max' in model_args"),
        ({"label_names": ["a", "b"]}, "label_names has 2 names, and num_classes is 3"),
        ({"label_names": {"0": "a", "1": "b", "2": "c"}}, "label_names must be a list of names"),
        (
            {"label_names": ["a", "b", "c"], "pretrained_cfg": {"label_names": ["b", "a", "c"]}},
            "label_names says other names than that in pretrained_cfg",
        ),
    ],
)
def test_a_config_that_cannot_be_right(changes, said):
    with pytest.raises(CheckpointRefused, match=r".*") as refused:
        read_timm_config(config(**changes))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "name",
    [
        *("resnet18", "resnet50d", "tf_efficientnet_b7", "mobilenetv2_110d", "tf_mobilenetv3_large_100"),
        *("convnext_large", "vit_huge_patch14_224", "deit_base_distilled_patch16_384"),
        *("swin_base_patch4_window12_384", "swinv2_base_window12to16_192to256"),
        *TINY,
    ],
)
def test_a_tested_architecture_of_any_size_is_known(name):
    assert read_timm_config(config(architecture=f"{name}.some_tag")).architecture == name


@pytest.mark.parametrize(
    "name",
    [
        *("vitamin_large_224", "resnetv2_50", "resnet50_clip", "resnet50_gn", "resnetrs50", "tf_efficientnetv2_s"),
        *("vit_base_patch16_siglip_224", "vit_small_patch14_dinov2", "deit3_base_patch16_224"),
        *("swinv2_cr_tiny_224", "convnext_atto_ols"),
    ],
)
def test_an_architecture_that_is_only_called_alike_is_refused(name):
    with pytest.raises(CheckpointRefused, match="no variant of another name"):
        read_timm_config(config(architecture=name))


def test_classes_may_share_a_name_as_two_of_imagenet_do():
    read = read_timm_config(config(label_names=["crane", "oar", "crane"]))
    assert read.labelling.labels == ("crane", "oar", "crane")


@pytest.mark.parametrize("place", ["pretrained_cfg", "model_args"])
def test_inspection_finds_the_classes_where_the_export_does(place, folder):
    stated = config(num_classes=None, **{"pretrained_cfg": {}, place: {"num_classes": 3}})
    assert read_timm_config(stated).num_classes == 3
    folder.mkdir()
    write_json(folder / "config.json", stated)
    detected = detect_task(open_checkpoint("timm", folder), stated)
    assert (detected.task, detected.because) == ("image-classification", "config.json of timm says 3 classes")


@needs_timm
@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "convnext_tiny", "mobilenetv3_small_050"])
@pytest.mark.parametrize(("key", "value"), [("global_pool", "max"), ("num_features", 7)])
def test_a_fact_that_is_not_true_of_the_network_is_refused(name, key, value, folder):
    write_tiny_timm(folder, name)
    edit(folder / "config.json", **{key: value})
    assert f"config.json: {key} is {value!r}, and" in refusal(folder)


def test_inspection_says_task_and_labels(folder):
    folder.mkdir()
    write_json(folder / "config.json", config(label_names=["a", "b", "c"]))
    save_file({"fc.weight": torch.zeros(3, 512)}, folder / "model.safetensors")
    document = json.loads(CliRunner().invoke(inspect, [str(folder), "--json"]).stdout)
    assert (document["architectures"], document["labels"]) == (["resnet18.a1_in1k"], ["a", "b", "c"])
    assert document["task"]["task"] == "image-classification"
    assert document["exporter"]["refusal"] is not None


@pytest.mark.skipif(timm is not None, reason="timm is installed here")
def test_without_timm_one_is_told_what_to_install(folder):
    folder.mkdir()
    write_json(folder / "config.json", config())
    save_file({"fc.weight": torch.zeros(3, 512)}, folder / "model.safetensors")
    said = refusal(folder)
    assert "this is a checkpoint of timm, which cannot be imported here" in said
    assert "pip install timm, with the torchvision that belongs to torch" in said
