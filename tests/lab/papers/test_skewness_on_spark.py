"""Figures 13 to 16 of the paper on workload skewness: what their measurements can decide."""

import pytest

from evenflow_lab.papers.skewness_and_variance import claims_storm, on_spark


def test_what_was_measured_on_spark_decides_only_what_it_can():
    one_f = [{"f": 1.0}]
    assert "f = 1 alone" in on_spark.UNFIT["fluctuation"](one_f, {})
    assert on_spark.UNFIT["fluctuation"]([{"f": f} for f in (0.5, 1, 2)], {}) == ""
    sizes = {"thetas": [0.02, 0.3], "words": 1000}
    assert "below 40,000" in on_spark.UNFIT["tolerance"]([], sizes)
    assert on_spark.UNFIT["tolerance"]([], {**sizes, "words": 40_000}) == ""
    assert on_spark.UNFIT["scale_out"]([{"seconds": 1.0}], {"keys": 180_000}) == ""
    assert "10,000 keys" in on_spark.UNFIT["scale_out"]([{}], {})
    assert "interval join" in on_spark.UNFIT[""]([{}], {})
    assert on_spark.UNFIT[""]([{"revenue seconds": 1.0}], {}) == ""


@pytest.mark.parametrize(("readj", "verdict"), [((1.4, 1.1), True), ((1.1, 1.1), False)])
def test_scaling_out_is_judged_by_seconds_until_balanced(readj, verdict):
    """Mixed is balanced after a batch of 2 s, Readj after one or two of those."""
    rows = [
        {"scheme": name, "workers": 16, "seconds": 2.0, "fullest ÷ average": fullest}
        for name, curve in (("mixed", (1.1, 1.1)), ("readj", readj))
        for fullest in curve
    ]
    assert claims_storm.scale_out_faster_than_readj.__wrapped__(rows).held is verdict


def test_figure_13_is_judged_at_every_f():
    rows = [
        {"f": f, "scheme": name, "messages a second": rate, "latency ms, mean": latency}
        for f in (0.5, 1.0, 2.0)
        for name, rate, latency in (("ideal (shuffle)", 100, 10), ("mixed", 95, 12))
    ]
    ideal, near = (
        getattr(claims_storm, name).__wrapped__ for name in ("ideal_is_best", "mixed_near_ideal")
    )
    assert ideal(rows).held
    assert near(rows).held
    worse = [
        {**row, "messages a second": 101} if row["f"] == 2 and row["scheme"] == "mixed" else row
        for row in rows
    ]
    assert not ideal(worse).held
    slow = [
        {**row, "messages a second": 80} if row["f"] == 2 and row["scheme"] == "mixed" else row
        for row in rows
    ]
    assert not near(slow).held
