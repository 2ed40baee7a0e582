"""A user's own reranker, exported and served by a real server, scores as the library's cross-encoder does."""

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from click.testing import CliRunner
from served import serve
from trireme_client import Client, InvalidInput
from trireme_export.commands import export
from trireme_server.commands import verify

from .test_own_entities import window_of
from .test_own_rerankers import QUERY, TEXTS, CrossEncoder, write_layout_6, write_reranker

pytestmark = pytest.mark.system


def scores(module, address, query, texts):
    """Scores and windows of one request, over tritonclient."""
    inputs = []
    for name, column in (("query", [query] * len(texts)), ("text", texts)):
        inputs.append(module.InferInput(name, [len(texts), 1], "BYTES"))
        inputs[-1].set_data_from_numpy(np.array([[item.encode()] for item in column], object))
    with module.InferenceServerClient(address) as client:
        result = client.infer("checkpoint", inputs)
    return result.as_numpy("score")[:, 0], result.as_numpy("windows")[:, 0].tolist()


@pytest.mark.parametrize("family", ["bert", pytest.param("roberta", marks=pytest.mark.slow)])
def test_scores_are_those_of_the_library_alone_and_in_company(tmp_path, family):
    repository = tmp_path / "repository"
    write_reranker(tmp_path / "checkpoint", family)
    write_layout_6(tmp_path / "checkpoint")
    exported = CliRunner().invoke(export, [str(tmp_path / "checkpoint"), "--repository", str(repository)])
    assert exported.exit_code == 0, exported.output
    library, window = CrossEncoder(tmp_path / "checkpoint"), list(window_of(repository))
    logits = [library.logits(QUERY, text, *window) for text in TEXTS]
    expected, windows = [1 / (1 + np.exp(-max(own))) for own in logits], [len(own) for own in logits]
    with serve(tmp_path, repository=repository) as serving:
        for module, address in ((tritonclient.http, serving.http), (tritonclient.grpc, serving.grpc)):
            together = scores(module, address, QUERY, TEXTS)
            alone = [scores(module, address, QUERY, [text]) for text in TEXTS]
            np.testing.assert_allclose(together[0], expected, atol=1e-4)
            np.testing.assert_allclose([score.item() for score, _ in alone], expected, atol=1e-4)
            assert together[1] == windows == [own for _, (own,) in alone]
        addresses = ["--url", serving.http, "--grpc-url", serving.grpc]
        verified = CliRunner().invoke(verify, ["--repository", str(repository), *addresses])
        assert verified.exit_code == 0, verified.output
        with Client(f"grpc://{serving.grpc}") as client:
            ranked = client.rerank(QUERY, TEXTS, model="checkpoint")
            with pytest.raises(InvalidInput, match=r"input 'query', item 0: .* tokens; at most"):
                client.rerank("row " * 60, ["a text"], model="checkpoint")
    assert [one.index for one in ranked] == np.argsort(-np.array(expected), kind="stable").tolist()
    assert [one.windows for one in ranked] == [windows[one.index] for one in ranked]
