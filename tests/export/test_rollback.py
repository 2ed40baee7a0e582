"""Back to an older version and forward again, and what is refused."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner
from trireme_export.errors import InstallFailed, VersionRefused
from trireme_export.install import staging_folder
from trireme_export.installed import rolled_back_from
from trireme_export.rollback import report_versions, roll_back
from trireme_export.version_commands import rollback, versions

from .test_install import check_whole, put, put_old


@pytest.fixture
def repository(tmp_path):
    """Versions 1, 2 and 3, the last in service."""
    for _ in range(3):
        put(tmp_path)
    return tmp_path


def test_it_goes_to_the_newest_of_the_older_versions_or_where_it_is_told(repository):
    for to, expected in ((None, (3, 2)), (None, (2, 1)), (3, (1, 3)), (3, (3, 3))):
        assert roll_back(repository, "tiny", to) == expected
        check_whole(repository, expected[1])


@pytest.mark.parametrize(
    ("entry", "to", "said"),
    [
        ("tiny", 4, "tiny has no version 4; --to takes 1, 2"),
        ("tin", None, "no exported entry 'tin'; its entries: tiny"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(repository, entry, to, said):
    with pytest.raises(VersionRefused, match=said):
        roll_back(repository, entry, to)


def test_the_only_version_has_none_before_it(tmp_path):
    put_old(tmp_path)
    with pytest.raises(VersionRefused, match="tiny has no version older than 1; export it again with --force"):
        roll_back(tmp_path, "tiny", None)


def test_a_version_that_is_not_as_it_was_exported_stays_out_of_service(repository):
    (repository / "tiny_network/2/model.onnx").write_text("2" * 99_999 + "x")
    with pytest.raises(
        VersionRefused, match=r"version 2 of tiny stays out .* tiny_network/2/model\.onnx is missing or"
    ):
        roll_back(repository, "tiny", None)
    check_whole(repository, 3)
    assert [each.fault for each in report_versions(repository, "tiny")][1].startswith("tiny_network/2/model.onnx")


@pytest.mark.parametrize("change", [{"models": ["tiny"]}, {"artifacts": {}}])
def test_a_version_whose_manifest_leaves_something_out_stays_out_of_service(repository, change):
    file = repository / "tiny_network/2/manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(VersionRefused, match=r"version 2 of tiny stays out .* manifest"):
        roll_back(repository, "tiny", None)
    check_whole(repository, 3)


@pytest.mark.parametrize("model", ["tiny", "tiny_network"])
def test_a_version_without_one_of_its_configs_stays_out_of_service(repository, model):
    (repository / f"tiny/2/{model}.pbtxt").unlink()
    with pytest.raises(VersionRefused, match=rf"version 2 of tiny stays out .* tiny/2/{model}\.pbtxt is missing"):
        roll_back(repository, "tiny", None)
    check_whole(repository, 3)


def test_what_was_rolled_back_is_named_only_if_it_is_intact_and_so_is_the_version_in_service(repository):
    roll_back(repository, "tiny", None)
    assert rolled_back_from(repository, "tiny", "r") == 3
    (repository / "tiny_network/3/model.onnx").write_text("x")
    assert rolled_back_from(repository, "tiny", "r") is None
    roll_back(repository, "tiny", None)
    assert rolled_back_from(repository, "tiny", "r") == 2
    (repository / "tiny_network/1/model.onnx").write_text("x")
    assert rolled_back_from(repository, "tiny", "r") is None


def test_it_waits_for_no_export_that_runs(repository):
    with staging_folder(repository), pytest.raises(InstallFailed, match="another export"):
        roll_back(repository, "tiny", None)
    check_whole(repository, 3)


def test_the_commands_say_what_is_in_service(repository):
    where = ["tiny", "--repository", str(repository)]
    assert CliRunner().invoke(rollback, where).output == "tiny: version 2 is in service instead of version 3\n"
    listed = [json.loads(line) for line in CliRunner().invoke(versions, [*where, "--json"]).output.splitlines()]
    assert [(each["version"], each["is_active"], each["fault"]) for each in listed] == [
        (3, False, None),
        (2, True, None),
        (1, False, None),
    ]


def test_a_config_that_is_no_text_names_no_version(repository):
    config = repository / "tiny" / "config.pbtxt"
    config.unlink()
    config.write_bytes(b"\xff\xfe")
    assert CliRunner().invoke(versions, ["tiny", "--repository", str(repository)]).exit_code == 0


def test_a_refusal_is_a_line_and_an_exit_code(repository):
    arguments = ["rollback", "tiny", "--to", "9", "--repository", str(repository)]
    command = [sys.executable, "-c", "from trireme_client.cli import main; main()", *arguments]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 7
    assert refused.stderr == "Error: tiny has no version 9; --to takes 1, 2\n"
