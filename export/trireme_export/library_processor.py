"""The image processor of Transformers that a checkpoint names, and the same as parameters of the stage `image`.

The reference is the library's Pillow backend. Its torchvision backend resizes without rounding to bytes in between,
which differs by about one level of 255.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from trireme_export.checkpoint import Checkpoint
from trireme_export.errors import CheckpointRefused
from trireme_export.image_original import Floats, Pixels
from trireme_export.image_preprocessing import Interpolation, Normalization, Preprocessing, channels, normalization
from trireme_export.library_config import library_refusals

FILE = "preprocessor_config.json"
_NESTED = "processor_config.json"  # of models that take text too; the library would prefer what it says
_KNOWN = tuple(
    f"{name}ImageProcessorPil"
    for name in ("Bit", "ConvNext", "DeiT", "EfficientNet", "MobileNetV1", "MobileNetV2", "ViT")
)
# Names of classes; and what no RGB image's pixels depend on.
_IRRELEVANT = {
    *("image_processor_type", "feature_extractor_type", "processor_class", "_valid_processor_keys", "use_fast"),
    *("do_convert_rgb", "do_reduce_labels", "return_tensors", "device", "disable_grouping", "default_to_square"),
}
_FOLLOWED = {
    *("do_resize", "size", "resample", "do_center_crop", "crop_size", "crop_pct", "do_rescale", "rescale_factor"),
    *("do_normalize", "image_mean", "image_std", "rescale_offset", "include_top"),
}
_ONLY: dict[str, tuple[object, ...]] = {
    "do_pad": (False, None),
    "pad_size": (None,),
    "data_format": ("channels_first", None),
    "input_data_format": ("channels_first", None),
    "image_seq_length": (None,),
}
_INTERPOLATIONS: dict[int, Interpolation] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
_WARPED_FROM = 384  # pixels: from there on ConvNeXt's processor stretches instead of cropping


class LibraryProcessor:
    """The library's image processor, for one image at a time."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor
        own = processor.valid_kwargs.__annotations__.keys()
        self._as_bytes = {key: False for key in ("do_rescale", "do_normalize", "include_top") if key in own}

    def pixels(self, image: Image.Image) -> Pixels:
        """(size, size, 3): resized and cropped."""
        pixels: Pixels = self._run(image, **self._as_bytes).transpose(1, 2, 0).astype(np.uint8)
        assert np.array_equal(self.planes(pixels), self._run(image)), "in two parts it is what the library does at once"
        return pixels

    def planes(self, pixels: Pixels) -> Floats:
        """(3, size, size): normalised."""
        planes: Floats = self._run(Image.fromarray(pixels), do_resize=False, do_center_crop=False).astype(np.float32)
        return planes

    def _run(self, image: Image.Image, **options: bool) -> Any:
        return self._processor(image, return_tensors="np", **options).pixel_values[0]


def read_processor(checkpoint: Checkpoint) -> tuple[LibraryProcessor, Preprocessing]:
    """What `preprocessor_config.json` asks for.

    Raises:
        CheckpointRefused: it is not there, is not accounted for to the last key, or asks for what cannot be followed.
    """
    import transformers

    settings = _settings(checkpoint)
    with library_refusals(FILE):
        loader: Any = transformers.AutoImageProcessor
        processor = loader.from_pretrained(
            checkpoint.folder, backend="pil", trust_remote_code=False, local_files_only=True
        )
    if type(processor).__name__ not in _KNOWN:
        known = ", ".join(name.removesuffix("Pil") for name in _KNOWN)
        raise _refused(checkpoint, f"{type(processor).__name__.removesuffix('Pil')} is not known; known are {known}")
    _check_keys(checkpoint, settings, processor)
    with library_refusals(FILE):
        preprocessing = _preprocessing(checkpoint, processor)
    return LibraryProcessor(processor), preprocessing


def _settings(checkpoint: Checkpoint) -> dict[str, Any]:
    if FILE not in checkpoint.files:
        raise CheckpointRefused(
            f"{checkpoint.uri}: there is no {FILE}, so nobody knows how its images are resized and normalised: "
            "copy that of the model it was trained from, if it was trained with that"
        )
    if _NESTED in checkpoint.files:
        raise CheckpointRefused(
            f"{checkpoint.uri}: {_NESTED} is there, which the library prefers to {FILE}: keep the one that is right, "
            f"as {FILE}"
        )
    return checkpoint.read_object(FILE)


