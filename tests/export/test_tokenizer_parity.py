"""A tokenizer.json is taken only if the library's AutoTokenizer of the same folder splits every text as it does."""

import json
import time

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer
from trireme_export.checkpoint import open_checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.text_tokenizer import library_tokenizer
from trireme_export.tokenizer_parity import check_same_ids
from trireme_export.tokenizer_probes import every_character, probe_texts

from .conftest import write_json
from .tiny_models import TINY_FAMILIES

NFC = {"type": "NFC"}
REWRITE = {"type": "Replace", "pattern": {"Regex": "oars{3}"}, "content": "banks"}
BERT = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}


@pytest.fixture
def check(tmp_path):
    """Whether the files of a family's tokenizer agree, once `change` has been at its tokenizer.json and settings."""

    def checked(family, change, **settings):
        TINY_FAMILIES[family].tokenizer().save_pretrained(tmp_path)
        content = json.loads((tmp_path / "tokenizer.json").read_bytes())
        change(content)
        write_json(tmp_path / "tokenizer.json", content)
        config = json.loads((tmp_path / "tokenizer_config.json").read_bytes())
        write_json(tmp_path / "tokenizer_config.json", config | settings)
        checkpoint = open_checkpoint("own", tmp_path)
        check_same_ids(checkpoint, Tokenizer.from_file(str(tmp_path / "tokenizer.json")), library_tokenizer(checkpoint))

    return checked


def setting(part, **changes):
    """A change of the keys of one part of tokenizer.json."""
    return lambda content: content.update({part: (content[part] or {}) | changes})


def whole(part, value):
    return lambda content: content.update({part: value})


def flag(token, **changes):
    """A change of an added token, which is added if it is not one."""

    def change(content):
        added = next((each for each in content["added_tokens"] if each["content"] == token), None)
        if added is None:
            plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False) | {"normalized": True}
            added = plain | {"id": content["model"]["vocab"][token], "content": token}
            content["added_tokens"].append(added)
        added.update(changes)

    return change


def across_words(content):
    """Pairs of bytes are joined where a word ends."""
    content["pre_tokenizer"]["use_regex"] = False
    content["model"]["vocab"]["sĠ"] = len(content["model"]["vocab"])
    content["model"]["merges"].append(["s", "Ġ"])


def whole_pieces(content):
    """A word that is in the vocabulary is taken as it is, also where no merges lead to it."""
    content["model"]["ignore_merges"] = True
    content["model"]["vocab"]["Ġgalley"] = len(content["model"]["vocab"])


@pytest.mark.parametrize("family", TINY_FAMILIES)
def test_a_tokenizer_as_the_library_saves_it_is_taken(check, family):
    check(family, lambda content: None)


@pytest.mark.parametrize(
    ("family", "change", "named"),
    [
        ("roberta", whole("normalizer", NFC), "normalizer (NFC in tokenizer.json, nothing in AutoTokenizer)"),
        ("roberta", whole("normalizer", {"type": "NFKC"}), "normalizer (NFKC"),
        ("roberta", across_words, "use_regex False"),
        ("roberta", setting("pre_tokenizer", add_prefix_space=True), "add_prefix_space True"),
        ("roberta", whole_pieces, "model.ignore_merges (True in"),
        ("bert", setting("model", max_input_chars_per_word=50), "model.max_input_chars_per_word (50 in"),
        ("bert", setting("model", max_input_chars_per_word=99), "model.max_input_chars_per_word (99 in"),
        ("bert", setting("model", max_input_chars_per_word=250), "model.max_input_chars_per_word (250 in"),
        ("bert", setting("model", continuing_subword_prefix="@@"), "model.continuing_subword_prefix (@@"),
        ("bert", setting("normalizer", strip_accents=False), "strip_accents False"),
        ("bert", setting("normalizer", clean_text=False), "clean_text False"),
        ("bert", setting("normalizer", handle_chinese_chars=False), "handle_chinese_chars False"),
        ("bert", whole("pre_tokenizer", {"type": "Whitespace"}), "pre_tokenizer (Whitespace in"),
        ("mpnet", setting("normalizer", lowercase=False), "lowercase False"),
        ("xlm-roberta", whole("normalizer", NFC), "normalizer (NFC"),
        ("xlm-roberta", whole("pre_tokenizer", {"type": "WhitespaceSplit"}), "pre_tokenizer (WhitespaceSplit in"),
        ("deberta-v3", whole("normalizer", None), "normalizer (nothing in"),
    ],
)
def test_a_setting_that_the_library_builds_otherwise(check, family, change, named):
    with pytest.raises(CheckpointRefused) as refused:
        check(family, change)
    assert named in str(refused.value)
    assert 'set "tokenizer_class": "PreTrainedTokenizerFast" in tokenizer_config.json' in str(refused.value)
    assert "save it again with save_pretrained" in str(refused.value)


@pytest.mark.parametrize("family", ["roberta", "bert"])
def test_a_pattern_that_no_text_happens_to_have(check, family):
    rare = REWRITE | {"pattern": {"Regex": "q{40}w"}}
    parts = {"roberta": [rare], "bert": [{"type": "BertNormalizer", **BERT}, rare]}[family]
    with pytest.raises(CheckpointRefused, match=r"differ in normalizer \(.*Replace with pattern"):
        check(family, whole("normalizer", {"type": "Sequence", "normalizers": parts}))


@pytest.mark.parametrize(
    ("family", "change"),
    [
        ("bert", setting("normalizer", strip_accents=True)),  # what null means where case is lowered
        (
            "bert",
            lambda content: content.update(normalizer={"type": "Sequence", "normalizers": [content["normalizer"]]}),
        ),
        ("roberta", setting("pre_tokenizer", trim_offsets=False)),
        ("roberta", setting("model", continuing_subword_prefix=None, end_of_word_suffix=None)),
    ],
)
def test_another_way_to_write_the_same(check, family, change):
    check(family, change)


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "deberta-v3", "mpnet"])
@pytest.mark.parametrize("normalizer", [NFC, REWRITE, {"type": "Lowercase"}])
def test_a_file_that_the_library_reads_as_it_is_may_have_any_setting(check, family, normalizer):
    check(family, whole("normalizer", normalizer), tokenizer_class="PreTrainedTokenizerFast")


@pytest.mark.parametrize(
    "changes", [{"lstrip": True}, {"rstrip": True}, {"single_word": True}, {"normalized": False}, {"special": True}]
)
@pytest.mark.parametrize("token", ["[MASK]", "oars"])
def test_flags_of_an_added_token_are_followed_or_refused(check, tmp_path, token, changes):
    try:
        check("bert", flag(token, **changes))
    except CheckpointRefused as refused:
        assert "added token" in str(refused)  # noqa: PT017 - either is right, silence is not
        return
    ours, library = Tokenizer.from_file(str(tmp_path / "tokenizer.json")), AutoTokenizer.from_pretrained(tmp_path)
    for text in (f"a {token} b", f"a{token}b", f"  {token.upper()}  {token} ", f"x{token} y{token}z"):
        assert ours.encode(text).ids == library(text)["input_ids"]


def test_the_texts_are_the_same_each_time_and_take_little_time():
    began = time.monotonic()
    texts = probe_texts(["[CLS]", "[MASK]"])
    assert texts == probe_texts(["[CLS]", "[MASK]"])
    assert 500 < len(texts) < 2000
    assert len(every_character()) < 10000
    assert time.monotonic() - began < 2
