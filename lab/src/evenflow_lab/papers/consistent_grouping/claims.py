"""The claims of the paper's text, judged: see the files beside this one.

`claims_assignment.py` has those on the assignment of keys to virtual workers (§IV to §VI, Figure 4),
`claims_strategies.py` those on ε and on the strategies of assignment (Figures 6 and 7),
`claims_grouping.py` those on consistent grouping without time (Figures 8 and 11), `claims_queues.py`
those over time (Figures 9 and 10), `claims_adaptation.py` those on virtual workers and changing
machines (Figures 12 and 13), `claims_storm.py` those that need a cluster, which are open.

Thresholds come from the paper's words, and where those give no number from its own parameters: see the
top of `terms.py`. What was measured decides nothing here.

Verdicts are about the literal form of PoRC, CH and CG, the paper's algorithms without our additions;
what ours measures stands beside it. A claim over time holds only if it does under every arrival curve
that was run.
"""

from evenflow_lab.experiments import claims_in, in_both_forms
from evenflow_lab.papers.consistent_grouping import (
    claims_adaptation,
    claims_assignment,
    claims_grouping,
    claims_queues,
    claims_storm,
    claims_strategies,
)

CLAIMS = in_both_forms(
    claims_in(
        claims_assignment,
        claims_strategies,
        claims_grouping,
        claims_queues,
        claims_adaptation,
        claims_storm,
    )
)
