"""Claims on throughput and latency: §V, Figures 13 to 16. The authors measured them on Apache Storm.

Here they are judged by what was measured on Spark, on one machine whose workers sleep for every
message: the files in `measured/` are what the commands below have printed. Running the paper again does
not measure them again; `make bench` does, and `docs/measuring.md` shows all the figures. Mixed is ours
there. A claim is open while what was measured cannot tell the contestants apart: see `on_spark.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from statistics import fmean

from evenflow_lab.experiments import FigureRows, Rows, Verdict, claim
from evenflow_lab.experiments import reading as read
from evenflow_lab.experiments.claims import Judge, Row
from evenflow_lab.papers.skewness_and_variance import on_spark

NEAR, CATCHES_UP, ABOUT_TWICE, BALANCED = 0.9, 0.95, 1.8, 1.15
COMMANDS = {
    "fluctuation": "evenflow bench spark --json --only fluctuation --only scale-out",
    "tolerance": "evenflow bench spark --json --only tolerance",
    "q5": "evenflow bench tpch-q5 --json",
}
NOT_REAL = (
    "The authors' data (a microblog, a stock exchange) is not available: words are those of real "
    "addresses, trades are made up."
)


def _measured(
    file: str, part: str, id: str, section: str, says: str
) -> Callable[[Callable[[FigureRows], Verdict]], Judge]:
    """Marks a function as the judge of a claim by what was measured on Spark; while that is not there,
    the claim is open.

    Parameters:
        file: one of `COMMANDS`.
        part: the measurement in that file; none if it has one alone.
    """

    def mark(function: Callable[[FigureRows], Verdict]) -> Judge:
        @claim(id, section, says=says)
        @wraps(function)
        def judge(rows: Rows) -> Verdict:
            found = on_spark.figures(file, part)
            if found is None:
                return Verdict(None, "", f"Not measured on Spark yet: `{COMMANDS[file]}`.")
            unfit = on_spark.UNFIT[part](found, on_spark.parameters(file, part))
            if unfit:
                return Verdict(None, "", f"{unfit} To be measured again: `{COMMANDS[file]}`.")
            verdict = function(found)
            measured = verdict.measured.replace(" (held if", f", by `{COMMANDS[file]}` (held if")
            return replace(verdict, measured=measured)

        return judge

    return mark


def _rate(row: Row) -> int:
    return int(row["messages a second"])


def _at(rows: FigureRows, scheme: str, theta: float | None = None, stream: str = "") -> Row:
    """The one row of a scheme; one without θmax is the same for all."""
    (row,) = [
        row
        for row in rows
        if row["scheme"] == scheme
        and row.get("stream", stream) == stream
        and row.get("theta") in (None, theta)
    ]
    return row


def _thetas(rows: FigureRows) -> list[float]:
    return sorted({row["theta"] for row in rows if row["theta"] is not None})


def _widest(rows: FigureRows, scheme: str) -> FigureRows:
    """The rows of a scheme after it was given more workers."""
    own = read.where(rows, scheme=scheme)
    return read.where(own, workers=max(row["workers"] for row in own))


@_measured(
    "fluctuation",
    "fluctuation",
    "storm-ideal-is-best",
    "§V, Figure 13",
    says="Ideal (shuffling regardless of keys) has a better throughput and a lower latency than any "
    "key-aware scheduling.",
)
def ideal_is_best(found: FigureRows) -> Verdict:
    findings, held = [], True
    for f, rows in _by_f(found).items():
        ideal = _at(rows, "ideal (shuffle)")
        others = [row for row in rows if row is not ideal]
        best, soonest = max(others, key=_rate), min(others, key=_latency)
        held &= _rate(ideal) > _rate(best) and _latency(ideal) < _latency(soonest)
        findings.append(
            f"f = {f:g}: Ideal {_rate(ideal):,} messages a second, {_latency(ideal):,} ms; the best of "
            f"the others {best['scheme']} {_rate(best):,}, {soonest['scheme']} {_latency(soonest):,} ms"
        )
    return read.judged(
        held,
        "; ".join(findings),
        "Ideal is better in both at every f",
        "On Spark shuffling spreads the state of every key over all workers, and the parts have to be "
        "merged; that costs more than the last percents of balance gain.",
    )


def _by_f(found: FigureRows) -> dict[float, FigureRows]:
    return {f: read.where(found, f=f) for f in read.values(found, "f")}


def _latency(row: Row) -> int:
    """The average over messages."""
    return int(row["latency ms, mean"])


@_measured(
    "fluctuation",
    "fluctuation",
    "storm-readj-depends-on-f",
    "§V, Figure 13",
    says="Throughput and latency of Readj change dramatically with f; it works well only for small f.",
)
def readj_depends_on_f(found: FigureRows) -> Verdict:
    rates = {row["f"]: _rate(row) for row in found if row["scheme"] == "readj"}
    least, most = min(rates.values()), max(rates.values())
    return read.judged(
        most / least >= ABOUT_TWICE and rates[min(rates)] == most,
        f"Readj, messages a second by f: {rates}",
        "the largest is that of the smallest f, at least 1.8 times the least",
    )


@_measured(
    "fluctuation",
    "fluctuation",
    "storm-mixed-near-ideal",
    "§V, Figure 13",
    says="Mixed always performs well, very close to the optimal bound set by Ideal.",
)
def mixed_near_ideal(found: FigureRows) -> Verdict:
    ratios = {
        f: _rate(_at(rows, "mixed")) / _rate(_at(rows, "ideal (shuffle)"))
        for f, rows in _by_f(found).items()
    }
    return read.judged(
        min(ratios.values()) >= NEAR,
        f"Mixed's throughput as a part of Ideal's, by f: {read.listed(ratios)}",
        "at least 0.9 at every f",
        "Every change of the frequencies is seen only after a batch has suffered from it.",
    )


@_measured(
    "tolerance",
    "tolerance",
    "storm-mixed-best-at-theta-002",
    "§V, Figure 14",
    says="The best throughput on both real workloads is that of Mixed with θmax = 0.02.",
)
def mixed_best_at_theta_002(found: FigureRows) -> Verdict:
    best = {
        stream: max((row for row in found if row["stream"] == stream), key=_rate)
        for stream in ("words", "trades")
    }
    summary = "; ".join(
        f"{stream}: {row['scheme']} with θmax = {row['theta']}, {_rate(row):,} a second, Mixed with "
        f"0.02 {_rate(_at(found, 'mixed', 0.02, stream)):,}"
        for stream, row in best.items()
    )
    held = all(row["scheme"] == "mixed" and row["theta"] == 0.02 for row in best.values())
    return read.judged(held, summary, "both are Mixed with 0.02", NOT_REAL)


@_measured(
    "tolerance",
    "tolerance",
    "storm-mixed-twice-storm-and-readj",
    "§V, Figure 14(b)",
    says="Mixed's throughput is about 2 times that of Storm and Readj at smaller θmax.",
)
def mixed_twice_storm_and_readj(found: FigureRows) -> Verdict:
    mixed = _rate(_at(found, "mixed", 0.02, "trades"))
    ratios = {name: mixed / _rate(_at(found, name, 0.02, "trades")) for name in ("key", "readj")}
    return read.judged(
        min(ratios.values()) >= ABOUT_TWICE,
        f"trades, θmax = 0.02: Mixed over key {ratios['key']:.2f}, over Readj {ratios['readj']:.2f}",
        "both are at least 1.8",
        NOT_REAL,
    )


@_measured(
    "tolerance",
    "tolerance",
    "storm-readj-catches-up",
    "§V, Figure 14",
    says="Readj catches up with Mixed at θmax = 0.3 on Social, at θmax = 0.15 on Stock.",
)
def readj_catches_up(found: FigureRows) -> Verdict:
    ratios = {
        stream: _rate(_at(found, "readj", theta, stream))
        / _rate(_at(found, "mixed", theta, stream))
        for stream, theta in (("words", 0.3), ("trades", 0.15))
    }
    return read.judged(
        min(ratios.values()) >= CATCHES_UP,
        f"Readj over Mixed: words, θmax = 0.3, {ratios['words']:.2f}; trades, θmax = 0.15, "
        f"{ratios['trades']:.2f}",
        "both are at least 0.95",
        NOT_REAL,
    )


@_measured(
    "tolerance",
    "tolerance",
    "storm-mintable-loses-throughput",
    "§V, Figure 14",
    says="MinTable's larger migration volume reduces the throughput during adjustment.",
)
def mintable_loses_throughput(found: FigureRows) -> Verdict:
    ratios = {
        (stream, theta): _rate(_at(found, "min-table", theta, stream))
        / _rate(_at(found, "mixed", theta, stream))
        for stream in ("words", "trades")
        for theta in _thetas(found)
    }
    summary = ", ".join(
        f"{stream} {theta:g}: {ratio:.2f}" for (stream, theta), ratio in ratios.items()
    )
    return read.judged(
        max(ratios.values()) < 1,
        f"MinTable over Mixed by stream and θmax: {summary}",
        "all are below 1",
        "A moved key's state is read by its new owner while all go on: what is moved costs next to "
        "nothing here.",
    )


@claim(
    "storm-pkg-independent-of-theta",
    "§V, Figure 14(a)",
    says="The throughput of PKG is independent of θmax.",
)
def pkg_independent_of_theta(rows: Rows) -> Verdict:
    return Verdict(
        None, "", "PKG has no θmax, so it was measured once; there is nothing to compare."
    )


@_measured(
    "tolerance",
    "tolerance",
    "storm-mixed-over-pkg",
    "§V, Figure 14(a)",
    says="At θmax = 0.02 Mixed outperforms PKG by 10 % on throughput and by 40 % on latency.",
)
def mixed_over_pkg(found: FigureRows) -> Verdict:
    mixed, pkg = _at(found, "mixed", 0.02, "words"), _at(found, "partial-key", 0.02, "words")
    more = _rate(mixed) / _rate(pkg) - 1
    less = 1 - _latency(mixed) / _latency(pkg)
    return read.judged(
        more >= 0.1 and less >= 0.4,
        f"words, θmax = 0.02: throughput {more:+.0%}, latency {-less:+.0%}",
        "at least +10% and at most -40%",
        NOT_REAL,
    )


@_measured(
    "fluctuation",
    "scale_out",
    "storm-scale-out-faster-than-readj",
    "§V, Figure 15",
    says="After an instance is added, Mixed rebalances within a much shorter time than Readj, which "
    "takes at least 5 minutes on Social with θmax = 0.1.",
)
def scale_out_faster_than_readj(found: FigureRows) -> Verdict:
    needed = {name: _seconds_to_balance(found, name) for name in ("mixed", "readj")}
    held = needed["mixed"] is not None and (
        needed["readj"] is None or needed["readj"] >= 2 * needed["mixed"]
    )
    summary = ", ".join(
        f"{name}: {'not within the run' if n is None else read.number(n)}"
        for name, n in needed.items()
    )
    return read.judged(
        held,
        f"seconds until the fullest worker has at most {BALANCED:g} times the average: {summary}",
        "Readj needs at least twice as long",
        "Readj's search stops at 20,000 keys, and takes seconds, not minutes.",
    )


def _seconds_to_balance(found: FigureRows, name: str) -> float | None:
    passed = 0.0
    for row in _widest(found, name):
        passed += float(row["seconds"])
        if row["fullest ÷ average"] <= BALANCED:
            return passed
    return None


@_measured(
    "fluctuation",
    "scale_out",
    "storm-scale-out-over-pkg",
    "§V, Figure 15",
    says="While scaling out, PKG produces a lower throughput than Mixed with θmax = 0.1.",
)
def scale_out_over_pkg(found: FigureRows) -> Verdict:
    rates = {
        name: fmean(_rate(row) for row in _widest(found, name)) for name in ("mixed", "partial-key")
    }
    return read.judged(
        rates["partial-key"] < rates["mixed"],
        f"messages a second on average after the change: Mixed {rates['mixed']:,.0f}, PKG "
        f"{rates['partial-key']:,.0f}",
        "PKG's is lower",
    )


@_measured(
    "q5",
    "",
    "storm-q5-mixed-best",
    "§V, Figure 16",
    says="On TPC-H's Q5 Mixed achieves the best throughput under any balancing tolerance; Storm "
    "without balancing is poor.",
)
def q5_mixed_best(found: FigureRows) -> Verdict:
    findings, held = [], True
    for theta in _thetas(found):
        rates = {
            name: _rate(_at(found, name, theta)) for name in ("mixed", "min-table", "readj", "key")
        }
        held &= rates["mixed"] == max(rates.values())
        findings.append(f"θmax = {theta:g}: " + ", ".join(f"{n} {r:,}" for n, r in rates.items()))
    return read.judged(
        held,
        "messages a second; " + "; ".join(findings),
        "Mixed's is the largest under every θmax",
        "The planners' tables are equally good to within the noise of this machine.",
    )
