"""Compiled networks of other kinds: encoders and image classifiers over the real server, and every family's parity."""

import numpy as np
import pytest
from served import over_http, serve
from transformers import AutoTokenizer
from trireme_client import Client
from trireme_export.image_golden import IMAGES

from .conftest import run
from .test_own_text import library_hidden
from .test_served_own_image import check_labels, check_verified, encoded, upright
from .test_served_own_text import TEXTS
from .tiny_image_models import TINY_IMAGE_FAMILIES, write_tiny_image_classifier
from .tiny_models import TINY_FAMILIES, write_sentence_layout, write_tiny_encoder

pytestmark = pytest.mark.slow  # the compiler takes 20 s or more for each


@pytest.mark.system
def test_vectors_and_labels_over_the_server_are_the_librarys(tmp_path):
    repository, encoder, classifier = tmp_path / "repository", tmp_path / "texts", tmp_path / "ships"
    write_tiny_encoder(encoder, "roberta")
    write_sentence_layout(encoder, "mean", "Normalize")
    write_tiny_image_classifier(classifier, "vit")
    for folder in (encoder, classifier):
        run(folder, "--to", "aoti", "--repository", repository)
    files = [encoded(upright(path.read_bytes())) for path in IMAGES]
    with serve(tmp_path, repository=repository) as serving, Client(f"http://{serving.http}") as client:
        check_vectors(over_http(serving, "texts", "text", [text.encode() for text in TEXTS]), encoder)
        check_labels(client.classify_image(files, "ships"), files, classifier)
        check_verified(serving, repository)


def check_vectors(answer, folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for vector, text in zip(answer["embedding"], TEXTS, strict=True):
        mean = library_hidden(folder, tokenizer(text)["input_ids"]).mean(dim=0).numpy()
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-4)


@pytest.mark.parametrize("family", TINY_FAMILIES)
def test_every_text_family_is_compiled_and_agrees_with_its_original(family, folder, repository):
    write_tiny_encoder(folder, family)
    asked = ("--task", "sentence-embedding", "--pooling", "cls")
    assert "cases on aoti" in run(folder, "--to", "aoti", *asked, "--repository", repository)


@pytest.mark.parametrize("family", TINY_IMAGE_FAMILIES)
def test_every_image_family_is_compiled_and_agrees_with_its_original(family, folder, repository):
    write_tiny_image_classifier(folder, family)
    assert "cases on aoti" in run(folder, "--to", "aoti", "--repository", repository)
