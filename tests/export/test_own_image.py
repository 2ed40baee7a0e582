"""A user's own image checkpoint, of every family: what is installed answers as the library does for that folder."""

import io

import numpy as np
import onnx
import pytest
import torch
from google.protobuf import text_format
from PIL import Image, ImageOps
from safetensors.torch import load_file, save_file
from transformers import AutoImageProcessor, AutoModel, AutoModelForImageClassification
from trireme_export.image_golden import IMAGES
from trireme_export.runtimes import installed_runtimes
from trireme_stages.registry import find_stage, load_stage
from trireme_triton.progress import UNHEARD
from tritonclient.grpc import model_config_pb2

from .conftest import run
from .tiny_image_models import LABELS, TINY_IMAGE_FAMILIES, write_tiny_image_classifier, write_tiny_image_encoder

pytestmark = pytest.mark.usefixtures("one_thread")

SLOW = ("mobilenet_v1", "mobilenet_v2", "convnextv2", "deit", "swinv2")  # each has a sister with nearly the same graph
FAMILIES = [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in TINY_IMAGE_FAMILIES]
QUICK = ("vit", "convnext")  # a pooler with weights, one before a norm
ENCODERS = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in TINY_IMAGE_FAMILIES]


def stage(repository, step, name="checkpoint"):
    """A step of the installed entry, loaded as the server loads it."""
    path = repository / f"{name}_{step}"
    config = text_format.Parse((path / "config.pbtxt").read_text(), model_config_pb2.ModelConfig())
    tensors = {
        direction: [
            {"name": each.name, "data_type": model_config_pb2.DataType.Name(each.data_type), "dims": list(each.dims)}
            for each in getattr(config, direction)
        ]
        for direction in ("input", "output")
    }
    parameters = {key: {"string_value": value.string_value} for key, value in config.parameters.items()}
    described = {"max_batch_size": config.max_batch_size, "parameters": parameters, **tensors}
    return load_stage(find_stage(parameters["stage"]["string_value"]), described, path / "1", UNHEARD)


def answers(repository, files, name="checkpoint"):
    """From image files to the pixels, the network's rows and the answer of the installed entry, in every runtime."""
    (given,) = stage(repository, "preprocess", name).answer([{"image": np.array([[file] for file in files], object)}])
    after = stage(repository, "postprocess", name)
    for runtime in installed_runtimes(network(repository, name)):
        rows = runtime.run(given)
        tensor = "logits" if (repository / f"{name}_postprocess/1/labels.json").exists() else "embedding"
        (answer,) = after.answer([{tensor: rows}])
        yield given["pixels"], rows, answer


def network(repository, name="checkpoint"):
    return repository / f"{name}_network" / "1" / "model.onnx"


def photographs():
    """Photographs: whole, cut to other shapes, and grey; and the same as PNG files."""
    with Image.open(IMAGES[0]) as opened:
        image = opened.convert("RGB")
    shapes = [image, image.crop((0, 0, 130, 101)), image.crop((40, 20, 91, 300)), image.convert("L").convert("RGB")]
    return shapes, [encoded(each) for each in shapes]


def encoded(image, format_name="PNG", **options):
    file = io.BytesIO()
    image.save(file, format_name, **options)
    return file.getvalue()


class Library:
    """What transformers makes of images: its image processor for this folder, on Pillow, and its model."""

    def __init__(self, folder, kind=AutoModelForImageClassification, take=lambda output: output.logits):
        self.processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
        self.model, self.take = kind.from_pretrained(folder).eval(), take

    def values(self, image, **options):
        return self.processor(image, return_tensors="pt", **options).pixel_values

    def rows(self, images, **options):
        with torch.inference_mode():
            return np.concatenate([self.take(self.model(self.values(each, **options))).numpy() for each in images])

    def check_pixels(self, images, pixels):
        """Those of our stage become the library's values, but for rounding: two levels of a byte at most, hardly any.

        An image that is hardly larger than it is resized to is filtered in another order, which rounds otherwise.
        """
        black, white = (self.values(Image.new("RGB", (99, 99), colour)) for colour in ("black", "white"))
        for image, own in zip(images, pixels, strict=True):
            values = self.values(Image.fromarray(own), do_resize=False, do_center_crop=False)
            levels = ((values - self.values(image)) * 255 / (white - black)).abs()
            assert levels.max() < 2.01
            assert levels.mean() < (0.01 if min(image.size) > 2 * len(own) else 0.2)


