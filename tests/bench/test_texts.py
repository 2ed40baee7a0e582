"""The texts and images that are sent."""

import io
import statistics
from pathlib import Path

import pytest
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from trireme_bench.images import images
from trireme_bench.texts import SPECIAL_TOKENS, WORDS, check_counts, lengths, texts


def word_level_tokenizer(folder: Path, special_tokens: bool = True) -> Path:
    """A real tokenizer for which every word is one token, and which adds two, like BERT's."""
    vocabulary = {word: number for number, word in enumerate(["[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if special_tokens:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
        )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


@pytest.mark.parametrize("workload", ["3", "16", "512", "mix"])
def test_texts_have_the_tokens_their_workload_says(workload: str, tmp_path: Path) -> None:
    check_counts(word_level_tokenizer(tmp_path), workload, 64)
    assert [len(text.split()) + SPECIAL_TOKENS for text in texts(workload, 64)] == lengths(workload, 64)


def test_a_tokenizer_that_counts_otherwise_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="made for 16 tokens has 14"):
        check_counts(word_level_tokenizer(tmp_path, special_tokens=False), "16", 4)


def test_the_mix_is_lognormal_with_a_median_of_30_and_a_mean_of_50() -> None:
    found = lengths("mix", 20_000)
    assert statistics.median(found) == pytest.approx(30, abs=1)
    assert statistics.mean(found) == pytest.approx(50, abs=2)
    assert min(found) > SPECIAL_TOKENS
    assert max(found) == 512


def test_texts_are_always_the_same_and_differ_among_themselves() -> None:
    assert texts("16", 100) == texts("16", 100)
    assert len(set(texts("16", 512))) == 512


@pytest.mark.parametrize("workload", ["2", "-5", "many", "1.5", ""])
def test_a_workload_that_is_none_is_refused(workload: str) -> None:
    with pytest.raises(ValueError, match="mix or a number"):
        texts(workload, 1)


def test_images_are_jpegs_of_the_size_asked_for() -> None:
    one, other = images("500x375", 2)
    assert one != other
    decoded = Image.open(io.BytesIO(one))
    assert (decoded.format, decoded.size) == ("JPEG", (500, 375))
    assert 0.5 < len(one) * 8 / (500 * 375) < 4


@pytest.mark.parametrize("size", ["500", "0x10", "10x", "axb", "10x10x10"])
def test_a_size_that_is_none_is_refused(size: str) -> None:
    with pytest.raises(ValueError, match="WIDTHxHEIGHT"):
        images(size, 1)
