"""Figures 7, 8 and 10 on a real broker. Open: `benchmarks/smalops_broker.py` measures them."""

from __future__ import annotations

from evenflow.simulator.experiments import Verdict, claim

OPEN = (
    "Not in the simulator: `python -m benchmarks.smalops_broker` measures it on a real broker, with "
    "Kafka's own partitioner and the same consumer processes. No run of it has been kept yet."
)

_CLAIMS = {
    "broker-p99-near-saturation": (
        "abstract, §III-B, Figures 7(b) and 8",
        "On Kafka itself, near saturation, the 99th percentile of the queuing delay is 73 % lower.",
    ),
    "broker-p50-not-worse": (
        "§III-B, Figure 7",
        "On Kafka itself, the median queuing delay is not worse.",
    ),
    "broker-dynamic-load": (
        "§III-B, Figure 10",
        "On Kafka itself, SMALOPS significantly improves performance under the dynamic load.",
    ),
}


def _open(id, section, says):
    @claim(id, section, says=says)
    def verdict(rows):
        return Verdict(None, "not measured here", OPEN)

    return verdict


for _id, (_section, _says) in _CLAIMS.items():
    globals()[_id.replace("-", "_")] = _open(_id, _section, _says)