def check_answers(repository, library, name="checkpoint"):
    """Pixels, then what the network makes of those pixels, then the answer to the photograph itself."""
    images, files = photographs()
    for pixels, rows, answer in answers(repository, files, name):
        library.check_pixels(images, pixels)
        of_pixels = [Image.fromarray(own) for own in pixels]
        expected = library.rows(of_pixels, do_resize=False, do_center_crop=False)
        assert np.abs(expected[0] - expected[1]).max() > 0.01, "it tells images apart, or nothing is tested"
        np.testing.assert_allclose(rows, expected, atol=1e-4 * np.abs(expected).max())
        yield library.rows(images[:1])[0], answer


@pytest.mark.parametrize("family", FAMILIES)
def test_a_classifier_gives_the_librarys_logits_and_labels(family, folder, repository):
    write_tiny_image_classifier(folder, family)
    run(folder, "--repository", repository)
    for logits, answer in check_answers(repository, Library(folder)):
        best = np.argsort(-logits, kind="stable")[:5]
        scores = torch.from_numpy(logits).softmax(dim=0).numpy()
        np.testing.assert_allclose(answer["score"][0], scores[best], atol=0.01)
        assert answer["label"][0, 0].decode() == LABELS[best[0]]


@pytest.mark.parametrize("family", ENCODERS)
def test_a_bare_encoder_gives_the_librarys_pooled_output(family, folder, repository):
    write_tiny_image_encoder(folder, family)
    said = run(folder, "--repository", repository)
    assert "numbers, pooler_output" in said
    assert "normalise: no (--normalize gives vectors of length 1)" in said
    library = Library(folder, AutoModel, lambda output: output.pooler_output.flatten(1))
    for vector, answer in check_answers(repository, library):
        assert answer["embedding"].shape[1:] == vector.shape
        np.testing.assert_allclose(answer["embedding"][0], vector, atol=0.02 * np.abs(vector).max())


def without_pooler(output):
    return output.last_hidden_state[:, 0]


@pytest.mark.parametrize(
    ("family", "take"),
    [
        ("vit", without_pooler),
        pytest.param("deit-with-teacher", without_pooler, marks=pytest.mark.slow),
        ("mobilenet_v2", lambda output: output.pooler_output),
    ],
)
def test_a_classifier_without_its_head_gives_vectors(family, take, folder, repository):
    write_tiny_image_classifier(folder, family)
    said = run(folder, "--repository", repository, "--task", "image-embedding", "--normalize")
    assert "the classifier's head is dropped" in said
    assert "normalise: to length 1, as --normalize says" in said
    library = Library(folder, AutoModelForImageClassification, take)
    library.model = library.model.base_model
    for vector, answer in check_answers(repository, library):
        np.testing.assert_allclose(answer["embedding"][0], vector / np.linalg.norm(vector), atol=0.02)
        np.testing.assert_allclose(np.linalg.norm(answer["embedding"], axis=1), 1, atol=1e-5)


def test_an_encoder_without_pooler_gives_its_first_token(folder, repository):
    write_tiny_image_encoder(folder, "vit")
    path = folder / "model.safetensors"
    save_file({name: tensor for name, tensor in load_file(path).items() if "pooler" not in name}, path)
    said = run(folder, "--repository", repository, "--dry-run")
    assert "vector: 32 numbers, the first token of last_hidden_state" in said
    assert not repository.exists()


def test_tensors_of_older_versions_are_understood(folder, repository):
    """What the library computes by itself now, and the name of the encoder before those of its tensors."""
    write_tiny_image_encoder(folder, "swin")
    path = folder / "model.safetensors"
    tensors = {f"swin.{name}": tensor for name, tensor in load_file(path).items()}
    index = "swin.encoder.layers.0.blocks.0.attention.self.relative_position_index"
    save_file(tensors | {index: torch.zeros(9, 9, dtype=torch.int64)}, path)
    assert "numbers, pooler_output" in run(folder, "--repository", repository, "--dry-run")


