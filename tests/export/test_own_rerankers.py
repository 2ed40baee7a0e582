"""A user's own reranker, of every family: its scores are those of the library's model, read as a cross-encoder."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from trireme_export.commands import export
from trireme_export.inspect_command import inspect
from trireme_network.run_on_openvino import OpenVino

from .conftest import run, write_json
from .exported_entry import ExportedEntry
from .test_own_entities import window_of
from .test_own_text import FAMILIES, network
from .test_wrong_checkpoints import edit, refusal
from .tiny_models import write_tiny_classifier

pytestmark = pytest.mark.usefixtures("one_thread")

SIGMOID, IDENTITY = "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"
QUERY = "oars at dawn"
TEXTS = (
    "The three banks of oars moved as one.",
    "",
    "a trireme [SEP] </s> 三段櫂船 🚣",
    "row",
    "the three banks of oars moved as one at dawn, and " * 8,
)


def write_reranker(folder, family, **options):
    """A classifier with one logit, which depends on the types of tokens where the family has them."""
    write_tiny_classifier(folder, family, ("LABEL_0",), **options)


def write_layout_6(folder, activation=SIGMOID):
    """The files that sentence-transformers 6.2 puts beside a CrossEncoder."""
    kind = "sentence_transformers.base.modules.transformer.Transformer"
    write_json(folder / "modules.json", [{"idx": 0, "name": "0", "path": "", "type": kind}])
    settings = {"activation_fn": activation, "default_prompt_name": None, "model_type": "CrossEncoder", "prompts": {}}
    write_json(folder / "config_sentence_transformers.json", settings | {"__version__": {"pytorch": "2.13.0"}})
    text = {"method": "forward", "method_output_name": "logits"}
    module = {"transformer_task": "sequence-classification", "modality_config": {"text": text}}
    write_json(folder / "sentence_bert_config.json", module | {"module_output_name": "scores"})


class CrossEncoder:
    """What sentence-transformers computes for pairs, with a window after a window of a text that is too long."""

    def __init__(self, folder):
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForSequenceClassification.from_pretrained(folder).eval()

    def logits(self, query, text, max_length, overlap):
        cut = {"truncation": "only_second", "max_length": max_length, "stride": overlap}
        encoded = self.tokenizer([(query, text)], return_overflowing_tokens=True, **cut)
        features = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in encoded]
        found = []
        for window in range(len(encoded["input_ids"])):
            inputs = {name: torch.tensor([encoded[name][window]]) for name in features}
            with torch.inference_mode():
                found.append(self.model(**inputs).logits.item())
        return found


def check_scores(folder, repository, function=torch.sigmoid):
    library, window = CrossEncoder(folder), list(window_of(repository))
    answer = ExportedEntry(repository).answer(query=[QUERY] * len(TEXTS), text=list(TEXTS))
    logits = [library.logits(QUERY, text, *window) for text in TEXTS]
    expected = [function(torch.tensor(max(own))).item() for own in logits]
    np.testing.assert_allclose(answer["score"][:, 0], expected, atol=2e-5)
    assert answer["windows"][:, 0].tolist() == [len(own) for own in logits]
    assert answer["windows"].max() > 1
    return answer


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_the_sigmoid_of_the_librarys_logits(family, tmp_path):
    folder, repository = tmp_path / "checkpoint", tmp_path / "repository"
    write_reranker(folder, family)
    said = run(folder, "--repository", repository, "--task", "reranking")
    assert "score: sigmoid of the logit" in said
    answer = check_scores(folder, repository)
    assert ("token_type_ids" in answer) == (family in ("bert", "electra", "deberta-v2"))
    inputs = {name: answer[name] for name in ("input_ids", "attention_mask", "token_type_ids") if name in answer}
    (served,) = OpenVino(network(repository)).open_streams(1, 1)  # it refuses what it cannot guard
    (logits,) = served(inputs).values()
    np.testing.assert_allclose(logits, answer["logits"], atol=2e-5)


def test_the_types_of_tokens_matter(tmp_path):
    folder, repository = tmp_path / "checkpoint", tmp_path / "repository"
    write_reranker(folder, "bert")
    run(folder, "--repository", repository, "--task", "reranking")
    answer = ExportedEntry(repository).answer(query=[QUERY], text=["row"])
    inputs = {name: answer[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    (served,) = OpenVino(network(repository)).open_streams(1, 1)
    (logits,) = served(inputs | {"token_type_ids": 1 - inputs["token_type_ids"]}).values()
    assert abs(logits.item() - answer["logits"].item()) > 1e-3


def mark_5(folder, activation):
    edit(folder / "config.json", sentence_transformers={"activation_fn": activation, "version": "5.1.0"})


def mark_3(folder, activation):
    edit(folder / "config.json", sbert_ce_default_activation_function=activation)


@pytest.mark.parametrize("mark", [write_layout_6, mark_5, mark_3])
@pytest.mark.parametrize(("activation", "function"), [(SIGMOID, torch.sigmoid), (IDENTITY, torch.nn.Identity())])
def test_a_cross_encoder_is_known_by_its_files_and_scores_as_they_say(mark, activation, function, tmp_path):
    folder, repository = tmp_path / "checkpoint", tmp_path / "repository"
    write_reranker(folder, "bert")
    mark(folder, activation)
    assert "task: reranking" in run(folder, "--repository", repository)
    edit(folder / "config.json", sentence_transformers=None, sbert_ce_default_activation_function=None)
    check_scores(folder, repository, function)


@pytest.mark.parametrize("mark", [write_layout_6, mark_5, mark_3])
def test_a_cross_encoder_is_inspected_as_one(mark, tmp_path, monkeypatch):
    monkeypatch.setenv("TRIREME_CACHE", str(tmp_path / "cache"))
    write_reranker(tmp_path / "checkpoint", "bert")
    mark(tmp_path / "checkpoint", SIGMOID)
    said = CliRunner().invoke(inspect, [str(tmp_path / "checkpoint"), "--json"])
    document = json.loads(said.stdout)
    assert document["task"]["task"] == "reranking"
    assert document["exporter"] == {"refusal": None, "missing": [], "unexpected": []}


def test_a_dry_run_says_what_was_found(tmp_path):
    write_reranker(tmp_path / "checkpoint", "bert")
    write_layout_6(tmp_path / "checkpoint", IDENTITY)
    said = run(tmp_path / "checkpoint", "--repository", tmp_path / "repository", "--dry-run")
    for line in (
        "architecture: BertForSequenceClassification",
        "task: reranking",
        "score: the logit itself",
        "combined by max",
        "query: the whole of it in every window, of which it may take half",
        "would write checkpoint_postprocess/config.pbtxt",
    ):
        assert line in said


def test_a_query_too_long_for_half_a_window_is_refused(tmp_path):
    folder, repository = tmp_path / "checkpoint", tmp_path / "repository"
    write_reranker(folder, "bert")
    run(folder, "--repository", repository, "--task", "reranking")
    with pytest.raises(Exception, match="input 'query', item 1: 60 tokens; at most 31 are allowed, half of the room"):
        ExportedEntry(repository).answer(query=["row", "row " * 60], text=["a", "a"])


@pytest.fixture
def reranker(tmp_path):
    write_reranker(tmp_path / "own", "bert")
    return tmp_path / "own"


def test_one_label_without_any_mark_needs_to_be_asked_for(reranker):
    assert "say --task reranking" in refusal(reranker)


def test_several_labels_are_no_score(tmp_path):
    write_tiny_classifier(tmp_path / "own", "bert")
    assert "3 labels, calm, storm, fog; a reranker has one logit" in refusal(tmp_path / "own", "--task", "reranking")


def test_a_head_that_is_missing(reranker):
    edit(reranker / "config.json", architectures=["BertModel"])
    AutoModelForSequenceClassification.from_pretrained(reranker).bert.save_pretrained(reranker)
    assert "the tensors do not fit; missing: " in refusal(reranker, "--task", "reranking")


def test_a_pooling(reranker):
    assert "--pooling is for sentence embedding" in refusal(reranker, "--task", "reranking", "--pooling", "cls")


@pytest.mark.parametrize("activation", ["torch.nn.Tanh", "my.code.Activation", 3])
def test_a_function_that_is_no_sigmoid(reranker, activation):
    mark_5(reranker, activation)
    assert f"config.json: the activation function is {activation!r}; " in refusal(reranker)


@pytest.mark.parametrize(
    ("file", "changes", "said"),
    [
        ("config_sentence_transformers.json", {"default_prompt_name": "web"}, "default_prompt_name is 'web'"),
        ("config_sentence_transformers.json", {"truncate_dim": 3}, "truncate_dim is not known"),
        ("sentence_bert_config.json", {"do_lower_case": True}, "do_lower_case is True; only False"),
        ("sentence_bert_config.json", {"max_seq_length": 0}, "max_seq_length is 0"),
        ("sentence_bert_config.json", {"transformer_task": "text-generation"}, "transformer_task is 'text-generation'"),
    ],
)
def test_a_setting_that_would_change_the_answers(reranker, file, changes, said):
    write_layout_6(reranker)
    content = json.loads((reranker / file).read_bytes())
    write_json(reranker / file, content | changes)
    assert said in refusal(reranker)


def test_a_module_after_the_transformer(reranker):
    write_layout_6(reranker)
    modules = json.loads((reranker / "modules.json").read_bytes())
    dense = {"idx": 1, "name": "1", "path": "1_Dense", "type": "sentence_transformers.base.modules.dense.Dense"}
    write_json(reranker / "modules.json", [*modules, dense])
    assert "must list one module, Transformer" in refusal(reranker)


def test_an_unknown_key_beside_the_activation(reranker):
    edit(reranker / "config.json", sentence_transformers={"activation_fn": SIGMOID, "prompts": {"web": "Query: "}})
    assert "known in it are activation_fn and version" in refusal(reranker)


def test_a_tokenizer_whose_types_the_model_does_not_have(tmp_path):
    write_reranker(tmp_path / "own", "bert", type_vocab_size=1)
    assert "config.json has a type_vocab_size of 1" in refusal(tmp_path / "own", "--task", "reranking")


def test_a_tokenizer_that_does_not_part_two_texts(tmp_path):
    write_reranker(tmp_path / "own", "modernbert")
    content = json.loads((tmp_path / "own" / "tokenizer.json").read_bytes())
    content["post_processor"]["pair"] = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
    write_json(tmp_path / "own" / "tokenizer.json", content)
    assert "puts no special token around or between two texts" in refusal(tmp_path / "own", "--task", "reranking")


def test_what_is_there_is_not_exported_again(reranker, tmp_path):
    write_layout_6(reranker)
    run(reranker, "--repository", tmp_path / "repository")
    again = CliRunner().invoke(export, [str(reranker), "--repository", str(tmp_path / "repository")])
    assert "exported and intact" in again.output


@pytest.mark.parametrize("name", ["sentence_bert_config.json", "sentence_roberta_config.json"])
def test_pairs_are_as_long_as_sentence_transformers_cuts_them(name, tmp_path):
    folder = tmp_path / "checkpoint"
    write_reranker(folder, "bert")
    write_layout_6(folder)
    (folder / "sentence_bert_config.json").rename(folder / name)
    edit(folder / name, max_seq_length=24, do_lower_case=False)
    assert "window: 24 tokens" in run(folder, "--repository", tmp_path / "repository", "--dry-run")
