"""The simulation without queues: sources route a stream, and the workers' loads are measured."""

from __future__ import annotations

from collections.abc import Callable

from evenflow.grouping import GroupingScheme
from evenflow.model import Workers
from evenflow.simulator.measurements import Measurements
from evenflow.simulator.result import Result
from evenflow.simulator.schemes import make_scheme
from evenflow.simulator.sources import Sources
from evenflow.simulator.workloads.protocol import Workload

_SMALLEST_CHUNK, _LARGEST_CHUNK = 1 << 17, 1 << 22
_KEYS_PER_ROUTE = 1 << 14  #: enough to make the overhead of a call negligible


def simulate(
    scheme: GroupingScheme | str,
    workload: Workload,
    workers: Workers | int,
    sources: int = 1,
    seed: int = 0,
    *,
    chunk: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> Result:
    """Routes a stream through `sources` independent routers and measures the workers' loads.

    Message i belongs to source i mod `sources`; each source knows only the loads that it has sent
    itself, as in the papers.

    Guarantee: the result (except the time taken) depends on the scheme, the workload, the roster,
    `sources` and `seed`, not on `chunk`.

    Parameters:
        scheme: a grouping scheme, or its name with parameters (`"greedy-d:d=5"`).
        workload: the stream.
        workers: the roster, or the number of workers.
        sources: number of routers that share the stream.
        seed: of the hash functions; the workload has its own.
        chunk: messages read at a time; None for a good default.
        progress: called with the number of messages done so far, after every chunk.

    Example:
        >>> from evenflow.simulator.workloads import Zipf
        >>> result = simulate("key", Zipf(exponent=2.0, messages=50_000), workers=100, sources=5)
        >>> 0.6 < result.max_load < 0.7  # the most frequent key alone has 0.61
        True
        >>> result.replication
        1.0

    Paper: the setup of "When two choices are not enough", §V-A.
    """
    chosen = make_scheme(scheme) if isinstance(scheme, str) else scheme
    roster = Workers.of(workers)
    routers = Sources(chosen, roster, sources, seed)
    if chunk is None:
        chunk = chunk_for(sources)
    measurements = Measurements(roster)
    for keys in workload.chunks(chunk):
        if not routers.messages:
            routers.warm_up(keys)
        measurements.take(keys, measurements.numbers(routers.route(keys)))
        if progress is not None:
            progress(routers.messages)
    return measurements.result(chosen, workload, routers, seed)


def chunk_for(sources: int) -> int:
    """A good default for the messages read at a time."""
    return min(max(_KEYS_PER_ROUTE * sources, _SMALLEST_CHUNK), _LARGEST_CHUNK)
