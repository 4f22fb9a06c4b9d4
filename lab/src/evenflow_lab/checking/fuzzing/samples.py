"""Valid inputs of every parser, made by the product's own writers, and changes to those not in JSON."""

from __future__ import annotations

import random
import struct
import time
from functools import cache
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from evenflow_lab.checking.fuzzing.mutation import mutated_bytes

Named = list[tuple[str, "bytes | None"]]


@cache
def _run() -> Any:
    """A checkpoint after some batches under a routing table, and its storage."""
    from evenflow.engine.in_process import run_stream
    from evenflow.engine.job import Job
    from evenflow.engine.keyed_states import KeyedStates
    from evenflow.grouping import make
    from evenflow.operators import Aggregates, count
    from evenflow.storage import MemoryStorage

    chance = np.random.default_rng(5)
    schema = pa.schema([("k", pa.int64())])
    batches = [pa.table([chance.zipf(1.5, 120) % 40], schema=schema) for _ in range(3)]
    job = Job(("k",), schema, KeyedStates(Aggregates(n=count())), make("table"), 4)
    storage = MemoryStorage()
    done = list(run_stream(job, storage, batches))
    return storage.under("evenflow"), done


def _contents(name: str) -> list[Any]:
    """The sealed JSON of all objects whose names begin so."""
    import json

    storage, _ = _run()
    return [json.loads(storage.read(one))["content"] for one in storage.list(name)]


def manifests() -> list[Any]:
    later = {"event_time": {"closed": 5, "watermark": 7, "newest": [9, None]}}
    source = {"source": {"query": "q", "offsets": "o"}, "fence": 2, "run": "r"}
    found = [one for one in _contents("manifests/") if "takeover" not in one]
    return [{"batch": 0, "format": 2}, *found[-2:], {**found[-1], **later, **source}]


def takeovers() -> list[Any]:
    holder = {"pid": 7, "began": "1", "host": "h", "machine": "m", "since": "2026-01-01T00:00:00Z"}
    taken = {"fence": 3, "holder": holder, "token": "t", "seconds": 30.0}
    return [{"format": 2, "takeover": taken}, *manifests()[:1]]


def identities() -> list[Any]:
    return _contents("identity.json")


def plans() -> list[Any]:
    from evenflow.model import KeyCounts, Plan, RoutingTable

    full = Plan(
        "d-choices", 4, 1, 3, RoutingTable({7: 1, 2**63: 3}), (0, 1, 2, 3, 0, 1), KeyCounts({7: 3}, 9),
        "why", {"d": 5},
    )  # fmt: skip
    return [Plan("key", 4).to_dict(), full.to_dict()]


def partition_requests() -> list[Any]:
    return [{"partitions": 6, "instead_of": 4}, {"partitions": "auto", "instead_of": 4}]


def loads() -> list[Any]:
    """What is known of past batches, where the number of partitions follows the load."""
    from evenflow.planning.scaling import Interval, ScalingMemory

    seen = Interval(900, 10.0, busy=30.0, fullest=9.5, waiting=40, hottest=0.1)
    known = ScalingMemory((seen, seen), quiet=3, before=(2, 0.01), calm=(20.0, 3))
    return [ScalingMemory().to_json(), known.to_json()]


def owners() -> list[Any]:
    from evenflow.model.owners import Owners

    return [Owners(4).to_json(), Owners(3, 1, {7: 2}, (0, 1, 2, 0)).to_json()]


def memories() -> list[Any]:
    from evenflow.planning.memory import Memory
    from evenflow.planning.seen import Seen

    keys = np.arange(9, dtype=np.uint64)
    seen = Seen.of(keys, np.ones(9), np.ones(9), np.full(9, 8.0))
    return [{}, Memory.of(seen, np.zeros(9, np.int32), 1, 0.25).to_json()]


def event_times() -> list[Any]:
    return [{}, {"closed": 5, "watermark": 7, "newest": [9]}]


def leases() -> list[Any]:
    holder = takeovers()[0]["takeover"]["holder"]
    lease = {"fence": 3, "holder": holder, "token": "t", "seconds": 30.0, "beat": 4}
    return [lease, {**lease, "released": True}]


def metrics() -> list[Any]:
    _, done = _run()
    return [done[0], {"batch": 3}]


@cache
def segments() -> list[bytes]:
    storage, _ = _run()
    found = [storage.read(name) for name in storage.list("segments/")]
    return [*found[:3], _large_segment()]


