"""The paper's numbers, from which thresholds are taken, and its names."""

# The paper's own numbers, from which every threshold is taken that its words do not give.
EPSILON = 0.01  #: the slack of PoRC, CH and CG, §VII-B
#: "nearly optimal memory overhead by allowing at most two workers per key", §VI-B
NEARLY_OPTIMAL = 2.0
BAND = 0.10  #: between idle at 0.75 and busy at 0.85, §VII-A: what CG does not even try to even out
CLOSE = 1.1  #: "close", "very similar": a tenth
SAME_ON_LOG_AXIS = 2.0  #: "almost the same on a log scale": a factor of two is 0.3 of a decade
MAGNITUDE = 10.0  #: "very low", "high": told apart by an order of magnitude

KG, PKG, POTC, SG = "key", "partial-key", "two-choices", "shuffle"
PORC, CH, CG, CG_100 = "random-choices", "bounded-hashing", "consistent", "consistent:virtual=100"
SYMBOLS = {
    KG: "KG", PKG: "PKG", POTC: "PoTC", SG: "SG", PORC: "PoRC", CH: "CH", CG: "CG", CG_100: "CG",
}  # fmt: skip

QUEUE, LATENCY, UTILISATION = "queue_difference", "latency_difference", "utilisation_difference"
IMBALANCE = "cumulative_imbalance"  #: I(t) of §IV
WORDS = {QUEUE: "queue", LATENCY: "latency", UTILISATION: "utilisation"}
