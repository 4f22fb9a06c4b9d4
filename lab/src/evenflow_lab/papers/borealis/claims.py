"""The claims of the paper's text, judged: see the files beside this one.

`claims_global.py` has those on the global algorithms (Figures 1, 3, 4 and 5, Table 3),
`claims_pairwise.py` those on the pair-wise ones (Figures 6 to 8), `claims_robustness.py` those on
parameters and bursty inputs (Figures 9 and 10), `claims_cost.py` those on computation (Table 1).

Thresholds come from the paper's words: see the top of `reading.py`. They were written down before the
figures were run, but after trial runs of the simulator, by which two settings were chosen: the offsets
of the inputs, and from when on latencies count (README.md).
"""

from pathlib import Path

from evenflow_lab.experiments.declaration import load_module

for _part in ("global", "pairwise", "robustness", "cost"):
    _module = load_module(Path(__file__).with_name(f"claims_{_part}.py"))
    globals().update(
        (name, item)
        for name, item in vars(_module).items()
        if getattr(item, "__module__", None) == _module.__name__
    )
