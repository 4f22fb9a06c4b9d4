"""Partitions that follow the order of keys."""

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from evenflow.engine.auto import KeySurvey
from evenflow.engine.job import Job
from evenflow.engine.key_list import even_stretches, in_order
from evenflow.engine.placed import Placed
from evenflow.engine.plans import first_plan
from evenflow.engine.survey import plan_for
from evenflow.kernels.fingerprints import fingerprint
from evenflow.model import KeyCounts
from evenflow.model.owners import Owners

ROWS = pa.schema([("k", pa.string())])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(1, 5))
def test_no_stretch_could_cost_less(costs, n):
    costs = np.array(costs, np.float64)
    ends = even_stretches(costs, n).tolist()
    assert len(ends) <= n
    assert ends[-1] == len(costs)

    def fullest(cuts):
        edges = [0, *cuts, len(costs)]
        return max(costs[a:b].sum() for a, b in itertools.pairwise(edges))

    best = min(
        fullest(cuts)
        for parts in range(min(n, len(costs)))
        for cuts in itertools.combinations(range(1, len(costs)), parts)
    )
    assert abs(fullest(ends[:-1]) - best) < 1e-6


def planned(keys, partitions):
    job = Job(("k",), ROWS, Placed("applyInPandas", in_key_order=True), None, partitions)
    counts = Counter(keys)
    distinct = pa.table({"k": pa.array(list(counts), pa.string())})
    prints = fingerprint(distinct.column("k").combine_chunks()).tolist()
    hot = KeyCounts(dict(zip(prints, counts.values(), strict=True)), len(keys))
    survey = KeySurvey(hot, len(counts))
    return plan_for(job, first_plan(job), survey, in_order(distinct))


def test_few_even_keys_are_placed_in_their_order():
    keys = [f"k{i:02}" for i in range(30)] * 4 + [None] * 4
    plan = planned(keys, 4)
    assert "placed in their order" in plan.reason
    order = pa.array([None, *sorted({key for key in keys if key is not None})], pa.string())
    there = Owners.of(plan)(fingerprint(order)).tolist()
    assert there == sorted(there)
    assert max(np.bincount(there)) == 8


def test_a_hot_key_is_not_paid_for_order():
    keys = ["m"] * 60 + [f"{letter}" for letter in "abcdefghijklnopqrstuvwxyz"] * 2
    plan = planned(keys, 4)
    prints = fingerprint(pa.array(keys, pa.string()))
    assert np.bincount(Owners.of(plan)(prints), minlength=4).max() <= 62


def test_a_few_rows_are_paid_for_order():
    # Twenty rows of every second key, ten of the others: even partitions would have 40, these have 50.
    keys = [f"k{i}" for i in range(10) for _ in range(20 - i % 2 * 10)]
    there = Owners.of(planned(keys, 4))(fingerprint(pa.array(keys, pa.string())))
    assert there.tolist() == sorted(there.tolist())
    assert np.bincount(there).max() == 50
    there = Owners.of(planned(keys * 2, 4))(fingerprint(pa.array(keys, pa.string())))
    assert there.tolist() != sorted(there.tolist())
    assert np.bincount(there).max() == 40
