"""A diagnosis as text: the answer first, then numbers, then the code to write."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import indent

from evenflow.diagnosis.diagnosis import Diagnosis, Table

_SHOWN = 60  #: characters of a cell


def as_text(diagnosis: Diagnosis) -> str:
    """All of a diagnosis for people, without colours."""
    return "\n".join(_lines(diagnosis))


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield printable(diagnosis.answer)
    for note in diagnosis.notes:
        yield f"Note: {printable(note)}."
    for table in diagnosis.tables:
        yield ""
        yield from table_lines(table)
    others = diagnosis.findings[1:]
    if others:
        yield ""
        yield "Also:"
        yield from (f"- {printable(one.sentence)}" for one in others)
    for remedy in diagnosis.remedies:
        yield ""
        yield f"{'Evenflow' if remedy.evenflow else 'Spark'}: {printable(remedy.what)}"
        if remedy.code:
            yield indent("\n".join(printable(line) for line in remedy.code.splitlines()), "    ")


def table_lines(table: Table) -> Iterator[str]:
    """A table in columns: the first two to the left where they are words, numbers to the right."""
    if not table.rows:
        return
    names = list(table.rows[0])
    cells = [[_cell(row[name]) for name in names] for row in table.rows]
    numeric = [all(not isinstance(row[name], str) for row in table.rows) for name in names]
    widths = [max(len(name), *(len(row[i]) for row in cells)) for i, name in enumerate(names)]

    def line(values: list[str]) -> str:
        parts = (
            value.rjust(width) if right else value.ljust(width)
            for value, width, right in zip(values, widths, numeric, strict=True)
        )
        return "  ".join(parts).rstrip()

    yield table.title
    yield line(names)
    for row in cells:
        yield line(row)


def printable(text: str) -> str:
    """Text on one line: control characters, which a key may have, are escaped.

    Example:
        >>> print(printable("red \\x1b[31m key"))
        red \\x1b[31m key
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    text = printable(str(value))
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
