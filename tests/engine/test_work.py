"""The skeleton of tasks: what they carry, and what they need not load."""

import pickle
import subprocess
import sys

import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.engine.job import Job, check_fit
from evenflow.engine.joined_rows import JoinedRows
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.ordered_states import OrderedStates
from evenflow.engine.plans import first_plan
from evenflow.engine.program import Stages
from evenflow.engine.windowed_states import WindowedStates
from evenflow.engine.work import OwnerTask, SplitTask
from evenflow.grouping import make
from evenflow.model.owners import Owners
from evenflow.operators import Aggregates, IntervalJoin, Window, count

ROWS = pa.schema([("k", pa.string())])
JOB = Job(("k",), ROWS, KeyedStates(Aggregates(n=count())), make("d-choices"), 2)

WORK = """
import pickle, sys
import pyarrow as pa
task = pickle.loads(bytes.fromhex(sys.argv[1]))
rows = pa.record_batch({"__fingerprint": pa.array([7]), "k": ["a"]})
assert next(task(0, iter([rows]))).num_rows == 1
print("numba" in sys.modules)
"""


def test_tasks_that_do_not_route_start_without_the_compiler():
    """Importing numba takes longer than many a batch."""
    stages = Stages.of(JOB, first_plan(JOB))
    for task in (stages.split, OwnerTask(stages.own.job, False)):
        done = subprocess.run(
            [sys.executable, "-c", WORK, pickle.dumps(task).hex()], capture_output=True, text=True
        )
        assert done.stdout.strip() == "False", done.stderr


def test_tasks_that_do_not_route_carry_no_scheme():
    """Unpickling a scheme would import the compiler."""
    stages = Stages.of(JOB, first_plan(JOB))
    assert stages.split.job.scheme is None
    assert stages.own.job.scheme is None
    assert stages.route.scheme == make("d-choices")


def test_work_that_cannot_be_merged_is_refused_under_a_scheme_that_splits_keys():
    join = IntervalJoin(("ts", "ts"), 5, (("ts", "a"),), (("ts", "b"),))
    whole = [JoinedRows(join), OrderedStates(Aggregates(n=count()))]
    for work in whole:
        assert not work.mergeable
        with pytest.raises(
            ef.InputError, match=r"several partitions.*no `merge`.*key, key-isolator or table"
        ):
            check_fit(work, make("w-choices"))
        check_fit(work, make("table"))
    check_fit(WindowedStates(Aggregates(n=count()), Window("ts", 10, 10)), make("w-choices"))


def test_a_batch_dataframe_has_no_state_and_no_report():
    rows = pa.record_batch({"__fingerprint": pa.array([7, 7]), "k": ["a", "a"]})
    (part,) = SplitTask(JOB, Owners(2))(0, iter([rows]))
    assert (part.num_rows, part.column(part.num_columns - 1).to_pylist()) == (1, [2])
    (answer,) = OwnerTask(JOB, True)(0, iter([part]))
    assert answer.to_pylist() == [{"k": "a", "n": 2}]
