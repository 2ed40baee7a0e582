"""Who may import whom, where Python may be, and how long things are."""

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    path.name: path
    for pattern in ("client/trireme_*", "server/trireme_*", "export/trireme_*", "backends/*/trireme_*")
    for path in ROOT.glob(pattern)
    if path.is_dir() and not path.is_symlink()
}
# Backends are deployed by copying a folder: what they share travels with each of them as a symlink.
ALLOWED = {
    "trireme_bench": {"trireme_client"},
    "trireme_stages": {"trireme_triton"},
    "trireme_network": {"trireme_triton"},
}


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module


def sources(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


def shipped_sources() -> list[Path]:
    return [file for package in PACKAGES.values() for file in sources(package)] + sorted(
        ROOT.glob("backends/*/model.py")
    )


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_a_package_imports_only_the_packages_it_may(package: str) -> None:
    allowed = ALLOWED.get(package, set()) | {package}
    for file in sources(PACKAGES[package]):
        for module in imported(ast.parse(file.read_text())):
            top = module.split(".")[0]
            assert not top.startswith("trireme_") or top in allowed, f"{file.relative_to(ROOT)} imports {module}"


def test_the_model_repository_holds_no_python() -> None:
    assert not list((ROOT / "model_repository").rglob("*.py"))


def test_a_backends_face_has_at_most_a_hundred_lines() -> None:
    for face in ROOT.glob("backends/*/model.py"):
        assert len(face.read_text().splitlines()) <= 100, face


def test_a_backend_folder_is_whole_when_its_links_are_followed() -> None:
    for link in (path for path in ROOT.glob("backends/*/*") if path.is_symlink()):
        assert link.resolve().is_dir(), link
        assert ROOT in link.resolve().parents, link


def test_no_module_has_a_name_that_says_nothing() -> None:
    for file in shipped_sources():
        assert file.stem not in {"utils", "util", "helpers", "common", "misc"}, file


def test_lengths_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    functions = [
        ((node.end_lineno or node.lineno) - node.lineno + 1, f"{file.relative_to(ROOT)}:{node.name}")
        for file in shipped_sources()
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    files = sorted(
        ((len(f.read_text().splitlines()), str(f.relative_to(ROOT))) for f in shipped_sources()), reverse=True
    )
    lengths = sorted(length for length, _ in functions)
    with capsys.disabled():
        print(f"\n{len(files)} files, {len(lengths)} functions, median {statistics.median(lengths):.0f} lines,")
        print(f"nine in ten under {lengths[len(lengths) * 9 // 10]}; longest: {max(functions)}; largest: {files[0]}")
    assert max(functions)[0] <= 60, max(functions)
    assert files[0][0] <= 300, files[0]
