"""Workloads by name: found, built from plain values, and the same stream however it is read."""

import json
import math

import numpy as np
import pytest

from evenflow.model import InputError
from evenflow.simulator.workloads import KeyFile, Workload
from evenflow_lab.workloads.declaration import make_workload, workloads


def whole(workload, size=1 << 20):
    return np.concatenate(list(workload.chunks(size)))


SMALLEST = {
    "zipf": {"zipf": 2.0, "keys": 10, "messages": 100, "seed": 3, "drift": 0},
    "wp": {"messages": 100, "seed": 3},
    "tw": {"messages": 100, "seed": 3},
    "ct": {"messages": 100, "seed": 3, "drift": 30},
    "smalops": {"messages": 100, "keys": 50, "seed": 3, "minute": 30, "shift": 2},
    "fluctuating": {"zipf": 1, "keys": 50, "fluctuation": 0.5, "interval": 30, "messages": 100},
    "flights": {"key": "route", "messages": 100},
    "words": {"messages": 100},
}
SYNTHETIC = sorted(SMALLEST.keys() - {"flights", "words"})


def test_every_workload_can_be_declared():
    assert sorted(workloads()) == sorted([*SMALLEST, "file", "folder"])


@pytest.mark.parametrize("name", SMALLEST)
def test_make_workload_takes_plain_values_and_gives_plain_values(name):
    spec = json.loads(json.dumps({"name": name, **SMALLEST[name]}))
    workload = make_workload(spec)
    assert isinstance(workload, Workload)
    assert workload == make_workload(spec)
    assert workload.length() == 100
    described = workload.describe()
    assert json.loads(json.dumps(described)) == described
    assert described["name"] == name
    assert described["stand_in"] is (name in {"wp", "tw", "ct"})


@pytest.mark.parametrize("name", SMALLEST)
def test_a_workload_without_parameters_has_the_published_ones(name):
    assert (
        make_workload({"name": name}).length()
        == {
            "zipf": 1_000_000,
            "wp": 22_000_000,
            "tw": 1_200_000_000,
            "ct": 690_000,
            "smalops": 28_000_000,
            "fluctuating": 1_000_000,
            "flights": 3_000_000,
            "words": 1_813_087,
        }[name]
    )


@pytest.mark.parametrize("name", SYNTHETIC)
def test_chunking_does_not_change_a_declared_stream(name):
    workload = make_workload({"name": name, **SMALLEST[name]})
    expected = whole(workload)
    assert len(expected) == 100
    for size in (1, 7, 30, 99, 100):
        chunks = list(workload.chunks(size))
        assert all(0 < len(chunk) <= size for chunk in chunks)
        assert (np.concatenate(chunks) == expected).all()


@pytest.mark.parametrize("name", SYNTHETIC)
def test_a_seed_is_a_stream_and_a_shorter_stream_is_its_beginning(name):
    spec = {"name": name, **SMALLEST[name]}
    expected = whole(make_workload(spec))
    assert (whole(make_workload(spec | {"messages": 60})) == expected[:60]).all()
    assert not set(expected.tolist()) & set(whole(make_workload(spec | {"seed": 4})).tolist())


def test_make_workload_reads_a_file(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text("page,user\nhome,1\nhelp,2\nhome,3\n")
    declared = make_workload({"name": "file", "input": str(path), "key": ["page"], "messages": 2})
    assert declared == KeyFile(path, ("page",), limit=2)
    assert declared.describe() == {
        "name": "file",
        "input": str(path),
        "key": ["page"],
        "drift": None,
        "stand_in": False,
    }
    assert make_workload({"name": "file", "input": str(path), "key": "page"}).length() is None


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({}, 'declared by its name, {"name": "zipf", …}; got {}; known: ct, file, flights'),
        ("zipf", "got 'zipf'"),
        ({"name": 3}, "declared by its name"),
        ({"name": "zif"}, "no workload is called 'zif'; did you mean 'zipf'?"),
        ({"name": "qqqq"}, "no workload is called 'qqqq'; known: ct, file"),
        (
            {"name": "zipf", "exponent": 2},
            "'zipf' has no 'exponent'; it takes zipf, keys, messages",
        ),
        ({"name": "wp", "mesages": 2}, "has no 'mesages'; did you mean 'messages'? it takes"),
        ({"name": "wp", "drift": 0}, "the workload 'wp' has no 'drift'"),
        ({"name": "file", "key": ["k"]}, "the workload 'file' needs 'input'"),
        ({"name": "file", "input": 3, "key": ["k"]}, "name of a file is expected, got 3"),
        ({"name": "file", "input": "a.csv", "key": [3]}, "'a.csv': key columns are given by name"),
        ({"name": "zipf", "zipf": "steep"}, "'zipf': 'zipf' must be a number, got 'steep'"),
        ({"name": "zipf", "keys": 2.5}, "'keys' must be a whole number, got 2.5"),
        ({"name": "zipf", "keys": True}, "'keys' must be a whole number, got True"),
        ({"name": "zipf", "messages": None}, "'messages' must be a whole number, got None"),
        ({"name": "zipf", "messages": math.inf}, "'messages' must be a whole number, got inf"),
        ({"name": "wp", "messages": 0}, "messages must be a whole number of at least 1, got 0"),
        ({"name": "ct", "drift": 0}, "drift, in messages, must be a whole number of at least 1"),
        ({"name": "ct", "drift": None}, "'drift' must be a whole number, got None"),
        ({"name": "smalops", "v": 0}, "v must be a number above 0, got 0"),
        ({"name": "smalops", "keys": 0}, "ranks must be a whole number of at least 1, got 0"),
        ({"name": "smalops", "shift": -1}, "shift of the keys must be a whole number of at least"),
        ({"name": "fluctuating", "fluctuation": -1}, "fluctuation rate must be a finite number"),
        ({"name": "fluctuating", "tasks": 0}, "tasks must be a whole number of at least 1"),
        ({"name": "fluctuating", "keys": 2**31}, "at most 2^31 - 1 keys can be tabled"),
        (
            {"name": "flights", "key": "carrier"},
            "have the keys 'origin' and 'route', got 'carrier'",
        ),
        ({"name": "words", "messages": 0}, "messages must be a whole number of at least 1, got 0"),
    ],
)
def test_make_workload_refuses_in_one_line(spec, complaint):
    with pytest.raises(InputError) as caught:
        make_workload(spec)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
