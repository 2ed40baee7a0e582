"""A user's own token classifier, exported and served by a real server, finds what the library's pipeline finds."""

import json

import pytest
from click.testing import CliRunner
from served import Refused, over_grpc, over_http, over_json, serve
from trireme_client import Client, Entity
from trireme_export.commands import export
from trireme_server.commands import verify

from .library_entities import LibraryEntities
from .test_own_entities import LONG, TEXTS, check_entities, window_of
from .tiny_models import write_tiny_token_classifier

pytestmark = pytest.mark.system


def answer_all(serving, transport, texts):
    return transport(serving, "checkpoint", "text", [text.encode() for text in texts])


@pytest.mark.parametrize("family", ["bert", pytest.param("roberta", marks=pytest.mark.slow)])
def test_entities_are_those_of_the_librarys_pipeline_alone_and_in_company(tmp_path, family):
    repository = tmp_path / "repository"
    write_tiny_token_classifier(tmp_path / "checkpoint", family)
    exported = CliRunner().invoke(export, [str(tmp_path / "checkpoint"), "--repository", str(repository)])
    assert exported.exit_code == 0, exported.output
    library, window = LibraryEntities(tmp_path / "checkpoint"), list(window_of(repository))
    texts = [*TEXTS, LONG, "x" * 100_000]
    expected = [library.entities(text, *window) for text in texts[:-1]]
    with serve(tmp_path, repository=repository) as serving:
        together = answer_all(serving, over_http, texts[:-1])
        for text, found, windows, entities in zip(
            texts, together["entities"], together["windows"], expected, strict=False
        ):
            check_entities(json.loads(found.item()), entities)
            assert windows.item() == len(library.windows(text, *window))
            for transport in (over_grpc, over_json):
                alone = answer_all(serving, transport, [text])
                check_entities(json.loads(alone["entities"].item()), entities)
        with pytest.raises(Refused, match="input 'text', item 1: the text has"):
            answer_all(serving, over_http, ["fine", "a " * 100_000])
        addresses = ["--url", serving.http, "--grpc-url", serving.grpc]
        verified = CliRunner().invoke(verify, ["--repository", str(repository), *addresses])
        assert verified.exit_code == 0, verified.output
        with Client(f"http://{serving.http}") as client:
            results = client.extract(texts[:-1], model="checkpoint")
        assert [[Entity(**entity) for entity in json.loads(row.item())] for row in together["entities"]] == [
            list(result.entities) for result in results
        ]
