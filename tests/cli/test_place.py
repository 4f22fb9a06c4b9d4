"""`evenflow place`: answers, formats, and one clear line for every mistake."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from evenflow.cli.app import main
from evenflow.placement import make_placer, placers
from evenflow.placement.protocol import Nodes, Observed, least_variance
from evenflow_lab.benchmarks.placement_speed import instance

SERIES = np.array([[0.6, 0.2, 0.5], [0.6, 0.2, 0.4], [0.2, 0.6, 0.1], [0.2, 0.6, 0.3]])


def columns(series=SERIES, node=(0, 0, 1, 1), movable=None, shuffled=False):
    operators, k = series.shape
    found = {
        "operator": np.repeat([f"query {i}" for i in range(operators)], k),
        "time": np.tile(np.arange(k) * 10, operators),
        "load": series.ravel(),
    }
    if node is not None:
        found["node"] = np.repeat(node, k)
    if movable is not None:
        found["movable"] = np.repeat(movable, k)
    if shuffled:
        order = np.random.default_rng(1).permutation(len(found["load"]))
        found = {name: column[order] for name, column in found.items()}
    return found


@pytest.fixture
def run(capsys):
    def run(*arguments):
        code = main(["place", *(str(a) for a in arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def placed(run, tmp_path):
    """The JSON answer for these columns."""

    def placed(table, *arguments):
        path = tmp_path / "loads.parquet"
        pq.write_table(pa.table(table), path)
        code, out, err = run("--loads", path, *arguments, "--json")
        assert (code, err) == (0, "")
        return json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))

    return placed


@pytest.fixture
def refused(run, tmp_path):
    """The one line that these columns are refused with."""

    def refused(table, *arguments):
        path = tmp_path / "loads.parquet"
        pq.write_table(pa.table(table), path)
        code, out, err = run("--loads", path, *arguments)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        return err

    return refused


@pytest.mark.parametrize("name", placers())
@pytest.mark.parametrize("shuffled", [False, True])
def test_every_algorithm_gives_an_answer_that_adds_up(placed, name, shuffled):
    seen = instance(6)
    answer = placed(
        columns(seen.series, seen.node, shuffled=shuffled), "--nodes", 6, "--algorithm", name
    )
    assignment = answer["assignment"]
    assert len(assignment) == len(seen) == answer["operators"]
    node = np.array([assignment[f"query {i}"] for i in range(len(seen))])
    total = np.array([seen.series[node == n].sum(axis=0) for n in range(6)])
    np.testing.assert_allclose(answer["loads"], total.mean(axis=1))
    np.testing.assert_allclose(answer["variances"], total.var(axis=1), atol=1e-12)
    assert answer["moved"] == len(answer["moves"]) == (node != seen.node).sum()
    loads = seen.loads()
    for move in answer["moves"]:
        row = int(move["operator"].split()[1])
        assert (move["from"], move["to"]) == (seen.node[row], node[row])
        assert move["load"] == pytest.approx(loads[row])
    assert answer["load_moved"] == pytest.approx(loads[node != seen.node].sum())
    assert answer["least_variance"] == pytest.approx(least_variance(seen.series, 6))
    assert answer["seconds"] > 0
    if not shuffled:  # ties go by row, and rows are in the order of the file
        assert node.tolist() == make_placer(name).propose(seen, Nodes(6)).node.tolist()


def test_without_nodes_all_are_placed_anew(placed, refused):
    answer = placed(columns(node=None), "--nodes", 2)
    assert answer["loads_before"] is None
    assert answer["correlation_before"] is None
    assert answer["load_moved"] == 0
    assert {move["from"] for move in answer["moves"]} == {None}
    assert answer["assignment"]["query 0"] != answer["assignment"]["query 1"]
    assert "has no column node" in refused(
        columns(node=None), "--nodes", 2, "--algorithm", "cor-bal"
    )


def test_immovable_operators_stay_and_a_null_node_is_nowhere(placed, refused):
    movable = [False, True, True, True]
    answer = placed(columns(node=[1, 1, 1, 1], movable=movable), "--nodes", 2)
    assert answer["assignment"]["query 0"] == 1
    table = pa.table(columns(node=None))
    table = table.append_column("node", pa.nulls(len(table), pa.int64()))
    assert placed(table.to_pydict(), "--nodes", 2)["moved"] == 4
    where = [None] * 3 + [0] * 9
    still = {**columns(node=None, movable=movable), "node": pa.array(where)}
    assert "'query 0' is not movable" in refused(still, "--nodes", 2)


def test_the_last_node_of_an_operator_counts(placed):
    table = columns(node=None)
    table["node"] = [0, 0, 1] * 4
    answer = placed(table, "--nodes", 2, "--algorithm", "cor-bal:threshold=99")
    assert set(answer["assignment"].values()) == {1}


def test_capacities_samples_domains_and_clusters(placed):
    answer = placed(columns(), "--capacities", "1,3", "--algorithm", "llf-glb")
    assert answer["nodes"] == 2
    assert answer["least_variance"] is None
    heavier = [SERIES[i].mean() for i in range(4) if answer["assignment"][f"query {i}"] == 1]
    assert answer["loads"][1] == pytest.approx(sum(heavier) / 3)
    assert placed(columns(), "--nodes", 2, "--samples", 2)["samples"] == 2
    seen = instance(6)
    printed = placed(columns(seen.series, seen.node), "--nodes", 6, "--domain", 2)
    assert printed["details"]["domains"] == 3
    where = np.array(list(printed["assignment"].values()))
    assert (where // 2 == seen.node // 2).all()
    printed = placed(columns(seen.series, seen.node), "--nodes", 6, "--cluster", 0.2)
    assert printed["details"]["super_operators"] < 60


def test_a_table_for_people(run, tmp_path):
    path = tmp_path / "loads.parquet"
    pq.write_table(pa.table(columns()), path)
    code, out, err = run("--loads", path, "--nodes", 2)
    assert (code, err) == (0, "")
    assert "4 operators on 2 nodes" in out
    assert "average load correlation" in out
    answer = json.loads(run("--loads", path, "--nodes", 2, "--json")[1])
    moving = {move["operator"] for move in answer["moves"]}
    assert moving
    for row, (operator, node) in enumerate(answer["assignment"].items()):
        [line] = [line for line in out.splitlines() if line.strip().startswith(operator)]
        assert line.split()[3:5] == [str((0, 0, 1, 1)[row]), str(node)]
        assert ("moves" in line) == (operator in moving)
    pq.write_table(pa.table(columns(node=None)), path)
    assert "moves" not in run("--loads", path, "--nodes", 2)[1]


def test_many_operators_are_not_all_shown(run, tmp_path):
    seen = instance(40)
    assert len(seen) == 400
    path = tmp_path / "loads.parquet"
    pq.write_table(pa.table(columns(seen.series, seen.node)), path)
    code, out, _ = run("--loads", path, "--nodes", 40)
    assert code == 0
    assert "… 200 more: --json lists them all" in out
    assert out.count("\n") < 250


def test_csv_and_json_lines(run, tmp_path):
    table = pa.table(columns())
    csv.write_csv(table, tmp_path / "loads.csv")
    (tmp_path / "loads.jsonl").write_text("\n".join(json.dumps(row) for row in table.to_pylist()))
    pq.write_table(table, tmp_path / "loads.parquet")
    answers = []
    for name in ("loads.csv", "loads.jsonl", "loads.parquet"):
        code, out, err = run("--loads", tmp_path / name, "--nodes", 2, "--json")
        assert (code, err) == (0, "")
        answers.append({**json.loads(out), "seconds": 0})
    assert answers[0] == answers[1] == answers[2]


def test_the_list_has_every_algorithm(run):
    code, out, _ = run("--list", "--json")
    assert code == 0
    printed = {one["name"]: one for one in json.loads(out)}
    assert set(printed) == set(placers())
    assert printed["cor-se-imp"]["parameters"] == {
        "threshold": 0.1,
        "exchange": 0.2,
        "correlation": 0.8,
    }
    assert "cor-re-imp" in run("--list")[1]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"load": [-1.0] + [0.1] * 11}, "row 1: load must be finite and not negative, got -1"),
        ({"load": ["much"] * 12}, "load must be numbers"),
        ({"load": [None] + [0.1] * 11}, "row 1: load is null"),
        ({"time": [0] * 12}, "row 2: the operator 'query 0' has a load at time 0 already"),
        ({"time": [0, 10, 30] + [0, 10, 20] * 3}, "'query 0' has no load at time 20"),
        ({"node": [7] * 12}, "on node 7, but there are 2"),
        ({"node": [0.5] * 12}, "node must be the number of a node"),
        ({"movable": ["yes"] * 12}, "movable must be true or false"),
    ],
)
def test_wrong_files_are_refused(refused, change, complaint):
    assert complaint in refused({**columns(), **change}, "--nodes", 2)


def test_wrong_options_are_refused(refused, run, tmp_path):
    good = columns()
    assert "--nodes is missing" in refused(good)
    assert "at least 1, got 0" in refused(good, "--nodes", 0)
    assert "did you mean 'cor-glb'" in refused(good, "--nodes", 2, "--algorithm", "cor-glob")
    assert "such as 1,1,4" in refused(good, "--capacities", "1,x")
    assert "2 nodes, but 3 capacities" in refused(good, "--nodes", 2, "--capacities", "1,1,1")
    assert "has only 3 times" in refused(good, "--nodes", 2, "--samples", 9)
    assert "--samples must be a whole number" in refused(good, "--nodes", 2, "--samples", 0)
    assert "nodes of a domain" in refused(good, "--nodes", 2, "--domain", 0)
    assert "least load of a super-operator" in refused(good, "--nodes", 2, "--cluster", -1)
    without = {name: column for name, column in good.items() if name != "load"}
    assert "load" in refused(without, "--nodes", 2)
    empty = {name: column[:0] for name, column in good.items()}
    assert "nothing to place" in refused(empty, "--nodes", 2)
    assert run("--nodes", 2)[2].startswith("error: --loads is missing")
    assert "error" in run("--loads", tmp_path / "no.parquet", "--nodes", 2)[2]


def test_operators_are_told_apart_by_any_value(placed):
    table = {"operator": [1, 2, 1, 2], "time": [0, 0, 1, 1], "load": [0.1, 0.2, 0.3, 0.4]}
    answer = placed(table, "--nodes", 2)
    seen = Observed.of([[0.1, 0.3], [0.2, 0.4]])
    assert list(answer["assignment"]) == ["1", "2"]
    assert sorted(answer["loads"]) == pytest.approx(sorted(seen.loads()))
