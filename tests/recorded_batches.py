"""Checkpoints as queries leave them, written without Spark: metrics of any number of batches."""

import json
import math

import numpy as np

from evenflow.state import Checkpoint
from evenflow.state.manifest import Manifest

HOSTILE = [
    '<img src=x onerror="window.hacked=1">',
    "</script><script>window.hacked=1</script>",
    "\u202egnirts cibara \u0645\u0631\u062d\u0628\u0627",
    "x" * 5000,
    "a\nb\u0000c",
    "",
    "日本語のキー",
    "{{constructor.constructor('window.hacked=1')()}}",
]
_REASON = "the hottest key has 31.0% of the rows, 5.0 times a partition's share"
_EVERY = 8.64  # seconds between batches: 10 000 of them are a day


def batch_metrics(batch, partitions, rng, scheme="key", began=0.0, keys=(), **more):
    """The metrics of a batch, as `evenflow.engine.reports` writes them."""
    base = rng.gamma(60, 100, partitions)
    if scheme == "key":
        base[3 % partitions] *= 4 + 2 * math.sin(batch / 500)
    rows = base.astype(int)
    total = int(rows.sum())
    seconds = rows * 2e-4
    loads = list(zip(rows.tolist(), seconds.tolist(), strict=True))
    keys = keys or [f"page {i}" for i in range(8)]
    return {
        "batch": batch,
        "scheme": scheme,
        "reason": _REASON,
        "epoch": 0,
        "rows": total,
        "keys": total // 12,
        "imbalance": float(rows.max() / total - 1 / partitions),
        "max_over_average": float(rows.max() * partitions / total),
        "replicas": total // 10,
        "replication": 1.0 if scheme == "key" else 1.2,
        "state_bytes": 10**6 + 1000 * batch,
        "migrated_keys": 0,
        "migrated_bytes": 0,
        "table_size": 0,
        "hot_keys": [
            {
                "key": json.dumps([key]),
                "fingerprint": str(1000 + i),
                "lower": total // (5 * (i + 1)),
                "upper": int(total / (4.5 * (i + 1))),
            }
            for i, key in enumerate(keys)
        ],
        "partitions": [
            {"partition": i, "rows": r, "keys": r // 12, "seconds": s, "update_seconds": s}
            for i, (r, s) in enumerate(loads)
        ],
        "state": [
            {
                "partition": i,
                "keys": r // 12,
                "seconds": s,
                "write_seconds": s,
                "state_bytes": r * 90,
            }
            for i, (r, s) in enumerate(loads)
        ],
        "durations": {
            "plan": 0.01,
            "tasks": float(seconds.max()) + 0.3,
            "sink": 0.1,
            "commit": 0.03,
        },
        "began": began,
        "planning": None,
        **more,
    }


def write_checkpoint(path, batches, partitions, *, wide=None, last=1.79e9, keys=()):
    """A checkpoint with metrics, compacted as a long run leaves them, and a last manifest.

    Parameters:
        wide: how many of the newest batches have all `partitions`, others 4; None for all.
        last: when the last batch began.
        keys: the hot keys.
    """
    rng = np.random.default_rng(1)
    checkpoint = Checkpoint.open(path, {"key": {"page": "string"}, "state": {"hits": "int64"}})
    schemes, lines, metrics = ("key", "d-choices", "table"), [], {}
    for batch in range(batches):
        many = wide is None or batch >= batches - wide
        scheme = schemes[min(3 * batch // batches, 2)]
        began = last - _EVERY * (batches - 1 - batch)
        if many or batch % 25 == 0:
            metrics = batch_metrics(batch, partitions if many else 4, rng, scheme, began, keys)
        else:  # as the one before: thousands of batches are made in a second
            same = {"migrated_keys": 0, "migrated_bytes": 0}
            metrics = {**metrics, **same, "batch": batch, "scheme": scheme, "began": began}
        if batch % 977 == 976:
            metrics |= {"migrated_keys": 137, "migrated_bytes": 111_244}
        lines.append(json.dumps(metrics).encode() + b"\n")
        if len(lines) == 1024 or batch == batches - 1:
            name = f"metrics/{batch + 1 - len(lines):010d}-{batch:010d}.jsonl"
            checkpoint.storage.put(name, [b"".join(lines)])
            lines = []
    if batches:
        plan = {
            "scheme": metrics["scheme"],
            "parameters": {},
            "partitions": partitions,
            "seed": 0,
            "epoch": 0,
            "table": {},
            "hot": {one["fingerprint"]: one["lower"] for one in metrics["hot_keys"]},
            "total": metrics["rows"],
            "reason": _REASON,
        }
        kept = {
            name: value for name, value in metrics.items() if name not in ("began", "durations")
        }
        checkpoint.commit(Manifest(batch=batches - 1, plan=plan, metrics=kept))
    return checkpoint
