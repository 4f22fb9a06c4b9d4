"""`evenflow simulate` with queues: what it prints, what it refuses."""

import json

import pytest

from evenflow.cli.app import main
from evenflow.grouping import schemes

pytestmark = pytest.mark.slow

SMALL = ["--workers", "5", "--keys", "100", "--messages", "30000", "--seed", "1"]
MEASURED = {
    "latency_mean", "latency_p50", "latency_p95", "latency_p99", "latency_max", "queue_max",
    "queue_mean", "throughput", "utilisation_max", "utilisation_min", "utilisation_mean",
    "utilisation_difference", "utilisation_imbalance", "moves", "slots", "cluster",
}  # fmt: skip


@pytest.fixture
def run(capsys):
    def run(*arguments):
        code = main(["simulate", *(str(a) for a in arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def answer_of(run, *arguments):
    code, out, err = run(*SMALL, *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--capacity", 0.5], {"utilisation": 0.5}),
        (["--heterogeneity", "1,4"], {"heterogeneity": [1, 4.0], "utilisation": 0.8}),
        (["--slots", 7], {"slots": 7}),
        (["--arrivals", "hourly"], {"arrivals": "hourly"}),
        (
            ["--change-at", "9000:2,3", "--change-at", "20000:0,1"],
            {"changes": [[9_000, [2, 3.0]], [20_000, [0, 1.0]]]},
        ),
    ],
)
def test_each_option_of_queues_switches_to_the_simulation_in_time(run, options, expected):
    answer = answer_of(run, "-g", "shuffle", *options)
    assert answer.keys() >= MEASURED
    assert {name: answer["cluster"][name] for name in expected} == expected
    assert "timeline" not in answer
    # What it gave before, it still gives.
    without = answer_of(run, "-g", "shuffle")
    assert not MEASURED & without.keys()
    for name in without.keys() - {"ns_per_message"}:
        assert answer[name] == without[name]


def test_timeline_is_one_entry_per_slot(run):
    options = ["-g", "key", "--slots", 6, "--timeline", "--loads"]
    answer = answer_of(run, *options)
    assert [slot["time"] for slot in answer["timeline"]] == [5_000.0 * k for k in range(1, 7)]
    assert answer["slots"] == 6
    assert sum(answer["loads"]) == 30_000
    code, out, _ = run(*SMALL, *options)
    assert code == 0
    for text in ("5,000", "30,000", "throughput", "latency", "replication", "utilisation"):
        assert text in out


def test_a_long_timeline_is_printed_in_few_lines_that_end_with_the_last_slot(run):
    _, short, _ = run(*SMALL, "-g", "shuffle", "--slots", 100)
    _, long, _ = run(*SMALL, "-g", "shuffle", "--slots", 100, "--timeline")
    assert 20 <= len(long.splitlines()) - len(short.splitlines()) <= 33
    assert "30,000" in long.splitlines()[-2] + long.splitlines()[-1]


def test_all_schemes_have_queues(run):
    code, out, _ = run(
        "--workers", 4, "--messages", 2_000, "-g", "all", "--capacity", 0.8, "--json"
    )
    assert code == 0
    assert [answer["grouping"] for answer in json.loads(out)] == list(schemes())


def test_virtual_workers_is_short_for_the_parameter(run):
    short = answer_of(run, "-g", "consistent", "--virtual-workers", 30, "--heterogeneity", "1,4")
    long = answer_of(run, "-g", "consistent:virtual=30", "--heterogeneity", "1,4")
    assert short["parameters"]["virtual"] == 30
    for name in short.keys() - {"ns_per_message"}:
        assert short[name] == long[name]
    several = answer_of(run, "-g", "key", "-g", "consistent", "--virtual-workers", 30)
    assert "virtual" not in several[0]["parameters"]
    assert several[1]["parameters"]["virtual"] == 30
    assert "queue_max" not in several[1]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--capacity", 0], "--capacity must be a finite number above 0, got 0"),
        (["--slots", 0], "--slots must be a whole number of at least 1, got 0"),
        (["--slots", 30_001], "got 30001 slots for 30000 messages"),
        (["--heterogeneity", "3"], "such as 3,5; got '3'"),
        (["--heterogeneity", "1.5,3"], "such as 3,5; got '1.5,3'"),
        (["--heterogeneity", "6,2"], "6 machines cannot be stronger than the others: there are 5"),
        (["--change-at", "5,4"], "such as 600000:5,4; got '5,4'"),
        (["--change-at", "x:5,4"], "such as 600000:5,4; got 'x:5,4'"),
        (["--change-at", "100:five"], "--change-at 100: takes the number of stronger machines"),
        (["--change-at", "30000:1,2"], "a change after 30000 messages is beyond"),
        (["--change-at", "9:1,2", "--change-at", "5:1,3"], "in order of their messages"),
        (["--arrivals", "daily"], "no arrival curve is called 'daily'; known: constant, hourly"),
        (["--capacity", 0.8, "--weights", "1,1,1,1,4"], "use --heterogeneity instead"),
        (["--virtual-workers", 5], "--virtual-workers 5 is for schemes that have virtual workers"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(run, options, says):
    code, out, err = run(*SMALL, "-g", "shuffle", *options)
    assert (code, out) == (2, "")
    lines = [line for line in err.splitlines() if not line.startswith("simulate: ")]
    assert len(lines) == 1
    assert says in lines[0]


def test_too_few_virtual_workers_are_refused(run):
    code, _, err = run(*SMALL, "-g", "consistent", "--virtual-workers", 0)
    assert code == 2
    assert "virtual must be a whole number of at least 1" in err
