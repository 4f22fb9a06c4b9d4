"""A stateful processor without Spark: it counts the rows of a key, reports and forgets by timers."""

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from evenflow.engine.processors import EVENT_TIME
from evenflow.operators.state_variables import Variable

COUNT = pa.struct([("n", pa.int64())])
OUTPUT = pa.schema([("k", pa.string()), ("what", pa.string()), ("n", pa.int64())])


@dataclass(frozen=True)
class Counting:
    """Counts the rows of each key, keeps the last counts, and closes a key some time after.

    Every row of input is a row of output, and a timer is another one.

    Parameters:
        mode: what timers go by.
        after: milliseconds after which a key is closed.
        ttl: of what it remembers of recent batches.
    """

    name: ClassVar[str] = "Counting"
    mode: str
    after: int
    ttl: int | None = None

    deleted: ClassVar[tuple[str, ...]] = ()

    def variables(self):
        return (
            Variable("count", "value", COUNT),
            Variable("recent", "list", COUNT, ttl=self.ttl),
            Variable("by", "map", COUNT, pa.struct([("v", pa.int64())]), ttl=self.ttl),
        )

    def output_schema(self):
        return OUTPUT

    def signature(self):
        return "counting"

    def called(self, call):
        return f"Counting.{call}"

    def begin(self, times):
        return _Calls(self, times)


class _Calls:
    def __init__(self, processor, times):
        self.processor, self.times = processor, times
        self.now = times.watermark if processor.mode == EVENT_TIME else times.processing
        self.made = []

    def keys(self, columns):
        return [tuple(row.values()) for row in columns.to_pylist()]

    def rows(self, rows, bounds, initial):
        plain = rows.to_pylist()
        return lambda i: plain[bounds[i] : bounds[i + 1]]

    def initial(self, key, state, rows):
        state.values["count"] = ((sum(row["initial"]["n"] for row in rows),), None)

    def input(self, key, state, rows):
        until = None if self.processor.ttl is None else self.now + self.processor.ttl
        count = state.values.get("count", ((0,), None))[0][0] + len(rows)
        state.values["count"] = ((count,), None)
        state.lists.setdefault("recent", []).append(((len(rows),), until))
        for row in rows:
            by = state.maps.setdefault("by", {})
            before = by.get((row["v"],), ((row["v"],), ((0,), None)))[1][0][0]
            by[(row["v"],)] = ((row["v"],), ((before + 1,), until))
            self.made.append((key[0], "row", count))
        if not state.timers:
            state.timers.add(self.now + self.processor.after)
        self.made.append((key[0], "recent", sum(one[0][0] for one in state.lists["recent"])))
        self.made.append((key[0], "by", len(state.maps["by"])))

    def expired(self, key, state, moment):
        count = state.values.get("count", ((0,), None))[0][0]
        self.made.append((key[0], f"closed at {moment}", count))
        state.values.clear()

    def output(self):
        made, self.made = self.made, []
        if made:
            columns = zip(*made, strict=True)
            yield pa.table(
                [pa.array(c, f.type) for c, f in zip(columns, OUTPUT, strict=True)], schema=OUTPUT
            )

    def close(self):
        pass
