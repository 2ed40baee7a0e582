"""How long a run may take, from the runs before."""

import pytest
from trireme_network.pace import MARGIN, UNMEASURED_S, Extent, Pace


def test_without_experience_a_run_has_plenty_of_time():
    assert Pace().allowance_s(Extent(1, 1)) == UNMEASURED_S


@pytest.mark.parametrize(
    ("extent", "times"),
    [((1, 10), 1.0), ((4, 100), 1.0), ((8, 100), 2.0), ((4, 200), 4.0), ((1, 1000), 25.0), ((100, 10), 1.0)],
)
def test_more_rows_take_as_many_times_longer_and_a_longer_row_the_square(extent, times):
    pace = Pace()
    pace.note(Extent(4, 100), 2.0)
    assert pace.allowance_s(Extent(*extent)) == pytest.approx(MARGIN * 2.0 * times)


def test_a_run_that_was_disturbed_is_forgotten_when_its_extent_comes_again():
    pace = Pace()
    for run_s in (9.0, 2.0, 3.0):
        pace.note(Extent(4, 100), run_s)
    pace.note(Extent(1, 1), 0.001)
    assert pace.allowance_s(Extent(4, 100)) == pytest.approx(MARGIN * 2.0)
