"""The stage `image` against Pillow's full decode, resize and crop, and against arithmetic in float64."""

import io

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from trireme_triton.parameters import InvalidParameter

shared_files = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
SIZE, SHORTER = 28, 32


def picture(width, height, mode="RGB", seed=0):
    """Smooth colours with detail, so that filters and JPEG have something to do."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (7, 9, 4), dtype=np.uint8), "RGBA")
    fine = Image.fromarray(rng.integers(0, 256, (height, width, 4), dtype=np.uint8), "RGBA")
    image = Image.blend(coarse.resize((width, height), Image.Resampling.BICUBIC), fine, 0.1)
    return image.convert(mode)


def encoded(image, format_name, **options):
    file = io.BytesIO()
    image.save(file, format_name, **options)
    return file.getvalue()


def request(*images):
    return {"image": np.array([[image] for image in images], np.object_)}


def reference(
    image, shorter=SHORTER, size=SIZE, resample=Image.Resampling.BICUBIC, offset=lambda rest: round(rest / 2.0)
):
    """Everything is resized, then the centre is cut out: torchvision's Resize and CenterCrop on Pillow images."""
    width, height = image.size
    longer = int(shorter * max(width, height) / min(width, height))
    target = (shorter, longer) if width < height else (longer, shorter)
    left, top = (offset(side - size) for side in target)
    cropped = image.resize(target, resample).crop((left, top, left + size, top + size))
    return np.asarray(cropped).astype(int)


@pytest.fixture
def image_stage(load):
    def load_stage(**parameters):
        given = {"size": str(SIZE), "resize": str(SHORTER), **parameters}
        return load("image", {key: value for key, value in given.items() if value is not None})

    return load_stage


def pixels(stage, data):
    (answer,) = stage.answer([request(data)])
    assert isinstance(answer, dict), answer
    return answer["pixels"][0].astype(int)


@pytest.mark.parametrize("resample", ["bicubic", "bilinear", "lanczos"])
@shared_files
@given(width=st.integers(1, 150), height=st.integers(1, 150))
def test_the_centre_is_that_of_resizing_everything_and_then_cropping(image_stage, resample, width, height):
    image = picture(width, height)
    stage = image_stage(interpolation=resample)
    found = pixels(stage, encoded(image, "PNG"))
    method = getattr(Image.Resampling, resample.upper())
    rows_first = reference(image, resample=method)
    columns_first = reference(image.transpose(Image.Transpose.TRANSPOSE), resample=method).swapaxes(0, 1)
    # Pillow takes the cheaper order, and clips overshoots in between
    assert min(np.abs(found - expected).max() for expected in (rows_first, columns_first)) <= 1


@pytest.mark.parametrize(("crop_offset", "first"), [("round", 2), ("floor", 1)])
def test_an_odd_pixel_is_cut_off_on_the_side_that_the_config_says(image_stage, crop_offset, first):
    """Three columns go: torchvision takes two of them from the left, Transformers one."""
    image = picture(SIZE + 3, SIZE)
    found = pixels(image_stage(resize=None, crop_offset=crop_offset), encoded(image, "PNG"))
    assert np.array_equal(found, np.asarray(image)[:, first : first + SIZE])


@pytest.mark.parametrize("resample", ["bicubic", "bilinear", "lanczos", "nearest"])
@shared_files
@given(width=st.integers(1, 150), height=st.integers(1, 150))
def test_stretching_makes_a_square_of_any_shape(image_stage, resample, width, height):
    image = picture(width, height)
    found = pixels(image_stage(fit="stretch", resize=None, interpolation=resample), encoded(image, "PNG"))
    assert np.array_equal(found, np.asarray(image.resize((SIZE, SIZE), getattr(Image.Resampling, resample.upper()))))


def test_the_centre_of_a_stretched_image_is_cut_out(image_stage):
    image = picture(50, 41)
    found = pixels(image_stage(fit="stretch", resize="31", crop_offset="floor"), encoded(image, "PNG"))
    stretched = image.resize((31, 31), Image.Resampling.BICUBIC)
    assert np.abs(found - np.asarray(stretched.crop((1, 1, 1 + SIZE, 1 + SIZE))).astype(int)).max() <= 1


@shared_files
@given(width=st.integers(1, 150), height=st.integers(1, 150))
def test_nearest_takes_a_pixel_of_the_source_that_is_as_near_as_any(image_stage, width, height):
    """Which column and row each pixel comes from is seen in an image that holds its own coordinates."""
    rows, columns = np.mgrid[0:height, 0:width]
    image = Image.fromarray(np.stack([rows, columns, rows * 0], axis=-1).astype(np.uint8))
    found = pixels(image_stage(interpolation="nearest"), encoded(image, "PNG"))
    for channel, side in enumerate((height, width)):
        resized = int(SHORTER * side / min(width, height))
        centres = (np.arange(SIZE) + round((resized - SIZE) / 2.0) + 0.5) * side / resized
        taken = found[:, 0, 0] if channel == 0 else found[0, :, 1]
        assert np.abs(taken + 0.5 - centres).max() <= 0.5 + 1e-6


