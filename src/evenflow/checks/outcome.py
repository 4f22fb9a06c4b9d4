"""What a check says, and the report of all of them."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path


class CheckFailed(AssertionError):
    """A check's finding: the subject, the stream, the position and the values, in one sentence."""


class NotApplicable(Exception):
    """Raised by a check that has nothing to say about this subject; the message says why."""


@dataclass(frozen=True)
class Outcome:
    """What one check found. Neither a failure nor a reason to skip: it passed."""

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
    """What all checks found about one scheme or sketch.

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
        """Name of the check → what it found."""
        return {o.check: o.failure for o in self.outcomes if o.failure is not None}

    def raise_if_failed(self) -> None:
        """For tests: all findings in one `CheckFailed`."""
        if not self.ok:
            raise CheckFailed(str(self))

    def __str__(self) -> str:
        verdict = f"{len(self.failures)} failed" if self.failures else "ok"
        return "\n".join([f"{self.subject}: {verdict}", *(f"  {o}" for o in self.outcomes)])


def run(subject: str, checks: Iterable[tuple[str, Callable[[], None]]]) -> Report:
    """Run every (name, check), whatever the ones before it found.

    An exception is a finding too: a scheme that crashes on a stream is as broken as one that sends
    it astray, and the report must go on to say what else is wrong.
    """
    outcomes = []
    for name, check in checks:
        try:
            check()
        except NotApplicable as reason:
            outcomes.append(Outcome(name, skipped=str(reason)))
        except CheckFailed as failure:
            outcomes.append(Outcome(name, failure=str(failure)))
        except Exception as error:
            outcomes.append(Outcome(name, failure=f"{subject} raised {_in_one_line(error)}"))
        else:
            outcomes.append(Outcome(name))
    return Report(subject, tuple(outcomes))


def _in_one_line(error: Exception) -> str:
    """A crash in a line: a compiler's error would otherwise fill pages, once a check."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    first = (str(error).splitlines() or [""])[0]
    place = f"{Path(where.filename).name}, line {where.lineno}, in {where.name}"
    return f"{type(error).__name__}: {first} ({place})"
