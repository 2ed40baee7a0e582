"""Which rows of equal shape run together."""

from __future__ import annotations

import numpy as np
import pytest
from trireme_network.stacked_rows import StackedRows


@pytest.mark.parametrize(
    ("row", "largest"),
    [((224, 224, 3), 4), ((1024, 1024, 3), 1), ((16,), 32)],
    ids=["photographs", "a row larger than a piece", "short rows"],
)
def test_large_rows_run_few_at_a_time(row, largest):
    requests = {number: {"values": np.zeros((8, *row), np.uint8)} for number in range(16)}

    pieces = StackedRows(requests, 2).pieces

    assert {piece.extent.rows for piece in pieces} == {largest}
    assert sum(piece.extent.rows for piece in pieces) == 8 * 16
