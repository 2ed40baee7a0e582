"""A user's checkpoint made wrong on purpose is refused: what was wrong, what is allowed, what to do."""

import json

import pytest
from click.testing import CliRunner
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM, AutoTokenizer
from trireme_export.commands import export

from .conftest import write_json
from .tiny_models import (
    TINY_FAMILIES,
    tiny_config,
    write_dense,
    write_sentence_layout,
    write_tiny_classifier,
    write_tiny_encoder,
)


@pytest.fixture
def classifier(tmp_path):
    write_tiny_classifier(tmp_path / "own", "bert")
    return tmp_path / "own"


@pytest.fixture
def encoder(tmp_path):
    """A sentence encoder with a Dense module."""
    folder = tmp_path / "encoder"
    write_tiny_encoder(folder, "bert")
    write_sentence_layout(folder, "mean", "Dense", "Normalize")
    write_dense(folder / "2_Dense")
    return folder


def refusal(folder, *options):
    """What `trireme export` says when it refuses `folder`."""
    repository = folder.parent / "repository"
    result = CliRunner().invoke(export, [str(folder), "--repository", str(repository), *options])
    assert result.exit_code == 4, result.output
    assert "Traceback" not in result.output
    assert not repository.exists()
    return result.stderr


def edit(path, **changes):
    """Set keys of a JSON file; None removes one."""
    content = json.loads(path.read_bytes()) | changes
    write_json(path, {key: value for key, value in content.items() if value is not None})


def rewrite(path, change):
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


@pytest.mark.parametrize("kind", ["classifier", "encoder"])
def test_an_unchanged_checkpoint_is_taken(kind, request, tmp_path):
    folder = request.getfixturevalue(kind)
    result = CliRunner().invoke(export, [str(folder), "--repository", str(tmp_path / "repository"), "--dry-run"])
    assert result.exit_code == 0, result.output


def test_a_renamed_head(classifier):
    rewrite(classifier / "model.safetensors", lambda tensors: tensors.update(score=tensors.pop("classifier.weight")))
    said = refusal(classifier)
    assert "missing: classifier.weight; not used by this architecture: score" in said
    assert "take the checkpoint that was saved for this task" in said


def test_a_dropped_tensor(classifier):
    dropped = "bert.encoder.layer.1.attention.self.key.bias"
    rewrite(classifier / "model.safetensors", lambda tensors: tensors.pop(dropped))
    assert f"missing: {dropped}" in refusal(classifier)


def test_labels_in_another_order(classifier):
    edit(classifier / "config.json", label2id={"calm": 1, "storm": 0, "fog": 2})
    said = refusal(classifier)
    assert "id2label and label2id contradict each other" in said
    assert "in which order the model was trained" in said


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"id2label": {"0": "a", "2": "b", "3": "c"}}, "3 labels must have 0 to 2"),
        ({"id2label": {"0": "a", "1": "b"}}, "names 2 labels, but classifier.weight has rows for 3"),
        ({"id2label": {"0": "a", "1": "a", "2": "b"}}, "gives a name twice"),
        ({"id2label": {}}, "id2label is {}; it must name every logit"),
        ({"id2label": None, "label2id": None}, "names 2 labels, but classifier.weight has rows for 3"),
        ({"id2label": {"0": "score"}}, "one label, whose softmax is always 1"),
        ({"id2label": {"0": "a", "1": "b", "2": "c"}, "num_labels": 2}, "num_labels is 2"),
        ({"problem_type": "regression"}, "problem_type is 'regression'; single_label_classification"),
    ],
)
def test_labels_that_cannot_be_right(classifier, changes, named):
    edit(classifier / "config.json", **({"label2id": None} | changes))
    assert named in refusal(classifier)


def test_a_pooling_config_that_is_missing(encoder):
    (encoder / "1_Pooling" / "config.json").unlink()
    assert "there is no 1_Pooling/config.json" in refusal(encoder)


def test_a_bare_encoder_whose_pooling_nobody_says(encoder):
    (encoder / "modules.json").unlink()
    said = refusal(encoder)
    assert "architecture BertModel, and there is no modules.json" in said
    assert "--task sentence-embedding and --pooling mean or cls" in said
    assert "say --pooling mean or --pooling cls" in refusal(encoder, "--task", "sentence-embedding")


def test_a_pooling_that_contradicts_the_layout(encoder):
    said = refusal(encoder, "--task", "sentence-embedding", "--pooling", "cls")
    assert "modules.json says how it is pooled: leave --pooling out" in said


def test_a_classifier_is_not_pooled_otherwise_than_by_its_head(classifier):
    assert "--pooling is for sentence embedding" in refusal(classifier, "--pooling", "mean")


def test_a_tokenizer_with_ids_beyond_the_vocabulary(classifier):
    TINY_FAMILIES["roberta"].tokenizer().save_pretrained(classifier)
    said = refusal(classifier)
    assert "the encoder's vocabulary has" in said
    assert "take the one that this model was trained with" in said


