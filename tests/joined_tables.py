"""The two sides of an interval join as one table, and its pairs as plain tuples."""

from collections import Counter

import pyarrow as pa

from evenflow.operators import IntervalJoin

BOTH = pa.schema(
    [
        ("k", pa.string()),
        ("right", pa.bool_()),
        ("left_ts", pa.timestamp("us", "UTC")),
        ("left_v", pa.int64()),
        ("right_ts", pa.timestamp("us", "UTC")),
        ("right_v", pa.int64()),
    ]
)


def two_sided(within, delay, how="inner"):
    left, right = (tuple((f"{s}_{c}",) * 2 for c in ("ts", "v")) for s in ("left", "right"))
    return IntervalJoin(("left_ts", "right_ts"), within, left, right, "right", delay, how=how)


def both_table(rows):
    stamps = [pa.array([None if r[3] != s else r[1] for r in rows], pa.int64()) for s in (0, 1)]
    values = [pa.array([None if r[3] != s else r[2] for r in rows], pa.int64()) for s in (0, 1)]
    return pa.table(
        [
            pa.array([r[0] for r in rows], pa.string()),
            pa.array([bool(r[3]) for r in rows], pa.bool_()),
            stamps[0].cast(pa.timestamp("us", "UTC")),
            values[0],
            stamps[1].cast(pa.timestamp("us", "UTC")),
            values[1],
        ],
        schema=BOTH,
    )


def pairs_of(table):
    columns = [table.column("k").to_pylist()]
    for name in ("left_ts", "left_v", "right_ts", "right_v"):
        column = table.column(name)
        columns.append((column.cast(pa.int64()) if name.endswith("ts") else column).to_pylist())
    return Counter(zip(*columns, strict=True))
