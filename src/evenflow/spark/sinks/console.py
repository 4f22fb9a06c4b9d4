"""The format "console": the first rows of each batch, printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from evenflow.engine.output import Output
from evenflow.model import InputError
from evenflow.spark.sinks.protocol import InCheckpoint, Target


@dataclass(frozen=True)
class ConsoleSink(InCheckpoint):
    """Prints the first rows of each batch; on Spark Connect, in a process of the server.

    Parameters:
        rows: how many.
    """

    name: ClassVar[str] = "console"
    temporary: ClassVar[bool] = True
    rows: int = 20

    @classmethod
    def of(cls, target: Target) -> ConsoleSink:
        target.takes("numRows")
        text = target.option("numRows", "20")
        if text is None or not text.isdecimal() or int(text) < 1:
            raise InputError(f'option "numRows" takes a whole number of at least 1, got {text!r}')
        return cls(int(text))

    def deliver(self, output: Output, session: Any) -> None:
        table = output.table()
        print(f"batch {output.batch}: {table.num_rows:,} rows")
        for row in table.slice(0, self.rows).to_pylist():
            print("  " + ", ".join(f"{name}={value!r}" for name, value in row.items()))
