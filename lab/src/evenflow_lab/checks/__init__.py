"""The conformance suite of sketches: what every sketch must keep, as code.

`run_sketch_checks(MySketch()).raise_if_failed()` in a test, or by hand:
`python -m evenflow_lab.checks my-sketch`.
"""

from evenflow_lab.checks.sketches import SKETCH_CHECKS, run_sketch_checks

__all__ = ["SKETCH_CHECKS", "run_sketch_checks"]
