"""Claims that need a cluster: throughput and latency on Apache Storm. §V, Figures 13 to 16."""

from __future__ import annotations

from evenflow.simulator.experiments import Verdict, claim

FIGURE_13 = (
    "Measured by the authors on 21 machines running Apache Storm. These runs count messages and have "
    "no throughput; `evenflow bench spark --only fluctuation` measures the same contestants on Spark."
)
NEEDS_A_CLUSTER = (
    "Measured by the authors on 21 machines running Apache Storm, on data that cannot be had (five "
    "days of a microblog, three of a stock exchange). These runs count messages and have no "
    "throughput; `evenflow bench spark --only fluctuation` measures throughput and latency on Spark, "
    "on the synthetic stream."
)
TPC_H = (
    "Measured by the authors on 21 machines running Apache Storm (1 GB of TPC-H data, an hour). These "
    "runs count messages; `evenflow bench spark --only fluctuation` measures throughput on Spark, on "
    "the synthetic stream."
)

_CLAIMS = {
    "storm-ideal-is-best": (
        "Figure 13",
        "Ideal (shuffling regardless of keys) has a better throughput and a lower latency than any "
        "key-aware scheduling.",
        FIGURE_13,
    ),
    "storm-readj-depends-on-f": (
        "Figure 13",
        "Throughput and latency of Readj change dramatically with f; it works well only for small f.",
        FIGURE_13,
    ),
    "storm-mixed-near-ideal": (
        "Figure 13",
        "Mixed always performs well, very close to the optimal bound set by Ideal.",
        FIGURE_13,
    ),
    "storm-mixed-best-at-theta-002": (
        "Figure 14",
        "The best throughput on both real workloads is that of Mixed with θmax = 0.02.",
        NEEDS_A_CLUSTER,
    ),
    "storm-mixed-twice-storm-and-readj": (
        "Figure 14(b)",
        "Mixed's throughput is about 2 times that of Storm and Readj at smaller θmax.",
        NEEDS_A_CLUSTER,
    ),
    "storm-readj-catches-up": (
        "Figure 14",
        "Readj catches up with Mixed at θmax = 0.3 on Social, at θmax = 0.15 on Stock.",
        NEEDS_A_CLUSTER,
    ),
    "storm-mintable-loses-throughput": (
        "Figure 14",
        "MinTable's larger migration volume reduces the throughput during adjustment.",
        NEEDS_A_CLUSTER,
    ),
    "storm-pkg-independent-of-theta": (
        "Figure 14(a)",
        "The throughput of PKG is independent of θmax.",
        NEEDS_A_CLUSTER,
    ),
    "storm-mixed-over-pkg": (
        "Figure 14(a)",
        "At θmax = 0.02 Mixed outperforms PKG by 10 % on throughput and by 40 % on latency.",
        NEEDS_A_CLUSTER,
    ),
    "storm-scale-out-faster-than-readj": (
        "Figure 15",
        "After an instance is added, Mixed rebalances within a much shorter time than Readj, which "
        "takes at least 5 minutes on Social with θmax = 0.1.",
        NEEDS_A_CLUSTER,
    ),
    "storm-scale-out-over-pkg": (
        "Figure 15",
        "While scaling out, PKG produces a lower throughput than Mixed with θmax = 0.1.",
        NEEDS_A_CLUSTER,
    ),
    "storm-q5-mixed-best": (
        "Figure 16",
        "On TPC-H's Q5 Mixed achieves the best throughput under any balancing tolerance; Storm without "
        "balancing is poor.",
        TPC_H,
    ),
}


def _open(id: str, section: str, says: str, why: str):
    @claim(id, f"§V, {section}", says=says)
    def judge(rows) -> Verdict:
        return Verdict(None, "", why)

    judge.__name__ = id.replace("-", "_")
    return judge


globals().update({id.replace("-", "_"): _open(id, *parts) for id, parts in _CLAIMS.items()})
