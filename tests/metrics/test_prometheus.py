"""Prometheus' own parser reads what is exposed, and finds the numbers that the batches had."""

import numpy as np
import pytest

from evenflow.metrics.prometheus import BUCKETS, BatchCounters, exposition
from recorded_batches import HOSTILE, batch_metrics

pytest.importorskip("prometheus_client")
from prometheus_client.parser import text_string_to_metric_families


def parsed(*counters):
    text = exposition(counters).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_own_parser_finds_sums_and_the_newest_batch():
    rng = np.random.default_rng(0)
    batches = [batch_metrics(i, 4, rng, began=100.0 + i, migrated_keys=i) for i in range(5)]
    counters = BatchCounters("hits")
    for metrics in (batches[4], *batches[:4]):  # the newest first, as a page reads them
        counters.take(metrics)
    found = parsed(counters)
    label = (("query", "hits"),)
    assert found["evenflow_batches_total", label] == 5
    assert found["evenflow_rows_total", label] == sum(one["rows"] for one in batches)
    assert found["evenflow_migrated_keys_total", label] == 10
    assert found["evenflow_last_batch", label] == 4
    assert found["evenflow_last_batch_timestamp_seconds", label] == 104.0
    assert found["evenflow_max_over_average", label] == batches[4]["max_over_average"]
    share = batches[4]["hot_keys"][0]["lower"] / batches[4]["rows"]
    assert found["evenflow_hottest_key_share", label] == share
    seconds = sum(one["durations"]["tasks"] for one in batches)
    by_step = found["evenflow_step_seconds_total", (("query", "hits"), ("step", "tasks"))]
    assert by_step == pytest.approx(seconds)
    assert found["evenflow_batch_seconds_count", label] == 5
    everything = sum(sum(one["durations"].values()) for one in batches)
    assert found["evenflow_batch_seconds_sum", label] == pytest.approx(everything)
    for bound in BUCKETS:
        under = sum(sum(one["durations"].values()) <= bound for one in batches)
        assert found["evenflow_batch_seconds_bucket", (("le", f"{bound}"), *label)] == under


def test_what_decides_the_number_of_partitions_is_exposed_where_the_load_does():
    rng, counters = np.random.default_rng(0), BatchCounters("hits")
    scaling = {"partitions": 6, "load": 0.9, "arriving": 800.0, "true_rate": None, "reason": "…"}
    counters.take(batch_metrics(0, 4, rng, planned_partitions=4, scaling=scaling))
    found, label = parsed(counters), (("query", "hits"),)
    assert found["evenflow_partitions", label] == 4
    assert found["evenflow_partitions_wanted", label] == 6
    assert found["evenflow_load", label] == 0.9
    assert ("evenflow_true_rate_rows_per_second", label) not in found
    counters.take(batch_metrics(1, 4, rng, planned_partitions=6))
    found = parsed(counters)
    assert found["evenflow_partitions", label] == 6
    assert ("evenflow_load", label) not in found


def test_counters_only_grow_and_gauges_are_of_the_newest_batch():
    rng, counters, before = np.random.default_rng(1), BatchCounters("q"), {}
    order = rng.permutation(12)
    newest = -1
    for batch in order.tolist():
        counters.take(batch_metrics(batch, 3, rng))
        newest = max(newest, batch)
        found = parsed(counters)
        assert found["evenflow_last_batch", (("query", "q"),)] == newest
        for key, value in before.items():
            if key[0].endswith(("_total", "_count", "_sum", "_bucket")):
                assert found[key] >= value
        before = found


def test_keys_never_become_labels_and_names_are_escaped():
    counters = BatchCounters('a "name"\nof\\mine')
    counters.take(batch_metrics(0, 2, np.random.default_rng(0), keys=HOSTILE))
    text = exposition([counters]).decode()
    assert "hacked" not in text
    assert parsed(counters)["evenflow_batches_total", (("query", 'a "name"\nof\\mine'),)] == 1


def test_a_query_without_a_batch_and_a_gateway_s_batch_are_exposed_too():
    assert parsed(BatchCounters("q"))["evenflow_batches_total", (("query", "q"),)] == 0
    counters = BatchCounters("gateway")
    counters.take(
        {"batch": 3, "rows": 7, "hot_keys": 2, "sizes": [1], "durations": {"messages": 1.0}}
    )
    assert parsed(counters)["evenflow_rows_total", (("query", "gateway"),)] == 7
    requests = {"driver": {"reads": 3}, "tasks": {"reads": 4}}
    counters.take({"batch": 4, "rows": 1, "durations": {}, "requests": requests})
    labels = (("by", "tasks"), ("kind", "reads"), ("query", "gateway"))
    assert parsed(counters)["evenflow_store_requests_total", labels] == 4
