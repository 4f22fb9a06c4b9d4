"""The claims of the paper's text, judged: see the files beside this one.

`claims_delays.py` has those on queuing delay under the static load (Figures 7 and 8),
`claims_threshold.py` those on what is hot (Figure 9), `claims_dynamic.py` those on the dynamic load
(Figure 10), `claims_state.py` those on what the gateway keeps (§II), `claims_broker.py` what a real
broker makes of Figures 7 to 10.

Thresholds come from the paper's words: see `terms.py`.
"""

from evenflow_lab.experiments import claims_in
from evenflow_lab.papers.smalops import (
    claims_broker,
    claims_delays,
    claims_dynamic,
    claims_state,
    claims_threshold,
)

CLAIMS = claims_in(claims_delays, claims_threshold, claims_dynamic, claims_state, claims_broker)
