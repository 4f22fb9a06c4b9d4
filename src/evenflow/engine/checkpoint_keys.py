"""The names of keys that a checkpoint knows by fingerprint."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from evenflow.engine.key_names import key_names
from evenflow.model.owners import Owners
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.segments import FINGERPRINT, key_columns
from evenflow.state.whole_keys import rows_of_fingerprints
from evenflow.storage import Storage


def named_keys(
    checkpoint: str | os.PathLike[str] | Storage, fingerprints: Iterable[str]
) -> dict[str, str]:
    """Fingerprint → key, its values as JSON, for those that have state or were hot in the last batch.

    Parameters:
        checkpoint: the checkpoint location, or the storage there.
        fingerprints: as plans have them: whole numbers as text.
    """
    opened = Checkpoint.open(checkpoint)
    last = opened.last()
    wanted = sorted({int(one) for one in fingerprints})
    if last is None or not wanted:
        return {}
    names = {
        str(hot["fingerprint"]): str(hot["key"])
        for hot in last.metrics.get("hot_keys", ())
        if "fingerprint" in hot
    }
    owners: dict[int, Any] = {epoch: Owners.from_json(one) for epoch, one in last.owners.items()}
    rows = rows_of_fingerprints(opened.storage, last.segments, owners, np.array(wanted, np.uint64))
    if rows is not None:
        prints = rows.column(FINGERPRINT).to_numpy().view(np.uint64).tolist()
        found = key_names(rows.select(key_columns(rows.column_names)))
        names |= {str(one): name for one, name in zip(prints, found, strict=True)}
    return {str(one): names[str(one)] for one in wanted if str(one) in names}
