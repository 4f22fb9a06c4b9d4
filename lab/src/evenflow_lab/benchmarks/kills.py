"""A query whose driver is killed with SIGKILL, over and over: `python -m evenflow_lab.benchmarks.kills --kills 50`.

The driver is killed at every moment of a batch (plan fixed, segment written, output delivered, …) and
at random ones, and started again each time. In the end the output of every batch, the latest output
and the state of every key are compared with plain Python over all rows.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4] / "tests"))

from exactly_once.kills import run_and_kill


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--scheme", action="append", help="several: each driver has another")
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args()
    schemes = told.scheme or ["table", "auto", "d-choices", "table", "key"]
    with tempfile.TemporaryDirectory() as directory:
        result = run_and_kill(
            Path(directory),
            told.kills,
            schemes,
            told.seed,
            say=lambda line: print(line, file=sys.stderr),
        )
    print(f"{' and '.join(schemes)}: {result}")


if __name__ == "__main__":
    main()
