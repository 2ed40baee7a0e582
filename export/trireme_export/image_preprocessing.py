"""What is done with an image before its network: parameters of the stage `image`, and what the graph does. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos"]
Channels = tuple[float, float, float]  # red, green, blue


@dataclass(frozen=True, kw_only=True)
class Normalization:
    """Every byte becomes `byte * scale + shift`."""

    scale: Channels
    shift: Channels


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """An image is resized, the square in its middle is kept, and its bytes are normalised.

    `fit`, `crop_offset`, `resize` and `size` are parameters of the stage: docs/contracts.md says what they do.
    """

    size: int  # pixels, both sides, of what the network sees
    resize: int  # pixels before the crop: of the shorter side, or of both
    fit: Literal["shorter_side", "stretch"]
    crop_offset: Literal["round", "floor"]
    interpolation: Interpolation
    normalization: Normalization
    # A JPEG may be decoded at a reduced scale that keeps so many times the pixels it is resized to. At 4, photographs
    # of 12 million pixels differ by two levels of 255 at most, by 0.1 in the mean, and take a third of the time.
    min_scale: float = 4.0

    def stage_parameters(self) -> dict[str, str]:
        """Of the stage; it gives bytes, and the graph normalises."""
        return {
            "stage": "image",
            "size": str(self.size),
            "resize": str(self.resize),
            "fit": self.fit,
            "crop_offset": self.crop_offset,
            "interpolation": self.interpolation,
            "min_scale": str(self.min_scale),
            "dtype": "uint8",
        }

    def describe(self) -> str:
        """For the terminal."""
        own = self.normalization
        what = "both sides" if self.fit == "stretch" else "the shorter side"
        cut = f", the centre of {self.size} x {self.size}" if self.resize > self.size or self.fit != "stretch" else ""
        scale, shift = (", ".join(f"{value:.6g}" for value in values) for values in (own.scale, own.shift))
        return f"{what} to {self.resize} pixels ({self.interpolation}){cut}; byte * ({scale}) + ({shift})"


def channels(value: float | Sequence[float]) -> Channels:
    """One number for all channels, or one each.

    Raises:
        ValueError: another number of numbers.
    """
    red, green, blue = [value] * 3 if isinstance(value, int | float) else [float(each) for each in value]
    return red, green, blue


def normalization(mean: Channels, std: Channels, *, factor: float = 1 / 255) -> Normalization:
    """What makes `(byte * factor - mean) / std`.

    Raises:
        ValueError: that is no number, or the same one for every byte.
    """
    scale = channels([factor / deviation for deviation in std])
    shift = channels([-own / deviation for own, deviation in zip(mean, std, strict=True)])
    if not all(map(math.isfinite, (*scale, *shift))) or 0 in scale:
        raise ValueError(
            f"by its factor, mean and deviation a byte becomes byte * {scale} + {shift}, which says nothing"
        )
    return Normalization(scale=scale, shift=shift)
