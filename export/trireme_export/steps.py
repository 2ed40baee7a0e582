"""The models of an entry as `config.pbtxt` will describe them: names, tensors, parameters. No torch, no protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from trireme_export.catalogue import TextWindows
from trireme_export.image_preprocessing import Preprocessing
from trireme_export.labelling import Labelling
from trireme_export.token_labels import OUTSIDE, TokenLabelling


@dataclass(frozen=True, kw_only=True)
class TensorSpec:
    """A tensor of a model, without the batch dimension; -1 is any size."""

    name: str
    data_type: str
    dims: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One model of the three; its name is that of the entry and `suffix`."""

    suffix: str
    backend: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    parameters: Mapping[str, str]
    batches: bool = True  # False: Triton adds no batch dimension, the tensors have it themselves
    gpu_accelerator: str | None = None


@dataclass(frozen=True, kw_only=True)
class EntrySteps:
    """The steps in their order, and which of their tensors the ensemble shows."""

    steps: tuple[Step, Step, Step]
    public: tuple[str, ...]  # outputs, in the order in which metadata lists them


SUFFIXES = ("preprocess", "network", "postprocess")


def entry_models(entry: str) -> list[str]:
    """The names of an entry's models: the steps in their order, then the ensemble."""
    return [*(f"{entry}_{suffix}" for suffix in SUFFIXES), entry]


IDS = TensorSpec(name="input_ids", data_type="TYPE_INT64", dims=(-1,))
MASK = TensorSpec(name="attention_mask", data_type="TYPE_INT64", dims=(-1,))
TEXT = TensorSpec(name="text", data_type="TYPE_STRING", dims=(1,))
QUERY = TensorSpec(name="query", data_type="TYPE_STRING", dims=(1,))
TYPES = TensorSpec(name="token_type_ids", data_type="TYPE_INT64", dims=(-1,))
WINDOWS = TensorSpec(name="windows", data_type="TYPE_INT32", dims=(1,))
TOKEN_SPANS = TensorSpec(name="token_spans", data_type="TYPE_INT32", dims=(-1, 3))
ScoreFunction = Literal["sigmoid", "identity"]  # of the one logit of a text
CpuPrecision = Literal["fp32", "bf16"]
# The wheel's stand-in runs the network through OpenVINO; others ignore this. The catalogue's texts keep a cosine of
# 0.9999 in bf16, which is used where the CPU computes it. Image networks do not stand it: EfficientNet-Lite0 gave
# another first label for 9 of 126 photographs. What nobody has measured, a user's own checkpoint, is computed in fp32.
# None has loops whose length the input's values decide: `heartbeat`.
_ON_CPU = {"trireme.runtime": "openvino", "trireme.heartbeat": "true"}
IMAGE_ON_CPU = {**_ON_CPU, "trireme.precision": "fp32"}


def embedding_steps(
    windows: TextWindows, width: int, *, normalize: bool, precision: CpuPrecision = "bf16"
) -> EntrySteps:
    """Text to vector; `width` is the network's."""
    assert windows.combine is not None, "a text has one vector"
    vector = TensorSpec(name="embedding", data_type="TYPE_FP32", dims=(-1, width))
    post = Step(
        suffix="postprocess",
        backend="stages",
        inputs=(vector, WINDOWS),
        outputs=(TensorSpec(name="embedding", data_type="TYPE_FP32", dims=(width,)),),
        parameters={
            "stage": "embedding",
            "pooling": "none",
            "windows": windows.combine,
            "normalize": str(normalize).lower(),
        },
    )
    steps = (_tokenize(windows), _text_network(windows, vector, precision), post)
    return EntrySteps(steps=steps, public=("embedding", "windows"))


def classification_steps(windows: TextWindows, labelling: Labelling, *, precision: CpuPrecision = "bf16") -> EntrySteps:
    """Text to label."""
    assert windows.combine is not None, "a text has one label"
    count = len(labelling.labels)
    logits = TensorSpec(name="logits", data_type="TYPE_FP32", dims=(-1, count))
    post = Step(
        suffix="postprocess",
        backend="stages",
        inputs=(logits, WINDOWS),
        outputs=(
            TensorSpec(name="label", data_type="TYPE_STRING", dims=(1,)),
            TensorSpec(name="score", data_type="TYPE_FP32", dims=(1,)),
            TensorSpec(name="scores", data_type="TYPE_FP32", dims=(count,)),
        ),
        parameters={
            "stage": "classification",
            "function": labelling.function,
            "labels": "labels.json",
            "windows": windows.combine,
            **_threshold(labelling),
        },
    )
    steps = (_tokenize(windows), _text_network(windows, logits, precision), post)
    return EntrySteps(steps=steps, public=("label", "score", "scores", "windows"))


