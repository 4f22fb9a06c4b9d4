"""What every diagnosis answers with: a sentence, numbers, code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from evenflow.diagnosis.rules import Remedy

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """Numbers for people: rows that all have the same columns."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Bars:
    """A picture: one bar per task or partition.

    Parameters:
        title: what is shown.
        values: one per bar.
        unit: of the values: "s", "rows".
        average: where a line is drawn.
    """

    title: str
    values: tuple[float, ...]
    unit: str
    average: float


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Parameters:
        cause: one of `evenflow.diagnosis.rules.CAUSES`.
        sentence: what it is, for people.
        lost_seconds: wall time that it costs; None if unknown.
        stage: the stage's number, where there is one.
        operator: what users call the operator: "join".
        keys: the key columns.
        figures: the numbers behind it.
        remedies: what would help, the best first.
    """

    cause: str
    sentence: str
    lost_seconds: float | None = None
    stage: int | None = None
    operator: str = ""
    keys: tuple[str, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """The answer: is it skew, and what would help? `print` shows it.

    Parameters:
        source: what was looked at.
        kind: "event log", "live application", "keys", "checkpoint" or "topic".
        answer: one sentence.
        cause: the main cause, one of `evenflow.diagnosis.rules.CAUSES`, or "nothing".
        needs_evenflow: whether Evenflow is the remedy that is advised first.
        findings: what is wrong, the costliest first.
        remedies: what would help against the main cause, the best first.
        tables, pictures: the numbers.
        notes: what limits the answer.
    """

    source: str
    kind: str
    answer: str
    cause: str
    needs_evenflow: bool
    findings: tuple[Finding, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Bars, ...] = ()
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without the pictures."""
        from evenflow.simulator.result import plain_values

        found = asdict(self)
        del found["pictures"]
        found["tables"] = {table.title: [dict(row) for row in table.rows] for table in self.tables}
        return plain_values(found)  # type: ignore[no-any-return]

    def to_html(self) -> str:
        """A page of its own with pictures: no script, nothing from the network."""
        from evenflow.diagnosis.page import page

        return page(self)

    def __str__(self) -> str:
        from evenflow.diagnosis.text import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        return self.to_html()
