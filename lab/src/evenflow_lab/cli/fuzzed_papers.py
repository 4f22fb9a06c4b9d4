"""The declarations of experiments, for the fuzzer."""

from __future__ import annotations

from evenflow_lab.checking.fuzzing.parsers import text_parser
from evenflow_lab.checking.fuzzing.running import Parser
from evenflow_lab.checking.fuzzing.targets import scratch
from evenflow_lab.experiments.declaration import load_paper


def experiment_toml(text: str) -> object:
    """The experiments that a file declares."""
    (scratch() / "paper.toml").write_text(text, encoding="utf-8")
    return load_paper(scratch())


def experiment_tomls() -> list[str]:
    return [
        'title = "Example"\nreference = "somewhere"\nnote = "n"\n[[figure]]\nid = "1"\n'
        'title = "Imbalance and skew"\nshows = "s"\nkind = "routing"\n'
        'schemes = ["key", "partial-key"]\n'
        'workload = { name = "zipf", messages = 1000 }\nseeds = [1, 2]\n'
        "grid = { zipf = [0.5, 1.0], workers = [5] }\n"
        'plot = { x = "zipf", y = "imbalance" }\n'
    ]


def experiment_parser() -> Parser:
    """What reads them."""
    return text_parser("experiment TOML", experiment_toml, experiment_tomls())
