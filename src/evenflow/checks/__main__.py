"""`python -m evenflow.checks [NAME …]`: run the conformance suite by hand.

A name is a scheme, with parameters after a colon (`greedy-d:d=5`); without a name, all schemes are
checked. Exit code 0: all passed; 1: something failed; 2: bad input.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from evenflow import grouping
from evenflow.checks.grouping import run_grouping_checks
from evenflow.checks.outcome import Report
from evenflow.model import InputError


def main(arguments: Sequence[str] | None = None) -> int:
    """Check grouping schemes by name; returns the exit code."""
    return check_by_name(
        "python -m evenflow.checks",
        arguments,
        grouping.schemes(),
        grouping.make,
        run_grouping_checks,
    )


def check_by_name(
    command: str,
    arguments: Sequence[str] | None,
    every: Iterable[str],
    make: Callable[[str], Any],
    check: Callable[[Any], Report],
) -> int:
    """Print a report per name; returns the exit code.

    Parameters:
        command: name of the command.
        arguments: command-line arguments; those of this process if not given.
        every: the names to check if none is given.
        make: creates a subject from its name and parameters.
        check: checks it.
    """
    parser = argparse.ArgumentParser(prog=command, description="Run the conformance suite.")
    parser.add_argument("names", nargs="*", metavar="NAME", help='with parameters: "greedy-d:d=5"')
    parser.add_argument("--json", action="store_true", help="one JSON array instead of text")
    given = parser.parse_args(arguments)
    reports = []
    try:
        # Create all first, so that a misspelt name is reported before minutes of checking.
        for subject in [make(name) for name in given.names or every]:
            reports.append(check(subject))
            if not given.json:
                print(reports[-1], flush=True)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(json.dumps([{**dataclasses.asdict(r), "ok": r.ok} for r in reports], indent=2))
    return 0 if all(r.ok for r in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
