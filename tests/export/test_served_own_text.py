"""A user's own checkpoint, exported and served by a real server, answers as the library's pipeline does."""

import numpy as np
import pytest
from click.testing import CliRunner
from served import over_http, serve
from transformers import pipeline
from trireme_export.commands import export

from .tiny_models import write_tiny_classifier

pytestmark = pytest.mark.system

TEXTS = ("the three banks of oars moved as one", "rowing at dawn", "", "An ancient row: [PAD] [MASK] 三段櫂船 🚣")


@pytest.mark.parametrize(
    "families",
    [("bert",), pytest.param(("roberta", "mpnet", "deberta-v3", "modernbert"), marks=pytest.mark.slow)],
    ids=["bert", "others"],
)
def test_labels_and_scores_are_those_of_the_librarys_pipeline(tmp_path, families):
    repository = tmp_path / "repository"
    for family in families:
        write_tiny_classifier(tmp_path / family, family)
        exported = CliRunner().invoke(export, [str(tmp_path / family), "--repository", str(repository)])
        assert exported.exit_code == 0, exported.output
    with serve(tmp_path, repository=repository) as serving:
        for family in families:
            answer = over_http(serving, family, "text", [text.encode() for text in TEXTS])
            check_answer(answer, pipeline("text-classification", model=str(tmp_path / family), top_k=None))


def check_answer(answer, classify):
    """`answer` is to all TEXTS; `classify` gives a text's labels with their scores, the best first."""
    order = {label: index for index, label in classify.model.config.id2label.items()}
    for index, text in enumerate(TEXTS):
        ranked = classify([text])[0]
        assert answer["label"][index, 0].decode() == ranked[0]["label"]
        assert answer["score"][index, 0] == pytest.approx(ranked[0]["score"], abs=1e-4)
        scores = {order[given["label"]]: given["score"] for given in ranked}
        np.testing.assert_allclose(answer["scores"][index], [scores[own] for own in range(len(order))], atol=1e-4)
