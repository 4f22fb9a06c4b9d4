"""`python -m evenflow.checks [NAME …]`: run the conformance suite by hand.

A name is that of a scheme or a sketch, with parameters after a colon (`greedy-d:d=5`); without a
name, all are checked. Exit code 0: all passed; 1: something failed; 2: bad input.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence

from evenflow import grouping, sketches
from evenflow.checks import Report, run_grouping_checks, run_sketch_checks
from evenflow.model import InputError


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a report a name; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m evenflow.checks", description="Check grouping schemes and sketches."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help='"key", "greedy-d:d=5", …')
    parser.add_argument("--json", action="store_true", help="one JSON array instead of text")
    given = parser.parse_args(arguments)
    done = []
    try:
        for report in _reports(given.names or [*grouping.schemes(), *sketches.sketches()]):
            done.append(report)
            if not given.json:
                print(report, flush=True)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(json.dumps([{**dataclasses.asdict(r), "ok": r.ok} for r in done], indent=2))
    return 0 if all(r.ok for r in done) else 1


def _reports(names: Sequence[str]) -> Iterator[Report]:
    # All are made first: a misspelt name should not show after minutes of checking others.
    subjects = [(name, name.partition(":")[0].strip() in sketches.sketches()) for name in names]
    made = [sketches.make(n) if is_sketch else grouping.make(n) for n, is_sketch in subjects]
    for subject in made:
        if isinstance(subject, sketches.Sketch):
            yield run_sketch_checks(subject)
        else:
            yield run_grouping_checks(subject)


if __name__ == "__main__":
    sys.exit(main())