def test_a_large_jpeg_is_decoded_in_full_where_the_filter_averages_nothing(image_stage):
    data = encoded(picture(600, 600), "JPEG")
    found = pixels(image_stage(fit="stretch", resize=None, interpolation="nearest"), data)
    expected = Image.open(io.BytesIO(data)).resize((SIZE, SIZE), Image.Resampling.NEAREST)
    assert np.array_equal(found, np.asarray(expected))


def test_a_crop_larger_than_the_resized_image_is_refused(image_stage):
    with pytest.raises(InvalidParameter, match="parameter 'resize' is 27; it must be at least 'size', 28"):
        image_stage(resize="27")


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"crop": "0.875"}, "unknown parameter 'crop'; known are crop_offset, dtype, fit"),
        ({"fit": "squash"}, "parameter 'fit' is 'squash'; it must be one of shorter_side, stretch"),
        ({"interpolation": "box"}, "it must be one of bicubic, bilinear, lanczos, nearest"),
        ({"crop_offset": "ceil"}, "it must be one of round, floor"),
        ({"resize": "0.5"}, "parameter 'resize' is '0.5'; it must be an integer from 1 to 8192"),
    ],
)
def test_a_parameter_that_cannot_be_followed_keeps_the_stage_from_loading(image_stage, parameters, said):
    with pytest.raises(InvalidParameter, match=said):
        image_stage(**parameters)


def test_extreme_shapes_cost_no_memory(image_stage):
    assert pixels(image_stage(), encoded(picture(60_000, 1), "PNG")).shape == (SIZE, SIZE, 3)


@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_every_format_is_decoded(image_stage, format_name, mode):
    data = encoded(picture(50, 40, mode), format_name)
    expected = reference(Image.open(io.BytesIO(data)).convert("RGB"))
    assert np.abs(pixels(image_stage(), data) - expected).max() <= 1


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize(("side", "scale"), [(64, 1), (127, 1), (128, 2), (257, 4), (600, 8)])
def test_a_large_jpeg_decoded_at_a_reduced_scale_differs_little(image_stage, side, scale, progressive):
    image = picture(side, side + 33)
    data = encoded(image, "JPEG", quality=92, progressive=progressive)
    expected = reference(Image.open(io.BytesIO(data)))
    difference = np.abs(pixels(image_stage(), data) - expected)
    assert difference.mean() < 1.0
    assert (difference.max() <= 1) == (scale == 1)


