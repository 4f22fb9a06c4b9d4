"""What-if: the recorded keys through the simulator, beside what was measured."""

import numpy as np
import pytest

from evenflow.dashboard.history import QueryHistory
from evenflow.dashboard.what_if import RecordedKeys, answer
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.grouping import make
from evenflow.model import InputError, KeyCounts
from evenflow.operators import Aggregates, count
from evenflow.simulator.workloads import Zipf
from evenflow.state import Checkpoint
from evenflow.storage import storage_at


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A query under key grouping that the engine has really run, on a skewed stream."""
    import pyarrow as pa

    path = tmp_path_factory.mktemp("ckpt")
    stream = Zipf(exponent=1.2, keys=2000, messages=120_000)
    schema = pa.schema([("key", pa.int64())])
    job = Job(("key",), schema, KeyedStates(Aggregates(n=count())), make("key"), 8, 0)
    tables = (
        pa.table([pa.array(np.asarray(keys).view(np.int64))], schema=schema)
        for keys in stream.chunks(20_000)
    )
    for _ in run_stream(job, storage_at(path), tables):
        pass
    history = QueryHistory(str(path), storage_at(path))
    history.poll()
    assert history.known() == 6
    return history


def test_the_scheme_in_use_is_predicted_as_it_was_measured(recorded):
    found = answer(recorded, "key", 8)
    assert found["now"]["max_over_average"] == pytest.approx(recorded.newest().balance)
    assert found["max_over_average"] == pytest.approx(found["now"]["max_over_average"], rel=0.08)
    assert found["replication"] == 1.0


@pytest.mark.parametrize("scheme", ["partial-key", "d-choices", "table"])
@pytest.mark.parametrize("partitions", [4, 8])
def test_another_scheme_is_predicted_as_the_engine_balances(recorded, scheme, partitions):
    """The oracle: the same stream, run by the engine under that scheme."""
    import pyarrow as pa

    from evenflow.storage import MemoryStorage

    stream = Zipf(exponent=1.2, keys=2000, messages=120_000)
    schema = pa.schema([("key", pa.int64())])
    work = KeyedStates(Aggregates(n=count()))
    job = Job(("key",), schema, work, make(scheme), partitions, 0)
    storage = MemoryStorage()
    tables = (
        pa.table([pa.array(np.asarray(keys).view(np.int64))], schema=schema)
        for keys in stream.chunks(20_000)
    )
    measured = [dict(one)["max_over_average"] for one in run_stream(job, storage, tables)]
    storage.clear()
    found = answer(recorded, scheme, partitions)
    assert found["max_over_average"] == pytest.approx(measured[-1], rel=0.15)


def test_theta_is_for_a_routing_table_and_a_larger_one_moves_fewer_keys(recorded):
    tight = answer(recorded, "table", 8, theta=0.02)
    loose = answer(recorded, "table", 8, theta=2.0)
    assert tight["moved_keys"] > loose["moved_keys"]
    assert tight["max_over_average"] < loose["max_over_average"]
    with pytest.raises(InputError, match="θmax is for the scheme 'table'"):
        answer(recorded, "key", 8, theta=0.1)


def test_the_same_record_gives_the_same_stream_with_the_hot_keys_shares():
    stream = RecordedKeys(KeyCounts({7: 500, 8: 250}, 1000), keys=100, messages=20_000)
    keys = np.concatenate(list(stream.chunks(999)))
    again = RecordedKeys(KeyCounts({7: 500, 8: 250}, 1000), keys=100, messages=20_000)
    assert np.array_equal(keys, np.concatenate(list(again.chunks(20_000))))
    assert len(keys) == stream.length()
    assert np.mean(keys == 7) == pytest.approx(0.5, abs=0.02)
    assert np.mean(keys == 8) == pytest.approx(0.25, abs=0.02)
    assert len(np.unique(keys)) == 100


def test_without_statistics_there_is_no_answer(tmp_path):
    Checkpoint.open(tmp_path, {})
    history = QueryHistory(str(tmp_path), storage_at(tmp_path))
    history.poll()
    with pytest.raises(InputError, match="no batch had rows yet"):
        answer(history, "key", 4)
