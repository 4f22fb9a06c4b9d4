"""A small cell, a small paper and a small figure, for the tests of experiments."""

from evenflow_lab.experiments import Figure, Plot

SMALL = {"name": "zipf", "zipf": 1.4, "keys": 1_000, "messages": 60_000, "seed": 1}
ROUTING = {
    "kind": "routing",
    "grouping": "partial-key",
    "workload": SMALL,
    "workers": 10,
    "sources": 2,
    "seed": 3,
    "timeline": False,
}
DECLARED = """
title = "A paper"
reference = "Somebody, 2016"
note = "No data were harmed."

[[figure]]
id = "fig1"
title = "Skew"
shows = "Imbalance grows with skew."
schemes = ["key", "partial-key"]
workload = { name = "zipf", messages = 60_000, keys = 1_000 }
sources = 5
seeds = [1, 2]
grid = { zipf = [0.5, 1.4], workers = [5, 10] }
quick = { workload = { messages = 20_000 }, grid = { zipf = [1.4] }, seeds = [1] }
plot = { x = "zipf", y = "imbalance", panels = ["workers"], log_y = true }

[[figure.extra]]
workload = { name = "flights", key = "origin" }
quick = { schemes = ["key"] }
"""


def paper_at(folder, text=DECLARED, claims=None, analysis=None):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "paper.toml").write_text(text, encoding="utf-8")
    if claims is not None:
        (folder / "claims.py").write_text(claims, encoding="utf-8")
    if analysis is not None:
        (folder / "analysis.py").write_text(analysis, encoding="utf-8")
    return folder


def routing_figure(**changes):
    fields = {
        "schemes": ("key",),
        "workload": {"name": "zipf", "messages": 1_000},
        "grid": {"zipf": (0.5, 1.5), "workers": (5, 10)},
        "plot": Plot(x="zipf", y=("imbalance",), panels=("workers",)),
        **changes,
    }
    return Figure("fig1", "Skew", "", fields.pop("kind", "routing"), **fields)


def without_speed(rows):
    return [{k: v for k, v in row.items() if k != "ns_per_message"} for row in rows]
