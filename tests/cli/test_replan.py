"""`evenflow simulate --replan`: a routing table that is replanned between batches."""

import json

import pytest

from evenflow.cli.app import main
from evenflow.planning.controller import Replanning
from evenflow.simulator.replanning import simulate_replanning
from evenflow.simulator.workloads import Zipf

SMALL = ["--workers", "8", "--zipf", "0.9", "--messages", "60000", "--seed", "0"]


@pytest.fixture
def run(capsys):
    def run(*arguments):
        code = main(["simulate", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_json_has_the_intervals_of_the_engine(run):
    code, out, err = run(
        "--replan", "mixed", *SMALL, "--batch", "15000", "--theta", "0.1", "--json"
    )
    assert (code, err) == (0, "")
    answer = json.loads(out)
    stream = Zipf(exponent=0.9, messages=60_000, seed=0)
    expected = list(simulate_replanning(stream, 8, 15_000, Replanning("mixed", 0.1), seed=0))
    assert answer["intervals"] == [vars(interval) for interval in expected]
    assert [i["rows"] for i in answer["intervals"]] == [15_000] * 4
    assert answer["intervals"][0]["changed"]
    assert (answer["planner"], answer["theta"], answer["batch"]) == ("mixed", 0.1, 15_000)
    assert (answer["workers"], answer["messages"], answer["zipf"]) == (8, 60_000, 0.9)


def test_a_table_shows_one_row_per_batch(run):
    code, out, _ = run("--replan", "min-table", *SMALL)
    assert code == 0
    assert out.startswith("min-table: 60,000 messages")
    rows = [line for line in out.splitlines() if "20,000" in line]
    assert [row.split()[0] for row in rows] == ["0", "1", "2"]
    assert "replanned: worker" in rows[0]
    assert all("kept: " in row for row in rows[1:])


def test_a_file_can_be_replanned(run, tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text("page\n" + "home\nhelp\ncart\n" * 100)
    options = ["--input", str(path), "--key", "page", "--workers", "2", "--batch", "100"]
    code, out, _ = run("--replan", "mixed", *options, "--json")
    assert code == 0
    answer = json.loads(out)
    assert sum(i["rows"] for i in answer["intervals"]) == answer["messages"] == 300


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--replan", "mixd"], "no planner is called 'mixd'; did you mean 'mixed'?"),
        (["--replan", "mixed", "--theta", "0"], "θmax must be"),
        (["--replan", "mixed", "--batch", "0"], "--batch must be a whole number of at least 1"),
        (["--replan", "mixed", "-g", "key"], "--grouping does not apply to --replan"),
        (["--replan", "mixed", "--slots", "5"], "--slots does not apply to --replan"),
        (["--replan", "mixed", "--timeline"], "--timeline does not apply to --replan"),
        (["--theta", "0.1"], "--theta needs --replan"),
        (["--batch", "10"], "--batch needs --replan"),
    ],
)
def test_options_that_do_not_fit_are_refused(run, options, message):
    code, out, err = run(*options)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
