"""A config that asks for more than its tensors hold is refused before anything of that size is built."""

import time

import pytest

from .test_wrong_checkpoints import edit, refusal
from .tiny_image_models import write_tiny_image_classifier
from .tiny_models import TINY_FAMILIES, write_sentence_layout, write_tiny_classifier, write_tiny_encoder

HUGE = 1_000_000_000
BERT = [
    *("num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size", "max_position_embeddings"),
    *("num_attention_heads", "type_vocab_size", "num_labels", "_num_labels", "pad_token_id"),
]
IMAGES = {
    "vit": ["num_hidden_layers", "hidden_size", "image_size", "patch_size", "intermediate_size", "num_labels"],
    "resnet": ["depths", "hidden_sizes", "embedding_size"],
    "convnext": ["depths", "hidden_sizes", "patch_size"],
    "efficientnet": ["num_block_repeats", "depth_coefficient", "width_coefficient", "hidden_dim"],
    "mobilenet_v2": ["depth_multiplier", "depth_divisible_by"],
    "swin": ["depths", "embed_dim", "window_size", "num_heads", "image_size"],
    "swinv2": ["depths", "embed_dim", "window_size", "num_heads", "image_size"],
}


def refused_at_once(folder, key, value, *options):
    edit(folder / "config.json", **{key: value})
    began = time.monotonic()
    said = refusal(folder, *options)
    assert time.monotonic() - began < 20  # it took for ever, and memory
    assert "config.json" in said or "tensor" in said
    return said


@pytest.mark.parametrize("key", BERT)
def test_a_classifier_of_a_size_that_no_tensor_has(tmp_path, key):
    write_tiny_classifier(tmp_path / "own", "bert")
    refused_at_once(tmp_path / "own", key, HUGE, "--dry-run")


@pytest.mark.parametrize("family", TINY_FAMILIES)
def test_more_layers_than_tensors(tmp_path, family):
    write_tiny_classifier(tmp_path / "own", family)
    key = "n_layers" if family == "distilbert" else "num_hidden_layers"
    assert f"{key} is 1000000000, and there are" in refused_at_once(tmp_path / "own", key, HUGE, "--dry-run")


@pytest.mark.parametrize("key", ["num_hidden_layers", "vocab_size", "num_labels"])
def test_an_encoder_of_a_size_that_no_tensor_has(tmp_path, key):
    write_tiny_encoder(tmp_path / "own", "bert")
    write_sentence_layout(tmp_path / "own", "mean")
    refused_at_once(tmp_path / "own", key, HUGE, "--dry-run")


@pytest.mark.parametrize(("family", "key"), [(family, key) for family, keys in IMAGES.items() for key in keys])
def test_an_image_model_of_a_size_that_no_tensor_has(tmp_path, family, key):
    write_tiny_image_classifier(tmp_path / "own", family)
    lists = {"depths": 4, "hidden_sizes": 4, "num_heads": 2, "num_block_repeats": 7}
    refused_at_once(tmp_path / "own", key, [HUGE] * lists[key] if key in lists else HUGE, "--dry-run")


@pytest.mark.parametrize("side", [HUGE, 20_000, 0, -5])
def test_images_of_a_size_that_nobody_can_try(tmp_path, side):
    write_tiny_image_classifier(tmp_path / "own", "resnet")
    edit(tmp_path / "own" / "preprocessor_config.json", size={"shortest_edge": side}, crop_pct=1.0)
    began = time.monotonic()
    assert "preprocessor_config.json" in refusal(tmp_path / "own", "--dry-run")
    assert time.monotonic() - began < 20


def test_a_few_layers_more_are_named_as_missing_tensors(tmp_path):
    write_tiny_classifier(tmp_path / "own", "bert")
    assert "missing: bert.encoder.layer.2" in refused_at_once(tmp_path / "own", "num_hidden_layers", 3, "--dry-run")


def test_more_rows_than_a_tensor_has_take_no_memory(tmp_path):
    """A million rows of the vocabulary are fewer than the limit, but would be as many numbers as a large model's."""
    write_tiny_classifier(tmp_path / "own", "bert")
    edit(tmp_path / "own" / "config.json", hidden_size=1_000_000, num_attention_heads=4)
    assert "embeddings" in refused_at_once(tmp_path / "own", "vocab_size", 1_000_000, "--dry-run")
