"""`evenflow bench regret`: its cells, its figures, and a run."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from evenflow.model import InputError
from evenflow.operators import Aggregates, count, on_table
from evenflow_lab.benchmarks import regret
from evenflow_lab.benchmarks.regret import AUTO, FEW, PLAIN, Cell, Ran, cells


def test_there_are_cells_enough_and_everything_varies_in_them():
    every = cells()
    assert len(every) == len(set(every)) >= 24
    for name in ("skew", "drift", "row", "merge", "partitions"):
        assert len({getattr(cell, name) for cell in every}) >= 2, name
    assert max(FEW) < len(every)


def test_a_cell_has_the_same_rows_for_all_and_other_hot_keys_where_it_drifts():
    steady, drifting = (Cell(1.6, drift, 0.0005, 0.0, 4) for drift in (False, True))
    for one, again in zip(steady.batches(), steady.batches(), strict=True):
        assert one.tolist() == again.tolist()
    hottest = [Counter(keys.tolist()).most_common(1)[0][0] for keys in drifting.batches()]
    assert len(set(hottest)) == 3
    assert len({Counter(keys.tolist()).most_common(1)[0][0] for keys in steady.batches()}) == 1


def test_the_work_of_a_cell_counts_right_whatever_it_costs():
    table = pa.table({"page": np.array([1, 2, 1, 1])})
    plain = on_table(Aggregates(n=count()), table, "page")
    for cell in (
        Cell(0, False, 1e-6, 1e-6, 2),
        Cell(0, False, 1e-6, None, 2),
        Cell(0, False, 0, 0, 2),
    ):
        operator = cell.operator()
        assert on_table(operator, table, "page") == plain
        assert operator.mergeable == (cell.merge is not None)
        assert set(cell.schemes) >= {AUTO, PLAIN, "table"}


def test_regret_is_over_the_best_fixed_scheme():
    def ran(*seconds, right=True):
        return Ran(seconds, 0.1, ("key", "d-choices"), right, {"row": 0.001})

    even = {AUTO: ran(1.0, 1.2), PLAIN: ran(1.0, 1.0), "table": ran(3.0, 3.0)}
    skewed = {AUTO: ran(1.0, 1.0), PLAIN: ran(9.0, 9.0), "d-choices": ran(1.0, 1.0)}
    rows = [
        {"cell": 0, **regret._row(Cell(0.0, False, 0.0005, None, 4), even)},
        {"cell": 9, **regret._row(Cell(1.6, True, 0.0005, 0.0, 4), skewed)},
    ]
    result = regret._result(rows)
    assert [round(goal.measured, 2) for goal in result.goals] == [1.05, 1.1, 1.1]
    assert [goal.held for goal in result.goals] == [True, True, False]
    assert rows[0]["auto chose"] == "key, d-choices at 1"
    assert result.passed
    wrong = {**even, "table": ran(1.0, right=False)}
    row = {"cell": 1, **regret._row(Cell(0.0, False, 0.0005, None, 4), wrong)}
    assert not regret._result([row]).passed


def test_a_cell_that_does_not_exist_is_refused():
    with pytest.raises(InputError, match="there is no cell 99; they are 0 to 25"):
        next(iter(regret.run(only=[99])))


@pytest.mark.spark
def test_a_small_run_counts_right_under_all_schemes(spark, monkeypatch):
    monkeypatch.setattr(regret, "WORK", 0.02)
    monkeypatch.setattr(regret, "BATCHES", 2)
    [result] = regret.run(only=[22])
    assert result.passed
    [cell] = result.answer["cells"]
    assert set(cell["seconds"]) == {AUTO, PLAIN, "table"}
    assert [len(one) for one in cell["batches"].values()] == [2, 2, 2]
