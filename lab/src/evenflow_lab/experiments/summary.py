"""The verdicts of all papers in two tables, for a page of the documentation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evenflow.model import InputError
from evenflow_lab.experiments.causes import Cause
from evenflow_lab.experiments.claims import claims_of
from evenflow_lab.experiments.declaration import Paper, papers
from evenflow_lab.experiments.tables import write_text

BEGIN, END = "<!-- verdicts -->", "<!-- end -->"

Entry = Mapping[str, Any]  #: a `LedgerEntry` as plain values


def write_summary(out: Path, page: Path) -> None:
    """Puts the verdicts of every paper whose ledger is in `out` between the marks of a page.

    Guarantee: what is outside the marks stays. A paper of which only some figures were run last is
    refused: its verdicts would be those of a part.

    Parameters:
        out: where `evenflow reproduce` has written to, in one run or in several.
        page: a Markdown file with a line `<!-- verdicts -->` and after it a line `<!-- end -->`.
    """
    before, after = check_page(page)
    text = "\n".join([before, BEGIN, "", *summarise(_ledgers(out)), "", END]) + after
    write_text(page, text)


def check_page(page: Path) -> tuple[str, str]:
    """What stands before and after the marks; called before a run, which may take an hour."""
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{page} cannot be read: {error.strerror or error}") from None
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise InputError(f"{page} has no place for the verdicts; add the lines {BEGIN} and {END}")
    return before.rstrip("\n") + "\n", after


def summarise(ledgers: Mapping[str, tuple[str, Sequence[Entry]]]) -> list[str]:
    """Two Markdown tables: counts for each paper, and every claim that does not hold.

    Parameters:
        ledgers: a paper's name → its title and the entries of its ledger; none if it was not run.

    Example:
        >>> entry = {"id": "low", "verdict": "not held", "cause": "the paper", "mode": "quick",
        ...          "seeds": 3, "held_by": 1, "section": "§2"}
        >>> print(*summarise({"p": ("A paper", [entry])})[-1:])
        | `p` | `low` | §2 | the paper | 1 of 3 |
    """
    heads = ["paper", "run", "held", "not held", "open", *map(str, Cause), "not known"]
    lines = ["Of the claims that do not hold, the last columns count the causes.", ""]
    lines += [_line(heads), _line(["---", "---", *["---:"] * (len(heads) - 2)])]
    for name, (title, entries) in ledgers.items():
        counts = [
            *(sum(one["verdict"] == verdict for one in entries) for verdict in VERDICTS),
            *(sum(_cause(one) == cause for one in entries) for cause in heads[5:]),
        ]
        modes = ", ".join(sorted({one["mode"] for one in entries}))
        shown = [str(count or "") for count in counts] if entries else [""] * len(counts)
        lines.append(_line([f"{title} (`{name}`)", modes or "not run", *shown]))
    lines += ["", _line(["paper", "claim that does not hold", "section", "cause", "seeds"])]
    lines.append(_line(["---", "---", "---", "---", "---"]))
    for name, (_, entries) in ledgers.items():
        for one in entries:
            if one["verdict"] == "not held":
                seeds = f"{one['held_by']} of {one['seeds']}" if one["seeds"] else ""
                lines.append(
                    _line([f"`{name}`", f"`{one['id']}`", one["section"], _cause(one), seeds])
                )
    return lines


VERDICTS = ("held", "not held", "open")


def _ledgers(out: Path) -> dict[str, tuple[str, Sequence[Entry]]]:
    return {name: (paper.title, _ledger(paper, out)) for name, paper in papers().items()}


def _ledger(paper: Paper, out: Path) -> Sequence[Entry]:
    path = out / paper.name / "ledger.json"
    if not path.is_file():
        return []
    entries: list[Entry] = json.loads(path.read_text(encoding="utf-8"))
    missing = {one.id for one in claims_of(paper)} - {one["id"] for one in entries}
    if missing:
        raise InputError(
            f"{path} has no verdict on {sorted(missing)[0]!r}: not the whole paper was run last; run "
            f"`evenflow reproduce {paper.name} --out {out}`"
        )
    return entries


def _cause(entry: Entry) -> str:
    return "" if entry["verdict"] != "not held" else str(entry["cause"] or "not known")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
