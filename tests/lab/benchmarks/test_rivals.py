"""Every scheme on five streams: what is found, and how the figures are put together."""

import json

from evenflow.grouping import schemes
from evenflow_lab.benchmarks.rivals import OURS, RIVALS, STREAMS, Found, beats, run, together


def test_every_scheme_has_three_figures_on_five_streams(monkeypatch):
    monkeypatch.setattr("evenflow_lab.benchmarks.rivals.schemes", lambda: {"key": 0, "fish": 0})
    monkeypatch.setattr("evenflow_lab.benchmarks.rivals.STREAMS", ("steady", "uniform"))
    result = run(workers=5, messages=40_000, seeds=2, grid=False)
    answer = json.loads(json.dumps(result.answer))
    assert set(answer["streams"]) == {"key", "fish"}
    assert answer["streams"]["key"]["steady"]["replication"]["most"] == 1
    steady = {
        spec: of["steady"]["worst_window"]["median"] for spec, of in answer["streams"].items()
    }
    assert steady["fish"] < steady["key"]


def test_a_scheme_is_beaten_by_one_that_is_nowhere_worse():
    a = Found(1.0, 2.0, 30.0)
    assert beats(a, a._replace(ns=31.0))
    assert not beats(a, a)
    assert not beats(a, Found(1.5, 1.0, 30.0))


def test_together_counts_routing_beside_a_microsecond_of_work():
    assert together(Found(2.0, 1.5, 0.0)) == 3.0
    assert together(Found(2.0, 1.5, 1000.0)) == 6.0


def test_rivals_are_schemes_and_streams_are_five():
    assert set(RIVALS) < set(schemes())
    assert {spec.partition(":")[0] for spec in OURS} < set(schemes())
    assert len(STREAMS) == 5
