"""`python -m evenflow_lab.checks [NAME …]`: check sketches by name, or all of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from evenflow import sketches
from evenflow.checks.__main__ import check_by_name
from evenflow_lab.checks import run_sketch_checks


def main(arguments: Sequence[str] | None = None) -> int:
    """Check sketches by name; returns the exit code."""
    return check_by_name(
        "python -m evenflow_lab.checks",
        arguments,
        sketches.sketches(),
        sketches.make,
        run_sketch_checks,
    )


if __name__ == "__main__":
    sys.exit(main())
