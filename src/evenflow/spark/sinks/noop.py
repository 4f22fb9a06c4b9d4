"""The format "noop": output that nobody wants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from evenflow.engine.output import Output
from evenflow.spark.sinks.protocol import InCheckpoint, Target


@dataclass(frozen=True)
class NoopSink(InCheckpoint):
    """Drops the output; for measuring, and for queries of which only the state counts."""

    name: ClassVar[str] = "noop"
    temporary: ClassVar[bool] = True

    @classmethod
    def of(cls, target: Target) -> NoopSink:
        target.takes()
        return cls()

    def deliver(self, output: Output, session: Any) -> None:
        pass
