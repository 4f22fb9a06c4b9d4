"""A checkpointed query under a schedule: drivers that come and go, and everything that goes wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

import evenflow.engine.key_costs
import evenflow.engine.loop
import evenflow.engine.processor_run
import evenflow.engine.splitting
import evenflow.engine.tally
import evenflow.engine.task
import evenflow.operators.per_key
import evenflow.state.checkpoint
import evenflow.state.lease
import evenflow.state.segments
from evenflow.engine.loop import Loop, Program
from evenflow.engine.program import KeyedProgram
from evenflow.model import InputError
from evenflow.model.errors import EvenflowError
from evenflow.spark.progress_log import PROGRESS, ProgressLog
from evenflow.spark.sinks.parquet import ParquetSink
from evenflow.state import journal
from evenflow.state.checkpoint import FOLDER, Checkpoint
from evenflow.state.lease import Lease
from evenflow.state.leftovers import drop_uncommitted
from evenflow.state.manifest import seal
from evenflow.state.segments import read_segment
from evenflow_lab.checking.simulation import ledger
from evenflow_lab.checking.simulation.history import History, Violation
from evenflow_lab.checking.simulation.kinds import (
    CLOSING,
    LIGHT,
    MOVING,
    PARTITIONS,
    input_of,
    job_of,
)
from evenflow_lab.checking.simulation.query_checks import check_query
from evenflow_lab.checking.simulation.schedule import Fault, Schedule
from evenflow_lab.checking.simulation.spark_habits import OnTasks, StreamExecution, Tasks
from evenflow_lab.checking.simulation.store import SimulatedStorage, Store
from evenflow_lab.checking.simulation.world import Actor, Stopwatch, World

LEASE = 3.0  #: seconds; a call takes 0.02
GRACE = 12.0  #: seconds that garbage stays
KEEP = 2
CHECKPOINT, OUTPUT = "checkpoint/", "output/"
_COLLECT_EVERY = 3
_MOST_STARTS = 60
_MOST_PAUSES = 4  # starts without the later rows
_REFUSALS = 3  # of restarted drivers in a row, after which nobody starts it again

_FROM_OUTSIDE = Stopwatch(
    evenflow.engine.key_costs,
    evenflow.engine.loop,
    evenflow.engine.processor_run,
    evenflow.engine.tally,
    evenflow.engine.task,
    evenflow.operators.per_key,
    evenflow.state.checkpoint,
    evenflow.state.lease,
    evenflow.state.segments,
)


class Query:
    """One schedule of a checkpointed query.

    Parameters:
        schedule: what happens.
        store_kind: the store, which a planted bug may replace.
    """

    def __init__(self, schedule: Schedule, store_kind: type[Store] = Store) -> None:
        self.schedule = schedule
        self.world = World(schedule.seed, schedule.switching)
        self.history = History()
        self.store = store_kind(self.world, self._noticed)
        self.input = input_of(schedule.kind, schedule.seed, schedule.rows)
        self.identity = (
            ledger.IDENTITY if schedule.kind == LIGHT else job_of(schedule.kind).identity()
        )
        self.refused: InputError | None = None
        self.unreadable: list[str] = []
        self._tasks = Tasks(self.world, schedule.orphans)
        self._faults = list(schedule.faults)
        self._drivers: dict[Actor, Lease | None] = {}
        self._backups: list[tuple[dict[str, bytes], History]] = []
        self._finished = False
        self._again = 0  # refusals in a row
        self._beating = False
        self._paused = 0

    def run(self) -> World:
        """Run it and check what has come of it; a `Violation` says what is wrong."""
        with _substituted(self.world):
            self.world.before_call = self._before_call
            self.world.spawn("cluster", self._keep_running)
            self.world.run()
            self.store.arrive(all_of_them=True)
            self._faults.clear()
            self.store.fault = None
            if self.refused is None:
                self._last_word()
        check_query(self)
        return self.world

    @property
    def storage(self) -> SimulatedStorage:
        return SimulatedStorage(self.store, CHECKPOINT)

    @property
    def output(self) -> SimulatedStorage:
        return SimulatedStorage(self.store, OUTPUT)

    # --- the cluster -----------------------------------------------------------------------------

    def _keep_running(self) -> None:
        """Start a driver whenever there is none, until the stream is done or nobody can go on."""
        while not self._finished:
            if not any(not actor.ended for actor in self._drivers):
                if len(self._drivers) >= _MOST_STARTS:
                    raise Violation(f"stuck: {_MOST_STARTS} drivers have not finished the stream")
                self._start_driver()
            me = self.world.current
            assert me is not None
            me.sleep(1.0)
        for actor in self._drivers:
            actor.wakes_at = min(actor.wakes_at, self.world.now)

    def _start_driver(self) -> None:
        name = f"driver {len(self._drivers)}"
        actor = self.world.spawn(name, lambda: self._drive(actor))
        self._drivers[actor] = None

    def _drive(self, actor: Actor) -> None:
        try:
            done = self._run_query(actor)
        except InputError as error:
            if "is in use by" in str(error):
                return
            self._again += 1
            if self._again >= _REFUSALS:
                self.refused, self._finished = error, True
        except (EvenflowError, OSError, pa.ArrowException) as error:
            self.world.happened[f"ended: {type(error).__name__}"] += 1
        except Exception as error:
            self.world.happened[f"ended: {type(error).__name__}"] += 1
            if not type(error).__module__.startswith("evenflow"):
                raise
        else:
            self._finished = done

    def _run_query(self, actor: Actor) -> bool:
        """Run the query on all rows that are there, and what event time has passed then; whether no
        more rows will come."""
        storage, sink = self.storage, ParquetSink(self.output)
        checkpoint = Checkpoint.open(storage, self.identity)
        holder = {"pid": len(self._drivers), "host": actor.name, "machine": actor.name}
        lease = checkpoint.acquire(LEASE, actor.clock, actor.sleep, lambda: holder)
        self._drivers[actor] = lease
        try:
            progress = ProgressLog(storage.under(PROGRESS))
            progress.drop_unfinished()
            sink.claim(checkpoint.query)
            drop_uncommitted(checkpoint, sink.staging(checkpoint.storage))
            loop = Loop(
                self._program(sink),
                checkpoint,
                self._back_up,
                KEEP,
                progress,
                actor.clock,
                grace=GRACE,
            )
            rows = self.input.rows if self.schedule.kind == LIGHT else self.input.table
            sizes = (50, 120) if self.schedule.kind in MOVING else (1, 5)
            available = self._available()
            execution = StreamExecution(self.world, storage, available, sizes)
            execution.run(lambda batch, start, end: loop(rows(start, end), batch))
            loop.close(rows(0, 0))
            lease.release()
            return available == self.schedule.rows
        except Exception:
            lease.release()
            raise
        finally:
            self._drivers[actor] = None
            lease.abandon()

    def _available(self) -> int:
        """How many rows there are when a driver starts. Where a batch without rows closes what event
        time has passed, the stream may pause, so that there is one within it."""
        if self.schedule.kind in CLOSING and self.world.chance.random() < 0.5:
            self._paused += 1
            if self._paused < _MOST_PAUSES:
                return self.schedule.rows // 2
        return self.schedule.rows

    def _program(self, sink: ParquetSink) -> Program:
        if self.schedule.kind == LIGHT:
            return ledger.Ledger(self.world, sink, self._tasks)
        return KeyedProgram(job_of(self.schedule.kind), sink, OnTasks(self._tasks))

    def _back_up(self, metrics: Any) -> None:
        self._again = 0
        kept = {n: c for n, c in self.store.objects.items() if n.startswith(CHECKPOINT)}
        self._backups.append((kept, self.history.copy()))

    def _last_word(self) -> None:
        """A driver on a calm day finds nothing left to do, and nothing wrong."""
        self._finished, self._again, self._paused = False, _REFUSALS - 1, _MOST_PAUSES
        self.world.spawn("cluster", self._keep_running)
        self.world.run()

    # --- what goes wrong -------------------------------------------------------------------------

    def _before_call(self, what: str) -> None:
        me = self.world.current
        assert me is not None
        while self._faults and self._faults[0].at < self.world.calls:
            self._happen(self._faults.pop(0), me)
        lease = self._drivers.get(me)
        if lease is not None and lease.held and not self._beating and not me.dead:
            self._beat(lease, me)

    def _beat(self, lease: Lease, me: Actor) -> None:
        """What the lease's own thread does, between two calls of the driver."""
        if me.clock() - lease._heard < lease.seconds / 6:
            return
        self._beating = True
        try:
            lease.beat()
        except (OSError, EvenflowError):
            pass  # it would be logged
        finally:
            self._beating = False

    def _happen(self, fault: Fault, me: Actor) -> None:
        what, length = fault.what, fault.length
        driver = me if me in self._drivers else None
        if what in ("error", "lost reply", "delayed", "doubled", "partial write"):
            self.store.fault, self.store.length = what, 4 * length
            return
        if what in ("task retry", "speculation", "task failure"):
            self._tasks.habits.append(what)
            return
        living = [actor for actor in self._drivers if not actor.ended and not actor.dead]
        if driver is None and living:
            driver = living[0]
        if what == "second driver":
            self._start_driver()
        elif what == "reader":
            self.world.spawn(f"reader {fault.at}", self._read)
        elif what == "resize":
            request = seal({"partitions": 1 + length % 4, "instead_of": PARTITIONS})
            self.store.write(f"{CHECKPOINT}{FOLDER}/{journal.PARTITIONS}", request)
        elif what in ("power loss", "restore"):
            if what == "restore" and not self._backups:
                return
            for actor in living:
                actor.dead = True
                actor.wakes_at = self.world.now
            self._after_disaster(what, length)
        elif driver is None:
            return
        elif what == "crash":
            driver.dead = True
        elif what in ("freeze", "frozen clock"):
            driver.wakes_at = self.world.now + length
            driver.behind += length if what == "frozen clock" else 0.0
            self._start_driver()  # as a cluster does with one that does not answer
        elif what == "clock jump":
            driver.behind -= length
        self.world.happened[what] += 1

    def _after_disaster(self, what: str, length: int) -> None:
        self.store.under_way.clear()
        if what == "power loss":
            self.world.happened["lost files"] += self.store.lose_power(1 + length // 4)
            return
        kept, history = self._backups[-min(length, len(self._backups))]
        objects = self.store.objects
        for name in [name for name in objects if name.startswith(CHECKPOINT)]:
            del objects[name]
        objects.update(kept)
        self.store.unsynced.clear()
        self.history.restore(history)

    def _read(self) -> None:
        """Somebody reads the newest state, file by file, within the time that garbage stays."""
        began = self.world.now
        try:
            checkpoint = Checkpoint.open(self.storage)
            last = checkpoint.last()
            if last is None:
                return
            for segment in last.segments:
                read_segment(checkpoint.storage, segment)
        except (EvenflowError, OSError) as error:
            calm = not self.world.happened["restore"] and not self.world.happened["power loss"]
            gone = "No such object" in str(error) and "/segments/" in str(error)
            if gone and self.world.now - began < GRACE and calm:
                self.unreadable.append(str(error))

    def _noticed(self, name: str, content: bytes) -> None:
        if name.startswith(f"{CHECKPOINT}{FOLDER}/manifests/") and name.endswith(".json"):
            self.history.add(name.removeprefix(f"{CHECKPOINT}{FOLDER}/"), content)


@contextmanager
def _substituted(world: World) -> Iterator[None]:
    """Clock, names, and what has to come soon in a short run, for as long as a schedule runs."""
    loop: Any = evenflow.engine.loop
    splitting: Any = evenflow.engine.splitting
    kept, little = loop.COLLECT_EVERY, splitting._LITTLE
    loggers = [logging.getLogger(name) for name in ("evenflow.query", "evenflow.plan")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    loop.COLLECT_EVERY = _COLLECT_EVERY
    splitting._LITTLE = 5  # batches are small
    _FROM_OUTSIDE.install(world)
    try:
        yield
    finally:
        _FROM_OUTSIDE.remove()
        loop.COLLECT_EVERY, splitting._LITTLE = kept, little
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
