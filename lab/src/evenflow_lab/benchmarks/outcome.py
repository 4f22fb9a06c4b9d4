"""What benchmarks return: figures, goals, and what is shown of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Report = Callable[[str], object]  #: called with a line about what is being timed
Progress = Callable[
    [str, int, int | None], object
]  #: (what is being done, steps done, steps in all)


@dataclass(frozen=True)
class Goal:
    """A figure and what it should be.

    Parameters:
        what: the figure, in words.
        measured: what it was.
        bound: what it should be at most, or at least.
        at_least: whether larger is better.

    Example:
        >>> Goal("time ÷ Spark's", 1.1, 1.15).held, Goal("rate ÷ Spark's", 8.0, 10, True).held
        (True, False)
    """

    what: str
    measured: float
    bound: float
    at_least: bool = False

    @property
    def held(self) -> bool:
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        limit = "at_least" if self.at_least else "at_most"
        return {
            "what": self.what,
            "measured": self.measured,
            limit: self.bound,
            "held": self.held,
        }


@dataclass(frozen=True)
class Table:
    """Rows for people.

    Parameters:
        rows: column → value; every row has the same columns.
        title: stands above.
    """

    rows: Sequence[Mapping[str, Any]]
    title: str = ""


@dataclass(frozen=True)
class Result:
    """What a benchmark found.

    Parameters:
        answer: plain values, for `--json`.
        tables, lines: the same for people.
        goals: the figures that have something to reach; one that is missed is a finding.
        passed: whether everything that must hold held; if not, the exit code is 1.
    """

    answer: Any
    tables: tuple[Table, ...] = ()
    lines: tuple[str, ...] = ()
    goals: tuple[Goal, ...] = ()
    passed: bool = True


@dataclass(frozen=True)
class Outcome:
    """The figures of one measurement.

    Parameters:
        what: what was measured and how, in words.
        figures: rows of a table; every row has the same columns.
        goals: the figures that have something to reach.
    """

    what: str
    figures: tuple[Mapping[str, Any], ...]
    goals: tuple[Goal, ...] = ()


class Measurement(Protocol):
    """A frozen dataclass of sizes. `measure` may be called with any session; the command starts one
    with `cores` threads."""

    name: ClassVar[str]
    cores: ClassVar[int | None]  #: threads of Spark; None for as many as the machine has

    @classmethod
    def quick(cls) -> Self:
        """Small enough to try it out; too small to judge by."""
        ...

    @classmethod
    def full(cls) -> Self:
        """The largest sizes, where that takes much longer."""
        ...

    def measure(self, spark: SparkSession, folder: str, report: Report) -> Outcome:
        """Take it. `folder` is an empty directory for data and checkpoints."""
        ...


def as_json(measurement: Any, outcome: Outcome) -> dict[str, Any]:
    """A measurement and what it has found, for JSON."""
    return {
        "what": outcome.what,
        "parameters": {k: v for k, v in asdict(measurement).items() if not callable(v)},
        "figures": [dict(row) for row in outcome.figures],
        "goals": [goal.to_dict() for goal in outcome.goals],
    }


def say_nothing(what: str, done: int, steps: int | None) -> None:
    """The progress of a benchmark that nobody watches."""
