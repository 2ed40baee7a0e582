"""A checkpoint made wrong on purpose is refused, and the message names what is wrong."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from trireme_export.checkpoint import open_checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.sentence_layout import read_layout
from trireme_export.text_encoder import build_encoder, library_config
from trireme_export.text_network import Pooling
from trireme_export.text_tokenizer import read_tokenizer
from trireme_export.weights import read_weights


def rewritten(folder, change):
    """Open the checkpoint after `change` has been made to its tensors."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    return open_checkpoint("tiny", folder)


def build(checkpoint, tmp_path):
    return build_encoder(checkpoint.read_json("config.json"), read_weights(checkpoint, tmp_path), "eager")


def test_every_tensor_is_loaded(tiny, tmp_path):
    encoder = build(tiny, tmp_path).state_dict()
    for name, tensor in read_weights(tiny, tmp_path).items():
        assert name.startswith("pooler.") or torch.equal(encoder[name], tensor), name


def test_names_with_a_prefix_and_of_old_layer_norms_are_understood(tiny_folder, tmp_path):
    def rename(tensors):
        for name in list(tensors):
            old = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
            tensors[f"bert.{old}"] = tensors.pop(name)

    build(rewritten(tiny_folder, rename), tmp_path)


def drop(tensors):
    del tensors["encoder.layer.1.attention.self.key.bias"]


def rename_one(tensors):
    tensors["encoder.layer.1.attention.self.k.bias"] = tensors.pop("encoder.layer.1.attention.self.key.bias")


def add(tensors):
    tensors["adapter.weight"] = torch.zeros(3)


def shrink(tensors):
    tensors["embeddings.position_embeddings.weight"] = torch.zeros(32, 32)


def count(tensors):
    tensors["embeddings.LayerNorm.bias"] = torch.zeros(32, dtype=torch.int64)


def spoil(tensors):
    tensors["embeddings.LayerNorm.bias"][3] = float("nan")


def give_twice(tensors):
    tensors["bert.embeddings.LayerNorm.bias"] = torch.zeros(32)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (drop, "missing: encoder.layer.1.attention.self.key.bias"),
        (rename_one, "not used by this architecture: encoder.layer.1.attention.self.k.bias"),
        (add, "adapter.weight"),
        (shrink, "position_embeddings.weight"),
        (count, "embeddings.LayerNorm.bias is torch.int64"),
        (spoil, "embeddings.LayerNorm.bias holds numbers that are not finite"),
        (give_twice, "two tensors"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(tiny_folder, tmp_path, change, named):
    checkpoint = rewritten(tiny_folder, change)
    with pytest.raises(CheckpointRefused, match=named):
        build(checkpoint, tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("rope_scaling", {"factor": 2}, "rope_scaling"),
        ("position_embedding_type", "relative_key", "relative_key"),
        ("is_decoder", True, "is_decoder"),
        ("model_type", "unheard-of", "unheard-of"),
    ],
)
def test_a_config_key_that_would_change_answers_is_named(tiny, key, value, named):
    with pytest.raises(CheckpointRefused, match=named):
        library_config(tiny.read_json("config.json") | {key: value})


def test_a_config_without_a_size_is_refused(tiny):
    config = tiny.read_json("config.json")
    del config["num_attention_heads"]
    with pytest.raises(CheckpointRefused, match="num_attention_heads"):
        library_config(config)


def test_a_cut_weights_file_is_refused(tiny_folder, tmp_path):
    path = tiny_folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointRefused, match=r"model\.safetensors: cut short"):
        read_weights(open_checkpoint("tiny", tiny_folder), tmp_path)


def test_a_tokenizer_of_another_model_is_refused(tiny):
    with pytest.raises(CheckpointRefused, match="the encoder's vocabulary has 5"):
        read_tokenizer(tiny, tiny.read_json("config.json") | {"vocab_size": 5})


def test_a_tokenizer_comes_without_the_truncation_it_carries(tiny):
    assert len(read_tokenizer(tiny, tiny.read_json("config.json")).encode("a row " * 20).ids) == 42


def test_pooling_and_normalisation_come_from_the_checkpoint(tiny, tiny_folder):
    assert read_layout(tiny).pooling is Pooling.MEAN
    assert read_layout(tiny).normalize
    (tiny_folder / "1_Pooling" / "config.json").write_text(
        '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}'
    )
    (tiny_folder / "modules.json").write_text(json.dumps(tiny.read_json("modules.json")[:2]))
    changed = read_layout(open_checkpoint("tiny", tiny_folder))
    assert changed.pooling is Pooling.CLS
    assert not changed.normalize


@pytest.mark.parametrize(
    "config",
    ['{"pooling_mode_max_tokens": true}', '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}', "{}"],
)
def test_another_pooling_than_mean_or_cls_is_refused(tiny_folder, config):
    (tiny_folder / "1_Pooling" / "config.json").write_text(config)
    with pytest.raises(CheckpointRefused, match="pools by"):
        read_layout(open_checkpoint("tiny", tiny_folder))


def test_a_missing_pooling_config_is_refused(tiny_folder):
    (tiny_folder / "1_Pooling" / "config.json").unlink()
    with pytest.raises(CheckpointRefused, match=r"no 1_Pooling/config\.json"):
        read_layout(open_checkpoint("tiny", tiny_folder))


def test_a_module_that_the_graph_does_not_have_is_refused(tiny, tiny_folder):
    modules = [
        *tiny.read_json("modules.json"),
        {"idx": 3, "path": "3_Dense", "type": "sentence_transformers.models.Dense"},
    ]
    (tiny_folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(CheckpointRefused, match="Dense"):
        read_layout(open_checkpoint("tiny", tiny_folder))