def test_a_tokenizer_with_other_special_tokens(classifier):
    TINY_FAMILIES["mpnet"].tokenizer().save_pretrained(classifier)
    said = refusal(classifier)
    assert "pad_token_id is 0 in config.json and 1 in the tokenizer's files" in said
    assert "The tokenizer is another model's" in said


def test_a_tokenizer_of_another_family_is_taken_where_the_config_names_it(classifier):
    TINY_FAMILIES["mpnet"].tokenizer().save_pretrained(classifier)
    edit(classifier / "config.json", tokenizer_class="MPNetTokenizer")
    options = ["--repository", str(classifier / "repository"), "--dry-run"]
    result = CliRunner().invoke(export, [str(classifier), *options])
    assert result.exit_code == 0, result.output


def test_a_tokenizer_without_its_special_tokens(classifier):
    edit(classifier / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    edit(classifier / "tokenizer.json", post_processor=None)
    assert "puts the tokens [] around a text; needed is the classification token '[CLS]'" in refusal(classifier)


def test_a_tokenizer_whose_files_disagree_on_case(classifier):
    edit(classifier / "tokenizer_config.json", do_lower_case=False)
    said = refusal(classifier)
    assert "tokenizer.json splits 'The three banks" in said
    assert "save it again with save_pretrained" in said


@pytest.mark.parametrize(
    ("family", "part", "changes", "said"),
    [
        ("roberta", "normalizer", {"type": "NFC"}, "normalizer (NFC in tokenizer.json, nothing in AutoTokenizer)"),
        ("bert", "model", {"max_input_chars_per_word": 50}, "max_input_chars_per_word (50 in tokenizer.json, 100 in"),
    ],
)
def test_a_tokenizer_with_settings_that_the_library_ignores(tmp_path, family, part, changes, said):
    write_tiny_classifier(tmp_path / "own", family)
    path = tmp_path / "own" / "tokenizer.json"
    edit(path, **{part: (json.loads(path.read_bytes())[part] or {}) | changes})
    assert said in refusal(tmp_path / "own")


@pytest.mark.parametrize("dropout", [0.001, 0.1, 1.0])
@pytest.mark.parametrize("family", ["roberta", "modernbert"])
def test_a_tokenizer_that_splits_at_random(tmp_path, family, dropout):
    write_tiny_classifier(tmp_path / "own", family)
    path = tmp_path / "own" / "tokenizer.json"
    edit(path, model=json.loads(path.read_bytes())["model"] | {"dropout": dropout})
    said = refusal(tmp_path / "own")
    assert f"tokenizer.json: model.dropout is {dropout}" in said
    assert "Set it to null or 0" in said


def test_a_slow_tokenizers_files_alone(classifier):
    vocabulary = AutoTokenizer.from_pretrained(classifier).get_vocab()
    (classifier / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)))
    (classifier / "tokenizer.json").unlink()
    said = refusal(classifier)
    assert "there is no tokenizer.json" in said
    assert "save_pretrained(" in said


@pytest.mark.parametrize("key", ["rope_scaling", "auto_map", "adapters"])
def test_a_config_key_that_the_library_would_ignore(classifier, key):
    edit(classifier / "config.json", **{key: {"factor": 2}})
    assert f"config.json: {key}: not known for bert, so not safe to ignore" in refusal(classifier)


def test_a_config_that_the_library_cannot_follow(classifier):
    edit(classifier / "config.json", hidden_act="no such function")
    assert "the transformers library refuses it" in refusal(classifier)


def test_a_classifier_of_another_family(classifier):
    edit(classifier / "config.json", architectures=["RobertaForSequenceClassification"])
    said = refusal(classifier)
    assert "RobertaForSequenceClassification, but the classifier of model_type bert is BertForSeq" in said


def test_a_language_model_has_no_classifiers_head(tmp_path):
    """`tie_word_embeddings` is false, and the weights of its own untied head are no classifier's."""
    tokenizer = TINY_FAMILIES["bert"].tokenizer()
    model = AutoModelForMaskedLM.from_config(tiny_config("bert", tokenizer, tie_word_embeddings=False))
    model.save_pretrained(tmp_path / "own")
    tokenizer.save_pretrained(tmp_path / "own")
    assert "architecture BertForMaskedLM" in refusal(tmp_path / "own")
    edit(tmp_path / "own" / "config.json", id2label={"0": "a", "1": "b"})
    said = refusal(tmp_path / "own", "--task", "text-classification")
    assert "classifier.bias, classifier.weight" in said


def test_shards_that_their_index_does_not_name(classifier):
    weights = load_file(classifier / "model.safetensors")
    shard = "model-00001-of-00001.safetensors"
    (classifier / "model.safetensors").rename(classifier / shard)
    index = {"weight_map": dict.fromkeys(weights, shard) | {"classifier.extra": shard}}
    write_json(classifier / "model.safetensors.index.json", index)
    assert f"classifier.extra is not in {shard}" in refusal(classifier)