def test_a_large_min_scale_decodes_every_jpeg_in_full(image_stage):
    data = encoded(picture(600, 500), "JPEG")
    expected = reference(Image.open(io.BytesIO(data)))
    assert np.abs(pixels(image_stage(min_scale="1000"), data) - expected).max() <= 1


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(("format_name", "width"), [("JPEG", 41), ("JPEG", 300), ("PNG", 41), ("WEBP", 41)])
def test_a_photo_is_turned_upright(image_stage, format_name, width, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(picture(width, width // 2), format_name, exif=exif)
    expected = reference(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    assert np.abs(pixels(image_stage(), data) - expected).mean() < 1.0


def test_an_orientation_that_does_not_exist_is_ignored(image_stage):
    exif = Image.Exif()
    exif[0x0112] = 9
    data = encoded(picture(40, 50), "JPEG", exif=exif)
    assert np.abs(pixels(image_stage(), data) - reference(Image.open(io.BytesIO(data)))).max() <= 1


def over_white(rgba):
    """(height, width, 4) in float64 laid over white."""
    alpha = rgba[..., 3:] / 255
    return rgba[..., :3] * alpha + 255 * (1 - alpha)


@pytest.mark.parametrize(
    ("format_name", "mode", "options"),
    [("PNG", "RGBA", {}), ("PNG", "LA", {}), ("WEBP", "RGBA", {"lossless": True, "exact": True})],
)
def test_transparency_is_laid_over_white(image_stage, format_name, mode, options):
    image = picture(SIZE, SIZE, mode)
    expected = over_white(np.asarray(image.convert("RGBA")).astype(float))
    stage = image_stage(resize=None)
    assert np.abs(pixels(stage, encoded(image, format_name, **options)) - expected).max() <= 1


def test_a_palette_with_transparency_is_laid_over_white(image_stage):
    image = picture(SIZE, SIZE).quantize(7)
    image.info["transparency"] = bytes([0, 40, 80, 120, 160, 200, 255])
    data = encoded(image, "PNG")
    expected = over_white(np.asarray(Image.open(io.BytesIO(data)).convert("RGBA")).astype(float))
    assert np.abs(pixels(image_stage(resize=None), data) - expected).max() <= 1


def test_one_transparent_colour_is_laid_over_white(image_stage):
    image = Image.new("RGB", (SIZE, SIZE), (10, 20, 30))
    image.paste((200, 0, 0), (0, 0, SIZE, 14))
    found = pixels(image_stage(resize=None), encoded(image, "PNG", transparency=(10, 20, 30)))
    assert found[0, 0].tolist() == [200, 0, 0]
    assert found[-1, -1].tolist() == [255, 255, 255]


@pytest.mark.parametrize("mode", ["1", "P"])
def test_palettes_and_bitmaps_are_decoded(image_stage, mode):
    image = picture(SIZE, SIZE).convert(mode)
    found = pixels(image_stage(resize=None), encoded(image, "PNG"))
    assert np.array_equal(found, np.asarray(image.convert("RGB")))


def test_16_bit_grey_is_scaled_not_clipped(image_stage):
    grey = np.linspace(0, 65535, SIZE * SIZE).astype(np.uint16).reshape(SIZE, SIZE)
    found = pixels(image_stage(resize=None), encoded(Image.fromarray(grey), "PNG"))
    assert np.array_equal(found[..., 0], np.rint(grey / 65535 * 255))
    assert np.array_equal(found[..., 0], found[..., 2])


def test_cmyk_is_decoded(image_stage):
    image = Image.new("CMYK", (SIZE, SIZE), (0, 255, 255, 0))
    found = pixels(image_stage(resize=None), encoded(image, "JPEG", quality=100))
    assert np.abs(found - [255, 0, 0]).max() <= 3


@pytest.mark.parametrize("format_name", ["PNG", "WEBP"])
def test_the_first_frame_of_an_animation_is_taken(image_stage, format_name):
    red, blue = (Image.new("RGB", (SIZE, SIZE), colour) for colour in ("red", "blue"))
    data = encoded(red, format_name, save_all=True, append_images=[blue], lossless=True)
    assert np.abs(pixels(image_stage(resize=None), data) - [255, 0, 0]).max() == 0


def test_float32_is_normalised_and_laid_out_as_planes(image_stage):
    image = picture(SIZE, SIZE)
    stage = image_stage(resize=None, dtype="float32", mean="0.485,0.456,0.406", std="0.229,0.224,0.225")
    (answer,) = stage.answer([request(encoded(image, "PNG"))])
    expected = (np.asarray(image) / 255.0 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    assert answer["pixels"].dtype == np.float32
    np.testing.assert_allclose(answer["pixels"], expected.transpose(2, 0, 1)[None], atol=1e-6)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_images_of_many_requests_are_answered_in_order_as_alone(image_stage, threads):
    stage = image_stage(**{"trireme.threads": threads})
    files = [encoded(picture(40 + seed, 50, seed=seed), "JPEG") for seed in range(7)]
    together = stage.answer([request(*files[:3]), request(files[3]), request(*files[4:])])
    rows = np.concatenate([answer["pixels"] for answer in together])
    for row, file in zip(rows, files, strict=True):
        assert np.array_equal(row, pixels(stage, file))


def test_a_bad_image_refuses_its_request_and_harms_no_one_else(image_stage):
    good = encoded(picture(40, 40), "PNG")
    first, refused, last = image_stage().answer([request(good), request(good, b"GIF89a", good), request(good)])
    assert str(refused) == "input 'image', item 1: 6 bytes that are not a JPEG, PNG or WebP file"
    assert refused.reason == "format"
    assert np.array_equal(first["pixels"], last["pixels"])


def test_an_empty_batch_is_refused(image_stage):
    (answer,) = image_stage().answer([{"image": np.empty((0, 1), np.object_)}])
    assert "at least one item" in str(answer)


def test_a_file_of_too_many_bytes_is_refused(image_stage):
    (answer,) = image_stage(max_bytes="100").answer([request(b"\xff\xd8\xff" + bytes(98))])
    assert str(answer) == "input 'image', item 0: 101 bytes; at most 100 are allowed"


def test_an_image_may_have_as_many_pixels_as_allowed_and_no_more(image_stage):
    stage = image_stage(max_pixels="1200")
    fits, refused = stage.answer([request(encoded(picture(30, 40), "PNG")), request(encoded(picture(1201, 1), "PNG"))])
    assert "pixels" in fits
    assert str(refused) == "input 'image', item 0: 1201 x 1 pixels; at most 1200 are allowed in all"
    assert refused.reason == "too_large"


@pytest.mark.parametrize(
    "parameters",
    [
        {"dtype": "float32"},
        {"dtype": "float32", "mean": "0,0,0"},
        {"dtype": "uint8", "mean": "0,0,0", "std": "1,1,1"},
        {"std": "1,1,1"},
    ],
)
def test_mean_and_std_belong_to_float32(image_stage, parameters):
    with pytest.raises(InvalidParameter, match="'mean' and 'std' are both needed for dtype float32, and only for it"):
        image_stage(**parameters)
