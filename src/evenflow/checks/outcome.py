"""The outcome of a check, and the report of all of them."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path


class CheckFailed(AssertionError):
    """A failed check: the subject, the stream, the position and the values, in one sentence."""


class NotApplicable(Exception):
    """Raised by a check that does not apply to the subject; the message says why."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one check; without a failure or a reason to skip, it passed."""

    check: str
    failure: str | None = None
    skipped: str | None = None

    def __str__(self) -> str:
        if self.failure is not None:
            return f"FAILED  {self.check}: {self.failure}"
        if self.skipped is not None:
            return f"skipped {self.check}: {self.skipped}"
        return f"passed  {self.check}"


@dataclass(frozen=True)
class Report:
    """The outcomes of all checks of one scheme, sketch or operator.

    Example:
        >>> report = Report("mine", (Outcome("only_live_workers", failure="worker 7 is gone"),))
        >>> report.ok, sorted(report.failures)
        (False, ['only_live_workers'])
    """

    subject: str
    outcomes: tuple[Outcome, ...]

    @property
    def ok(self) -> bool:
        return not self.failures

    @property
    def failures(self) -> dict[str, str]:
        """Check → failure."""
        return {o.check: o.failure for o in self.outcomes if o.failure is not None}

    def raise_if_failed(self) -> None:
        """Raise all failures as one `CheckFailed`, for tests."""
        if not self.ok:
            raise CheckFailed(str(self))

    def __str__(self) -> str:
        verdict = f"{len(self.failures)} failed" if self.failures else "ok"
        return "\n".join([f"{self.subject}: {verdict}", *(f"  {o}" for o in self.outcomes)])


def run(subject: str, checks: Iterable[tuple[str, Callable[[], None]]]) -> Report:
    """Run every (name, check). An exception is a failure too, and the other checks still run."""
    outcomes = []
    for name, check in checks:
        try:
            check()
        except NotApplicable as reason:
            outcomes.append(Outcome(name, skipped=str(reason)))
        except CheckFailed as failure:
            outcomes.append(Outcome(name, failure=str(failure)))
        except Exception as error:
            outcomes.append(Outcome(name, failure=f"{subject} raised {_summarise(error)}"))
        else:
            outcomes.append(Outcome(name))
    return Report(subject, tuple(outcomes))


def _summarise(error: Exception) -> str:
    """An exception in one line: a compiler's error would fill pages, once per check."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    first = (str(error).splitlines() or [""])[0]
    place = f"{Path(where.filename).name}, line {where.lineno}, in {where.name}"
    return f"{type(error).__name__}: {first} ({place})"
