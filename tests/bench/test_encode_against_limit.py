"""The arithmetic of the comparison; the measuring itself is that of `encode_limit.py` and `trireme bench`."""

import encode_against_limit


def test_shares_are_taken_round_by_round_of_the_best_arrangement():
    through = {"1": [10.0, 30.0, 20.0], "8": [40.0, 40.0, 40.0]}
    limits = {"padded 8": [20.0, 60.0, 80.0], "packed 8": [90.0, 10.0, 10.0]}
    one, eight = encode_against_limit.shares(through, limits)
    assert (one["limit"], one["limit_per_second"]) == ("padded 8", 60.0)
    assert (one["callers"], one["per_second"], one["share_of_limit"]) == (1, 20.0, 0.5)
    assert (one["lowest"], one["highest"]) == (0.25, 0.5)
    assert eight["share_of_limit"] == 0.667