IMAGES_OF_ANY_KIND = {
    "one pixel": lambda photo: encoded(photo.crop((50, 50, 51, 51))),
    "a line": lambda photo: encoded(photo.crop((0, 50, 280, 51))),
    "grey": lambda photo: encoded(photo.convert("L")),
    "16 bits of grey": lambda photo: encoded(Image.fromarray(np.asarray(photo.convert("L")).astype(np.uint16) * 257)),
    "a palette": lambda photo: encoded(photo.quantize(50)),
    "black and white": lambda photo: encoded(photo.convert("1")),
    "CMYK": lambda photo: encoded(photo.convert("CMYK"), "JPEG", quality=95),
    "turned": lambda photo: encoded(photo, "JPEG", quality=95, exif=turned()),
    "WebP": lambda photo: encoded(photo, "WEBP"),
}


def turned():
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


@pytest.fixture(scope="module")
def square_and_shorter_side(tmp_path_factory):
    """Two repositories: of a family that stretches images and of one that cuts out their centre."""
    found = {}
    for family in ("vit", "resnet"):
        folder = tmp_path_factory.mktemp(family) / "checkpoint"
        write_tiny_image_classifier(folder, family)
        run(folder, "--repository", folder.parent / "repository")
        found[family] = (Library(folder), folder.parent / "repository")
    return found


@pytest.mark.parametrize("kind", IMAGES_OF_ANY_KIND)
@pytest.mark.parametrize("family", ["vit", "resnet"])
def test_images_of_any_kind_become_the_librarys_pixels(square_and_shorter_side, family, kind):
    library, repository = square_and_shorter_side[family]
    with Image.open(IMAGES[0]) as photo:
        file = IMAGES_OF_ANY_KIND[kind](photo.convert("RGB"))
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(file)))
    if image.mode.startswith("I"):  # Pillow clips 16 bits to 8 instead of scaling them
        image = photo.convert("L")
    (answer,) = stage(repository, "preprocess").answer([{"image": np.array([[file]], object)}])
    library.check_pixels([image.convert("RGB")], answer["pixels"])


def test_transparency_is_laid_over_white_where_the_library_drops_it(square_and_shorter_side):
    library, repository = square_and_shorter_side["vit"]
    with Image.open(IMAGES[0]) as photo:
        image = photo.convert("RGBA")
    image.putalpha(Image.linear_gradient("L").resize(image.size))
    white = Image.new("RGBA", image.size, "white")
    white.alpha_composite(image)
    (answer,) = stage(repository, "preprocess").answer([{"image": np.array([[encoded(image)]], object)}])
    library.check_pixels([white.convert("RGB")], answer["pixels"])


def test_a_dry_run_says_what_was_found_and_writes_nothing(folder, repository):
    write_tiny_image_classifier(folder, "resnet")
    said = run(folder, "--repository", repository, "--dry-run")
    for line in (
        "architecture: ResNetForImageClassification",
        "task: image-classification",
        "labels: cat, dog, oar, trireme, sail, crane, crane (softmax: one of them; classes share crane)",
        "image: the shorter side to 54 pixels (bicubic), the centre of 48 x 48",
        "network: fp32, as onnx for the backend onnxruntime",
        "would write checkpoint_postprocess/1/labels.json",
    ):
        assert line in said
    assert not repository.exists()


def test_labels_that_do_not_exclude_each_other_get_the_sigmoid(folder, repository):
    write_tiny_image_classifier(folder, "vit", problem_type="multi_label_classification")
    run(folder, "--repository", repository)
    library = Library(folder)
    for logits, answer in check_answers(repository, library):
        expected = np.sort(1 / (1 + np.exp(-logits)))[::-1][:5]
        np.testing.assert_allclose(answer["score"][0], expected, atol=0.01)


def test_two_labels_are_answered_with_two(folder, repository):
    write_tiny_image_classifier(folder, "vit", labels=("LABEL_0", "LABEL_1"))
    said = run(folder, "--repository", repository)
    assert "config.json gives them no other names" in said
    for _, answer in check_answers(repository, Library(folder)):
        assert sorted(answer["label"][0]) == [b"LABEL_0", b"LABEL_1"]


def test_the_graph_loads_in_old_runtimes_for_any_batch(square_and_shorter_side):
    _, repository = square_and_shorter_side["vit"]
    model = onnx.load(network(repository))
    assert model.opset_import[0].version <= 21
    assert model.ir_version <= 10
    assert {node.domain for node in model.graph.node} == {""}
    (output,) = model.graph.output
    assert [dim.dim_param or dim.dim_value for dim in output.type.tensor_type.shape.dim] == ["batch", len(LABELS)]
