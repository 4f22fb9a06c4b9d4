"""Runs parsers on mutated inputs and collects what breaks the contract."""

from __future__ import annotations

import random
import resource
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenflow.model import EvenflowError

SECONDS = 2.0  #: that a parser may take for one input
MEGABYTES = 300.0  #: by which the process may grow while one parser is tried
_SHOWN = 5  # crashes of one kind that are kept

Make = Callable[[random.Random], Any]


@dataclass(frozen=True)
class Parser:
    """Something that is parsed.

    Parameters:
        name: of what it parses.
        parse: the parser, called with what `make` returns.
        make: a mutated input.
        valid: inputs that it must accept.
    """

    name: str
    parse: Callable[[Any], object]
    make: Make
    valid: Sequence[Any]


@dataclass
class Findings:
    """What came of one parser.

    Parameters:
        name: of the parser.
        inputs, accepted, refused: how many were tried, gave a value, gave a clear error.
        crashes: where it crashed → the first inputs that did it, with the trace of the first.
        slowest: seconds for one input.
        megabytes: by which the process has grown.
    """

    name: str
    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    crashes: dict[str, list[Any]] = field(default_factory=dict)
    traces: dict[str, str] = field(default_factory=dict)
    slowest: float = 0.0
    megabytes: float = 0.0

    @property
    def sound(self) -> bool:
        return not self.crashes and self.slowest < SECONDS and self.megabytes < MEGABYTES

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "parser": self.name,
            "inputs": self.inputs,
            "accepted": self.accepted,
            "refused": self.refused,
            "crashes": len(self.crashes),
            "slowest ms": round(self.slowest * 1000, 1),
            "grown MB": round(self.megabytes, 1),
        }


def fuzz(parser: Parser, inputs: int, seed: int = 0, seconds: float = float("inf")) -> Findings:
    """Try a parser on its valid inputs, then on so many mutated ones.

    Guarantee: the same seed gives the same inputs.

    Parameters:
        parser: which one.
        inputs: how many.
        seed: of the mutations.
        seconds: after which it ends, with fewer inputs.
    """
    chance = random.Random(f"{parser.name} {seed}")
    found = Findings(parser.name)
    for valid in parser.valid:
        parser.parse(valid)
    before, end = _peak(), time.monotonic() + seconds
    while found.inputs < inputs and time.monotonic() < end:
        given = parser.make(chance)
        found.inputs += 1
        began = time.thread_time()
        try:
            parser.parse(given)
            found.accepted += 1
        except EvenflowError as error:
            found.refused += 1
            if len(str(error).strip()) < 10:
                _note(found, f"{type(error).__name__} without a message", given)
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            _note(found, _place(error), given)
        found.slowest = max(found.slowest, time.thread_time() - began)
    found.megabytes = (_peak() - before) / 1000
    return found


def _note(found: Findings, where: str, given: Any) -> None:
    kept = found.crashes.setdefault(where, [])
    if len(kept) < _SHOWN:
        kept.append(given)
    found.traces.setdefault(where, traceback.format_exc(limit=-6))


def _place(error: BaseException) -> str:
    """The type of an exception and the line of ours that it passed last: one crash, one place."""
    lines = [f for f in traceback.extract_tb(error.__traceback__) if "/evenflow" in f.filename]
    last = lines[-1] if lines else None
    at = f"{last.filename.rpartition('/src/')[2]}:{last.lineno}" if last else "?"
    return f"{type(error).__name__} at {at}"


def _peak() -> float:
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
