"""Claims on computation: §4.1 to §4.3, Table 1; one of them is open."""

from __future__ import annotations

from evenflow_lab.experiments import Measured, Rows, Threshold, Verdict, claim
from evenflow_lab.experiments import reading as read
from evenflow_lab.papers.borealis import terms


@claim(
    "pair-takes-6-ms",
    "§4.3",
    figures=["table1"],
    says="With m = 10 and k = 10, pair-wise redistribution takes 6 ms for each node pair: a small "
    "fraction of a load distribution period of 1 s.",
    threshold=Threshold("redistribution of a pair of nodes", most=6, unit=" ms"),
)
def pair_takes_6_ms(rows: Rows) -> Measured:
    return Measured(terms.typical(rows["table1"], "pair_ms"))


@claim(
    "global-grows-with-the-cube",
    "§4.2, Table 1",
    figures=["table1"],
    says="The greedy step of the global algorithm takes O(m²n³k).",
    threshold=Threshold("exponent of n in the transcription's time", 2.4, 3.3),
)
def global_grows_with_the_cube(rows: Rows) -> Measured:
    words = terms.along(rows["table1"], "nodes", "seconds", grouping="transcription")
    ours = terms.along(rows["table1"], "nodes", "seconds", grouping="evenflow")
    return Measured(
        _exponent(words),
        f"seconds by n: {read.listed(words)}; this package's exponent is {_exponent(ours):.2f} "
        f"({read.listed(ours)})",
    )


@claim(
    "global-cannot-scale",
    "§4.3",
    figures=["table1"],
    says="The global algorithm cannot scale when n is large.",
    threshold=Threshold("time at the largest n", least=60, unit=" s"),
)
def global_cannot_scale(rows: Rows) -> Measured:
    ours = terms.along(rows["table1"], "nodes", "seconds", grouping="evenflow")
    return Measured(
        ours[max(ours)],
        f"seconds by n: {read.listed(ours)}",
        "Scores are linear in the nodes' directions: the sum over all nodes is one vector, and n "
        "falls out of a score's cost; the pair with the least correlation is not searched again.",
    )


def _exponent(curve: read.Curve) -> float:
    from math import log

    (n1, t1), (n2, t2) = min(curve.items()), max(curve.items())
    return log(t2 / t1) / log(n2 / n1)


@claim(
    "statistics-transfer",
    "§4.1",
    says="Sending the statistics of a node (m = 20, k = 20) takes 1 ms on an Ethernet of 100 Mbps, "
    "after 2 ms for the connection.",
)
def statistics_transfer(rows: Rows) -> Verdict:
    return Verdict(
        None,
        "",
        "Measured by the authors on their network; there is none here. 20 operators with 20 "
        "samples of 8 bytes are 3.2 kB, 0.26 ms at that speed.",
    )
