"""How long a run may take, from the runs before."""

import pytest
from trireme_network.pace import MARGIN, Pace


def test_without_experience_nothing_is_allowed_beyond_the_promise():
    assert Pace().allowance(10**9) == 0


@pytest.mark.parametrize(("size", "seconds"), [(10, 2.0), (100, 2.0), (200, 8.0), (1000, 200.0)])
def test_a_larger_run_is_allowed_the_square_of_its_size(size, seconds):
    pace = Pace()
    pace.note(100, 2.0)
    assert pace.allowance(size) == pytest.approx(MARGIN * seconds)


def test_a_run_that_was_disturbed_is_forgotten_when_its_size_comes_again():
    pace = Pace()
    for seconds in (9.0, 2.0, 3.0):
        pace.note(100, seconds)
    pace.note(1, 0.001)
    assert pace.allowance(100) == pytest.approx(MARGIN * 2.0)
