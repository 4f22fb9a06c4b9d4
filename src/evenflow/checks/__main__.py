"""`python -m evenflow.checks [NAME …]`: run the conformance suite by hand.

A name is that of a scheme, with parameters after a colon (`greedy-d:d=5`); without a name, all are
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
        command: what was typed.
        arguments: of the command line; those of this process if not given.
        every: the names that are checked where none is given.
        make: a subject by its name and parameters.
        check: its report.
    """
    parser = argparse.ArgumentParser(prog=command, description="Run the conformance suite.")
    parser.add_argument("names", nargs="*", metavar="NAME", help='with parameters: "greedy-d:d=5"')
    parser.add_argument("--json", action="store_true", help="one JSON array instead of text")
    given = parser.parse_args(arguments)
    done = []
    try:
        # All are made first: a misspelt name should not show after minutes of checking others.
        for subject in [make(name) for name in given.names or every]:
            done.append(check(subject))
            if not given.json:
                print(done[-1], flush=True)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(json.dumps([{**dataclasses.asdict(r), "ok": r.ok} for r in done], indent=2))
    return 0 if all(r.ok for r in done) else 1


if __name__ == "__main__":
    sys.exit(main())
