"""One `trireme serve` for all the system tests."""

from collections.abc import Iterator

import pytest
from served import ENTRIES, REPOSITORY, Serving, serve


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    missing = [name for name in ENTRIES if not list(REPOSITORY.glob(f"{name}_network/*/manifest.json"))]
    if missing:
        pytest.fail(f"not exported: {', '.join(missing)}; run `make export`")
    with serve(tmp_path_factory.mktemp("serve")) as running:
        yield running
