"""Everything that is parsed gives a value or a clear error, whatever it is given."""

import json
import random

import pyarrow as pa
import pytest

from evenflow.model import EvenflowError, InputError
from evenflow_lab.checking.fuzzing import samples, targets
from evenflow_lab.checking.fuzzing.mutation import ODD, dumped, mutated_bytes, mutated_plain
from evenflow_lab.checking.fuzzing.parsers import parsers
from evenflow_lab.checking.fuzzing.running import Parser, fuzz
from evenflow_lab.cli.fuzzed_papers import experiment_parser, experiment_toml

INPUTS, SECONDS = 2_000, 1.5  # of each parser, whichever comes first
PARSERS = {parser.name: parser for parser in (*parsers(), experiment_parser())}


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_returns_a_value_or_says_what_is_wrong(name):
    found = fuzz(PARSERS[name], INPUTS, seed=1, seconds=SECONDS)
    assert found.inputs > 100
    assert not found.crashes, "\n".join(found.traces.values())
    assert found.sound, found.to_dict()


# --- the harness itself --------------------------------------------------------------------------


def test_a_crash_is_found_and_named():
    def parse(content):
        if b"\xff" in content:
            raise KeyError("planted")
        if not content:
            raise InputError("")

    planted = Parser("planted", parse, lambda chance: mutated_bytes(chance, [b"a" * 9]), [b"a"])
    found = fuzz(planted, 2000)
    assert any(where.startswith("KeyError") for where in found.crashes)
    assert any("without a message" in where for where in found.crashes)
    assert not found.sound


def test_a_seed_gives_the_same_inputs_and_another_one_others():
    def made(seed):
        given = []
        make = PARSERS["manifest"].make
        fuzz(Parser("manifest", given.append, make, ()), 30, seed)
        return given

    assert made(1) == made(1) != made(2)


def test_mutations_leave_what_they_began_with_and_reach_every_oddity():
    plain = {"a": [1, {"b": "c"}], "d": None}
    before, seen = json.dumps(plain), set()
    chance = random.Random(0)
    for _ in range(3000):
        seen.add(repr(mutated_plain(chance, plain)))
    assert json.dumps(plain) == before
    assert len(seen) > len(ODD) * 3
    assert dumped({"a": ODD[-1]}).count(b"[") > 1000


def test_parsers_refuse_most_of_what_is_mutated():
    """A fuzzer whose inputs are all accepted, or all refused at the first byte, tries nothing."""
    found = fuzz(PARSERS["plan"], 500)
    assert found.refused > 50
    assert found.accepted > 10


# --- what it found, one test for each place ------------------------------------------------------

