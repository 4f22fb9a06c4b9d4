"""`make fuzz`: try everything that is parsed on mutated inputs, and say what came of it."""

from __future__ import annotations

import argparse
import sys

from evenflow_lab.checking.fuzzing.parsers import parsers
from evenflow_lab.checking.fuzzing.running import fuzz
from evenflow_lab.cli.fuzzed_papers import experiment_parser


def main() -> int:
    """Run all parsers; 1 if one of them breaks the contract."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--inputs", type=int, default=10_000, help="per parser")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--only", default="", help="parsers whose names have this in them")
    given = arguments.parse_args()
    broken, total = 0, 0
    for parser in (*parsers(), experiment_parser()):
        if given.only not in parser.name:
            continue
        found = fuzz(parser, given.inputs, given.seed)
        total += found.inputs
        counts = f"{found.accepted:9,} accepted, {found.refused:9,} refused"
        cost = f"slowest {found.slowest * 1000:.0f} ms, {found.megabytes:+.0f} MB"
        said = f"{found.inputs:9,} inputs: {counts}, {len(found.crashes)} crashes; {cost}"
        print(f"{parser.name:26} {said}", flush=True)
        for where, inputs in found.crashes.items():
            print(f"  {where}: {str(inputs[0])[:300]}\n{found.traces[where]}", file=sys.stderr)
        broken += not found.sound
    print(f"{total:,} inputs, {broken} parsers that break the contract (seed {given.seed})")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
