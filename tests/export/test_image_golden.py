"""Golden samples of images: the library's answers, within bounds that what is installed keeps for files of any kind."""

import base64
import io
import json

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from trireme_export.image_golden import IMAGES, MAX_SCORE_DIFFERENCE, MIN_COSINE
from trireme_export.installed import manifest_path
from trireme_server.golden import judge
from trireme_server.manifest import Tensor, read_manifest

from .conftest import run
from .test_own_image import Library, answers
from .tiny_image_models import write_tiny_image_classifier, write_tiny_image_encoder


def small_processor(folder, **size):
    """Far smaller than the photographs: the larger ones are decoded at half scale."""
    path = folder / "preprocessor_config.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"size": size}))


def golden_of(repository):
    return json.loads(manifest_path(repository, "checkpoint").read_bytes())["golden"]


def file_of(sample):
    return base64.b64decode(sample["inputs"][0]["data_base64"][0])


def check_golden(repository):
    """What is installed answers each sample within its checks, in every runtime."""
    samples = read_manifest(manifest_path(repository, "checkpoint")).golden
    files = [sample.inputs[0].values[0] for sample in samples]
    assert [Image.open(io.BytesIO(file)).format for file in files] == ["PNG"] * 3 + ["JPEG"]
    for file, sample in zip(files, samples, strict=True):
        for _, _, answer in answers(repository, [file]):
            comparisons = judge(sample, {name: given(name, array) for name, array in answer.items()})
            assert [each.fault for each in comparisons] == [None] * len(sample.outputs)


def given(name, array):
    return Tensor(name, "BYTES" if array.dtype == object else "FP32", array.shape, tuple(array.reshape(-1).tolist()))


def sharpen(folder):
    """Of the photograph that becomes a JPEG sample all labels are as likely, and small changes of its pixels decide."""
    with Image.open(IMAGES[-1]) as image:
        (logits,) = Library(folder).rows([image.convert("RGB")])
    path, weight, bias = folder / "model.safetensors", "classifier.1.weight", "classifier.1.bias"
    tensors = load_file(path)
    save_file(tensors | {weight: tensors[weight] * 20, bias: (tensors[bias] - torch.from_numpy(logits)) * 20 + 3}, path)


def test_a_photograph_decoded_at_half_scale_is_within_its_bound(folder, repository):
    write_tiny_image_classifier(folder, "resnet")
    small_processor(folder, shortest_edge=32)
    sharpen(folder)
    run(folder, "--repository", repository)
    check_golden(repository)
    *exact, photograph = golden_of(repository)
    for sample in exact:
        (score,) = (output for output in sample["outputs"] if output["name"] == "score")
        assert score["check"] == {"max_abs": MAX_SCORE_DIFFERENCE}
    assert any(output["name"] == "label" for sample in exact for output in sample["outputs"])
    (score,) = photograph["outputs"]  # no labels
    assert MAX_SCORE_DIFFERENCE < score["check"]["max_abs"] < 0.5


@pytest.mark.parametrize("options", [(), ("--normalize",)])
def test_the_vector_of_a_photograph_is_within_its_bound(options, folder, repository):
    write_tiny_image_encoder(folder, "resnet")
    small_processor(folder, shortest_edge=32)
    run(folder, "--repository", repository, *options)
    check_golden(repository)
    *exact, _ = golden_of(repository)
    assert all(sample["outputs"][0]["check"] == {"min_cosine": MIN_COSINE} for sample in exact)


def test_golden_samples_are_the_librarys_answers(folder, repository):
    """Of the PNG files to the last level of a byte: the library and the stage resize nothing."""
    write_tiny_image_classifier(folder, "resnet")
    run(folder, "--repository", repository)
    library = Library(folder)
    for sample in golden_of(repository):
        with Image.open(io.BytesIO(file_of(sample))) as image:
            values = library.values(image.convert("RGB"))
        with torch.inference_mode():
            expected = library.model(values).logits[0].softmax(dim=0).sort(descending=True).values[:5]
        (scores,) = (output["data"] for output in sample["outputs"] if output["name"] == "score")
        np.testing.assert_allclose(scores, expected, atol=1e-5)
        if image.format == "PNG":
            ((pixels, _, _), *_) = answers(repository, [file_of(sample)])
            own = library.values(Image.fromarray(pixels[0]), do_resize=False, do_center_crop=False)
            assert torch.equal(own, values)
