"""The operator checks pass what is right and reject what is broken."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from evenflow.checks.operators import run_operator_checks
from evenflow.operators import (
    Aggregates,
    NaiveBayes,
    Operator,
    PerKey,
    approx_count_distinct,
    bool_and,
    bool_or,
    collect_set,
    count,
    count_if,
    distinct,
    max,
    max_by,
    mean,
    min,
    min_by,
    mode,
    percentile_approx,
    stddev,
    sum,
    top_k,
)

ROWS = pa.table(
    {
        "page": [["a", "b", None, "c"][i * i % 4] for i in range(200)],
        "ms": [None if i % 11 == 0 else float(i % 37) for i in range(200)],
        "label": [["x", "y"][i % 3 == 0] for i in range(200)],
        "slow": [[True, False, None][i % 3] for i in range(200)],
    }
)


def add(key, rows, state):
    return {"n": (state["n"] if state else 0) + len(rows["ms"])}


def both(a, b):
    return {"n": a["n"] + b["n"]}


PARTS = {
    "aggregates": Aggregates(
        n=count(),
        total=sum("ms"),
        middle=mean("ms"),
        least=min("ms"),
        most=max("label"),
        different=distinct("ms"),
        top=top_k("label", 2),
    ),
    "aggregates of PySpark": Aggregates(
        kinds=collect_set("ms"),
        spread=stddev("ms"),
        best=max_by("label", "ms"),
        worst=min_by("label", "ms"),
        usual=mode("ms"),
        about=approx_count_distinct("ms"),
        half=percentile_approx("ms", [0.5, 0.9]),
        slow=count_if("slow"),
        always=bool_and("slow"),
        ever=bool_or("slow"),
    ),
    "naive Bayes": NaiveBayes("label", ["x", "y"]),
    "per key": PerKey(add, state={"n": "int64"}, merge=both, columns=["ms"]),
}


@pytest.mark.parametrize("operator", PARTS.values(), ids=PARTS)
def test_what_ships_passes(operator):
    run_operator_checks(operator, ROWS, "page").raise_if_failed()


class Forgetful(Operator):
    """Forgets the state of the batches before."""

    def state_schema(self, rows):
        return pa.schema([("n", pa.int64())])

    def update(self, rows, state):
        counts = pa.table({"g": rows.group}).group_by("g").aggregate([("g", "count")]).sort_by("g")
        return pa.table({"n": counts["g_count"]})

    def merge(self, a, b):
        return pa.table({"n": pc.add(a["n"], b["n"])})


class Careless(Forgetful):
    """Merges by taking one of two parts."""

    def update(self, rows, state):
        fresh = super().update(rows, state)
        return pa.table({"n": pc.add(fresh["n"], pc.fill_null(state["n"], 0))})

    def merge(self, a, b):
        return a


@pytest.mark.parametrize(
    ("operator", "check"),
    [(Forgetful(), "batches-change-nothing"), (Careless(), "parts-change-nothing")],
)
def test_broken_operators_are_rejected(operator, check):
    assert list(run_operator_checks(operator, ROWS, "page").failures) == [check]
