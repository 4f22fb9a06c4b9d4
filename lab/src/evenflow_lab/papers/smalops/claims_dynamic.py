"""Claims on the dynamic load: §III-B, Figure 10; and on the times in it, §II."""

from __future__ import annotations

from statistics import median

from evenflow_lab.experiments import Rows, Verdict, claim
from evenflow_lab.experiments import reading as read
from evenflow_lab.papers.smalops import terms


def _overall(rows: Rows, column: str, scheme: str, shift: int) -> dict[int, float]:
    """One value per seed."""
    chosen = read.where(rows["fig10"], grouping=scheme, shift=shift)
    return {row["seed"]: float(row[f"overall_{column}"]) for row in chosen}


@claim(
    "dynamic-load-improves",
    "§III-B, Figure 10",
    figures=["fig10"],
    says="SMALOPS significantly improves performance also while keys shift every minute.",
)
def dynamic_load_improves(rows: Rows) -> Verdict:
    findings, all_better = [], True
    for shift in read.values(rows["fig10"], "shift"):
        ours, kafka = (_overall(rows, "p99", g, shift) for g in (terms.SMALOPS, terms.KEY))
        gains = sorted(read.percent_below(ours[seed], kafka[seed]) for seed in kafka)
        if shift == terms.FEW:
            all_better = all(ours[s] * terms.SHARPLY <= kafka[s] for s in kafka)
        busy = {
            row["seed"]: row["hashed_busiest"] for row in read.where(rows["fig10"], shift=shift)
        }
        findings.append(
            f"shifted by {shift:,}: {read.several(gains, ' %')} (the busiest partition of the worst "
            f"minute is {read.several(sorted(busy.values()))} busy under key hashing)"
        )
    return read.judged(
        all_better,
        f"over five minutes the 99th percentile is lower, by seed: {'; '.join(findings)}",
        f"by a factor of 1.5 (33 %) with every seed where a few keys are shifted, {terms.FEW}",
        "Where hashing is lucky in all five minutes, and no partition comes near saturation, there is "
        "less to gain.",
    )


@claim(
    "dynamic-load-improves-over-time",
    "Figure 10",
    figures=["fig10"],
    says="SMALOPS is below Kafka throughout the run.",
)
def dynamic_load_improves_over_time(rows: Rows) -> Verdict:
    findings, least = [], 1.0
    for shift in read.values(rows["fig10"], "shift"):
        seconds = read.values(rows["fig10"], "second")
        better = 0
        for second in seconds:
            pair = [
                read.typical(rows["fig10"], "p99", shift=shift, second=second, grouping=g)
                for g in (terms.SMALOPS, terms.KEY)
            ]
            better += pair[0] <= pair[1]
        if shift == terms.FEW:
            least = better / len(seconds)
        findings.append(f"shifted by {shift:,}: in {better} of {len(seconds)} slots")
    return read.judged(
        least >= 0.9,
        f"its median 99th percentile (over the seeds) is not above Kafka's, {'; '.join(findings)}",
        f"in at least nine of ten slots where a few keys are shifted, {terms.FEW}",
        "Just after a shift the table is that of the minute before, and hand-overs add to the delay, "
        "for up to a window; in minutes in which hashing is lucky there is little to gain.",
    )


@claim(
    "dynamic-load-median",
    "§III-B, Figure 10",
    figures=["fig10"],
    says="[The median is not worse than Kafka's under the dynamic load.]",
)
def dynamic_load_median(rows: Rows) -> Verdict:
    findings, fine = [], True
    for shift in read.values(rows["fig10"], "shift"):
        ours, kafka = (
            median(_overall(rows, "p50", g, shift).values()) for g in (terms.SMALOPS, terms.KEY)
        )
        fine = ours <= kafka if shift == terms.FEW else fine
        findings.append(
            f"shifted by {shift:,}: {read.number(ours)} ms, Kafka's {read.number(kafka)} ms"
        )
    return read.judged(
        fine, "; ".join(findings), f"not above Kafka's where a few keys are shifted, {terms.FEW}"
    )


@claim(
    "interval-of-ten-seconds",
    "§II",
    figures=["times"],
    says="A decision interval of 10 s ensures that all state migrations have completed before new ones "
    "start.",
)
def interval_of_ten_seconds(rows: Rows) -> Verdict:
    chosen = read.where(rows["times"], window_s=10)
    held = {row["hand_over_ms"]: 0.0 for row in chosen}
    for row in chosen:
        held[row["hand_over_ms"]] = max(held[row["hand_over_ms"]], row["overall_held_longest"])
    return read.judged(
        max(held.values()) <= 10.0,
        f"a message waited for a hand-over for at most, by the time that the word of it takes (ms), "
        f"{read.listed(held, ' s')}",
        "never longer than 10 s",
        "A partition that is overloaded has more than 10 s of messages in its queue; a key that leaves "
        "it must wait for all of them.",
    )


@claim(
    "shorter-and-longer-intervals",
    "§II",
    figures=["times"],
    says="[The paper chose 10 s; what other intervals do.]",
)
def shorter_and_longer_intervals(rows: Rows) -> Verdict:
    curve = read.along(rows["times"], "window_s", "overall_p99", hand_over_ms=5)
    moves = read.along(rows["times"], "window_s", "overall_moves", hand_over_ms=5)
    return read.judged(
        curve[10] <= terms.SHARPLY * min(curve.values()),
        f"the 99th percentile is, by the seconds of window and interval, {read.listed(curve, ' ms')}, "
        f"with {read.listed(moves)} moves",
        "that of 10 s is within a factor of 1.5 of the best",
    )
