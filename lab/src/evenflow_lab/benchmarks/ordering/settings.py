"""What is run: how much load, how many faults."""

from __future__ import annotations

from dataclasses import dataclass

STALLED = 90.0  #: seconds without a new output, after which the run is over
FAULTS = ("kill", "kill and rename", "leave", "freeze")


@dataclass(frozen=True)
class Run:
    """What is run. `seconds_between_faults` of 0: none."""

    messages: int = 1_000_000
    keys: int = 10_000
    partitions: int = 8
    consumers: int = 3
    rate: float = 15_000.0
    seconds_between_moves: float = 0.003
    seconds_between_faults: float = 10.0
    replays: int = 50
    buffer: int = 20_000
    service_time: str = "0ms"
    buffering: bool = True
    broker_kills: int = 0
    faults: tuple[str, ...] = FAULTS
    most_faults: int = 1_000_000
    seed: int = 0
