"""The claims ledger: what a paper's text says, what was measured, and whether it held."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from evenflow.model import InputError
from evenflow_lab.experiments.declaration import Paper
from evenflow_lab.experiments.modules import load_module

Row = Mapping[str, Any]
FigureRows = Sequence[Row]
Rows = Mapping[str, FigureRows]  #: figure id → its rows

_MARK = "__evenflow_claim__"


@dataclass(frozen=True)
class Verdict:
    """What became of a claim.

    Parameters:
        held: True or False; None where it is open: it cannot be tested here, and `why` says why.
        measured: the numbers, in a sentence.
        why: the reason, where the claim did not hold or is open.
    """

    held: bool | None
    measured: str
    why: str = ""

    def __post_init__(self) -> None:
        if self.held is None and not self.why:
            raise InputError("a verdict of None (open) must say why")
        # A comparison of NumPy values is not a bool, and JSON does not know it.
        if self.held is not None:
            object.__setattr__(self, "held", bool(self.held))


Judge = Callable[[Rows], Verdict]  #: what decides on a claim, given the rows of its figures


@dataclass(frozen=True)
class LedgerEntry:
    """One line of the ledger: the claim, the command that tests it, and the verdict."""

    id: str
    section: str
    says: str
    figures: tuple[str, ...]
    command: str
    held: bool | None
    measured: str
    why: str

    @property
    def verdict(self) -> str:
        """`held`, `not held` or `open`."""
        return "open" if self.held is None else "held" if self.held else "not held"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            **dataclasses.asdict(self),
            "figures": list(self.figures),
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, and the function that judges it."""

    id: str
    section: str
    says: str
    figures: tuple[str, ...]
    function: Judge


def claim(
    id: str, section: str, *, figures: Sequence[str] = (), says: str
) -> Callable[[Judge], Judge]:
    """Marks a function of a paper's `claims.py` as the judge of one claim.

    The function is given the rows of its figures, by figure id, and returns a `Verdict`.

    Parameters:
        id: a short name, unique in the paper: `imbalance-at-100`.
        section: where the paper says it: `§V-B`.
        figures: the figures whose rows are looked at; none for a claim that is open.
        says: the claim, in the sense of the paper's words.

    Example:
        >>> @claim("even", "§2", figures=["fig1"], says="The imbalance is below 0.1.")
        ... def even(rows):
        ...     worst = max(row["imbalance"] for row in rows["fig1"])
        ...     return Verdict(worst < 0.1, f"at most {worst}")
        >>> even({"fig1": [{"imbalance": 0.05}]}).held
        True
    """

    def mark(function: Judge) -> Judge:
        setattr(function, _MARK, Claim(id, section, says, tuple(figures), function))
        return function

    return mark


def open_claim(id: str, section: str, says: str, why: str) -> Claim:
    """A claim that cannot be tested here, and why."""
    return Claim(id, section, says, (), lambda rows: Verdict(None, "", why))


def claims_in(*modules: ModuleType) -> tuple[Claim, ...]:
    """The claims of modules, in the order in which they stand there: all that a module has marked, or
    what it lists as its `CLAIMS`."""
    found: list[Claim] = []
    for module in modules:
        marked = [item for item in vars(module).values() if hasattr(item, _MARK)]
        found += getattr(module, "CLAIMS", [getattr(item, _MARK) for item in marked])
    return tuple(found)


def claims_of(paper: Paper) -> list[Claim]:
    """The claims of a paper's `claims.py`, in the order in which they stand there.

    A `claims.py` whose claims are in several files gathers them: `CLAIMS = claims_in(one, other)`.
    """
    path = paper.folder / "claims.py"
    if not path.is_file():
        return []
    found = list(claims_in(load_module(path)))
    known = {figure.id for figure in paper.figures}
    seen: set[str] = set()
    for one in found:
        if one.id in seen:
            raise InputError(f"{path}: two claims have the id {one.id!r}; rename one")
        seen.add(one.id)
        unknown = [figure for figure in one.figures if figure not in known]
        if unknown:
            raise InputError(
                f"{path}: claim {one.id!r} looks at figure {unknown[0]!r}, which paper.toml does "
                f"not have; known: {', '.join(sorted(known))}"
            )
    return found


def judge(paper: Paper, rows: Rows, mode: str = "") -> list[LedgerEntry]:
    """The verdict on every claim whose figures are in `rows`.

    A claim with a figure that was not run is left out; one without figures (an open one) is listed
    when the whole paper was run.

    Parameters:
        paper: whose claims.
        rows: figure id → rows of the figures that were run.
        mode: `quick` or `full`, for the command of the entry.
    """
    whole = all(figure.id in rows for figure in paper.figures)
    ledger = []
    for one in claims_of(paper):
        if not (all(figure in rows for figure in one.figures) if one.figures else whole):
            continue
        verdict = _verdict(paper, one, {figure: rows[figure] for figure in one.figures})
        targets = [f"{paper.name}/{figure}" for figure in one.figures] or [paper.name]
        command = " ".join(["evenflow", "reproduce", *targets, *([f"--{mode}"] if mode else [])])
        ledger.append(
            LedgerEntry(
                id=one.id,
                section=one.section,
                says=one.says,
                figures=one.figures,
                command=command,
                held=verdict.held,
                measured=verdict.measured,
                why=verdict.why,
            )
        )
    return ledger


def _verdict(paper: Paper, one: Claim, rows: Rows) -> Verdict:
    where = f"{paper.folder / 'claims.py'}: claim {one.id!r} ({one.function.__name__})"
    try:
        verdict = one.function(rows)
    except Exception as error:
        raise InputError(f"{where} failed with {type(error).__name__}: {error}") from error
    if not isinstance(verdict, Verdict):
        raise InputError(f"{where} must return a Verdict, got {verdict!r}")
    return verdict
