"""Bytes of a JPEG, PNG or WebP file become upright RGB pixels. Knows nothing of networks.

Only these formats are tried. Sizes are checked on the header, before anything is decoded. Of an animation the first
frame is taken, transparency is laid over white, colour profiles are not applied.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from PIL import (
    ExifTags,
    Image,
    UnidentifiedImageError,
    WebPImagePlugin,  # noqa: F401 - else the first WebP file loads every plugin there is
)
from trireme_triton.tensors import InvalidRequest

Image.preinit()  # loads the other decoders now, not in the first request
Image.MAX_IMAGE_PIXELS = None  # our own limit is stricter, and refuses instead of warning

# A progressive JPEG may hold any number of passes over all its pixels, a few bytes each; encoders write about ten.
_MAX_JPEG_SCANS = 100
_MAX_JPEG_SEGMENTS = 10_000  # the largest comments, profiles and previews are cut into a few hundred
# Markers of segments and of the end; in coded data 0xff is followed by 0 or 0xd0 to 0xd7 (ITU-T T.81, B.1.1).
_JPEG_MARKER = re.compile(rb"\xff[\xc0-\xcf\xd9-\xfe]")
_SCAN, _END = b"\xff\xda", b"\xff\xd9"

_UPRIGHT = {  # EXIF orientation to what undoes it (Exif 2.32, tag 274)
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """An upright RGB image, perhaps at a reduced scale."""

    pixels: Image.Image
    full_size: tuple[int, int]  # width and height at full scale
    extent: tuple[float, float]  # width and height of `pixels` that the full-scale image covers: fractions of a pixel


def decode(data: bytes, *, max_pixels: int, min_side: int | None) -> Decoded:
    """The image in `data`. A JPEG is decoded at 1/2, 1/4 or 1/8 scale where its sides stay at least `min_side`.

    None: at full scale, like every other format.

    Raises:
        InvalidRequest: another format, more than `max_pixels`, truncated or broken.
    """
    format_name = _format(data)
    with _broken_is_refused(format_name):
        image = Image.open(io.BytesIO(data), formats=[format_name])
        _check_size(image, max_pixels)
        full_size = image.size
        extent: tuple[float, float] = full_size
        if format_name == "JPEG" and min_side is not None and (drafted := image.draft(None, (min_side, min_side))):
            extent = drafted[1][2:]
        image.load()
        pixels = _rgb(image)
        orientation = image.getexif().get(ExifTags.Base.Orientation)
    if orientation not in _UPRIGHT:
        return Decoded(pixels=pixels, full_size=full_size, extent=extent)
    if orientation >= 5:
        full_size, extent = full_size[::-1], extent[::-1]
    return Decoded(pixels=pixels.transpose(_UPRIGHT[orientation]), full_size=full_size, extent=extent)


def _format(data: bytes) -> str:
    """Pillow's name of the format, from the first bytes."""
    if data.startswith(b"\xff\xd8\xff"):
        if data.count(_SCAN) > _MAX_JPEG_SCANS:  # or it lies outside the image: in a preview, in a film behind it
            _check_scans(data)
        return "JPEG"
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "PNG"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "WEBP"
    raise InvalidRequest(f"{len(data)} bytes that are not a JPEG, PNG or WebP file", reason="format")


def _check_scans(data: bytes) -> None:
    """Goes from segment to segment as libjpeg does, up to the end of the image; what follows is not decoded.

    Raises:
        InvalidRequest: more scans or segments than any encoder writes.
    """
    scans, position = 0, 2
    for _ in range(_MAX_JPEG_SEGMENTS):
        marker = _JPEG_MARKER.search(data, position)
        if marker is None or marker[0] == _END:
            return
        scans += marker[0] == _SCAN
        if scans > _MAX_JPEG_SCANS:
            raise InvalidRequest(f"a JPEG with more than {_MAX_JPEG_SCANS} scans", reason="too_large")
        length = int.from_bytes(data[marker.end() : marker.end() + 2], "big")  # with its own two bytes
        position = marker.end() + max(2, length)
    raise InvalidRequest(f"a JPEG with more than {_MAX_JPEG_SEGMENTS} segments", reason="too_large")


def _check_size(image: Image.Image, max_pixels: int) -> None:
    if image.width * image.height > max_pixels:
        found = f"{image.width} x {image.height} pixels"
        raise InvalidRequest(f"{found}; at most {max_pixels} are allowed in all", reason="too_large")


@contextmanager
def _broken_is_refused(format_name: str) -> Iterator[None]:
    """Pillow's errors on files that are not what their header says."""
    try:
        yield
    except UnidentifiedImageError as error:  # its text is an address in memory
        raise InvalidRequest(f"not a whole {format_name} file: its header cannot be read", reason="broken") from error
    except (OSError, EOFError, SyntaxError, ValueError) as error:
        raise InvalidRequest(f"not a whole {format_name} file: {error}", reason="broken") from error


def _rgb(image: Image.Image) -> Image.Image:
    """Any mode as RGB of 8 bits."""
    if image.mode == "RGB" and not image.has_transparency_data:
        return image
    if image.mode == "P" and image.palette is None:  # Pillow fails on it by an assertion
        raise SyntaxError("it has a palette mode but no palette")
    if image.mode.startswith("I"):  # 16-bit grey, which Pillow would clip instead of scale
        grey = (np.asarray(image).astype(np.uint32) + 128) // 257
        return Image.fromarray(grey.astype(np.uint8)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    white = Image.new("RGBA", image.size, "white")
    white.alpha_composite(image.convert("RGBA"))
    return white.convert("RGB")
