"""The claims of the paper's text, judged: see the files beside this one.

`claims_delays.py` has those on queuing delay under the static load (Figures 7 and 8),
`claims_threshold.py` those on what is hot (Figure 9), `claims_dynamic.py` those on the dynamic load
(Figure 10), `claims_state.py` those on what the gateway keeps (§II), `claims_broker.py` what a real
broker makes of Figures 7 to 10.

Thresholds come from the paper's words: see `reading.py`.
"""

from pathlib import Path

from evenflow_lab.experiments.declaration import load_module

for _part in ("delays", "threshold", "dynamic", "state", "broker"):
    _module = load_module(Path(__file__).with_name(f"claims_{_part}.py"))
    globals().update(
        (name, item)
        for name, item in vars(_module).items()
        if getattr(item, "__module__", None) == _module.__name__
    )
