"""Puts measured figures into the documentation, each table under the command that printed it.

    python docs/measure.py                 # all: half an hour on a quiet machine, mostly for `spark`
    python docs/measure.py drift compare   # some
    python docs/measure.py spark=FILE      # what its command has printed before, into FILE

A table stands in a page between `<!-- measured: NAME -->` and `<!-- end -->`. Figures that are no
times depend on the seed alone; tests/docs compares those of the README with a fresh run.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import geometric_mean, median
from textwrap import wrap
from typing import Any, NamedTuple

from evenflow.grouping import schemes

ROOT = Path(__file__).resolve().parent.parent

HEADLINE = "--workers 100 --sources 5 --zipf 2.0 --keys 10000 --messages 10000000 --seed 1"
STEADY = "--workers 50 --sources 5 --zipf 1.4 --keys 10000 --messages 2000000 --seed 1"
DRIFT = f"{STEADY} --drift 200000"
KERNEL_RUNS = 3

_LOAD = os.getloadavg()[0]  # before this script adds to it
_QUIET = 0.5


_PRINTED: dict[str, Path] = {}  #: command → a file with what it has printed before


class Block(NamedTuple):
    page: str
    measure: Callable[[], str]
    command: str = ""  #: the one that it runs, where what it printed can be given instead


def run(command: str, source: Path = ROOT / "src") -> Any:
    """What `evenflow …` prints as JSON. Files that it writes are thrown away."""
    if command in _PRINTED:
        return json.loads(_PRINTED[command].read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "evenflow.cli", *shlex.split(command)[1:]],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(source)},
        )
    return json.loads(done.stdout)


def compare() -> str:
    """Without times, so that every machine gets the same table."""
    command = "evenflow compare --json"
    symbols = {name: scheme.symbol for name, scheme in schemes().items()}
    rows = [
        [
            f"`{r['grouping']}`",
            symbols[r["grouping"]],
            _times(r["worst_window"]),
            f"{r['replication']:.2f}",
        ]
        for r in run(command)["results"]
    ]
    headings = ["scheme", "symbol", "worst window", "replication"]
    return _shown([command], _table(headings, rows))


def comparison(stream: str) -> str:
    """All schemes on one stream."""
    command = f"evenflow simulate {stream} --json"
    results = sorted(run(command), key=lambda r: (round(r["worst_window"], 1), r["replication"]))
    rows = [
        [
            f"`{r['grouping']}`",
            f"{r['imbalance']:.1e}",
            f"{r['imbalance_mean']:.1e}",
            f"{r['max_load']:.4f}",
            _times(r["worst_window"]),
            _times(r["worst_sliding_window"]),
            f"{r['replication']:.2f}",
            str(r["replicas"]),
            f"{r['ns_per_message']:.1f}",
            ", ".join(f"{k} {_short(v)}" for k, v in r.get("details", {}).items()),
        ]
        for r in results
    ]
    headings = [
        "scheme", "imbalance", "mean", "max load", "worst window", "sliding", "replication",
        "replicas", "ns", "source 0 at the end",
    ]  # fmt: skip
    return _shown([command], _table(headings, rows), _machine())


def variants(specs: Sequence[str], streams: dict[str, str]) -> str:
    """The same schemes with several parameters, on several streams."""
    groupings = " ".join(f"-g {spec}" for spec in specs)
    commands = [f"evenflow simulate {stream} --json {groupings}" for stream in streams.values()]
    headings, rows = ["scheme"], [[f"`{spec}`"] for spec in specs]
    for label, command in zip(streams, commands, strict=True):
        headings += [f"{label}: worst window", "replicas", "replication", "ns"]
        for row, r in zip(rows, run(command), strict=True):
            row += [
                _times(r["worst_window"]),
                str(r["replicas"]),
                f"{r['replication']:.2f}",
                f"{r['ns_per_message']:.1f}",
            ]
    return _shown(commands, _table(headings, rows), _machine())


def rivals() -> str:
    """All schemes on five streams, and the best of ours beside the rivals."""
    answer = run(_RIVALS)
    streams = next(iter(answer["streams"].values()))
    rows = [
        [f"`{spec}`", *(_three(found) for found in of.values())]
        for spec, of in answer["streams"].items()
    ]
    settings = [
        [
            *(str(one[k]) for k in ("z", "drifts", "workers")),
            *(_together(one, one[k]) for k in ("best", "best of ours")),
            *(", ".join(f"`{r}`" for r in one[k]) or "–" for k in _AHEAD),
        ]
        for one in answer["grid"]
    ]
    tried = answer["grid"][0]["figures"]
    means = {
        spec: [geometric_mean(one["figures"][spec][k] for one in answer["grid"]) for k in _FIGURES]
        for spec in tried
    }
    overall = [
        [f"`{spec}`", *(f"{mean:.2f}" for mean in found)]
        for spec, found in sorted(means.items(), key=lambda pair: pair[1][-1])
    ]
    return _shown(
        [_RIVALS],
        f"{answer['workers']} workers, {answer['messages']:,} messages, {len(answer['seeds'])} seeds: "
        "worst window (smallest … largest over the seeds) / replicas per key / ns.",
        _table(["scheme", *streams], rows),
        "In brackets: worst window × replicas per key × microseconds, one of them work.",
        _table(["z", "drifts", "workers", "best", "best of ours", *_AHEAD], settings),
        f"Geometric means over these {len(settings)} settings:",
        _table(["scheme", "worst window", "replicas per key", "ns", "together"], overall),
        _machine(),
    )


_FIGURES = ("worst_window", "replication", "ns", "together")
_AHEAD = ("rivals not beaten by ours", "rivals ahead together")


def _three(found: dict[str, dict[str, float]]) -> str:
    worst, replicas, ns = (found[k] for k in ("worst_window", "replication", "ns"))
    between = f"({worst['least']:.2f} … {worst['most']:.2f})"
    return f"{worst['median']:.2f} {between} / {replicas['median']:.2f} / {ns['median']:.0f}"


def _together(setting: dict[str, Any], spec: str) -> str:
    return f"`{spec}` ({setting['figures'][spec]['together']:.2f})"


def kernels() -> str:
    """The median of several runs, and how far the runs are apart."""
    command = "evenflow bench kernels --json"
    runs = [run(command) for _ in range(KERNEL_RUNS)]
    rows = []
    for name in runs[0]["schemes"]:
        of_scheme = [r["schemes"][name] for r in runs]
        at_100 = [s["ratio"]["100"] for s in of_scheme]
        rows.append(
            [
                f"`{name}`",
                *(f"{median(s['ratio'][n] for s in of_scheme):.1f}" for n in ("10", "100", "1000")),
                f"{min(at_100):.1f} … {max(at_100):.1f}",
                f"{median(s['ns_per_message']['100'] for s in of_scheme):.1f}",
                f"{median(s['growth_100_to_1000'] for s in of_scheme):.2f}",
            ]
        )
    rows.sort(key=lambda row: float(row[2]))
    headings = [
        "scheme", "× key, n = 10", "n = 100", "n = 1000", "n = 100, all runs", "ns, n = 100",
        "growth 100 → 1000",
    ]  # fmt: skip
    speed = median(r["fingerprints"]["mb_per_s"] for r in runs)
    return _shown(
        [command],
        _table(headings, rows),
        f"Fingerprints of 20-byte strings: {speed:,.0f} MB per second on one core.",
        f"Medians of {KERNEL_RUNS} runs. {_machine()}",
    )


def simulation() -> str:
    """The whole simulator, not the schemes alone, over the length of the stream."""
    command = "evenflow bench simulation --json"
    answer = run(command)
    rows = [
        [
            f"{row['messages']:,}",
            *(f"{row[part]:.1f}" for part in ("whole", "making", "routing", "rest")),
            f"{row['messages_per_second'] / 1e6:.1f}",
            f"{row['messages_per_second_without_making'] / 1e6:.1f}",
        ]
        for row in answer["rows"]
    ]
    headings = [
        "messages", "ns per message", "making the stream", "routing", "the rest", "million per second",
        "stream already made",
    ]  # fmt: skip
    return _shown(
        [command],
        _table(headings, rows),
        f"The dearest length costs {answer['dearest_to_cheapest']:.2f} times as much per message as "
        f"the cheapest. {_machine()}",
    )


def spark(command: str) -> str:
    """Measurements of the engine: their words, tables and goals."""
    answer = run(command)
    parts = []
    for name, found in answer["measurements"].items():
        parts += [f"### `{name}`", found["what"]]
        headings = list(found["figures"][0])
        rows = [["–" if v is None else str(v) for v in row.values()] for row in found["figures"]]
        parts.append(_table(headings, rows))
        goals = [_goal(goal) for goal in found["goals"]]
        parts += ["\n".join(goals)] if goals else []
    machine = answer["machine"]
    where = (
        f"On {machine['cores']} cores ({machine['processor']}) with Python {machine['python']} and "
        f"pyspark {machine['pyspark']}; the load average before was "
        f"{machine['load_average_before']:.1f}."
    )
    return _shown([command], *parts, where)


def _goal(goal: dict[str, Any]) -> str:
    bounds = " ".join(
        f"{b.replace('_', ' ')} {goal[b]:g}" for b in ("at_least", "at_most") if b in goal
    )
    verdict = "held" if goal["held"] else "not held"
    return f"- {goal['what']}: **{goal['measured']:.2f}**, {bounds} ({verdict})"


def planners() -> str:
    """Planning times on 15 workers with the smallest θmax, where the goals are."""
    answer = run(_PLANNER)
    cells = [c for c in answer["cells"] if c["workers"] == 15 and c["theta"] == 0.02]
    rows = [
        [
            f"`{name}`",
            *(_planned(c) for c in sorted(cells, key=lambda c: c["keys"]) if c["planner"] == name),
        ]
        for name in sorted({c["planner"] for c in cells})
    ]
    loose = [c for c in answer["cells"] if c["workers"] == 15 and c["theta"] == 0.3]
    sizes = sorted({c["keys"] for c in cells})
    headings = ["planner", *(f"{size:,} keys" for size in sizes)]
    goals = [
        _goal(
            {
                **{k: g[k] for k in ("what", "measured", "held")},
                "at_least" if g["at_least"] else "at_most": g["bound"],
            }
        )
        for g in answer["goals"]
    ]
    return _shown(
        [_PLANNER],
        "N = 15, θmax = 0.02; milliseconds, and in brackets how many times as long the pseudo-code "
        "takes.",
        _table(headings, rows),
        f"{sum(bool(c['feasible']) for c in cells)} of these {len(cells)} plans keep all limits; with "
        f"θmax = 0.3, {sum(bool(c['feasible']) for c in loose)} of {len(loose)} do.",
        "\n".join(goals),
        f"How: {answer['how']}.",
    )


def _planned(cell: dict[str, Any]) -> str:
    if cell["seconds"] is None:
        return "–"
    ms = cell["seconds"] * 1000
    number = f"{ms:,.0f}" if ms >= 100 else f"{ms:.3g}"
    if cell["literal_seconds"] is None:
        return number
    return f"{number} ({cell['literal_seconds'] / cell['seconds']:,.0f} ×)"


def q5() -> str:
    """The continuous TPC-H query."""
    answer = run(_Q5)
    rows = [["–" if v is None else str(v) for v in row.values()] for row in answer["figures"]]
    setup = answer["parameters"]
    return _shown(
        [_Q5],
        f"The interval join of the continuous Q5 (scale factor {setup['scale']:g}, {setup['intervals']}"
        f" intervals of {setup['batches']} micro-batches, {setup['warm']} of which do not count) on "
        f"{setup['workers']} workers, {setup['service'] * 1000:g} ms of service per pair; which orders "
        "are hot changes with every interval.",
        _table(list(answer["figures"][0]), rows),
    )


def fleet() -> str:
    """The plans of a fleet, side by side."""
    answer = run(_FLEET)
    figures, setup = answer["figures"], answer["parameters"]
    named = ["rows", "batches", "batch p50", "p95", "p99", "longest", "node loads", "load deviation",
             "correlation", "moves", "wrong outputs"]  # fmt: skip
    rows = [[name, *(_plain(one[name]) for one in figures)] for name in named]
    kills = [f"- {line}" for one in figures for line in one.get("kills", [])]
    return _shown(
        [_FLEET],
        f"{setup['queries']} queries on three applications of one core; the inputs of a third of them "
        f"burst together, {setup['low']} rows per second rising to {setup['high']} for a third of "
        f"{setup['period']:g} seconds, {setup['service'] * 1000:g} ms per row, a batch every "
        f"{setup['trigger']}. Connected: queries that burst together share a node. Placed: by the "
        "correlation of loads, once a period had been seen; the others by largest load first and at "
        "random. Seconds of batches, over "
        f"{setup['periods']} periods.",
        _table(["", *(one["plan"] for one in figures)], rows),
        "Killed with SIGKILL afterwards, under the same load:",
        "\n".join(kills),
    )


def regret() -> str:
    """`auto` beside the fixed schemes, cell by cell."""
    answer = run(_REGRET)
    rows = [
        [
            f"{one['skew']:g}{', drifting' if one['drift'] else ''}",
            f"{1000 * one['row']:g} ms" if one["row"] else "counted",
            "none" if one["merge"] is None else f"{1000 * one['merge']:g} ms",
            str(one["partitions"]),
            f"{one['seconds']['key']:.1f}",
            f"{one['seconds'][one['best']]:.1f} (`{one['best']}`)",
            f"{one['seconds']['auto']:.1f}",
            f"{one['auto ÷ best']:.2f}",
            one["auto chose"],
        ]
        for one in answer["cells"]
    ]
    headings = [
        "z", "a row", "a merge", "partitions", "`key`, s", "best, s", "`auto`, s", "`auto` ÷ best",
        "what `auto` chose, from which batch on",
    ]  # fmt: skip
    setup, cells = answer["parameters"], answer["cells"]
    some = (
        "" if len(cells) == setup["all cells"] else "".join(f" --only {c['cell']}" for c in cells)
    )
    text = (
        f"{len(rows)} of {setup['all cells']} cells, of {setup['batches']} batches over "
        f"{setup['keys']:,} keys; seconds of all batches, from the first one on."
    )
    goals = [
        f"- {goal['what']}: **{goal['measured']:.2f}**, at most {goal['at_most']:g} "
        f"({'held' if goal['held'] else 'not held'})"
        for goal in answer["goals"]
    ]
    return _shown([_REGRET + some], text, _table(headings, rows), "\n".join(goals), _machine())


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return "; ".join(f"{k}: {v}" for k, v in value.items()) or "none"
    return str(value)


def reference_counting() -> str:
    """Kernels as they are, and in a copy of the package whose kernels count references."""
    command, flag = "evenflow bench kernels --json", " _nrt=False,"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "evenflow"
        shutil.copytree(ROOT / "src" / "evenflow", copy)
        jit = copy / "kernels" / "jit.py"
        text = jit.read_text(encoding="utf-8")
        if flag not in text:
            raise SystemExit(f"error: {flag!r} is not in kernels/jit.py any more")
        jit.write_text(text.replace(flag, ""), encoding="utf-8")
        counting = run(command, source=Path(folder))["schemes"]
    plain = run(command)["schemes"]
    times = {name: [s[name]["ns_per_message"]["100"] for s in (plain, counting)] for name in plain}
    rows = [
        [f"`{name}`", f"{without:.1f}", f"{with_it:.1f}", f"{with_it / without:.1f}"]
        for name, (without, with_it) in sorted(times.items(), key=lambda kv: kv[1][0] / kv[1][1])
    ]
    headings = ["scheme", "ns, n = 100", "ns with reference counting", "ratio"]
    return _shown(["python docs/measure.py reference-counting"], _table(headings, rows), _machine())


_PATIENT = [
    f"{scheme}:patience={patience}"
    for scheme in ("random-choices", "bounded-hashing", "consistent")
    for patience in (0, 16, 1000)
]
_SIGHTED = [
    f"{scheme}:sightings={sightings}"
    for scheme in ("d-choices", "w-choices")
    for sightings in (5, 20, 80)
]
_BOTH = {"steady": STEADY, "drift": DRIFT}
_MILLION = {"steady": STEADY.replace("2000000", "1000000")}

_ENGINE = "evenflow bench spark --full --json " + " ".join(
    f"--only {name}" for name in ("per-key", "figure13-14", "state-size", "empty-batch")
)
_OVERHEAD = "evenflow bench spark --full --json --only overhead"
_FLUCTUATION = "evenflow bench spark --json --only fluctuation --only scale-out"
_TOLERANCE = "evenflow bench spark --json --only tolerance"
_PLANNER = "evenflow bench planner --json"
_RIVALS = "evenflow bench rivals --messages 60000 --seeds 3 --json"
_Q5 = "evenflow bench tpch-q5 --json"

_FLEET = "evenflow bench fleet --json"
_REGRET = "evenflow bench regret --json"

BLOCKS = {
    "compare": Block("README.md", compare),
    "headline": Block("docs/measuring.md", partial(comparison, HEADLINE)),
    "drift": Block("docs/measuring.md", partial(comparison, DRIFT)),
    "replicas": Block(
        "docs/measuring.md",
        partial(variants, ["partial-key", "d-choices", "w-choices"], _MILLION),
    ),
    "kernels": Block("docs/measuring.md", kernels),
    "simulation": Block("docs/measuring.md", simulation),
    "overhead": Block("docs/measuring.md", partial(spark, _OVERHEAD), _OVERHEAD),
    "spark": Block("docs/measuring.md", partial(spark, _ENGINE), _ENGINE),
    "fluctuation": Block("docs/measuring.md", partial(spark, _FLUCTUATION), _FLUCTUATION),
    "tolerance": Block("docs/measuring.md", partial(spark, _TOLERANCE), _TOLERANCE),
    "q5": Block("docs/measuring.md", q5, _Q5),
    "rivals": Block("docs/measuring.md", rivals, _RIVALS),
    "planner": Block("docs/measuring.md", planners, _PLANNER),
    "regret": Block("docs/measuring.md", regret, _REGRET),
    "fleet": Block("docs/fleet.md", fleet, _FLEET),
    "reference-counting": Block("docs/decisions/0001-kernels.md", reference_counting),
    "sightings": Block("docs/decisions/0004-head-keys.md", partial(variants, _SIGHTED, _BOTH)),
    "patience": Block("docs/decisions/0005-patience.md", partial(variants, _PATIENT, _BOTH)),
}


def pattern(name: str) -> re.Pattern[str]:
    """Finds the block `name` of a page; group 1 is what stands in it."""
    return re.compile(rf"<!-- measured: {name} -->\n(.*?)<!-- end -->", re.DOTALL)


def _shown(commands: Sequence[str], *parts: str) -> str:
    code = "\n".join(["```sh", *map(_folded, commands), "```"])
    return "\n\n".join([code, *parts]) + "\n\n"


def _folded(command: str) -> str:
    """A long command on several lines, none of which ends between `-g` and its scheme."""
    lines = wrap(command.replace("-g ", "-g\0"), 96, break_on_hyphens=False)
    return " \\\n    ".join(lines).replace("\0", " ")


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    numbers = ["---"] + ["---:"] * (len(headings) - 1)
    return "\n".join(f"| {' | '.join(row)} |" for row in [headings, numbers, *rows])


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _short(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _machine() -> str:
    busy = " The machine was busy: the times are too long." if _LOAD > _QUIET else ""
    return (
        f"On {os.cpu_count()} cores ({platform.machine()}) with Python "
        f"{platform.python_version()} and numba {version('numba')}.{busy}"
    )


def main(names: Sequence[str]) -> int:
    """Measure the blocks of these names, or all, and write them into their pages."""
    given = dict(name.partition("=")[::2] for name in names)
    names = list(given)
    unknown = set(names) - set(BLOCKS)
    if unknown:
        print(f"error: no block {sorted(unknown)}; there are {', '.join(BLOCKS)}", file=sys.stderr)
        return 2
    _PRINTED.update({BLOCKS[name].command: Path(file) for name, file in given.items() if file})
    if _LOAD > _QUIET:
        print(f"warning: the load average is {_LOAD:.1f}; times will be too long", file=sys.stderr)
    for name in names or BLOCKS:
        page, measure = ROOT / BLOCKS[name].page, BLOCKS[name].measure
        print(f"{name} → {BLOCKS[name].page}", flush=True)
        figures = measure()
        text = page.read_text(encoding="utf-8")
        places = list(pattern(name).finditer(text))
        if len(places) != 1:
            raise SystemExit(f"error: {page} has {len(places)} blocks 'measured: {name}', not 1")
        start, end = places[0].span(1)
        page.write_text(text[:start] + figures + text[end:], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
