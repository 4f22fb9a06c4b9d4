"""The claims of the paper's text, judged: see the files beside this one.

`claims_head.py` and `claims_memory.py` have those of the analysis (Figures 3 to 6),
`claims_thresholds.py` those on θ and d (Figures 7 to 9), `claims_zipf.py` and `claims_streams.py` those
on imbalance (Figures 1 and 10 to 12), `claims_storm.py` those that need a cluster and are open.

Thresholds come from the paper's words: where it says "low", its own 0.1 %; where "ideal", its ε; where
two things differ on a logarithmic axis, a factor of ten. What was measured decides nothing here.
"""

from pathlib import Path

from evenflow_lab.experiments.declaration import load_module

for _part in ("head", "memory", "thresholds", "zipf", "streams", "storm"):
    _module = load_module(Path(__file__).with_name(f"claims_{_part}.py"))
    globals().update(
        (name, item)
        for name, item in vars(_module).items()
        if getattr(item, "__module__", None) == _module.__name__
    )