MANIFEST = {"batch": 0, "format": 2}
DEEP = b'{"checksum":"","content":' + b"[" * 10**5
CRASHES = {
    "sealed JSON that is nested too deeply": (targets.manifest, DEEP),
    "sealed JSON that is not an object": (targets.identity, targets.sealed([1])),
    "a batch that is not a number": (targets.manifest, targets.sealed({**MANIFEST, "batch": "x"})),
    "an epoch that is not a number": (
        targets.manifest,
        targets.sealed({**MANIFEST, "owners": {"x": {}}}),
    ),
    "a segment without a file": (targets.manifest, targets.sealed({**MANIFEST, "segments": [{}]})),
    "a takeover that is not an object": (
        targets.record,
        targets.sealed({"format": 2, "takeover": 5}),
    ),
    "a lease of 10³⁰⁸ seconds": (
        targets.record,
        targets.sealed({"format": 2, "takeover": {"fence": 1, "seconds": 1e308}}),
    ),
    "a plan whose table is a list": (
        targets.fixed_plan,
        targets.sealed({**samples.plans()[0], "table": []}),
    ),
    "a plan with an owner beyond its partitions": (
        targets.fixed_plan,
        targets.sealed({**samples.plans()[0], "table": {"7": 9}}),
    ),
    "owners with 10³⁰ partitions": (targets.owners, {"partitions": 10**30, "seed": 0, "table": {}}),
    "a request for text partitions": (
        targets.partitions,
        targets.sealed({"partitions": "six", "instead_of": 4}),
    ),
    "watermarks without a list": (
        targets.event_time,
        {"closed": 5, "watermark": 7, "newest": None},
    ),
    "Spark's metadata without an id": (targets.progress_log, b"{}"),
    "Spark's metadata that is not UTF-8": (targets.progress_log, b'{"id": "\xff"}'),
    "a done message without a value": (targets.done, [("evenflow-done", None)]),
    "a changelog record without a key": (targets.changelog, [(None, b"")]),
    "a waiting message that is cut short": (targets.changelog, [(b"i" + bytes(8), b"\x02\0")]),
    "a waiting message without its number": (targets.changelog, [(b"i\0", b"\x02" + bytes(40))]),
    "positions that are cut short": (targets.changelog, [(b"m", b"\x02\0\0")]),
    "a gateway's state that is none": (targets.gateway_state, {"arrays": {}}),
    "a duration of 5000 digits": (targets.duration, "9" * 5000 + " seconds"),
    "a fleet whose nodes are a number": (targets.fleet_toml, "nodes = 5"),
    "a fleet whose path is a number": (
        targets.fleet_toml,
        "[fleet]\npath = 5\n" + samples.fleet_tomls()[1],
    ),
    "TOML that is nested too deeply": (experiment_toml, "a = " + "[" * 10**4),
    "the home of nobody": (targets.address, "~nobody-of-that-name/ckpt"),
    "a home with a NUL": (targets.address, "~\0/ckpt"),
    "a sketch of nothing": (targets.distinct_sketch, b""),
    "a sketch that ends DataSketches": (
        targets.distinct_sketch,
        b"\x03\x01\x07\x0c\x1f\x08\0\x09" * 4,
    ),
    "quantiles of a cut sketch": (targets.quantile_sketch, samples.quantile_sketches()[1][:19]),
}


@pytest.mark.parametrize("what", CRASHES)
def test_what_once_crashed_is_refused_in_a_sentence(what):
    parse, given = CRASHES[what]
    with pytest.raises(EvenflowError) as refused:
        parse(given)
    assert len(str(refused.value)) > 20


@pytest.mark.parametrize("at", range(1, 6))
@pytest.mark.parametrize("number", [0, 1, 1 << 40, (1 << 64) - 1])
def test_a_segment_whose_footer_lies_is_damaged_whatever_its_checksum_says(at, number):
    trailer = samples._TRAILER
    content = bytearray(samples.segments()[-1])
    numbers = list(trailer.unpack(content[-trailer.size :]))
    numbers[at], numbers[7] = number, 0
    numbers[6] = samples.crc32(content[numbers[4] : len(content) - trailer.size])
    numbers[7] = samples.crc32(trailer.pack(*numbers))
    content[-trailer.size :] = trailer.pack(*numbers)
    with pytest.raises(EvenflowError, match="damaged"):
        targets.segment(bytes(content))


def test_a_segment_that_says_it_has_a_row_more_than_its_blocks_is_damaged():
    trailer, refused = samples._TRAILER, 0
    for segment in samples.segments()[:3]:
        content = bytearray(segment)
        numbers = list(trailer.unpack(content[-trailer.size :]))
        numbers[1], numbers[7] = numbers[1] + 1, 0
        numbers[7] = samples.crc32(trailer.pack(*numbers))
        content[-trailer.size :] = trailer.pack(*numbers)
        with pytest.raises(EvenflowError, match="damaged"):
            targets.segment(bytes(content))
        refused += 1
    assert refused == 3


def test_a_lease_or_a_line_of_metrics_that_cannot_be_read_counts_as_none():
    for content in (b"[" * 10**5, b'{"seconds": "x"}', b'{"holder": {"pid": "\\u0000"}}'):
        assert targets.lease(content) is None
        assert targets.metrics(content) == []


def test_a_report_whose_load_is_beyond_all_numbers_counts_as_none():
    (report,) = samples.fleet_reports()
    report["queries"]["q"]["busy"] = {"998": 10**400}
    alive, series = targets.fleet_report(json.dumps(report).encode())
    assert not alive
    assert not series.any()


def test_headers_with_a_null_name_are_another_programs():
    from evenflow.ordering.headers import unpack_column

    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    found = unpack_column(pa.array([[{"key": None, "value": b"x"}]], kind))
    assert found.known.tolist() == [False]
