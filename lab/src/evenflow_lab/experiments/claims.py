"""The claims ledger: what a paper's text says, what was measured, and whether it held."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from evenflow.model import InputError
from evenflow_lab.experiments.causes import causes_of
from evenflow_lab.experiments.declaration import Paper
from evenflow_lab.experiments.modules import load_module
from evenflow_lab.experiments.seeds import FigureRows as FigureRows
from evenflow_lab.experiments.seeds import Measured, Spread, Threshold, by_seed
from evenflow_lab.experiments.seeds import Row as Row
from evenflow_lab.experiments.seeds import Rows as Rows

_MARK = "__evenflow_claim__"
UNKNOWN = "No reason is known; the numbers say how far off it is."


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


#: What looks at the rows of a claim's figures: it decides, or measures what its threshold is about.
Judge = Callable[[Rows], Verdict | Measured]
_Marked = TypeVar("_Marked", bound=Judge)


@dataclass(frozen=True)
class LedgerEntry:
    """One line of the ledger: the claim, the command that tests it, and the verdict.

    Parameters:
        cause: where the claim does not hold: one of `Cause`, in words; empty if it is not known.
        threshold: what was declared before the run, where the claim has one of its own.
        seeds, held_by: over how many seeds, and for how many of them the claim holds by itself; 0 where
            its figures have no seeds or one.
        mode: `quick` or `full`.
    """

    id: str
    section: str
    says: str
    figures: tuple[str, ...]
    command: str
    held: bool | None
    measured: str
    why: str
    cause: str = ""
    threshold: str = ""
    seeds: int = 0
    held_by: int = 0
    mode: str = ""

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
    threshold: Threshold | None = None


def claim(
    id: str,
    section: str,
    *,
    figures: Sequence[str] = (),
    says: str,
    threshold: Threshold | None = None,
) -> Callable[[_Marked], _Marked]:
    """Marks a function of a paper's `claims.py` as the judge of one claim.

    The function is given the rows of its figures, by figure id, and returns a `Verdict`. With a
    threshold it returns a `Measured` instead, and is called with the rows of one seed at a time: the
    claim holds if the median over the seeds is in the band.

    Parameters:
        id: a short name, unique in the paper: `imbalance-at-100`.
        section: where the paper says it: `§V-B`.
        figures: the figures whose rows are looked at; none for a claim that is open.
        says: the claim, in the sense of the paper's words.
        threshold: the band in which the measured figure must lie.

    Example:
        >>> @claim("even", "§2", figures=["fig1"], says="The imbalance is below 0.1.")
        ... def even(rows):
        ...     worst = max(row["imbalance"] for row in rows["fig1"])
        ...     return Verdict(worst < 0.1, f"at most {worst}")
        >>> even({"fig1": [{"imbalance": 0.05}]}).held
        True
    """

    def mark(function: _Marked) -> _Marked:
        setattr(function, _MARK, Claim(id, section, says, tuple(figures), function, threshold))
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
    causes = causes_of(paper)
    ledger = []
    for one in claims_of(paper):
        if not (all(figure in rows for figure in one.figures) if one.figures else whole):
            continue
        own = {figure: rows[figure] for figure in one.figures}
        verdict, seeds, held_by = decide(paper, one, own)
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
                cause=str(causes.get(one.id, "")) if verdict.held is False else "",
                threshold=str(one.threshold or ""),
                seeds=seeds,
                held_by=held_by,
                mode=mode,
            )
        )
    return ledger


def decide(paper: Paper, one: Claim, rows: Rows) -> tuple[Verdict, int, int]:
    """The verdict on all rows together; over how many seeds; for how many of them the claim holds."""
    where = f"{paper.folder / 'claims.py'}: claim {one.id!r} ({one.function.__name__})"
    try:
        found = one.function(rows)
        alone = _alone(one, rows)
    except Exception as error:
        raise InputError(f"{where} failed with {type(error).__name__}: {error}") from error
    if one.threshold is None:
        if not isinstance(found, Verdict):
            raise InputError(f"{where} must return a Verdict, got {found!r}")
        held = [answer.held for answer in alone if isinstance(answer, Verdict)]
        return found, len(held), sum(bool(own) for own in held)
    if not isinstance(found, Measured):
        raise InputError(f"{where} must return a Measured, got {found!r}")
    values = [answer.value for answer in alone if isinstance(answer, Measured)]
    band, spread = one.threshold, Spread.of(values or [found.value])
    verdict = Verdict(
        band.holds(spread.median),
        f"{band.figure}: {spread.words(band.unit)}{'; ' if found.words else ''}{found.words} "
        f"(held if {'the median is ' if values else ''}{band}).",
    )
    if not verdict.held:
        verdict = dataclasses.replace(verdict, why=found.why or UNKNOWN)
    return verdict, len(values), sum(map(band.holds, values))


def _alone(one: Claim, rows: Rows) -> list[Verdict | Measured]:
    """What the judge says of each seed by itself; nothing where there is one seed or none."""
    split = by_seed(rows)
    if len(split) < 2:
        return []
    try:
        return [one.function(of_seed) for of_seed in split.values()]
    except Exception:
        # A claim on what several seeds have in common cannot be asked of one, and that must not cost a
        # verdict that took an hour. All rows together have been judged without a mistake.
        if one.threshold is not None:
            raise
        return []
