"""The conformance suite: what every grouping scheme and every operator must satisfy.

For schemes of your own: `run_grouping_checks(MyScheme()).raise_if_failed()` in a test, or
`python -m evenflow.checks my-scheme` by hand.
"""

from evenflow.checks.grouping import GROUPING_CHECKS, run_grouping_checks
from evenflow.checks.operators import run_operator_checks
from evenflow.checks.outcome import CheckFailed, NotApplicable, Outcome, Report
from evenflow.checks.streams import Stream, standard_streams, uniform_stream

__all__ = [
    "GROUPING_CHECKS",
    "CheckFailed",
    "NotApplicable",
    "Outcome",
    "Report",
    "Stream",
    "run_grouping_checks",
    "run_operator_checks",
    "standard_streams",
    "uniform_stream",
]
