"""The claims of the paper's text, judged: see the files beside this one.

`claims_hashing.py` has those on load under hashing (Figure 7), `claims_parameters.py` those on Mixed
and MinTable (Figures 8 to 10), `claims_compact.py` those on the compact representation (Figure 11),
`claims_rivals.py` those on MixedBF and Readj (Figure 12), `claims_appendix.py` those of the appendix
(Figures 17 to 21), `claims_storm.py` those on throughput (Figures 13 to 16), measured on Spark.

Thresholds come from the paper's words: see the top of `reading.py`. They were written down before
anything had been run. Planning times are processor times of the machine that ran this, medians over
the plans: but for one claim that names a second, only their ratios are judged.
"""

from pathlib import Path

from evenflow_lab.experiments.declaration import load_module

for _part in ("hashing", "parameters", "compact", "rivals", "appendix", "storm"):
    _module = load_module(Path(__file__).with_name(f"claims_{_part}.py"))
    globals().update(
        (name, item)
        for name, item in vars(_module).items()
        if getattr(item, "__module__", None) == _module.__name__
    )
