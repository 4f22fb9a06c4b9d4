"""The claims of the paper's text, judged: see the files beside this one.

`claims_hashing.py` has those on load under hashing (Figure 7), `claims_parameters.py` those on Mixed
and MinTable (Figures 8 to 10), `claims_compact.py` those on the compact representation (Figure 11),
`claims_rivals.py` those on MixedBF and Readj (Figure 12), `claims_appendix.py` those of the appendix
(Figures 17 to 21), `claims_storm.py` those on throughput (Figures 13 to 16), measured on Spark.

Claims on Mixed are judged by its literal form, `mixed:literal=1`: Algorithm 4 as printed. Ours stands
beside it in the figures.

Thresholds come from the paper's words: see the top of `terms.py`. They were written down before
anything had been run. Planning times are processor times of the machine that ran this, medians over
the plans: but for one claim that names a second, only their ratios are judged.
"""

from evenflow_lab.experiments import claims_in
from evenflow_lab.papers.skewness_and_variance import (
    claims_appendix,
    claims_compact,
    claims_hashing,
    claims_parameters,
    claims_rivals,
    claims_storm,
)

CLAIMS = claims_in(
    claims_hashing, claims_parameters, claims_compact, claims_rivals, claims_appendix, claims_storm
)
