"""What is called with each input: the product's own parsers, and what is done with their values."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow_lab.checking.fuzzing.mutation import deepened

WHERE = "fuzz://input"
_PRINTS = np.arange(0, 2**63, 2**59, dtype=np.uint64)


def sealed(plain: Any) -> bytes:
    """Plain values with the checksum that fits, whatever they are."""
    text = dumped_canonically(plain)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return f'{{"checksum":"{checksum}",\n"content":{text}}}\n'.encode()


def dumped_canonically(plain: Any) -> str:
    """As `seal` writes it."""
    return deepened(json.dumps(plain, sort_keys=True, separators=(",", ":")))


def _holding(objects: dict[str, bytes]) -> Any:
    """A storage with these objects alone; always the same one, so that nothing is left behind."""
    from evenflow.storage import MemoryStorage

    storage = MemoryStorage("fuzzing")
    storage.delete(*storage.list(""))
    for name, content in objects.items():
        storage.put(name, [content])
    return storage


# --- checkpoints ---------------------------------------------------------------------------------


def manifest(content: bytes) -> object:
    """A manifest, with all that the next batch takes from it."""
    from evenflow.engine.event_time import Watermarks
    from evenflow.engine.plans import owners_of
    from evenflow.model.plan import Plan
    from evenflow.planning.memory import Memory
    from evenflow.state.manifest import load

    found = load(content, WHERE)
    plan = Plan.from_dict(found.plan) if found.plan else Plan("key", 4)
    for place in owners_of(found, plan).values():
        place(_PRINTS)
    return Watermarks.after(found.event_time), Memory.from_json(found.memory), found.epoch


def record(content: bytes) -> object:
    from evenflow.state.records import Place, place_after, record_in

    return place_after(Place(0), record_in(content, Place(0), WHERE))


def identity(content: bytes) -> object:
    from evenflow.state.checkpoint import Checkpoint

    storage = _holding({"evenflow/identity.json": content})
    found = Checkpoint.open(storage)
    return found.query, found.differences({"key": {"k": "string"}})


def fixed_plan(content: bytes) -> object:
    from evenflow.model.owners import Owners
    from evenflow.model.plan import Plan
    from evenflow.state.journal import fixed_plan as read_plan

    storage = _holding({"plans/0000000007.json": content})
    return Owners.of(read_plan(storage, 7, Plan("key", 4)))(_PRINTS)


def partitions(content: bytes) -> object:
    from evenflow.state.journal import requested_partitions

    storage = _holding({"partitions.json": content})
    return requested_partitions(storage, 4)


def owners(plain: Any) -> object:
    from evenflow.model.owners import Owners

    return Owners.from_json(plain)(_PRINTS)


def memory(plain: Any) -> object:
    from evenflow.planning.memory import Memory

    return Memory.from_json(plain).to_json()


def load(plain: Any) -> object:
    from evenflow.planning.scaling import Interval, Scaling, ScalingMemory, decide_partitions

    now = Interval(100, 2.0, busy=3.0, fullest=1.9)
    return decide_partitions(Scaling(most=8), ScalingMemory.from_json(plain), 4, now)


def event_time(plain: Any) -> object:
    from evenflow.engine.event_time import Watermarks

    found = Watermarks.after(plain)
    return found.left_behind([[5] * len(found.newest)], 2)


def lease(content: bytes) -> object:
    from evenflow.state.lease import lease_name, wait_until_free

    storage = _holding({lease_name(3): content})
    said = {"fence": 3, "holder": {}, "token": "t", "seconds": 30.0}
    moments = iter(range(0, 10**9, 60))
    wait_until_free(
        storage, 3, said, lambda: False, lambda: float(next(moments)), lambda seconds: None
    )
    return None


def metrics(content: bytes) -> object:
    from evenflow.state.metrics import compact_metrics, read_metrics

    storage = _holding(
        {"metrics/0000000000-0000000003.jsonl": content, "metrics/0000000004.json": content}
    )
    found = read_metrics(storage)
    compact_metrics(storage)
    return found


def segment(content: bytes) -> object:
    """A segment, searched and read as a whole."""
    from evenflow.state.container import Container

    storage = _holding({"segments/x.seg": content})
    found = Container(storage, "segments/x.seg")
    hits = found.find(_PRINTS)
    return found.take(hits.row), found.read()


def progress_log(content: bytes) -> object:
    from evenflow.spark.progress_log import ProgressLog

    storage = _holding({"metadata": content, "offsets/3": content})
    return ProgressLog(storage)(3).origin(3)


# --- Kafka ---------------------------------------------------------------------------------------

Named = Sequence[tuple[str, "bytes | None"]]


def headers(found: Named) -> object:
    from evenflow.ordering.headers import unpack

    return unpack(found)


def header_column(found: Named) -> object:
    from evenflow.ordering.headers import unpack_column

    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    structs = [{"key": name, "value": value} for name, value in found]
    return unpack_column(pa.array([structs, None, structs], kind))


def done(found: Named) -> object:
    from evenflow.kafka.consumer_records import unpack_done

    return unpack_done(found)  # type: ignore[arg-type]


def changelog(records: Sequence[tuple[bytes, bytes | None]]) -> object:
    from evenflow.kafka.consumer_records import SavedBuilder

    builder = SavedBuilder()
    for key, value in records:
        builder.add(key, value)
    return builder.saved()


@cache
def gateway_policy() -> Any:
    from evenflow.planning.hot_keys import HotKeys

    return HotKeys(partitions=4)


def gateway_state(plain: Any) -> object:
    from evenflow.kafka.gateway_state import GatewayState

    state = GatewayState.from_json(plain, gateway_policy())
    return state.routes(), state.to_json(gateway_policy())


# --- fleet, TOML, text ---------------------------------------------------------------------------


@cache
def scratch() -> Path:
    """A folder of this process, in memory where there is such a file system."""
    shared = Path("/dev/shm")
    holder = tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None)
    _kept.append(holder)
    return Path(holder.name)


_kept: list[Any] = []  # until the process ends


def assignment(content: bytes) -> object:
    from evenflow.fleet.folder import SharedFolder

    (scratch() / "assignment.json").write_bytes(content)
    return SharedFolder(scratch()).assignment()


def fleet_report(content: bytes) -> object:
    from evenflow.fleet import processes
    from evenflow.fleet.folder import SharedFolder
    from evenflow.fleet.load import load_series, reported_bins

    (scratch() / "nodes").mkdir(exist_ok=True)
    (scratch() / "nodes" / "a.json").write_bytes(content)
    found = SharedFolder(scratch()).reports()
    alive = [processes.responding(one, 15.0) for one in found.values()]
    return alive, load_series(reported_bins(found), ["q"], 1000, 5)


def fleet_request(content: bytes) -> object:
    from evenflow.fleet.folder import SharedFolder

    (scratch() / "requests").mkdir(exist_ok=True)
    (scratch() / "requests" / "1.json").write_bytes(content)
    return [(one.get("what"), one.get("node")) for _, one in SharedFolder(scratch()).requests()]


def journal(content: bytes) -> object:
    from evenflow.fleet.folder import SharedFolder

    (scratch() / "moves.jsonl").write_bytes(content)
    return [one.get("query") for one in SharedFolder(scratch()).lines("moves.jsonl")]


def fleet_lease(content: bytes) -> object:
    from evenflow.fleet.leases import _application

    return _application(content)


def fleet_toml(text: str) -> object:
    from evenflow.fleet.config import read_config

    file = scratch() / "fleet.toml"
    file.write_text(text, encoding="utf-8")
    return read_config(file)


def address(text: str) -> object:
    from evenflow.storage import storage_at

    return storage_at(text).where("x")


def duration(text: str) -> object:
    from evenflow.model.durations import microseconds

    return microseconds("the duration", text)


def scheme(text: str) -> object:
    from evenflow.grouping import make

    return make(text)


# --- sketches ------------------------------------------------------------------------------------


def _merged(aggregate: Any, content: bytes, **columns: Any) -> object:
    from evenflow.operators.groups import Groups

    table = pa.table({"sketch": pa.array([content, content], pa.binary()), **columns})
    together = aggregate.merge(table, Groups(np.zeros(2, np.int64), 1))
    return aggregate.emit(together), aggregate.emit(table)


def distinct_sketch(content: bytes) -> object:
    from evenflow_lab.checking.fuzzing.samples import distinct

    return _merged(distinct(), content)


def quantile_sketch(content: bytes) -> object:
    from evenflow_lab.checking.fuzzing.samples import quantiles

    return _merged(quantiles(), content, nans=pa.array([0, 0], pa.int64()))


def frequent_sketch(content: bytes) -> object:
    from evenflow_lab.checking.fuzzing.samples import frequent

    return _merged(frequent(), content, type_of=pa.nulls(2, pa.string()))