@pytest.mark.parametrize(
    ("file", "changes", "named"),
    [
        ("sentence_bert_config.json", {"do_lower_case": True}, "do_lower_case is True; only False"),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}, "transformer_task is 'fill-mask'"),
        ("sentence_bert_config.json", {"processing_kwargs": {}}, "processing_kwargs is not known"),
        ("1_Pooling/config.json", {"pooling_mode": ["mean", "max"]}, "pools by mean, max"),
        ("1_Pooling/config.json", {"pooling_mode": None}, "pools by nothing; exactly one of mean, cls"),
        ("2_Dense/config.json", {"use_residual": True}, "use_residual is True; only False"),
        ("config_sentence_transformers.json", {"default_prompt_name": "query"}, "default_prompt_name is 'query'"),
        ("2_Dense/config.json", {"activation_function": "torch.nn.modules.activation.Mish"}, "Mish"),
        ("2_Dense/config.json", {"scale": 3}, "scale is not known"),
        ("2_Dense/config.json", {"in_features": 8}, "in_features is 8; the encoder's vectors have 32"),
        ("tokenizer_config.json", {"model_max_length": 3}, "model_max_length is 3"),
    ],
)
def test_a_sentence_layout_that_cannot_be_followed(encoder, file, changes, named):
    path = encoder / file
    if not path.exists():
        write_json(path, {})
    edit(path, **changes)
    assert named in refusal(encoder)


def test_a_module_that_is_the_checkpoints_own_code(encoder):
    modules = json.loads((encoder / "modules.json").read_bytes())
    modules[2]["type"] = "custom_dense.Dense"
    write_json(encoder / "modules.json", modules)
    assert "modules.json names custom_dense.Dense; only sentence_transformers.* can be exported" in refusal(encoder)


def test_a_special_token_that_the_tokenizer_file_lacks(classifier):
    edit(classifier / "tokenizer_config.json", extra_special_tokens=["@user"])
    assert "splits 'row @useroars'" in refusal(classifier)


def test_special_tokens_that_the_library_takes_as_plain_text(tmp_path):
    write_tiny_classifier(tmp_path / "own", "roberta")
    edit(tmp_path / "own" / "tokenizer_config.json", split_special_tokens=True)
    assert "AutoTokenizer into" in refusal(tmp_path / "own")


def test_weights_in_one_file_and_in_shards(classifier):
    write_json(classifier / "model.safetensors.index.json", {"weight_map": {}})
    assert "are both there: delete the one that is older" in refusal(classifier)


def test_weights_that_the_library_would_not_load(classifier):
    (classifier / "model.safetensors").rename(classifier / "old.safetensors")
    assert "old.safetensors, and neither model.safetensors nor" in refusal(classifier)


def test_settings_of_an_encoder_under_any_of_their_names(encoder):
    write_json(encoder / "sentence_roberta_config.json", {"max_seq_length": 16, "do_lower_case": True})
    (encoder / "sentence_bert_config.json").unlink(missing_ok=True)
    assert "sentence_roberta_config.json: do_lower_case is True" in refusal(encoder)


def test_an_encoder_below_the_list_of_its_modules(encoder):
    inner = encoder / "0_Transformer"
    inner.mkdir()
    for path in [path for path in encoder.iterdir() if path.is_file() and path.name != "modules.json"]:
        path.rename(inner / path.name)
    for folder in ("1_Pooling", "2_Dense"):
        (encoder / folder / "config.json").unlink()
    (encoder / "2_Dense" / "model.safetensors").unlink()
    assert "modules.json keeps the encoder in 0_Transformer" in refusal(encoder, "--pooling", "mean")


def test_a_model_that_somebody_wrote_by_hand_is_not_replaced(classifier, tmp_path):
    by_hand = tmp_path / "repository" / "own" / "1" / "model.py"
    by_hand.parent.mkdir(parents=True)
    by_hand.write_text("# by hand")
    result = CliRunner().invoke(export, [str(classifier), "--repository", str(tmp_path / "repository")])
    assert result.exit_code == 6
    assert "was not written by this command" in result.stderr
    assert by_hand.read_text() == "# by hand"


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("config.json", [], "config.json is not a JSON object"),
        ("tokenizer_config.json", ["x"], "tokenizer"),
        ("modules.json", {}, "no list of modules"),
        ("modules.json", [{"type": "sentence_transformers.models.Transformer"}], "each with a type and a path"),
        ("1_Pooling/config.json", [], "1_Pooling/config.json is not a JSON object"),
        ("sentence_bert_config.json", {"max_seq_length": "256"}, "max_seq_length is '256'"),
        ("sentence_bert_config.json", {"max_seq_length": 0}, "max_seq_length is 0"),
    ],
)
def test_files_that_hold_something_else(encoder, file, content, said):
    write_json(encoder / file, content)
    assert said in refusal(encoder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"model_type": ["bert"]}, "model_type is ['bert']"), ({"problem_type": ["x"]}, "problem_type is ['x']")],
)
def test_config_values_of_another_kind(classifier, changes, said):
    edit(classifier / "config.json", **changes)
    assert said in refusal(classifier)
