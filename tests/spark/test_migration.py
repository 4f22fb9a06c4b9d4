"""Keys that move with their state while a query runs: planned, or with the number of partitions."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.kernels.fingerprints import fingerprint
from evenflow.model import Plan
from evenflow.model.owners import Owners
from evenflow.state.verification import verify
from evenflow_lab.benchmarks.spark.feeding import Feed
from evenflow_lab.checking.streaming import start

pytestmark = pytest.mark.spark

PARTITIONS = 4


def batch_of(number: int, rows: int = 4000) -> list[int]:
    """Twelve hot keys among four hundred; every fourth batch other keys are hot."""
    rng = np.random.default_rng([7, number])
    hot = 1000 * (1 + number // 4) + rng.integers(0, 12, rows)
    return np.where(rng.random(rows) < 0.6, hot, rng.integers(0, 400, rows)).tolist()


def last_seen(key, rows, state):
    """Depends on the order of rows, so it cannot be split: how often the value fell."""
    values = rows["value"]
    before = state["last"] if state else values[0]
    falls = int((np.diff(np.concatenate([[before], values])) < 0).sum())
    known = state or {"n": 0, "falls": 0}
    return {"n": known["n"] + len(values), "falls": known["falls"] + falls, "last": int(values[-1])}


class ByRows(ef.PerKey):
    """Its costs are its rows, which do not depend on what else the machine does."""

    def measured(self, rows, state):
        return super().measured(rows, state)[0], np.bincount(rows.group, minlength=rows.n_keys)


ORDERED = ByRows(
    last_seen, state={"n": "int64", "falls": "int64", "last": "int64"}, columns=["value"]
)


class Costly(ByRows):
    """Work that is worth a routing table however few its rows are."""

    row_seconds = 1.0


COSTLY = Costly(
    last_seen, state={"n": "int64", "falls": "int64", "last": "int64"}, columns=["value"]
)


class Run:
    """A stream of batches, one file each, and what plain Python makes of the same rows."""

    def __init__(self, folder):
        self.folder, self.feed = folder, Feed(folder / "in")
        self.rows, self.number = 0, 0
        self.truth = {}

    def add(self, batches):
        for _ in range(batches):
            keys = batch_of(self.number)
            values = [(self.rows + i) * 7919 % 1000 for i in range(len(keys))]
            self.feed.add(pa.table({"key": keys, "value": values}))
            for key in dict.fromkeys(keys):
                mine = np.array([v for k, v in zip(keys, values, strict=True) if k == key])
                self.truth[key] = last_seen(key, {"value": mine}, self.truth.get(key))
            self.rows += len(keys)
            self.number += 1

    def keyed(self, spark, scheme="auto"):
        balanced = ef.keyed(self.feed.stream(spark), "key").balance(scheme, partitions=PARTITIONS)
        return balanced.replan(theta=0.05).apply(ORDERED)

    def start(self, spark, scheme="auto", **how):
        latest = {}

        def take(rows, batch):
            latest.update({r["key"]: r for r in rows.toArrow().to_pylist()})

        return start(self.keyed(spark, scheme), self.folder / "ckpt", take, **how), latest

    def check(self, latest):
        found = {key: {k: row[k] for k in ("n", "falls", "last")} for key, row in latest.items()}
        assert found == self.truth
        assert verify(self.folder / "ckpt").intact


def test_work_that_cannot_be_split_is_balanced_by_moving_keys_with_their_state(spark, tmp_path):
    run = Run(tmp_path)
    run.add(12)
    query, latest = run.start(spark)
    assert query.awaitTermination(600)
    run.check(latest)
    metrics = query.metrics()
    assert {m["scheme"] for m in metrics} == {"table"}
    changed = [m["batch"] for m in metrics if m["planning"]["changed"]]
    assert changed, [m["planning"] for m in metrics]
    for batch in changed:
        if batch + 1 < len(metrics):
            after = metrics[batch + 1]
            assert after["epoch"] == metrics[batch]["epoch"] + 1
            assert after["migrated_keys"] > 0
            assert after["migrated_bytes"] > 0
            assert after["planning"]["expected"] == metrics[batch]["planning"]["predicted"]
            assert "above its share" in after["reason"] or after["planning"]["changed"]
    # Batches 1 to 3 of every four have the keys of the one before, from which the plan was made.
    behind = np.mean([m["max_over_average"] for m in metrics[0::4]])
    settled = np.mean([m["max_over_average"] for m in metrics[3::4]])
    assert settled < 1.15 < behind


@pytest.mark.parametrize("scheme", ["table", "d-choices"])
def test_partitions_come_and_go_while_a_query_runs(spark, tmp_path, scheme):
    keys = [batch_of(i) for i in range(6)]
    feed = Feed(tmp_path / "in")
    feed.add(pa.table({"key": keys[0]}))
    keyed = ef.keyed(feed.stream(spark), "key").balance(scheme, partitions=3)
    latest = {}

    def take(rows, batch):
        latest.update({r["key"]: r["n"] for r in rows.toArrow().to_pylist()})

    with start(keyed.agg(n=ef.count()), tmp_path / "ckpt", take, now=False) as query:
        query.processAllAvailable()
        for number, partitions in enumerate((3, 4, 4, 2, 3), 1):
            query.scale(partitions)
            feed.add(pa.table({"key": keys[number]}))
            query.processAllAvailable()
        metrics = query.metrics()
    assert latest == dict(Counter(key for batch in keys for key in batch))
    assert [len(m["state"]) for m in metrics] == [3, 3, 4, 4, 2, 3]
    grown, still = metrics[2], metrics[3]
    assert grown["epoch"] == metrics[1]["epoch"] + 1
    # Those that move come to the newcomer: a quarter of the touched keys that were there before.
    assert 0 < grown["migrated_keys"] < 0.45 * grown["keys"]
    if scheme == "d-choices":
        assert still["epoch"] == grown["epoch"]
    assert verify(tmp_path / "ckpt").intact


def test_a_batch_is_spread_by_a_table_of_its_hot_keys_where_keys_cannot_be_split(spark):
    homes = Owners.of(Plan("key", 2))(fingerprint(pa.array(range(100), pa.int64())))
    crowded, roomy = (np.flatnonzero(homes == home).tolist() for home in (0, 1))
    keys = crowded[:8] * 500 + crowded[8:] + roomy
    df = spark.createDataFrame(pa.table({"key": keys, "value": list(range(len(keys)))}))
    keyed = ef.keyed(df, "key").balance(partitions=2)
    plan = keyed.plan(COSTLY)
    assert plan.scheme == "table"
    assert plan.table.entries
    assert "by min-table" in plan.reason
    counts = {row["key"]: row["n"] for row in keyed.compute(COSTLY, plan=plan).collect()}
    assert counts == dict(Counter(keys))


def test_the_planner_given_to_replan_plans_a_batch_dataframe_too(spark):
    keys = [key for i in range(4) for key in batch_of(i)]
    df = spark.createDataFrame(pa.table({"key": keys, "value": list(range(len(keys)))}))
    keyed = ef.keyed(df, "key").balance("table", partitions=PARTITIONS)
    fewest = keyed.plan(ORDERED)
    mixed = keyed.replan("mixed", theta=0.01).plan(ORDERED)
    assert "by min-table" in fewest.reason
    assert "by mixed" in mixed.reason
    # A tighter bound needs more keys in the table.
    assert len(mixed.table.entries) > len(fewest.table.entries)


def test_replan_is_refused_where_there_is_no_table(spark):
    df = spark.range(3).withColumnRenamed("id", "key")
    with pytest.raises(ef.InputError, match="no routing table"):
        ef.keyed(df, "key").balance("d-choices").replan()
    with pytest.raises(ef.InputError, match="no routing table"):
        ef.keyed(df, "key").replan().balance("d-choices").agg(n=ef.count())
    with pytest.raises(ef.InputError, match="did you mean 'mixed'"):
        ef.keyed(df, "key").balance("table").replan("mixt")