def entities_steps(windows: TextWindows, labelling: TokenLabelling, *, precision: CpuPrecision) -> EntrySteps:
    """Text to labelled spans of its characters."""
    logits = TensorSpec(name="logits", data_type="TYPE_FP32", dims=(-1, len(labelling.labels)))
    pre = _tokenize(windows)
    pre = replace(pre, outputs=(*pre.outputs, TOKEN_SPANS), parameters={**pre.parameters, TOKEN_SPANS.name: "true"})
    network = _text_network(windows, logits, precision)
    network = replace(network, parameters={**network.parameters, "trireme.segment_outputs": "tokens"})
    post = Step(
        suffix="postprocess",
        backend="stages",
        inputs=(logits, TOKEN_SPANS, TEXT),
        outputs=(TensorSpec(name="entities", data_type="TYPE_STRING", dims=(1,)),),
        parameters={
            "stage": "entities",
            "labels": "labels.json",
            "scheme": labelling.scheme,
            "aggregation": labelling.aggregation,
            "outside": OUTSIDE,
        },
    )
    return EntrySteps(steps=(pre, network, post), public=("entities", "windows"))


def reranking_steps(
    windows: TextWindows, function: ScoreFunction, *, token_types: bool, precision: CpuPrecision
) -> EntrySteps:
    """Query and text to score."""
    assert windows.combine is not None, "a text has one score"
    types = (TYPES,) if token_types else ()
    logits = TensorSpec(name="logits", data_type="TYPE_FP32", dims=(-1, 1))
    pre = Step(
        suffix="preprocess",
        backend="stages",
        inputs=(QUERY, TEXT),
        outputs=(IDS, MASK, *types, WINDOWS),
        parameters={
            "stage": "tokenize_pairs",
            "tokenizer": "tokenizer.json",
            "max_length": str(windows.max_length),
            "window_overlap": str(windows.overlap),
            "max_windows": str(windows.max_windows),
            "token_types": str(token_types).lower(),
        },
    )
    network = _text_network(windows, logits, precision)
    post = Step(
        suffix="postprocess",
        backend="stages",
        inputs=(logits, WINDOWS),
        outputs=(TensorSpec(name="score", data_type="TYPE_FP32", dims=(1,)),),
        parameters={"stage": "score", "function": function, "windows": windows.combine},
    )
    steps = (pre, replace(network, inputs=(*network.inputs, *types)), post)
    return EntrySteps(steps=steps, public=("score", "windows"))


def _threshold(labelling: Labelling) -> dict[str, str]:
    if labelling.threshold is None or labelling.positive_label is None:
        return {}
    return {"threshold": str(labelling.threshold), "positive_label": labelling.positive_label}


def image_classification_steps(preprocessing: Preprocessing, labelling: Labelling, k: int) -> EntrySteps:
    """Image to the best `k` of its labels."""
    logits = TensorSpec(name="logits", data_type="TYPE_FP32", dims=(len(labelling.labels),))
    post = Step(
        suffix="postprocess",
        backend="stages",
        inputs=(logits,),
        outputs=(
            TensorSpec(name="label", data_type="TYPE_STRING", dims=(k,)),
            TensorSpec(name="score", data_type="TYPE_FP32", dims=(k,)),
        ),
        parameters={"stage": "top_k", "k": str(k), "function": labelling.function, "labels": "labels.json"},
    )
    return EntrySteps(steps=(*_image_steps(preprocessing, logits), post), public=("label", "score"))


def image_embedding_steps(preprocessing: Preprocessing, width: int, *, normalize: bool) -> EntrySteps:
    """Image to vector; `width` is the network's."""
    vector = TensorSpec(name="embedding", data_type="TYPE_FP32", dims=(width,))
    post = Step(
        suffix="postprocess",
        backend="stages",
        inputs=(vector,),
        outputs=(vector,),
        parameters={"stage": "embedding", "windows": "none", "normalize": str(normalize).lower()},
    )
    return EntrySteps(steps=(*_image_steps(preprocessing, vector), post), public=("embedding",))


def _image_steps(preprocessing: Preprocessing, output: TensorSpec) -> tuple[Step, Step]:
    """From the image file to what the network gives."""
    pixels = TensorSpec(name="pixels", data_type="TYPE_UINT8", dims=(preprocessing.size, preprocessing.size, 3))
    pre = Step(
        suffix="preprocess",
        backend="stages",
        inputs=(TensorSpec(name="image", data_type="TYPE_STRING", dims=(1,)),),
        outputs=(pixels,),
        parameters=preprocessing.stage_parameters(),
    )
    network = Step(
        suffix="network",
        backend="onnxruntime",
        inputs=(pixels,),
        outputs=(output,),
        parameters=IMAGE_ON_CPU,
        gpu_accelerator="cuda",
    )
    return pre, network


def _tokenize(windows: TextWindows) -> Step:
    return Step(
        suffix="preprocess",
        backend="stages",
        inputs=(TEXT,),
        outputs=(IDS, MASK, WINDOWS),
        parameters={
            "stage": "tokenize",
            "tokenizer": "tokenizer.json",
            "max_length": str(windows.max_length),
            "long_text": "windows",
            "window_overlap": str(windows.overlap),
            "max_windows": str(windows.max_windows),
        },
    )


def _text_network(windows: TextWindows, output: TensorSpec, precision: CpuPrecision) -> Step:
    return Step(
        suffix="network",
        backend="onnxruntime",
        inputs=(IDS, MASK),
        outputs=(output,),
        parameters={
            **_ON_CPU,
            "trireme.precision": precision,
            "trireme.segments": MASK.name,
            "trireme.segment_tokens": str(windows.max_length),
        },
        gpu_accelerator="cuda",
    )
