"""Files that lie: bombs, truncated and broken images are refused, whatever the decoder thinks of them."""

import contextlib
import io
import struct
import time
import tracemalloc
import warnings
import zlib
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin
from trireme_stages.decoding import _format, decode
from trireme_triton.tensors import InvalidRequest

CORPUS = Path(__file__).parent / "corpus"
FORMATS = ["JPEG", "PNG", "WEBP"]
SIGNATURES = [b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF\0\0\0\0WEBP"]


def encoded(format_name, size=(40, 30), **options):
    file = io.BytesIO()
    Image.effect_mandelbrot(size, (-2, -1.5, 1, 1.5), 9).convert("RGB").save(file, format_name, **options)
    return file.getvalue()


def refusal(data, max_pixels=10_000):
    with pytest.raises(InvalidRequest) as refused:
        decode(data, max_pixels=max_pixels, min_side=8)
    return refused.value


def png_chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_header(width, height):
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_truncated_image_is_refused(format_name, share):
    data = encoded(format_name)
    found = refusal(data[: int(len(data) * share)])
    assert found.reason == "broken"
    assert f"not a whole {format_name} file" in str(found)


@pytest.mark.parametrize("data", [b"", b"\0", b"GIF89a" + bytes(99), b"BM" + bytes(99), b"%PDF-1.4", b"RIFF1234WAVE"])
def test_only_jpeg_png_and_webp_are_decoded(data):
    assert refusal(data).reason == "format"


@pytest.mark.parametrize("signature", SIGNATURES)
@pytest.mark.parametrize("rest", [b"", bytes(99)])
def test_a_signature_alone_is_refused(signature, rest):
    found = refusal(signature + rest)
    assert found.reason == "broken"
    assert " object at " not in str(found)


def bombs():
    idat = png_chunk(b"IDAT", zlib.compress(bytes(1000)))
    huge_webp = io.BytesIO()
    Image.new("RGB", (16383, 16383)).save(huge_webp, "WEBP", lossless=True, quality=0, method=0)
    jpeg = bytearray(encoded("JPEG"))
    frame = jpeg.index(b"\xff\xc0") + 5
    jpeg[frame : frame + 4] = struct.pack(">HH", 65000, 65000)
    return {
        "png": png_header(30_000, 30_000) + idat + png_chunk(b"IEND", b""),
        "png_widest": png_header(2**31 - 1, 2**31 - 1) + idat,
        "webp": huge_webp.getvalue(),
        "jpeg": bytes(jpeg),
    }


@pytest.mark.parametrize(("name", "data"), bombs().items())
def test_a_decompression_bomb_is_refused_on_its_header(name, data):
    tracemalloc.start()
    found = refusal(data, max_pixels=25_000_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.reason == "too_large"
    assert peak < 1_000_000


def test_a_compressed_profile_that_expands_without_end_is_refused_or_skipped():
    bomb = png_chunk(b"iCCP", b"x\0\0" + zlib.compress(bytes(100_000_000), 9))
    data = encoded("PNG")
    after_header = 33
    refused_or_decoded(data[:after_header] + bomb + data[after_header:])


def test_a_jpeg_of_endless_scans_is_refused_unread():
    data = encoded("JPEG", progressive=True)
    scan = data.index(b"\xff\xda")
    assert decode(data, max_pixels=10_000, min_side=8).full_size == (40, 30)
    assert "more than 100 scans" in str(refusal(data[:scan] + b"\xff\xda\0\0" * 101 + data[scan:]))


def restarting(scans):
    """A JPEG with restart markers whose image of one scan is followed by so many further ones."""
    data = encoded("JPEG", (40, 30), restart_marker_blocks=1)
    scan = data.index(b"\xff\xda")
    return data[:-2] + data[scan:-2] * scans + data[-2:]


@pytest.mark.parametrize(
    "tail", [b"\xff\xda\0\0" * 1_000_000, b"\xff\xda" * 2_000_000, b"\xff\xd9" + b"\xff\xda\0\x0c" * 500]
)
@pytest.mark.parametrize("progressive", [False, True])
def test_what_follows_the_end_of_a_jpeg_is_not_counted(progressive, tail):
    """As the film that telephones put behind a photograph."""
    data = encoded("JPEG", progressive=progressive)
    expected = decode(data, max_pixels=10_000, min_side=8).pixels
    assert decode(data + tail, max_pixels=10_000, min_side=8).pixels.tobytes() == expected.tobytes()


def test_what_a_segment_of_a_jpeg_holds_is_not_counted():
    """As an embedded preview or a colour profile."""
    data = encoded("JPEG")
    segment = b"\xff\xe5" + struct.pack(">H", 2 + 60_000) + b"\xff\xda\0\x0c" * 15_000
    expected = decode(data, max_pixels=10_000, min_side=8).pixels
    found = decode(data[:2] + segment * 3 + data[2:], max_pixels=10_000, min_side=8).pixels
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "hidden",
    [
        b"",
        b"\xff\x02\xff\xff",  # no marker of a segment: libjpeg looks for the next one right behind it
        b"\xff\xd3\xff\xff",  # restarts, and padding before a marker, have no length either
        b"\xff\xff\xff",
        b"\xff\xe5\0\0",  # a length that is none
    ],
)
def test_scans_hide_behind_nothing_that_is_not_skipped(hidden):
    scan = hidden + b"\xff\xda\0\x08\x01\x01\0\0\0\0"
    data = encoded("JPEG", progressive=True)
    begin = data.index(b"\xff\xda")
    assert "more than 100 scans" in str(refusal(data[:begin] + scan * 101 + data[begin:]))


def test_scans_between_coded_data_are_counted():
    assert "more than 100 scans" in str(refusal(restarting(101)))


@pytest.mark.parametrize(
    "unit", [b"\xff\0", b"\xff\xd0", b"\xff", b"\xff\xe5\0\x02", b"\xff\xe5\0\0", b"\xff\xe5\xff\xff", b"\x01"]
)
def test_a_large_jpeg_of_any_bytes_is_counted_in_one_pass(unit):
    data = encoded("JPEG")
    begin = data.index(b"\xff\xda")
    scans = b"\xff\xda\0\x02" * 101
    large = data[:begin] + unit * (50_000_000 // len(unit)) + data[begin:] + scans
    begin_s = time.process_time()
    with contextlib.suppress(InvalidRequest):
        _format(large)
    assert time.process_time() - begin_s < 4


def refused_or_decoded(data):
    """The one promise about any bytes: RGB pixels of the stated size, or a refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            image = decode(data, max_pixels=10_000, min_side=8)
        except InvalidRequest:
            return
    assert image.pixels.mode == "RGB"
    assert all(0 < extent <= side for extent, side in zip(image.extent, image.pixels.size, strict=True))
    image.pixels.resize((8, 8))


def seeds():
    exif = Image.Exif()
    exif[0x0112] = 6
    palette = io.BytesIO()
    Image.effect_mandelbrot((40, 30), (-2, -1.5, 1, 1.5), 9).convert("P").save(palette, "PNG", transparency=3)
    text = PngImagePlugin.PngInfo()
    text.add_itxt("key", "value", zip=True)
    animated = {"save_all": True, "append_images": [Image.new("RGB", (40, 30))]}
    return [
        *(encoded(format_name, exif=exif) for format_name in FORMATS),
        *(encoded(format_name, **animated) for format_name in FORMATS[1:]),
        encoded("JPEG", progressive=True),
        encoded("PNG", pnginfo=text),
        palette.getvalue(),
    ]


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(seeds()), st.data())
def test_a_valid_file_with_changed_bytes_is_refused_or_decoded(seed, data):
    mutated = bytearray(seed)
    for _ in range(data.draw(st.integers(1, 6))):
        position = data.draw(st.integers(0, len(mutated) - 1))
        mutated[position : position + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    refused_or_decoded(bytes(mutated))


@settings(deadline=None)
@given(st.sampled_from([*SIGNATURES, b""]), st.binary())
@example(b"\x89PNG\r\n\x1a\n", b"\0\0\0\rIHDR")
def test_any_bytes_are_refused_or_decoded(signature, data):
    refused_or_decoded(signature + data)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*")), ids=lambda path: path.name)
def test_what_once_broke_the_decoder_is_refused_or_decoded(path):
    refused_or_decoded(path.read_bytes())
