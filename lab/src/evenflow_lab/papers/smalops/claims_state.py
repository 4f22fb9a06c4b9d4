"""Claims on what the gateway keeps: §II, the paper's long run; and on which streams it moves."""

from __future__ import annotations

from statistics import fmean

from evenflow_lab.experiments import FigureRows, Rows, Verdict, claim
from evenflow_lab.experiments import reading as read
from evenflow_lab.experiments.claims import Row
from evenflow_lab.papers.smalops import terms

STATIC, SHIFTED = 0, 1000


def _last(rows: Rows, shift: int = STATIC) -> Row:
    return max(read.where(rows["sec2_state"], shift=shift), key=lambda row: float(row["window"]))


def _now(rows: Rows, shift: int) -> FigureRows:
    return read.where(rows["sec2_state"], shift=shift, what="hot now")


@claim(
    "keys-used",
    "§II",
    figures=["sec2_state"],
    says="Of 28 M possible keys, the generator used 3.2 M in 28 M messages.",
)
def keys_used(rows: Rows) -> Verdict:
    seen = _last(rows)["seen"]
    return read.judged(
        3.2e6 / terms.SAME <= seen <= 3.2e6 * terms.SAME,
        f"{seen:,} keys; {_last(rows, SHIFTED)['seen']:,} if they are shifted",
        "the former are within a tenth of 3.2 M",
    )


@claim(
    "hot-keys-ever",
    "§II",
    figures=["sec2_state"],
    says="14 K of them were hot over the course of the experiment.",
)
def hot_keys_ever(rows: Rows) -> Verdict:
    static, shifted = _last(rows), _last(rows, SHIFTED)
    return read.judged(
        14e3 / terms.SAME <= static["in_the_whole_run"] <= 14e3 * terms.SAME,
        f"{static['in_the_whole_run']:,} keys had 100 or more messages in the whole run; in some "
        f"window of 2 M messages {static['ever']:,} had, and {shifted['ever']:,} if keys are shifted "
        "by 1000 every window",
        "the first are within a tenth of 14 K: only by this count do they have 20 M messages, too",
    )


@claim(
    "hot-keys-have-most-messages",
    "§II",
    figures=["sec2_state"],
    says="These 14 K keys accounted for 20 M+ of the 28 M messages, about ¾ of the load.",
)
def hot_keys_have_most_messages(rows: Rows) -> Verdict:
    static, shifted = _last(rows), _last(rows, SHIFTED)
    share = fmean(row["hot_share"] for row in _now(rows, STATIC))
    return read.judged(
        static["messages_of_those"] >= 20e6,
        f"the keys with 100 or more in the whole run have {static['messages_of_those'] / 1e6:.1f} M "
        f"messages; if keys are shifted, those that were ever hot have "
        f"{shifted['messages_of_hot'] / 1e6:.1f} M",
        "the former have at least 20 M",
        f"The keys that a gateway tracks at a time have {share:.0%} of the messages.",
    )


@claim(
    "three-quarters-balanced",
    "§II",
    figures=["sec2_state"],
    says="SMALOPS can be expected to balance ≈ ¾ of the load while it maintains a very small state.",
)
def three_quarters_balanced(rows: Rows) -> Verdict:
    shares = {shift: fmean(row["hot_share"] for row in _now(rows, shift)) for shift in (0, 1000)}
    return read.judged(
        shares[STATIC] >= 0.75 / terms.SAME,
        f"the keys that are hot in a window have {shares[STATIC]:.0%} of its messages, and "
        f"{shares[SHIFTED]:.0%} if keys are shifted",
        "at least ¾, within a tenth",
        "The ¾ are those of all keys with 100 messages in the whole run; of a window's messages the "
        "keys that are tracked in it have less. For balance it is enough (see p99-73-percent-at-50).",
    )


@claim(
    "tracked-at-a-time",
    "§II",
    figures=["sec2_state"],
    says="The gateway tracked no more than 1 to 1.5 K keys in any counting window.",
)
def tracked_at_a_time(rows: Rows) -> Verdict:
    counts = [row["tracked"] for shift in (STATIC, SHIFTED) for row in _now(rows, shift)]
    return read.judged(
        max(counts) <= 1500 and min(counts) >= 1000,
        f"between {min(counts):,} and {max(counts):,} keys, static or shifted, in windows of 2 M "
        "messages (a number that was chosen for this)",
        "between 1,000 and 1,500 in every window",
    )


@claim(
    "tracked-part",
    "§II",
    figures=["sec2_state"],
    says="It tracks only ~0.05 % of the number of keys seen.",
)
def tracked_part(rows: Rows) -> Verdict:
    parts = {
        shift: 100 * _last(rows, shift)["most_tracked"] / _last(rows, shift)["seen"]
        for shift in (STATIC, SHIFTED)
    }
    return read.judged(
        max(parts.values()) <= 0.05 * terms.ABOUT,
        f"at most {_last(rows)['most_tracked']:,} at a time, {parts[STATIC]:.3f} % of "
        f"{_last(rows)['seen']:,} keys; {parts[SHIFTED]:.3f} % if keys are shifted",
        "at most 0.05 %, within a quarter",
    )


@claim(
    "larger-streams-stay",
    "§I",
    figures=["sec2_state"],
    says="SMALOPS is biased towards keeping larger streams pinned; it moves them only when required.",
)
def larger_streams_stay(rows: Rows) -> Verdict:
    windows = _now(rows, SHIFTED)
    heavy, light, heavy_there, light_there = (
        fmean(row[f"moved_{which}"] for row in windows)
        for which in ("heaviest", "others", "heaviest_there", "others_there")
    )
    return read.judged(
        heavy * terms.SHARPLY <= light,
        f"with keys that shift, a decision moves {heavy:.1%} of the heaviest tenth of the hot keys and "
        f"{light:.1%} of the others",
        "the former is lower by a factor of 1.5",
        "Best fit takes the lightest keys first, but from overloaded partitions only, and those are "
        "the ones that heavy keys are on. Of the keys there, it moves "
        f"{heavy_there:.0%} of the heaviest and {light_there:.0%} of the others.",
    )


@claim(
    "equation-4",
    "§II, equation 4",
    figures=["rules"],
    says="Migrating a stream makes sense only if equation 4 holds.",
)
def equation_4(rows: Rows) -> Verdict:
    moves = {
        r: read.typical(rows["rules"], "moves", rule=r) for r in read.values(rows["rules"], "rule")
    }
    tails = {r: read.typical(rows["rules"], "p99", rule=r) for r in moves}
    alone, interval, free = "two choices alone", "interval rule", "equation 4, free state"
    return read.judged(
        tails[free] <= terms.SAME * tails[interval],
        f"best fit makes {moves[interval] - moves[alone]:.0f} moves by the interval rule and "
        f"{moves[free] - moves[alone]:.0f} by equation 4 with state that costs nothing; the 99th "
        f"percentiles are {read.number(tails[interval])} and {read.number(tails[free])} µs, and "
        f"{read.number(tails[alone])} µs with two choices alone",
        "with equation 4 it is within a tenth of that by the interval rule",
        "Solved, the equation says I ÷ R_p2 − R_k ÷ R_p1 > t_SM ÷ t_msg, with I one message a second: "
        "a stream of many messages a second never fulfils it. The interval rule, by which the paper "
        "measures, is the default here.",
    )
