"""A batch's rows on their way to Kafka: partitions, headers and counts, on Spark without a broker."""

import numpy as np
import pyarrow as pa
import pytest

from evenflow.ordering import Header, pack
from evenflow.planning.hot_keys import HotKeys


def with_bytes(rows):
    """Text, which here may be any bytes, as bytes."""
    return rows.withColumns({name: rows[name].cast("binary") for name in ("key", "value")})


def some_rows(spark, keys):
    from evenflow.kafka.gateway_rows import Rows

    given = pa.table(
        {"key": pa.array(keys, pa.binary()), "value": pa.nulls(len(keys), pa.binary())}
    )
    return Rows().selected(spark.createDataFrame(given).repartition(3))


def placed(rows, routes, partitions, seed):
    from evenflow.kafka.gateway_query import Selection
    from evenflow.kafka.gateway_rows import placed
    from evenflow.kafka.gateway_table import Table

    table = Table.of(rows.sparkSession, routes) if routes else None
    return placed(Selection.of(rows), table, partitions, seed).df()


def countable(rows, every=1):
    from evenflow.kafka.gateway_counts import countable
    from evenflow.kafka.gateway_query import Selection

    return countable(Selection.of(rows), every).df()


@pytest.mark.spark
def test_the_headers_are_those_of_the_ordering_package(spark):
    from evenflow.kafka.gateway_query import Selection
    from evenflow.kafka.gateway_rows import lane_of, with_headers

    rows = [(b"k", b"v", 3, 5, 7, 2**40), (None, None, 0, 2, 2**50, 0)]
    schema = "key binary, value binary, partition int, lane bigint, sequence bigint, set bigint"
    writer = 2**40 - 1
    given = Selection.of(spark.createDataFrame(rows, schema))
    made = with_headers(given, writer, epoch=9).df().collect()
    for row, (_, _, _, lane, sequence, number) in zip(made, rows, strict=True):
        expected = pack(Header(0, lane_of(writer, lane), 9, sequence, number))
        assert [(h["key"], bytes(h["value"])) for h in row["headers"]] == expected


@pytest.mark.spark
@pytest.mark.parametrize(("partitions", "seed"), [(1, 0), (4, 7), (1000, 2**63 + 5)])
def test_a_key_that_has_not_moved_is_where_the_policy_has_its_home(spark, partitions, seed):
    from evenflow.kafka.gateway_query import Selection
    from evenflow.kafka.gateway_rows import Rows, own_rows
    from evenflow.kernels.fingerprints import fingerprint

    rng = np.random.default_rng(partitions)
    keys = [b"", b"\xff\x00", *(rng.bytes(int(n)) for n in rng.integers(1, 40, 300))]
    given = pa.table({"key": pa.array([*keys, None]), "value": [b"%d" % i for i in range(303)]})
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    rows = Rows().selected(spark.createDataFrame(given))
    found = {
        row["key"]: row["partition"]
        for row in with_bytes(placed(rows, [], partitions, seed)).collect()
    }
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    homes = HotKeys(partitions, seed=seed).homes(fingerprint(pa.array(keys, pa.binary())))
    assert [found[key] for key in keys] == homes.tolist()
    parts = [own_rows(Selection.of(rows), 3, index, seed).df() for index in range(3)]
    owned = [with_bytes(part).collect() for part in parts]
    assert sorted(row["value"] for part in owned for row in part) == sorted(
        given["value"].to_pylist()
    )
    apart = fingerprint(pa.array([*keys, None], pa.binary()))
    level_1 = HotKeys(3, seed=seed ^ 0x5EED).homes(apart).tolist()
    assert [len(part) for part in owned] == [level_1.count(index) for index in range(3)]


@pytest.mark.spark
def test_only_the_key_itself_goes_by_the_table_and_not_one_of_the_same_fingerprint(
    spark, monkeypatch
):
    from evenflow.kafka import gateway_rows, gateway_table
    from evenflow.kafka.gateway_state import Route

    given = pa.table({"key": [b"a", b"b", b"c", None], "value": [b"1", b"2", b"3", b"4"]})
    rows = gateway_rows.Rows().selected(spark.createDataFrame(given))

    def found(routes):
        collected = with_bytes(placed(rows, routes, 1000, 0)).collect()
        return {row["key"]: (row["partition"], row["set"]) for row in collected}

    homes = found([])
    routes = [Route(b"a", 1001, 7), Route(b"x", 1002, 8)]
    assert found(routes) == {**homes, b"a": (1001, 7)}
    real = gateway_table.fingerprint
    others = pa.array(
        [b"c", b"b"], pa.binary()
    )  # as if "a" had the fingerprint of "c", "x" that of "b"
    monkeypatch.setattr(gateway_table, "fingerprint", lambda keys: real(others))
    assert found(routes) == homes


