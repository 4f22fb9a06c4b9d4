"""Everything that is parsed, one line per parser (`parsers`)."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from evenflow_lab.checking.fuzzing import samples, targets
from evenflow_lab.checking.fuzzing.mutation import dumped, mutated_bytes, mutated_plain, shallow
from evenflow_lab.checking.fuzzing.running import Make, Parser

Parse = Callable[[Any], object]


def _bytes(name: str, parse: Parse, corpus: Sequence[bytes]) -> Parser:
    """Bytes that are changed as bytes."""
    return Parser(name, parse, lambda chance: mutated_bytes(chance, corpus), corpus)


def text_parser(name: str, parse: Parse, corpus: Sequence[str]) -> Parser:
    """Text that a user writes."""
    encoded = [one.encode() for one in corpus]

    def make(chance: random.Random) -> str:
        return mutated_bytes(chance, encoded).decode("utf-8", "replace")

    return Parser(name, parse, make, corpus)


def _json(name: str, parse: Parse, corpus: Sequence[Any]) -> Parser:
    """JSON in an object: half the inputs are changed by structure, half as bytes."""
    encoded = [json.dumps(one).encode() for one in corpus]

    def make(chance: random.Random) -> bytes:
        if chance.random() < 0.5:
            return mutated_bytes(chance, encoded)
        return dumped(mutated_plain(chance, chance.choice(corpus)))

    return Parser(name, parse, make, encoded)


def _sealed(name: str, parse: Parse, corpus: Sequence[Any]) -> Parser:
    """JSON with a checksum: most inputs are changed by structure, and have the checksum that fits."""
    encoded = [targets.sealed(one) for one in corpus]

    def make(chance: random.Random) -> bytes:
        if chance.random() < 0.3:
            return mutated_bytes(chance, encoded)
        return targets.sealed(mutated_plain(chance, chance.choice(corpus)))

    return Parser(name, parse, make, encoded)


def _plain(name: str, parse: Parse, corpus: Sequence[Any]) -> Parser:
    """Plain values that were JSON: changed by structure alone."""

    def make(chance: random.Random) -> Any:
        return shallow(mutated_plain(chance, chance.choice(corpus)))

    return Parser(name, parse, make, corpus)


def _made(name: str, parse: Parse, make: Make, corpus: Sequence[Any]) -> Parser:
    return Parser(name, parse, make, corpus)


@cache
def parsers() -> tuple[Parser, ...]:
    """One line per parser: a name, the function, valid inputs."""
    return (
        _sealed("manifest", targets.manifest, samples.manifests()),
        _sealed("takeover", targets.record, samples.takeovers()),
        _sealed("identity", targets.identity, samples.identities()),
        _sealed("plan", targets.fixed_plan, samples.plans()),
        _sealed("partitions request", targets.partitions, samples.partition_requests()),
        _plain("owners", targets.owners, samples.owners()),
        _plain("controller's memory", targets.memory, samples.memories()),
        _plain("load", targets.load, samples.loads()),
        _plain("event time", targets.event_time, samples.event_times()),
        _json("lease", targets.lease, samples.leases()),
        _json("metrics", targets.metrics, samples.metrics()),
        _bytes("segment", targets.segment, samples.segments()),
        _made("segment, footer resealed", targets.segment, samples.resealed, samples.segments()),
        _json("Spark's metadata", targets.progress_log, samples.spark_metadata()),
        _made("message headers", targets.headers, samples.mutated_headers, samples.headers()),
        _made("header column", targets.header_column, samples.mutated_headers, samples.headers()),
        _made("done message", targets.done, samples.mutated_done, samples.done()),
        _made("changelog", targets.changelog, samples.mutated_changelog, samples.changelogs()),
        _plain("gateway state", targets.gateway_state, samples.gateway_states()),
        _json("fleet assignment", targets.assignment, samples.assignments()),
        _json("fleet report", targets.fleet_report, samples.fleet_reports()),
        _json("fleet request", targets.fleet_request, samples.fleet_requests()),
        _bytes("fleet journal", targets.journal, samples.journals()),
        _bytes("fleet lease", targets.fleet_lease, samples.fleet_leases()),
        text_parser("fleet TOML", targets.fleet_toml, samples.fleet_tomls()),
        text_parser("address", targets.address, samples.addresses()),
        text_parser("duration", targets.duration, samples.durations()),
        text_parser("scheme", targets.scheme, samples.schemes()),
        _bytes("distinct sketch", targets.distinct_sketch, samples.distinct_sketches()),
        _bytes("quantile sketch", targets.quantile_sketch, samples.quantile_sketches()),
        _bytes("frequent-items sketch", targets.frequent_sketch, samples.frequent_sketches()),
    )
