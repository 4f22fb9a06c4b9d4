"""The claims of the paper's text, judged: see the files beside this one.

`claims_head.py` and `claims_memory.py` have those of the analysis (Figures 3 to 6),
`claims_thresholds.py` those on θ and d (Figures 7 to 9), `claims_zipf.py` and `claims_streams.py` those
on imbalance (Figures 1 and 10 to 12), `claims_storm.py` those that need a cluster and are open.

Thresholds come from the paper's words: where it says "low", its own 0.1 %; where "ideal", its ε; where
two things differ on a logarithmic axis, a factor of ten. Wherever imbalances are compared, those below
ε count as ε. What was measured decides nothing here.

Verdicts are about the literal form of D-C, W-C and RR, the paper's algorithms without our additions;
what ours measures stands beside it.
"""

from evenflow_lab.experiments import claims_in, in_both_forms
from evenflow_lab.papers.two_choices_not_enough import (
    claims_head,
    claims_memory,
    claims_storm,
    claims_streams,
    claims_thresholds,
    claims_zipf,
)

CLAIMS = in_both_forms(
    claims_in(
        claims_head, claims_memory, claims_thresholds, claims_zipf, claims_streams, claims_storm
    )
)