@pytest.mark.spark
@pytest.mark.parametrize("n", [1, 200, 5000])
def test_every_key_of_the_table_is_found_and_no_other(spark, n):
    from evenflow.kafka.gateway_rows import Rows
    from evenflow.kafka.gateway_state import Route

    rng = np.random.default_rng(n)
    keys = [b"", *{rng.bytes(int(length)) for length in rng.integers(1, 30, 2 * n)}]
    routes = [Route(key, 1000 + i % 97, 2**41 + i) for i, key in enumerate(keys[:n])]
    given = pa.table({"key": pa.array([*keys, None]), "value": pa.array([b"v"] * (len(keys) + 1))})
    rows = with_bytes(placed(Rows().selected(spark.createDataFrame(given)), routes, 1000, 0))
    found = {row["key"]: (row["partition"], row["set"]) for row in rows.collect()}
    assert {key: found[key] for key in keys[:n]} == {r.key: (r.partition, r.set) for r in routes}
    assert all(found[key][0] < 1000 and found[key][1] == 0 for key in [*keys[n:], None])


@pytest.mark.spark
@pytest.mark.parametrize("rare", ["all different", "just below"])
def test_a_key_with_a_seventh_of_the_threshold_is_listed_and_counts_are_right_to_a_fifteenth(
    spark, rare
):
    from evenflow.kafka.gateway_counts import counts, observed

    n, threshold = 60_000, 0.02
    step = int(threshold * n / 7) + 1
    kinds = [
        b"\xff",
        b"\0",
        "é".encode(),
        b"",
        b"\xed\xa0\x80",
        b"\0AA==",
    ]  # text, and what is none
    wanted = {kinds[i % 6] + b"wanted" * i: step + 40 * i for i in range(12)}
    left = n - sum(wanted.values())
    other = [i if rare == "all different" else i // 4 for i in range(left)]
    drawn = [*(key for key, times in wanted.items() for _ in range(times))]
    drawn += [b"rare-%d" % i for i in other]
    drawn = [drawn[i] for i in np.random.default_rng(3).permutation(n)]
    rows, seen = observed(countable(some_rows(spark, drawn)), threshold)
    rows.write.format("noop").mode("overwrite").save()
    found = counts(seen)
    assert found.total == n
    listed = dict(zip(found.keys, found.counts, strict=True))
    assert {
        key: abs(listed[key] - times) <= threshold * n / 15 for key, times in wanted.items()
    } == (dict.fromkeys(wanted, True))
    unwanted = [times for key, times in listed.items() if key not in wanted]
    assert max(unwanted, default=0) <= 4 + threshold * n / 15


@pytest.mark.spark
def test_a_sample_of_a_large_batch_shows_the_keys_at_the_threshold(spark):
    from evenflow.kafka.gateway_counts import counts, observed, sampling

    n, threshold = 200_000, 0.01
    every = sampling(n, threshold)
    assert every == 64
    drawn = [b"hot-%d" % (i % 20) for i in range(n // 5)]  # each at the threshold
    drawn += [b"rare-%d" % i for i in range(n - len(drawn))]
    rows = some_rows(spark, drawn)
    columns = rows.columns
    rows, seen = observed(countable(rows, every), threshold, every)
    assert rows.columns == [*columns, "counted"]
    rows.write.format("noop").mode("overwrite").save()
    found = counts(seen, every)
    assert found.total == n  # these are all counted
    listed = dict(zip(found.keys, found.counts, strict=True))
    for i in range(20):
        error = abs(listed[b"hot-%d" % i] / (threshold * n) - 1)
        assert error < 5 / 8  # three and a half standard deviations
    assert [key for key in listed if key.startswith(b"rare")] == []  # not worth telling
    assert abs(sum(listed[b"hot-%d" % i] for i in range(20)) / (n // 5) - 1) < 5 / (20 * 64) ** 0.5


@pytest.mark.spark
def test_later_batches_and_queries_run_the_code_that_was_compiled_for_the_first(spark):
    from evenflow.kafka.gateway import TOPIC_ROWS
    from evenflow.kafka.gateway_counts import countable, counts, observed
    from evenflow.kafka.gateway_query import Selection
    from evenflow.kafka.gateway_rows import placed, with_headers
    from evenflow.kafka.gateway_state import Route
    from evenflow.kafka.gateway_table import Table

    given = spark.range(1000).selectExpr(
        "binary(string(id)) as key",
        "binary(string(id)) as value",
        "int(id % 4) as source",
        "id as offset",
        "array(struct('evenflow' as key, binary(string(id)) as value)) as headers",
    )
    compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    found = []
    for batch in range(3):
        before = compiled.getCount()
        routes = [Route(b"%d" % (7 * batch + i), i % 8, batch) for i in range(20 + batch)]
        rows = countable(Selection.of(TOPIC_ROWS.selected(given)), every=2)
        rows = with_headers(placed(rows, Table.of(spark, routes), 8, 0), batch, epoch=batch)
        rows, seen = observed(rows.df(), 1e-3, every=2)
        rows.write.format("noop").mode("append").save()
        assert counts(seen, every=2).total == 1000
        found.append(compiled.getCount() - before)
    assert found[0] > 0
    assert found[1:] == [0, 0]


@pytest.mark.spark
@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize(("keys", "rows"), [([], 0), ([None] * 3, 3), ([b"x" * 513] * 3, 3)])
def test_batches_with_nothing_to_count_are_sent_and_list_nothing(spark, keys, rows, every):
    from evenflow.kafka.gateway_counts import counts, observed
    from evenflow.kafka.gateway_state import Counted

    counted, seen = observed(countable(some_rows(spark, keys), every), 1e-3, every)
    assert counted.count() == rows
    assert counts(seen, every) == Counted([], [], rows)
