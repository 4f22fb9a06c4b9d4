"""Claims on the compact representation: §V, Figure 11."""

from __future__ import annotations

from evenflow_lab.experiments import Measured, Rows, Threshold, Verdict, claim
from evenflow_lab.experiments import reading as read
from evenflow_lab.papers.skewness_and_variance import terms


@claim(
    "discretization-saves-time",
    "§V, Figure 11(a)",
    figures=["fig11"],
    says="The planning time is quickly reduced by discretization; a larger R makes planning faster.",
)
def discretization_saves_time(rows: Rows) -> Verdict:
    times = read.along(rows["fig11"], "degree", terms.TIME)
    correlation = read.rank_correlation(times)
    return read.judged(
        correlation <= -terms.GROWS,
        f"planning time by R: {read.listed(times, ' ms')}; rank correlation {correlation:.2f}; in the "
        f"original key space {read.number(read.typical(rows['fig11'], 'original_ms'))} ms",
        "at most −0.8",
        "Reading every key once takes most of the time, in vectors and without.",
    )


@claim(
    "ten-times-faster-at-r-8",
    "§V, Figure 11(a)",
    figures=["fig11"],
    says="Planning is faster by an order of magnitude at R = 8 than in the original key space.",
    threshold=Threshold("times as fast at R = 8", least=terms.MAGNITUDE),
)
def ten_times_faster_at_r_8(rows: Rows) -> Measured:
    faster = read.along(rows["fig11"], "degree", "times_faster")
    keys = read.values(rows["fig11"], "keys")[0]
    return Measured(
        faster[8],
        f"K = {keys:,}; by R: {read.listed(faster)}",
        "Our Mixed on the original keys reads each of them a few times, and sorts only those that it "
        "moves: there is no factor of ten left to gain, because turning keys into vectors and a plan "
        "for vectors back into one for keys also reads each of them.",
    )


@claim(
    "error-grows-with-r",
    "§V, Figure 11(b)",
    figures=["fig11"],
    says="The error on load estimation grows with R.",
)
def error_grows_with_r(rows: Rows) -> Verdict:
    errors = read.along(rows["fig11"], "degree", "load_error_max")
    correlation = read.rank_correlation(errors)
    return read.judged(
        correlation >= terms.GROWS,
        f"the worst error of a worker's load, by R: {read.listed(errors, ' %')}; rank correlation "
        f"{correlation:.2f}",
        "at least 0.8",
    )


@claim(
    "error-at-most-one-percent",
    "§V, Figure 11(b)",
    figures=["fig11"],
    says="The errors are no more than 1 % in all cases, for R from 1 to 256.",
)
def error_at_most_one_percent(rows: Rows) -> Verdict:
    worst = max(rows["fig11"], key=lambda row: row["load_error_max"])
    return read.judged(
        worst["load_error_max"] <= 1,
        f"at worst {read.number(worst['load_error_max'])} % (R = {worst['degree']}), of all plans and "
        "workers",
        "at most 1 %",
    )