def _large_segment() -> bytes:
    """Several blocks."""
    from evenflow.state.segments import write_segment
    from evenflow.storage import MemoryStorage

    n, storage = 3000, MemoryStorage()
    prints = np.random.default_rng(1).integers(-(2**63), 2**63, n)
    table = pa.table(
        {
            "__fingerprint": pa.array(prints),
            "__version": pa.array(np.zeros(n, np.int64)),
            "k0": [f"key {i}" for i in range(n)],
            "n": pa.array(np.arange(n)),
        }
    )
    return storage.read(write_segment(storage, table, 0, [0]).name)


_TRAILER = struct.Struct("<8sQQQQQIIQ")
_ODD = (0, 1, 2, 63, 64, 1 << 20, 1 << 31, 1 << 40, 1 << 62, (1 << 64) - 1)


def resealed(chance: random.Random) -> bytes:
    """A segment whose footer says something else, with checksums that fit: rows, offsets, the index."""
    content = bytearray(chance.choice(segments()))
    trailer = list(_TRAILER.unpack(content[-_TRAILER.size :]))
    for _ in range(chance.choice((1, 1, 2))):
        at = chance.randrange(1, 6)
        trailer[at] = chance.choice(
            (*_ODD, trailer[at] + 1, max(trailer[at] - 1, 0), trailer[at] * 2)
        )
        trailer[at] %= 1 << 64
    if chance.random() < 0.5:  # a number of the index
        index, end = int(trailer[5]), len(content) - _TRAILER.size
        if 64 <= index <= end - 8:
            place = index + 8 * chance.randrange((end - index) // 8)
            content[place : place + 8] = chance.choice(_ODD).to_bytes(8, "little")
    schema = int(trailer[4])
    trailer[6] = crc32(content[schema : len(content) - _TRAILER.size])
    trailer[7] = trailer[8] = 0
    trailer[7] = crc32(_TRAILER.pack(*trailer))
    content[-_TRAILER.size :] = _TRAILER.pack(*trailer)
    return bytes(content)


def spark_metadata() -> list[Any]:
    return [{"id": "5ac1b7f1-8a2e-4a9b-9c53-0f6a4f7a9d11"}]


# --- Kafka ---------------------------------------------------------------------------------------


def headers() -> list[Named]:
    from evenflow.ordering.headers import FIRST, MESSAGE, Header, pack

    return [
        [*pack(Header(MESSAGE, 7, 3, 41))],
        [("trace", b"x"), *pack(Header(FIRST, 7, 3, 41, 9, 2, 8))],
        [("trace", None)],
    ]


def _mutated_named(chance: random.Random, corpus: list[Named]) -> Named:
    found = list(chance.choice(corpus))
    for _ in range(chance.choice((1, 1, 2, 3))):
        how, at = chance.randrange(5), chance.randrange(len(found) + 1)
        if how == 0 and found:
            del found[at % len(found)]
        elif how == 1 and found:
            found.insert(at, chance.choice(found))
        elif how == 2 and found:
            found[at % len(found)] = (found[at % len(found)][0], None)
        elif found:
            name, value = found[at % len(found)]
            found[at % len(found)] = (name, mutated_bytes(chance, [value or b""])[:4096])
    return found


def mutated_headers(chance: random.Random) -> Named:
    return _mutated_named(chance, headers())


def done() -> list[Named]:
    from evenflow.kafka.consumer_records import pack_done

    return [[*pack_done(17, 3)], [("trace", b"x"), *pack_done(2**63, 0)]]


def mutated_done(chance: random.Random) -> Named:
    return _mutated_named(chance, done())


Records = list[tuple[Any, Any]]


def changelogs() -> list[Records]:
    from evenflow.kafka.consumer_records import META, STATE, item_key, pack_item, pack_meta
    from evenflow.ordering import Item

    meta = (META, pack_meta(5, 6, 2, {7: (3, 41), 1 << 24: (1, 0)}, 1))
    items = [Item(0, 0, b"key", b"value", 9, 1, 4), Item(1, 2, b"key", None)]
    waiting = [(item_key(one.number), pack_item(one)) for one in items]
    return [[meta, (STATE + b"k", b"{}"), *waiting, (STATE + b"k", None)], [meta], []]


def mutated_changelog(chance: random.Random) -> Records:
    found = list(chance.choice(changelogs()))
    for _ in range(chance.choice((1, 1, 2, 3))):
        if not found:
            break
        at = chance.randrange(len(found))
        key, value = found[at]
        how = chance.randrange(5)
        if how == 0:
            found[at] = (mutated_bytes(chance, [key or b""])[:4096], value)
        elif how == 1:
            found[at] = (key, None)
        elif how == 2:
            found[at] = (None, value)
        else:
            found[at] = (key, mutated_bytes(chance, [value or b""])[:4096])
    return found


@cache
def gateway_states() -> list[Any]:
    from evenflow.kafka.gateway_state import Counted, GatewayState, advance
    from evenflow_lab.checking.fuzzing.targets import gateway_policy

    policy = gateway_policy()
    state = GatewayState.start(policy, 0.0)
    found = [state.to_json(policy)]
    for epoch in range(3):
        counted = Counted([b"a", b"b", b"c"], [900, 60, 40], 1000)
        state = advance(policy, state, counted, 10.0 * (epoch + 1), 5.0, 5.0, epoch)
        found.append(state.to_json(policy))
    return found


# --- fleet, TOML, text ---------------------------------------------------------------------------


def assignments() -> list[Any]:
    from dataclasses import asdict

    from evenflow.fleet.folder import Assignment

    return [asdict(Assignment()), asdict(Assignment(3, {"q": "a"}, {"a": 1}, ("b",), True))]


def fleet_reports() -> list[Any]:
    query = {"state": "running", "error": "", "batches": 3, "failures": 0, "known": time.time()}
    process = {"pid": 1, "began": "1", "host": "h", "machine": "m"}
    queries = {"q": {**query, "busy": {"998": 0.5, "1000": 1}}}
    return [{**process, "incarnation": 1, "time": time.time(), "epoch": 3, "queries": queries}]


def fleet_requests() -> list[Any]:
    return [{"what": "drain", "node": "a"}, {"what": "move", "query": "q", "node": "b"}]


def journals() -> list[bytes]:
    return [b'{"time": 1.0, "query": "q", "from": "a", "to": "b", "reason": "requested"}\n' * 3]


def fleet_leases() -> list[bytes]:
    return [b"", b'{"master": "yarn", "application": "app-7"}']


def fleet_tomls() -> list[str]:
    return [
        '[fleet]\nfolder = "run"\nsample = "1 second"\nsamples = 30\nevery = 10\ninitial = "cor-glb"\n'
        'algorithm = "none"\nmost_moves = 4\nleast_gain = 0.1\ndead_after = "15 seconds"\n'
        'fence = "kill"\nrestart = true\npath = ["."]\nexecutor_grace = "2 minutes"\n'
        '[[nodes]]\nname = "a"\nmaster = "local[1]"\ncapacity = 1.0\nconf = { "x.y" = "512m" }\n'
        '[[queries]]\nname = "clicks"\nfunction = "jobs:clicks"\narguments = { source = "in" }\n'
        'node = "a"\nmovable = true\ncheckpoint = "s3://bucket/x"\n',
        '[[nodes]]\nname = "a"\n[[queries]]\nname = "q"\nfunction = "jobs:q"\n',
    ]


def addresses() -> list[str]:
    return [
        "/data/ckpt", "file:///data/ckpt", "s3://bucket/ckpt", "s3a://bucket/a/b", "gs://bucket/x",
        "abfss://state@acme.dfs.core.windows.net/ckpt", "hdfs://namenode:8020/ckpt",
        "webhdfs://host:9870/x", "memory://name/x", "dbfs:/Volumes/main/state", "~/ckpt", "relative",
    ]  # fmt: skip


def durations() -> list[str]:
    return ["10 minutes", "1 hour 30 seconds", "interval 1 day, 2 weeks", "1.5 seconds", "5 weeks"]


def schemes() -> list[str]:
    return ["key", "greedy-d:d=5", "d-choices", "table:limit=300", "w-choices"]


# --- sketches ------------------------------------------------------------------------------------


def distinct() -> Any:
    from evenflow.operators import distinct

    return distinct("v", approximate=True)


def quantiles() -> Any:
    from evenflow.operators import quantiles

    return quantiles("v", [0.1, 0.5, 0.99])


def frequent() -> Any:
    from evenflow.operators import top_k

    return top_k("v", 3, approximate=True)


def _states(aggregate: Any, columns: list[pa.Array]) -> list[bytes]:
    from evenflow.operators.groups import Groups

    found = []
    for column in columns:
        table = pa.table({"v": column})
        groups = Groups(np.zeros(len(column), np.int64), 1)
        found += aggregate.partial(table, groups).column("sketch").to_pylist()
    return found


def distinct_sketches() -> list[bytes]:
    return _states(distinct(), [pa.array(range(n)) for n in (1, 30, 3000)])


def quantile_sketches() -> list[bytes]:
    return _states(quantiles(), [pa.array(np.arange(float(n))) for n in (1, 30, 3000)])


def frequent_sketches() -> list[bytes]:
    return _states(frequent(), [pa.array([f"v{i % 50}" for i in range(n)]) for n in (1, 30, 500)])
