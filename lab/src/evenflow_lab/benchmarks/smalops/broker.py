"""Queuing delay on a real broker.

The same load twice: once by Kafka's own key hashing (a producer's default partitioner, murmur2), and
once by SMALOPS, a gateway process that counts keys, moves the hot ones and writes message sets; all
other keys go where Kafka's partitioner sends them, so that the two differ by the moves alone. Both
times the same consumer processes read it, one per partition, which sleep for every message. Queuing
delay is the time from a message's produce call until a consumer begins with it. First the static load,
then keys that shift every minute. Consumers sleep, so that a few cores stand in for as many machines as
there are partitions.

With `--sweeps`, instead, the static load by processing time (at one rate of messages, as in the
paper's Figure 8) and by the threshold of hot keys (Figure 9).

`--save lab/src/evenflow_lab/papers/smalops/broker.json` (with `--sweeps`: `broker_sweeps.json`) puts
the JSON where the paper's page reads it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from evenflow_lab.benchmarks.outcome import Progress, Result, Table, say_nothing
from evenflow_lab.benchmarks.smalops.delays import measure
from evenflow_lab.benchmarks.smalops.load import Run, hottest_share

SCHEMES = ("key", "smalops")


def compare(settings: Run, bootstrap: str, say: Callable[[str], object]) -> dict[str, Any]:
    """Both schemes under one load."""
    rate = settings.saturation / (hottest_share(settings) * settings.service)
    rows = []
    for scheme in SCHEMES:
        rows.append(measure(settings, scheme, bootstrap, rate))
        one = rows[-1]
        say(
            f"{scheme}: p50 {one['p50_ms']:.1f}, p90 {one['p90_ms']:.1f}, p99 {one['p99_ms']:.1f} ms"
        )
    kafka, smalops = rows
    return {
        **asdict(settings),
        "rate": rate,
        "p99_lower_percent": 100 * (1 - smalops["p99_ms"] / kafka["p99_ms"]),
        "p50_lower_percent": 100 * (1 - smalops["p50_ms"] / kafka["p50_ms"]),
        "schemes": rows,
    }


SERVICES = (0.4, 0.7, 1.0)  #: of the processing time near saturation
HOT = tuple(("threshold", share) for share in (0.0003, 0.001, 0.01, 0.1)) + tuple(
    ("coverage", share) for share in (0.1, 0.5)
)  #: what makes a key hot


def sweep(settings: Run, bootstrap: str, say: Callable[[str], object]) -> dict[str, Any]:
    """Figures 8 and 9: one rate, other processing times; near saturation, other thresholds."""
    by_service = []
    for part in SERVICES:
        say(f"{1e3 * part * settings.service:g} ms per message")
        slower = replace(
            settings, service=part * settings.service, saturation=part * settings.saturation
        )
        by_service.append(compare(slower, bootstrap, say))
    kafka = by_service[-1]["schemes"][0]
    by_threshold = []
    for means, share in HOT:
        hot = (
            replace(settings, coverage=share)
            if means == "coverage"
            else replace(settings, threshold=share)
        )
        row = measure(hot, "smalops", bootstrap, kafka["rate"])
        say(f"{means} {100 * share:g} %: p99 {row['p99_ms']:.1f} ms, {row['hot_keys_most']} hot")
        by_threshold.append({"means": means, "percent": 100 * share, **row})
    return {"by_service": by_service, "by_threshold": by_threshold, "hashed": kafka}


def run(
    partitions: Annotated[int, "Partitions, and consumer processes."] = Run.partitions,
    service: Annotated[float, "Seconds per message."] = Run.service,
    saturation: Annotated[float, "How busy the busiest partition is."] = Run.saturation,
    seconds: Annotated[float, "Seconds of the static load."] = Run.seconds,
    minutes: Annotated[int, "Minutes of the dynamic load; 0: none."] = 3,
    shift: Annotated[int, "Keys shifted every minute."] = 10,
    seed: Annotated[int, "Of the load."] = Run.seed,
    sweeps: Annotated[bool, "By processing time and threshold instead."] = False,
    save: Annotated[Path | None, "Write the JSON there, too."] = None,
    progress: Progress = say_nothing,
) -> Result:
    from evenflow_lab.checking.broker import Broker

    def say(line: str) -> None:
        progress(line, 0, None)

    static = Run(
        partitions=partitions, service=service, saturation=saturation, seconds=seconds, seed=seed
    )
    options = f"--seconds {seconds:g}" + (" --sweeps" if sweeps else f" --minutes {minutes}")
    answer: dict[str, Any] = {
        "command": f"evenflow bench smalops-broker {options}",
        "cores": os.cpu_count(),
        "load_average_before": os.getloadavg()[0],
    }
    with Broker.start() as broker:
        if sweeps:
            answer |= sweep(static, broker.bootstrap, say)
        else:
            answer["static"] = compare(static, broker.bootstrap, say)
            if minutes:
                moving = replace(static, seconds=60.0 * minutes, shift=shift)
                answer["dynamic"] = compare(moving, broker.bootstrap, say)
    answer["load_average_after"] = os.getloadavg()[0]
    if save:
        save.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    return Result(answer, _tables(answer))


def _tables(answer: dict[str, Any]) -> tuple[Table, ...]:
    columns = ("grouping", "p50_ms", "p90_ms", "p99_ms", "moves", "hot_keys_most")

    def shown(rows: list[dict[str, Any]], *more: str) -> list[dict[str, Any]]:
        return [
            {
                name: round(row[name], 2) if isinstance(row[name], float) else row[name]
                for name in (*columns, *more)
            }
            for row in rows
        ]

    tables = [
        Table(shown(answer[load]["schemes"]), f"{load} load")
        for load in ("static", "dynamic")
        if load in answer
    ]
    for run in answer.get("by_service", ()):
        tables.append(Table(shown(run["schemes"]), f"{1e3 * run['service']:g} ms per message"))
    if "by_threshold" in answer:
        tables.append(Table(shown(answer["by_threshold"], "means", "percent"), "by threshold"))
    return tuple(tables)
