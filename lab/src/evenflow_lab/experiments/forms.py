"""Two forms of one scheme, the paper's and ours, side by side: which of them a verdict is about.

A run with the literal form of a scheme has `literal=true` in its name, or a column `literal`. Schemes
that have one form only are the same beside either.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable

from evenflow.model import InputError
from evenflow_lab.experiments.claims import Claim, FigureRows, Judge, Row, Rows, Verdict

_LITERAL = "literal=true"


def in_both_forms(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """The claims, each judged by the literal form of the schemes, with what ours measures beside it.

    The verdict is the literal form's: a claim is the paper's. A judge sees the rows of one form at a
    time, under the scheme's plain name, so it need not know of forms.
    """
    return tuple(dataclasses.replace(one, function=_judged_twice(one.function)) for one in claims)


def _judged_twice(judge: Judge) -> Judge:
    @functools.wraps(judge)
    def both(rows: Rows) -> Verdict:
        literal, ours = (_verdict(judge, rows, form) for form in (True, False))
        if literal == ours:
            return literal
        outcome = {True: "held", False: "not held", None: "open"}[ours.held]
        measured = f"Literal form: {literal.measured} Ours, {outcome}: {ours.measured}"
        return Verdict(literal.held, measured, literal.why)

    return both


def _verdict(judge: Judge, rows: Rows, literal: bool) -> Verdict:
    found = judge({figure: of_form(own, literal) for figure, own in rows.items()})
    if not isinstance(found, Verdict):
        raise InputError(f"a judge of two forms must return a Verdict, got {found!r}")
    return found


def of_form(rows: FigureRows, literal: bool) -> list[Row]:
    """The rows of one form, and those of schemes that have only one, under their plain names.

    Example:
        >>> rows = [{"grouping": name} for name in ("key", "w-choices", "w-choices:literal=true")]
        >>> [row["grouping"] for row in of_form(rows, literal=True)]
        ['key', 'w-choices']
        >>> of_form([{"d": 5, "literal": True}, {"d": 6, "literal": False}], literal=False)
        [{'d': 6, 'literal': False}]
    """
    two_forms = {_plain(row) for row in rows if _LITERAL in _name(row)}
    chosen = []
    for row in rows:
        form = row.get("literal")
        if form is None and _plain(row) in two_forms:
            form = _LITERAL in _name(row)
        if form is None or form == literal:
            chosen.append({**row, "grouping": _plain(row)} if "grouping" in row else row)
    return chosen


def _name(row: Row) -> str:
    return str(row.get("grouping", ""))


def _plain(row: Row) -> str:
    """The name without the parameter that tells the form."""
    name, _, parameters = _name(row).partition(":")
    others = [item for item in parameters.split(",") if item and item != _LITERAL]
    return f"{name}:{','.join(others)}" if others else name
