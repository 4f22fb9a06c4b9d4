"""The claims of the paper's text, judged: see the files beside this one.

`claims_global.py` has those on the global algorithms (Figures 1, 3, 4 and 5, Table 3),
`claims_pairwise.py` those on the pair-wise ones (Figures 6 to 8), `claims_robustness.py` those on
parameters and bursty inputs (Figures 9 and 10), `claims_cost.py` those on computation (Table 1).

Thresholds come from the paper's words: see the top of `terms.py`. They were written down before the
figures were run, but after trial runs of the simulator, by which two settings were chosen: the offsets
of the inputs, and from when on latencies count (README.md).
"""

from evenflow_lab.experiments import claims_in
from evenflow_lab.papers.borealis import (
    claims_cost,
    claims_global,
    claims_pairwise,
    claims_robustness,
)

CLAIMS = claims_in(claims_global, claims_pairwise, claims_robustness, claims_cost)
