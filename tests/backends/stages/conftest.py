"""Stages loaded without Triton, from configs as Triton gives them, and small tokenizers made on the spot."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from trireme_stages.registry import find_stage, load_stage
from trireme_stages.stage import Stage
from trireme_triton.parameters import read_parameters
from trireme_triton.progress import UNHEARD


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Stage]:
    """`load(stage, parameters, files, sizes)`: the stage with a config whose tensors fit it.

    `sizes` says what the letters of the stage's signature are, for example `{"D": 8}`.
    """

    def load_with(
        stage: str,
        parameters: Mapping[str, str] = {},
        files: Mapping[str, bytes] = {},
        sizes: Mapping[str, int] = {},
    ) -> Stage:
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        return load_stage(find_stage(stage), config_of(stage, parameters, sizes), tmp_path, UNHEARD)

    return load_with


def config_of(stage: str, parameters: Mapping[str, str], sizes: Mapping[str, int]) -> dict:
    """A parsed model config for `stage`."""
    signature = read_parameters(find_stage(stage).Parameters, parameters).signature()

    def tensors(of: Mapping) -> list[dict]:
        return [
            {"name": name, "data_type": data_type, "dims": [sizes.get(str(size), size) for size in dims]}
            for name, (data_type, dims) in of.items()
        ]

    return {
        "max_batch_size": 8,
        "input": tensors(signature.inputs),
        "output": tensors(signature.outputs),
        "parameters": {key: {"string_value": value} for key, value in {"stage": stage, **parameters}.items()},
    }


@pytest.fixture(scope="session", name="config_of")
def _config_of() -> Callable[..., dict]:
    return config_of


@pytest.fixture(scope="session")
def labels() -> Callable[..., dict[str, bytes]]:
    """`labels("a", "b")`: the files of a model with these labels."""
    return lambda *names: {"labels.json": json.dumps(names).encode()}


@pytest.fixture(scope="session")
def tokenizer_files() -> dict[str, bytes]:
    """By family a `tokenizer.json` that knows every letter or byte; families differ in how they frame a text."""
    return {name: make().to_str().encode() for name, make in _TOKENIZERS.items()}


def _bert() -> Tokenizer:
    """WordPiece of single letters, [CLS] text [SEP], with truncation and padding left on as in published files."""
    letters = [chr(code) for code in range(33, 127)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "hello", "world", *letters, *(f"##{letter}" for letter in letters)]
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=5)
    return tokenizer


def _byte_level(*, template: str | None, special: tuple[str, ...] = ()) -> Tokenizer:
    """Byte-level BPE without merges: one token per byte, framed as `template` says."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*special, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(special))
    if template is not None:
        ids = [(token, vocabulary[token]) for token in special]
        tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=ids)
    return tokenizer


_TOKENIZERS = {
    "bert": _bert,
    "gpt2": lambda: _byte_level(template=None),
    "llama": lambda: _byte_level(template="<s> $A", special=("<s>",)),
    "t5": lambda: _byte_level(template="$A </s>", special=("</s>",)),
    "xlnet": lambda: _byte_level(template="$A <sep> <cls>", special=("<sep>", "<cls>")),
    "twice": lambda: _byte_level(template="<a> <b> $A <b>", special=("<a>", "<b>")),
}
