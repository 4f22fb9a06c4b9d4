"""Large keys on several partitions, small ones whole."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from evenflow.engine.layout import PARTITION
from evenflow.engine.spreading import Spread, spread_keys
from evenflow.kernels.fingerprints import fingerprint
from evenflow.model import KeyCounts
from evenflow.model.owners import Owners


@given(st.lists(st.integers(1, 500), max_size=30), st.integers(1, 9), st.integers(0, 300))
def test_no_part_of_a_key_is_larger_than_a_share(rows, partitions, others):
    hot = KeyCounts(dict(enumerate(rows)), sum(rows) + others)
    places = spread_keys(hot, partitions)
    share = max(hot.total / partitions, 1)
    for key, count in hot.counts.items():
        assert len(set(places[key])) == len(places[key])
        assert count / len(places[key]) <= share * (1 + 1e-9)
        assert len(places[key]) == 1 or count > share


def test_partitions_are_even_and_small_keys_whole():
    keys = ["hot"] * 4000 + [f"k{i % 40}" for i in range(4000)]
    np.random.default_rng(1).shuffle(keys)
    names = sorted(set(keys))
    counts = dict(zip(fingerprint(pa.array(names)).tolist(), map(keys.count, names), strict=True))
    hot = KeyCounts(counts, len(keys))
    task = Spread(("k",), Owners(8), spread_keys(hot, 8))
    parts = []
    for source in range(4):
        part = pa.record_batch({"k": keys[source::4]})
        parts += task(source, iter([part.slice(0, 700), part.slice(700)]))
    table = pa.Table.from_batches(parts)
    loads = np.bincount(table.column(PARTITION).to_numpy(), minlength=8)
    assert loads.max() <= 1.05 * loads.mean()
    there = {}
    for key, partition in zip(*(table.column(i).to_pylist() for i in (1, 0)), strict=True):
        there.setdefault(key, set()).add(partition)
    assert {key for key, found in there.items() if len(found) > 1} == {"hot"}
    assert len(there["hot"]) == 4
