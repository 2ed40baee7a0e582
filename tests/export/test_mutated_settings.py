"""Every key of every settings file of a checkpoint, made wrong: it is exported, or refused with a reason, and soon."""

import copy
import json
import math
import random
import shutil
import time

import pytest
from rich.console import Console
from trireme_export.catalogue import OwnModel
from trireme_export.errors import ExportError
from trireme_export.exporter import ExportOptions, export_entry
from trireme_export.own_checkpoint import own_entry
from trireme_export.progress import Reporter

from .conftest import write_json
from .tiny_image_models import write_tiny_image_classifier
from .tiny_models import (
    write_dense,
    write_sentence_layout,
    write_tiny_classifier,
    write_tiny_encoder,
    write_tiny_token_classifier,
)

SEED = 20
QUICK = 24  # cases of each kind of checkpoint
AT_MOST_S = 10
WRONG = [
    *(None, "", "512", "mean", "\x00", True, False, 0, -1, 1, 3, 10**9, 10**30, -(10**18), 0.5, 1e300, -0.0),
    *(math.nan, math.inf, [], [1, 2], ["mean"], [["mean"]], [None], {}, {"mean": 1}, {"a": {"b": []}}, [{}]),
]
# What a published checkpoint may also say, beside what the tiny ones do.
FURTHER = {
    "config.json": ["num_labels", "problem_type", "torch_dtype", "tokenizer_class", "auto_map", "quantization_config"],
    "tokenizer_config.json": [
        *("model_max_length", "do_lower_case", "strip_accents", "added_tokens_decoder", "extra_special_tokens"),
        *("padding_side", "auto_map", "chat_template", "split_special_tokens", "add_prefix_space", "backend"),
    ],
    "special_tokens_map.json": ["cls_token", "unk_token", "additional_special_tokens"],
    "sentence_bert_config.json": ["max_seq_length", "do_lower_case", "unpad_inputs"],
    "config_sentence_transformers.json": ["default_prompt_name", "model_type", "activation_fn"],
    "1_Pooling/config.json": ["pooling_mode_mean_tokens", "pooling_mode_cls_token", "word_embedding_dimension"],
    "preprocessor_config.json": ["crop_size", "crop_pct", "do_pad", "size_divisor", "rescale_offset", "resample"],
}


def classifier(folder):
    write_tiny_classifier(folder, "bert")
    write_json(folder / "special_tokens_map.json", {"cls_token": "[CLS]"})


def roberta(folder):
    write_tiny_classifier(folder, "roberta")


def modernbert(folder):
    write_tiny_classifier(folder, "modernbert")


def deberta(folder):
    write_tiny_classifier(folder, "deberta-v3")


def embedding(folder):
    write_tiny_encoder(folder, "bert")
    write_sentence_layout(folder, "mean", "Dense", "Normalize")
    write_dense(folder / "2_Dense")


def tagger(folder):
    write_tiny_token_classifier(folder, "distilbert")


def reranker(folder):
    write_tiny_classifier(folder, "bert", ("LABEL_0",), sentence_transformers={"version": "5.1.0"})


def vit(folder):
    write_tiny_image_classifier(folder, "vit")


def resnet(folder):
    write_tiny_image_classifier(folder, "resnet")


def swin(folder):
    write_tiny_image_classifier(folder, "swin")


def efficientnet(folder):
    write_tiny_image_classifier(folder, "efficientnet")


KINDS = [classifier, embedding, tagger, reranker, vit, resnet]
FURTHER_KINDS = [roberta, modernbert, deberta, swin, efficientnet]


def places(content, path=()):
    """The path of every value inside a JSON document, but for long lists of their like."""
    yield path
    if isinstance(content, dict | list):
        inside = content.items() if isinstance(content, dict) else enumerate(content[:4])
        for key, value in inside:
            yield from places(value, (*path, key))


def replaced(content, path, value):
    if not path:
        return value
    content = copy.deepcopy(content)
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return content


def mutations(folder):
    """(file, path, value) of everything that can be made wrong in a checkpoint."""
    for file in sorted(folder.rglob("*.json")):
        name = file.relative_to(folder).as_posix()
        if name == "tokenizer.json":
            continue
        content = json.loads(file.read_bytes())
        further = [(key,) for key in FURTHER.get(name, ())] if isinstance(content, dict) else []
        for path in dict.fromkeys([*places(content), *further]):
            for value in WRONG:
                yield name, path, value


def check(folder, name, path, value):
    """A dry run ends well or with a refusal, and does not take long."""
    whole = (folder / name).read_text()
    write_json(folder / name, replaced(json.loads(whole), path, value))
    options = ExportOptions(repository=folder / "repository", cache=folder / "cache", dry_run=True)
    began = time.monotonic()
    try:
        export_entry(own_entry(str(folder), "own", OwnModel()), options, Reporter(Console(quiet=True)))
    except ExportError as refused:
        assert refused.exit_code == 4, refused  # noqa: PT017 - a success is as good
        assert str(refused)  # noqa: PT017
    finally:
        (folder / name).write_text(whole)
    assert time.monotonic() - began < AT_MOST_S


def check_some(write, folder, count):
    write(folder)
    cases = list(mutations(folder))
    failed = []
    for case in random.Random(SEED).sample(cases, min(count, len(cases))):
        try:
            check(folder, *case)
        except Exception as error:  # all that there are, not the first alone
            failed.append((*case, repr(error)[:200]))
    assert not failed, "\n".join(map(str, failed))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("write", KINDS)
def test_a_settings_file_with_a_wrong_value_is_followed_or_refused(write, tmp_path):
    check_some(write, tmp_path / "own", QUICK)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("write", [*KINDS, *FURTHER_KINDS])
def test_every_settings_file_with_any_wrong_value_is_followed_or_refused(write, tmp_path):
    check_some(write, tmp_path / "own", 400)


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        *(("1_Pooling/config.json", "pooling_mode", value) for value in ({"mean": 1}, 3, [["mean"]], [1, 2], True, {})),
        *(("tokenizer_config.json", "model_max_length", value) for value in ("512", True, math.nan, [512], {}, -1)),
        *(("config.json", "max_position_embeddings", value) for value in (0, -1, "64", None, True, 10**30)),
    ],
)
def test_a_value_of_another_kind_is_refused_with_the_key(tmp_path, file, key, value):
    embedding(tmp_path / "own")
    shutil.copy(tmp_path / "own" / file, tmp_path / "before.json")
    write_json(tmp_path / "own" / file, replaced(json.loads((tmp_path / "before.json").read_bytes()), (key,), value))
    options = ExportOptions(repository=tmp_path / "repository", cache=tmp_path / "cache", dry_run=True)
    with pytest.raises(ExportError) as refused:
        export_entry(own_entry(str(tmp_path / "own"), "own", OwnModel()), options, Reporter(Console(quiet=True)))
    assert refused.value.exit_code == 4
    assert key in str(refused.value) or "position" in str(refused.value)
