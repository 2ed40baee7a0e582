"""A user's own image checkpoints, exported and served by a real server, answer as the library does for that folder."""

import io

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image, ImageOps
from served import serve
from transformers import AutoModel, AutoModelForImageClassification
from trireme_client import Client
from trireme_export.commands import export
from trireme_export.image_golden import IMAGES
from trireme_server.commands import verify

from .test_own_image import Library, encoded
from .tiny_image_models import write_tiny_image_classifier, write_tiny_image_encoder

pytestmark = pytest.mark.system


def export_entry(folder, repository, *options):
    exported = CliRunner().invoke(export, [str(folder), "--repository", str(repository), *options])
    assert exported.exit_code == 0, exported.output


def test_labels_and_vectors_over_the_server_are_the_librarys(tmp_path):
    repository, classifier, encoder = tmp_path / "repository", tmp_path / "ships", tmp_path / "pictures"
    write_tiny_image_classifier(classifier, "vit")
    write_tiny_image_encoder(encoder, "convnext")
    export_entry(classifier, repository)
    export_entry(encoder, repository, "--normalize")
    files = [encoded(upright(path.read_bytes())) for path in IMAGES]  # no JPEG, which may be decoded at a smaller scale
    with serve(tmp_path, repository=repository) as serving, Client(f"http://{serving.http}") as client:
        check_labels(client.classify_image(files, "ships"), files, classifier)
        check_vectors(client.embed_image(files, "pictures"), files, encoder)
        check_verified(serving, repository)


def upright(file):
    return ImageOps.exif_transpose(Image.open(io.BytesIO(file))).convert("RGB")


def check_labels(answers, files, folder):
    library = Library(folder, AutoModelForImageClassification)
    names = library.model.config.id2label
    logits = library.rows([upright(file) for file in files])
    scores = np.exp(logits - logits.max(axis=1, keepdims=True))
    scores /= scores.sum(axis=1, keepdims=True)
    for answer, own in zip(answers, scores, strict=True):
        best = np.argsort(-own, kind="stable")[:5]
        assert answer.label == names[best[0]]
        np.testing.assert_allclose([label.score for label in answer.labels], own[best], atol=1e-4)


def check_vectors(answers, files, folder):
    library = Library(folder, AutoModel, lambda output: output.pooler_output)
    for answer, vector in zip(answers, library.rows([upright(file) for file in files]), strict=True):
        np.testing.assert_allclose(answer.vector, vector / np.linalg.norm(vector), atol=1e-3)


def check_verified(serving, repository):
    """`trireme verify` finds every golden sample, over both protocols, and every file."""
    addresses = ["--url", serving.http, "--grpc-url", serving.grpc]
    result = CliRunner().invoke(verify, ["--repository", str(repository), *addresses])
    assert result.exit_code == 0, result.output
