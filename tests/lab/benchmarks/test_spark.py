"""`evenflow bench spark`, with sizes that only show that it runs."""

import json

import numpy as np
import pyarrow as pa
import pytest

from evenflow.model import InputError
from evenflow.planning.controller import Replanning
from evenflow_lab.benchmarks.outcome import as_json
from evenflow_lab.benchmarks.spark.catalogue import MEASUREMENTS, chosen
from evenflow_lab.benchmarks.spark.empty_batch import EmptyBatch
from evenflow_lab.benchmarks.spark.figure13_14 import SCHEMES, Figure13And14
from evenflow_lab.benchmarks.spark.fluctuation import CONTESTANTS, Fluctuation, rows_that_bind
from evenflow_lab.benchmarks.spark.grouped import Grouped
from evenflow_lab.benchmarks.spark.heavy_aggregates import HeavyAggregates
from evenflow_lab.benchmarks.spark.join import Join
from evenflow_lab.benchmarks.spark.overhead import Overhead
from evenflow_lab.benchmarks.spark.per_key import PerKeyWork
from evenflow_lab.benchmarks.spark.saturation import latency_figures
from evenflow_lab.benchmarks.spark.scale_out import ScaleOut
from evenflow_lab.benchmarks.spark.state_size import StateSize
from evenflow_lab.benchmarks.spark.tolerance import Tolerance
from evenflow_lab.workloads.fluctuating import snapshots

TINY = [
    (Overhead(rows=2000, keys=100, workers=2, rounds=1), 4, 2),
    (PerKeyWork(keys=40, rows_a_key=2, share=0.5, workers=2, batches=1, rounds=1), 4, 2),
    (Grouped(shapes=((40, 2), (3, 30)), share=0.5, workers=2, rounds=1), 28, 4),
    (
        Figure13And14(zipf=(2.0,), workers=2, messages=20, sources=2, batches=1, rounds=1),
        len(SCHEMES),
        6,
    ),
    (StateSize(keys=(50, 200), rows=10, workers=2, batches=1, rounds=1), 2, 1),
    (EmptyBatch(workers=2, batches=1, rounds=1), 8, 2),
    (
        Fluctuation(
            fluctuations=(1.0,),
            workers=2,
            messages=20,
            sources=1,
            interval=1,
            intervals=1,
            contestants=(*tuple(CONTESTANTS)[:2], "mixed"),
            stream=snapshots,
        ),
        3,
        2,
    ),
    (
        ScaleOut(keys=500, workers=2, messages=20, sources=2, before=1, after=1, stream=snapshots),
        6,
        0,
    ),
    (
        Tolerance(
            thetas=(0.1,),
            workers=2,
            words=20,
            trades=30,
            within="2 minutes",
            batches=1,
            interval=1,
            sources=1,
            text=lambda n, size: [pa.array(["the", "state"] * (size // 2))] * n,
            stream=snapshots,
        ),
        9,
        0,
    ),
    (Join(rows=400, keys=100, partitions=2, service=0.1, rounds=1), 10, 4),
    (HeavyAggregates(rows=400, keys=20, partitions=2, rounds=1), 3, 0),
]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("measurement", "figures", "goals"), TINY, ids=lambda v: str(v)[:12])
@pytest.mark.long
def test_every_measurement_runs_and_tells_figures_and_goals(
    spark, tmp_path, measurement, figures, goals
):
    said = []
    outcome = measurement.measure(spark, str(tmp_path), said.append)
    assert said
    answer = json.loads(json.dumps(as_json(measurement, outcome), allow_nan=False))
    assert set(answer) == {"what", "parameters", "figures", "goals"}
    assert len(answer["what"]) > 100
    assert len(answer["figures"]) == figures
    assert len({tuple(row) for row in answer["figures"]}) == 1
    assert len(answer["goals"]) == goals
    for goal in answer["goals"]:
        bound = goal.get("at_least", goal.get("at_most"))
        assert goal["held"] == (
            goal["measured"] >= bound if "at_least" in goal else goal["measured"] <= bound
        )


def test_a_latency_is_the_average_over_messages_not_over_workers_and_batches():
    few, many = np.array([1.0]), np.full(9, 2.0)
    figures = latency_figures([few, many])
    assert figures["latency ms, mean"] == 1900
    assert figures["p50"] == 2000


def test_the_smallest_theta_binds_in_the_usual_and_the_full_size():
    """An overload of θmax on so many rows is what the controller takes for more than chance."""
    for size in (Tolerance(), Tolerance.full()):
        for rows in (size.words, size.trades):
            assert rows >= rows_that_bind(min(size.thetas)) == 40_000
    policy, rows = Replanning(theta=0.02), rows_that_bind(0.02)
    assert policy.certainty * rows**0.5 <= policy.theta * rows
    assert policy.certainty * (rows - 1) ** 0.5 > policy.theta * (rows - 1)
    assert ScaleOut().messages >= rows_that_bind(ScaleOut().theta)
    assert Fluctuation().messages >= rows_that_bind(Fluctuation().theta)


def test_figure_13_has_several_f_and_the_brute_force():
    assert len(Fluctuation().fluctuations) >= 3
    assert "mixed-bf" in Fluctuation().contestants


def test_all_measurements_are_tried_here():
    assert [type(measurement) for measurement, _, _ in TINY] == list(MEASUREMENTS.values())


def test_every_measurement_has_a_quick_and_a_full_size():
    for kind in MEASUREMENTS.values():
        assert type(kind.quick()) is type(kind.full()) is kind
        assert kind.quick() != kind() != kind.full()


def test_an_unknown_measurement_is_refused_with_a_hint():
    assert chosen([]) == list(MEASUREMENTS)
    with pytest.raises(InputError, match="did you mean 'overhead'"):
        chosen(["overheat"])
