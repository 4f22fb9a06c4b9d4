"""How much later a new executor answers whose disk is empty, and whose processor is another one.

A standalone cluster with one worker of one core. Each contestant is a Spark application of its own, so
it has a fresh executor with fresh Python processes; they differ in the home directory and the cache
that the executor finds: those of this process, where all kernels have been compiled before; new ones,
which are empty; and new ones under a processor that does not have what this one has, for which the
code that comes with the tasks does not do, so that the executor compiles. Measured is the time from
`collect()` to the rows, with the executor's Java process running and no Python process there yet; then
counted which files of compiled code the executor left.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from evenflow.model import InputError
from evenflow_lab.benchmarks.outcome import Goal, Progress, Result, Table, say_nothing

SCHEMES = ("key", "d-choices")
_LATER = 3.0  # seconds that an empty disk may cost
_PLAIN_PROCESSOR = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+sse2"}
_HERE, _EMPTY, _OTHER = "warm", "empty", "empty, another processor"


def run(
    rounds: Annotated[int, "How often each contestant is run."] = 3,
    progress: Progress = say_nothing,
) -> Iterator[Result]:
    from evenflow.spark.standalone_cluster import StandaloneCluster

    if rounds < 1:
        raise InputError(f"rounds must be at least 1, got {rounds}")
    cases = [(scheme, disk) for scheme in SCHEMES for disk in (_HERE, _EMPTY)]
    turns = [*cases * rounds, (SCHEMES[-1], _OTHER)]
    seconds: dict[tuple[str, str], list[float]] = {}
    files: dict[tuple[str, str], int] = {}
    with StandaloneCluster.start(1, cores=1) as cluster:
        _answer(cluster.url, SCHEMES[-1], _environment(_HERE, ""))  # compiles what is to be warm
        for done, case in enumerate(turns):
            progress(f"{case[0]}, {case[1]}", done, len(turns))
            with tempfile.TemporaryDirectory(prefix="evenflow-cold-") as home:
                taken = _answer(cluster.url, case[0], _environment(case[1], home))
                files[case] = len(list(Path(home).rglob("*.compiled")))
            seconds.setdefault(case, []).append(taken)
    figures = [
        {
            "scheme": scheme,
            "executor's disk": disk,
            "seconds to the first output": round(median(taken), 2),
            "least": round(min(taken), 2),
            "most": round(max(taken), 2),
            "compiled there": files[scheme, disk],
        }
        for (scheme, disk), taken in seconds.items()
    ]
    goals = tuple(
        Goal(
            f"`{scheme}`: seconds later with an empty disk",
            round(median(seconds[scheme, _EMPTY]) - median(seconds[scheme, _HERE]), 2),
            _LATER,
        )
        for scheme in SCHEMES
    )
    title = f"The first output of a new executor, median of {rounds}, contestants in turn"
    yield Result(
        {"figures": figures, "goals": [goal.to_dict() for goal in goals]},
        (Table(figures, title),),
        goals=goals,
    )


def _environment(disk: str, home: str) -> Mapping[str, str]:
    """What the executor finds."""
    if disk == _HERE:
        from evenflow.kernels.jit import cache_directory

        here = cache_directory()
        if here is None:
            raise InputError("there is no directory for compiled code; set EVENFLOW_CACHE_DIR")
        return {"EVENFLOW_CACHE_DIR": str(here.parents[1]), "HOME": os.path.expanduser("~")}
    own = {"EVENFLOW_CACHE_DIR": home, "XDG_CACHE_HOME": home, "HOME": home}
    return own | _PLAIN_PROCESSOR if disk == _OTHER else own


def _answer(url: str, scheme: str, environment: Mapping[str, str]) -> float:
    """Seconds to the first output of a new executor."""
    import evenflow as ef
    from evenflow.spark.session import local_session

    settings: dict[str, Any] = {"spark.sql.shuffle.partitions": 2}
    settings |= {f"spark.executorEnv.{name}": value for name, value in environment.items()}
    spark = local_session(url, **settings)
    try:
        rows = spark.range(1000).selectExpr("id % 97 AS key")
        assert (
            rows.repartition(2).distinct().count() == 97
        )  # the executor is there, and has shuffled
        began = time.perf_counter()
        found = ef.keyed(rows, "key").balance(scheme, partitions=2).agg(n=ef.count()).collect()
        taken = time.perf_counter() - began
        assert sum(row["n"] for row in found) == 1000
        return taken
    finally:
        spark.stop()
