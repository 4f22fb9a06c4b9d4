"""The names of frequent keys in a task's report: any key has one."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from evenflow.engine.layout import Keys
from evenflow.engine.tally import Tally

UTF8 = pa.array([b"caf\xe9", b"ok", None], pa.binary()).view(pa.string())
DATES = pa.array([-1_000_000, 4_000_000, 0], pa.int32()).view(pa.date32())
MOMENTS = pa.array([-(2**63), 2**63 - 1, 0], pa.int64()).view(pa.timestamp("us", "UTC"))
NESTED = pa.StructArray.from_arrays([UTF8, DATES], ["a", "b"])


@pytest.mark.parametrize(
    "column", [UTF8, DATES, MOMENTS, NESTED, pa.array([b"\xff", b"a", None])], ids=str
)
def test_any_key_has_a_name(column):
    tally = Tally()
    tally.add(Keys(np.arange(3, dtype=np.uint64), pa.table({"k0": column})), np.arange(3))
    names = [name for _, _, name in json.loads(tally.report("state", 0))["top"]]
    assert len(set(names)) == 3
    for name in names:
        name.encode()


def test_names_show_what_can_be_shown():
    tally = Tally()
    tally.add(
        Keys(np.arange(3, dtype=np.uint64), pa.table({"k0": UTF8, "k1": DATES})), np.arange(3)
    )
    names = [name for _, _, name in json.loads(tally.report("state", 0))["top"]]
    assert json.loads(names[0]) == ["caf\\xe9", "-0768-02-04"]
    assert json.loads(names[2]) == [None, "1970-01-01"]
