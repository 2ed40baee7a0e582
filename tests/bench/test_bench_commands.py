"""`trireme bench` against a real server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from standin_server import StandinServer, standin_server
from trireme_bench.commands import bench

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandinServer]:
    with standin_server(tmp_path_factory.mktemp("triton"), models=("guard", "vision")) as running:
        yield running


def encode(server: StandinServer, *arguments: str) -> Result:
    quickly = ["--warm-up", "0.1", "--duration", "0.3", "--repetitions", "2", "--model", "guard"]
    url = server.grpc if "grpc" in arguments else server.http
    return CliRunner().invoke(bench, ["encode", "--url", url, *quickly, *arguments])


@pytest.mark.parametrize("encoding", ["json", "binary", "grpc"])
def test_every_encoding_gives_figures_without_errors(server: StandinServer, encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    result = encode(
        server,
        "--encoding",
        encoding,
        "--workload",
        "16",
        "--workload",
        "mix",
        "--concurrency",
        "1,4",
        "--json",
        str(file),
    )
    assert result.exit_code == 0, result.output
    document = json.loads(file.read_text())
    assert document["encoding"] == encoding
    assert len(document["runs"]) == 8
    rows = document["summaries"]
    assert [(row["workload"], row["concurrency"]) for row in rows] == [("16", 1), ("16", 4), ("mix", 1), ("mix", 4)]
    for row in rows:
        assert row["errors"] == row["labels_differ"] == 0
        assert row["lowest"] <= row["per_second"] <= row["highest"]
        assert 0 < row["p50_s"] <= row["p90_s"] <= row["p99_s"]
        assert 0 < row["server_cpu"] <= 1
        assert row["least_cosine"] > 0.99999


def test_an_open_loop_keeps_to_its_rate(server: StandinServer, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    result = encode(
        server, "--rate", "50", "--workload", "16", "--duration", "2", "--repetitions", "1", "--json", str(file)
    )
    assert result.exit_code == 0, result.output
    (row,) = json.loads(file.read_text())["summaries"]
    assert row["rate"] == 50
    assert row["per_second"] == pytest.approx(50, abs=25)  # 100 expected in all, standard deviation 10


def test_a_plot_is_a_png(server: StandinServer, tmp_path: Path) -> None:
    file = tmp_path / "plot.png"
    result = encode(server, "--workload", "16", "--concurrency", "1,2", "--plot", str(file))
    assert result.exit_code == 0, result.output
    assert file.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_images_go_to_the_model_of_images_and_texts_to_the_other(server: StandinServer, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    arguments = [
        "--model",
        "vision",
        "--workload",
        "16",
        "--workload",
        "32x24",
        "--concurrency",
        "2",
        "--json",
        str(file),
    ]
    result = encode(server, *arguments)
    assert result.exit_code == 0, result.output
    pairs = [(row["model"], row["workload"]) for row in json.loads(file.read_text())["summaries"]]
    assert pairs == [("guard", "16"), ("vision", "32x24")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workload", "many"], "mix or a number"),
        (["--workload", "32x24"], "none of the workloads 32x24 is for the model 'guard'"),
        (["--concurrency", "1,none"], "not a list of positive numbers"),
        (["--rate", "0"], "not a list of positive numbers"),
        (["--url", "ftp://host"], "unknown protocol"),
    ],
)
def test_wrong_usage_is_explained(server: StandinServer, arguments: list[str], message: str) -> None:
    result = encode(server, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_a_soak_counts_every_request_and_watches_every_process(server: StandinServer, tmp_path: Path) -> None:
    file = tmp_path / "soak.json"
    models = ["--model", "guard", "--model", "vision", "--workload", "mix", "--workload", "32x24"]
    size = ["--requests", "3000", "--clients", "16"]
    result = CliRunner().invoke(bench, ["soak", "--url", server.http, *models, *size, "--json", str(file)])
    assert result.exit_code == 0, result.output
    document = json.loads(file.read_text())
    assert (document["requests"], document["failed"]) == (3000, [])
    assert "3000 answered" in result.output


def test_a_soak_with_failures_ends_with_status_1(server: StandinServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trireme_bench.encode.texts", lambda *_: ["refuse this"] * 4)
    arguments = [
        "soak",
        "--url",
        server.http,
        "--model",
        "guard",
        "--workload",
        "mix",
        "--requests",
        "4",
        "--clients",
        "2",
    ]
    result = CliRunner().invoke(bench, arguments)
    assert result.exit_code == 1
    assert "4 requests failed, the first with:" in result.output
    assert "refused as asked" in result.output
