"""Versions of a user's own classifier through a real server: exchanged under load, rolled back, and after a kill."""

import json
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
from click.testing import CliRunner
from served import Refused, over_grpc, over_http, request, serve
from trireme_export.commands import export
from trireme_export.rollback import roll_back
from trireme_export.versions import read_versions

from .conftest import PROJECT
from .tiny_models import LABELS, write_tiny_classifier

pytestmark = pytest.mark.system

TEXT = b"the three banks of oars moved as one"
OTHER_LABELS = ("low", "high")

EXPORT = """
import sys
sys.path[:0] = [sys.argv[1] + "/export"]
from trireme_export.commands import export
export([sys.argv[2], "--name", "own", "--repository", sys.argv[3]])
"""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoint") / "own"


@pytest.fixture(scope="module")
def first_version(checkpoint, tmp_path_factory):
    """A repository; of the checkpoint there is another one by now, with another number of labels.

    So the configs of three of the four models differ.
    """
    repository = tmp_path_factory.mktemp("first") / "repository"
    write_tiny_classifier(checkpoint, "bert")
    add_version(checkpoint, repository)
    shutil.rmtree(checkpoint)
    write_tiny_classifier(checkpoint, "bert", OTHER_LABELS)
    return repository


@pytest.fixture
def repository(first_version, tmp_path):
    """Version 1, to be changed by the test."""
    shutil.copytree(first_version, tmp_path / "repository", symlinks=True)
    return tmp_path / "repository"


def add_version(checkpoint, repository):
    exported = CliRunner().invoke(export, [str(checkpoint), "--name", "own", "--repository", str(repository)])
    assert exported.exit_code == 0, exported.output


def ask(serving, transport):
    """The labels and the number of scores of an answer, or the error."""
    try:
        answer = transport(serving, "own", "text", [TEXT])
    except Refused as error:
        return str(error)
    return answer["label"].item().decode(), len(answer["scores"][0])


def wait_for_version(serving, version, timeout_s=120):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if json.loads(request(f"http://{serving.health}/status")[1])["versions"]["own"] == version:
            return
        time.sleep(0.2)
    pytest.fail(f"version {version} did not come into service:\n{serving.log.read_text()[-4000:]}")


def test_an_export_and_a_rollback_reach_a_running_server_and_no_request_is_lost(checkpoint, repository, tmp_path):
    answers, ended = Counter(), threading.Event()

    def call(transport):
        while not ended.is_set():
            answers[ask(serving, transport)] += 1

    with serve(tmp_path, repository=repository) as serving:
        threads = [threading.Thread(target=call, args=[transport]) for transport in (over_http, over_grpc) * 4]
        for thread in threads:
            thread.start()
        try:
            add_version(checkpoint, repository)
            wait_for_version(serving, 2)
            assert ask(serving, over_http)[1] == len(OTHER_LABELS)
            assert roll_back(repository, "own", None) == (2, 1)
            wait_for_version(serving, 1)
            assert ask(serving, over_grpc)[1] == len(LABELS)
        finally:
            ended.set()
            for thread in threads:
                thread.join(60)
        log = serving.log.read_text()
    of_versions = {(label, len(labels)) for labels in (LABELS, OTHER_LABELS) for label in labels}
    assert set(answers) <= of_versions, (answers, log[-4000:])
    assert {count for _, count in answers} == {len(LABELS), len(OTHER_LABELS)}


@pytest.mark.parametrize("attempt", [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 5))])
def test_after_a_kill_while_a_version_is_installed_a_server_answers_as_before_or_as_after(
    checkpoint, repository, tmp_path, attempt
):
    command = [sys.executable, "-u", "-c", EXPORT, str(PROJECT), str(checkpoint), str(repository)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as exporting:
        for line in exporting.stdout:
            if "golden samples" in line:
                break
        time.sleep(random.uniform(0, 0.05))
        exporting.send_signal(signal.SIGKILL)
    version = read_versions(repository, "own").active
    with serve(tmp_path, repository=repository) as serving:
        label, count = ask(serving, over_http)
    labels = {1: LABELS, 2: OTHER_LABELS}[version]
    assert label in labels
    assert count == len(labels)
