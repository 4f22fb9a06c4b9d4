"""What claims read off rows, and how numbers become words."""

import doctest

import pytest

from evenflow_lab.experiments import reading, seeds


def test_the_examples_run():
    for module, least in ((reading, 14), (seeds, 6)):
        failed, attempted = doctest.testmod(module)
        assert attempted >= least
        assert not failed


def test_what_is_not_there_is_no_average():
    with pytest.raises(LookupError, match=r"no row with d and \{'z': 2\}"):
        reading.typical([{"z": 1, "d": 3}], "d", z=2)
    with pytest.raises(LookupError):
        reading.typical([{"z": 1, "d": None}], "d")


def test_another_average_may_be_asked_for():
    rows = [{"z": 1, "d": 3}, {"z": 1, "d": 9}, {"z": 1, "d": 3}]
    assert reading.along(rows, "z", "d") == {1: 3.0}
    assert reading.along(rows, "z", "d", average=lambda found: sum(found) / len(found)) == {1: 5.0}


def test_a_curve_that_does_not_change_does_not_grow():
    assert reading.rank_correlation({1: 5, 2: 5, 3: 5}) == 0
    assert reading.rank_correlation({1: 5, 2: 6, 3: 6}) == pytest.approx(0.866, abs=1e-3)


def test_a_verdict_explains_itself_only_where_the_claim_did_not_hold():
    assert reading.judged(True, "2", "2", "why").why == ""
    assert reading.judged(False, "2", "3", "why").why == "why"
    assert "No reason is known" in reading.judged(False, "2", "3").why