def _check_keys(checkpoint: Checkpoint, settings: dict[str, Any], processor: Any) -> None:
    declared = {*processor.valid_kwargs.__annotations__}
    for key, value in settings.items():
        if key not in _IRRELEVANT and key not in (_FOLLOWED | _ONLY.keys()) & declared:
            name = type(processor).__name__.removesuffix("Pil")
            why = f"{key} is not known for {name}, so not safe to ignore. "
            raise _refused(checkpoint, f"{why}Remove it if it is certain not to change the pixels")
        if key in _ONLY and value not in _ONLY[key]:
            raise _refused(checkpoint, f"{key} is {value!r}; only {_ONLY[key][0]!r} can be exported")


def _preprocessing(checkpoint: Checkpoint, processor: Any) -> Preprocessing:
    if not processor.do_resize:
        raise _refused(checkpoint, "do_resize is false, so its images have any size; the graph takes one size")
    if processor.resample not in _INTERPOLATIONS:
        allowed = ", ".join(f"{number} ({name})" for number, name in _INTERPOLATIONS.items())
        raise _refused(checkpoint, f"resample is {processor.resample!r}; {allowed} can be exported")
    resize, stretch = _resized(checkpoint, processor)
    size = _cropped(checkpoint, processor, resize, stretch)
    if size > resize:
        why = f"crop_size is {size} and size {resize}, so the library adds a black frame"
        raise _refused(checkpoint, f"{why}; that cannot be exported")
    return Preprocessing(
        size=size,
        resize=resize,
        fit="stretch" if stretch else "shorter_side",
        crop_offset="floor",
        interpolation=_INTERPOLATIONS[processor.resample],
        normalization=_normalization(processor),
    )


def _resized(checkpoint: Checkpoint, processor: Any) -> tuple[int, bool]:
    """To how many pixels, and whether that is both sides or the shorter one."""
    size = {key: value for key, value in dict(processor.size).items() if value is not None}
    if size.keys() == {"shortest_edge"}:
        edge = _pixels(size["shortest_edge"])
        if not _is_convnext(processor):
            return edge, False
        return (edge, True) if edge >= _WARPED_FROM else (int(edge / processor.crop_pct), False)
    if size.keys() == {"height", "width"} and size["height"] == size["width"] and not _is_convnext(processor):
        return _pixels(size["height"]), True
    raise _refused(checkpoint, f"size is {size}; shortest_edge, or a height and width that are equal, can be exported")


def _cropped(checkpoint: Checkpoint, processor: Any, resize: int, stretch: bool) -> int:
    crop = {key: value for key, value in dict(processor.crop_size or {}).items() if value is not None}
    square = _pixels(crop["height"]) if crop and crop.get("height") == crop.get("width") else None
    if _is_convnext(processor):
        edge = _pixels(processor.size.shortest_edge)
        if not processor.do_center_crop or square == edge:
            return edge  # its resizing crops as well
        raise _refused(checkpoint, f"crop_size is {crop} after a size of {edge}; only the same can be exported")
    if processor.do_center_crop:
        if square is None:
            raise _refused(checkpoint, f"crop_size is {crop}; a height and width that are equal can be exported")
        return square
    if stretch:
        return resize
    why = "size is a shortest_edge and do_center_crop is false, so images keep their shape"
    raise _refused(checkpoint, f"{why}; the graph takes squares")


def _pixels(side: float) -> int:
    if side != int(side):
        raise ValueError(f"{side} pixels are no whole number")
    return int(side)


def _normalization(processor: Any) -> Normalization:
    """What `do_rescale`, `do_normalize` and the two steps that only EfficientNet has do to a byte, in one."""
    factor = processor.rescale_factor if processor.do_rescale else 1.0
    offset = 1.0 if processor.do_rescale and getattr(processor, "rescale_offset", False) else 0.0
    mean = channels(processor.image_mean if processor.do_normalize else 0.0)
    std = channels(processor.image_std if processor.do_normalize else 1.0)
    if getattr(processor, "include_top", False):
        std = channels([own * again for own, again in zip(std, channels(processor.image_std), strict=True)])
    return normalization(channels([own + offset for own in mean]), std, factor=factor)


def _is_convnext(processor: Any) -> bool:
    return type(processor).__name__ == "ConvNextImageProcessorPil"


def _refused(checkpoint: Checkpoint, why: str) -> CheckpointRefused:
    return CheckpointRefused(f"{checkpoint.uri}: {FILE}: {why}")
