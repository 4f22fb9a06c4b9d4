"""`evenflow plan`: answers, formats, and one clear line for every mistake."""

import gzip
import json
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenflow.cli.app import main
from evenflow.grouping.table import TableRouting
from evenflow.kernels.fingerprints import fingerprint
from evenflow.model import Feedback, RoutingTable
from evenflow.planning import planners

pytestmark = pytest.mark.slow

# Figure 4 of "Parallel stream processing against workload skewness and variance".
FIGURE_4 = {
    "key": ["k1", "k2", "k3", "k4", "k5", "k6"],
    "cost": [7, 4, 2, 1, 5, 1],
    "state_bytes": [70, 40, 20, 10, 50, 10],
    "worker": [0, 0, 1, 1, 0, 1],
    "hash_worker": [0, 0, 0, 1, 1, 1],
}
REQUIRED = ("key", "cost", "state_bytes", "worker")


@pytest.fixture
def run(capsys):
    def run(*arguments):
        code = main(["plan", *(str(a) for a in arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def planned(run, tmp_path):
    """The JSON answer for these columns."""

    def planned(columns, *arguments):
        path = tmp_path / "stats.parquet"
        pq.write_table(pa.table(columns), path)
        code, out, err = run("--stats", path, *arguments, "--json")
        assert (code, err) == (0, "")
        return strict_json(out)

    return planned


@pytest.fixture
def refused(run, tmp_path):
    """The one line that these columns are refused with."""

    def refused(columns, *arguments):
        path = tmp_path / "stats.parquet"
        pq.write_table(pa.table(columns), path)
        return complaint(run("--stats", path, *arguments))

    return refused


def strict_json(text):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def complaint(answer):
    code, out, err = answer
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


def changed(**columns):
    return {**FIGURE_4, **columns}


def many(n=4_000, workers=8, seed=1):
    rng = np.random.default_rng(seed)
    costs = np.ceil(10_000 / np.arange(1, n + 1) ** 0.85)
    worker = rng.integers(0, workers, n)
    worker[: n // 10] = 0  # the hot ones
    return {
        "key": [f"user {i}" for i in range(n)],
        "cost": costs,
        "state_bytes": costs * 8,
        "worker": worker,
    }


# --- answers --------------------------------------------------------------------------------------


def test_figure_4_by_min_table(planned):
    answer = planned(FIGURE_4, "--workers", 2, "--theta", 0, "--planner", "min-table")
    assert answer["loads"] == [10, 10]
    assert answer["loads_before"] == [16, 4]
    assert answer["overload_before"] == pytest.approx(0.6)
    assert answer["overload"] == 0
    assert answer["table_size"] == len(answer["table"]) == 2
    assert answer["feasible"] is True
    assert answer["failures"] == []
    assert answer["hash"] == "hash_worker"
    assert answer["planner"] == "min-table"
    assert answer["seconds"] > 0


@pytest.mark.parametrize("name", planners())
def test_every_planner_gives_an_answer_that_adds_up(planned, name):
    columns = many()
    answer = planned(columns, "--workers", 8, "--theta", 0.1, "--planner", name)
    keys = np.array(columns["key"])
    homes = hash_workers(columns["key"], 8)
    then = [answer["table"].get(key, home) for key, home in zip(keys, homes, strict=True)]
    assert answer["loads"] == pytest.approx(np.bincount(then, columns["cost"], 8).tolist())
    moved = np.flatnonzero(np.array(then) != columns["worker"])
    assert answer["moved"] == len(moved) == len(answer["moves"])
    assert [move["key"] for move in answer["moves"]] == keys[moved].tolist()
    assert answer["migration_bytes"] == pytest.approx(columns["state_bytes"][moved].sum())
    for move, row in zip(answer["moves"], moved, strict=True):
        assert (move["from"], move["to"]) == (columns["worker"][row], then[row])
    assert answer["hash"] == {"scheme": "table", "seed": 0}
    assert answer["overload"] <= answer["overload_before"]
    assert answer["reason"]


def hash_workers(keys, workers, seed=0):
    scheme, out = TableRouting(), np.empty(len(keys), np.int32)
    scheme.route(scheme.start(workers, seed), fingerprint(pa.array(keys)), out)
    return out.tolist()


def test_the_table_makes_table_routing_send_every_key_where_the_plan_says(planned):
    columns = many()
    answer = planned(columns, "--workers", 8, "--theta", 0.1, "--seed", 5)
    keys = fingerprint(pa.array(columns["key"]))
    entries = dict(
        zip(
            fingerprint(pa.array(list(answer["table"]))).tolist(),
            answer["table"].values(),
            strict=True,
        )
    )
    scheme, out = TableRouting(), np.empty(len(keys), np.int32)
    state = scheme.start(8, seed=5)
    scheme.observe(state, Feedback(plan=RoutingTable(entries)))
    scheme.route(state, keys, out)
    assert np.bincount(out, columns["cost"], 8).tolist() == pytest.approx(answer["loads"])


def test_every_format_gives_the_same_plan(run, tmp_path):
    rows = [dict(zip(FIGURE_4, row, strict=True)) for row in zip(*FIGURE_4.values(), strict=True)]
    csv = "\n".join([",".join(FIGURE_4), *(",".join(map(str, row.values())) for row in rows)])
    lines = "\n".join(json.dumps(row) for row in rows)
    pq.write_table(pa.table(FIGURE_4), tmp_path / "s.parquet")
    (tmp_path / "s.csv").write_text(csv)
    (tmp_path / "s.jsonl").write_text(lines)
    (tmp_path / "s.csv.gz").write_bytes(gzip.compress(csv.encode()))
    answers = []
    for name in ("s.parquet", "s.csv", "s.jsonl", "s.csv.gz"):
        code, out, _ = run("--stats", tmp_path / name, "--workers", 2, "--json")
        assert code == 0
        answers.append({k: v for k, v in strict_json(out).items() if k != "seconds"})
    assert answers[0]["table"]
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize(
    ("keys", "texts"),
    [
        (pa.array([3, 14, -1]), ["3", "14", "-1"]),
        (pa.array([date(2024, 2, 29), date(1, 1, 1)]), ["2024-02-29", "0001-01-01"]),
        (pa.array([b"\x00\xff", b"", b"ab"]), ["0x00ff", "0x", "0x6162"]),
        (pa.array([Decimal("1.50"), Decimal("2.00"), Decimal("-3.25")]), ["1.50", "2.00", "-3.25"]),
        (pa.array(["b", "a", "c"]).dictionary_encode(), ["b", "a", "c"]),
        (pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": None}, {"a": 3, "b": "é"}]),
         ['{"a": 1, "b": "x"}', '{"a": 2, "b": null}', '{"a": 3, "b": "é"}']),
        (pa.array([True, False, None]).fill_null(True)[:2], ["true", "false"]),
    ],
)  # fmt: skip
def test_keys_of_every_type_come_back_as_text(planned, keys, texts):
    n = len(keys)
    columns = {
        "key": keys,
        "cost": [1.0] * n,
        "state_bytes": [1] * n,
        "worker": [1] * n,
        "hash_worker": [0] * n,
    }
    answer = planned(columns, "--workers", 2, "--theta", 5)
    assert sorted(answer["table"]) == sorted(texts)


def test_a_text_that_looks_like_a_time_stays_the_text_that_it_is(run, tmp_path):
    row = {"key": "2024-01-01", "cost": 1, "state_bytes": 1, "worker": 1, "hash_worker": 0}
    (tmp_path / "s.jsonl").write_text(json.dumps(row))
    code, out, _ = run("--stats", tmp_path / "s.jsonl", "--workers", 2, "--theta", 5, "--json")
    assert code == 0
    assert strict_json(out)["table"] == {"2024-01-01": 1}


def test_weights_give_the_number_of_workers_and_their_shares(planned):
    columns = {**many(), "hash_worker": [0] * 4_000}
    answer = planned(columns, "--weights", "1,1,4", "--leaving", "--table-limit", 4_000)
    assert answer["workers"] == 3
    assert answer["feasible"] is True
    shares = np.array(answer["loads"]) / sum(answer["loads"])
    assert (shares <= 1.08 * np.array([1, 1, 4]) / 6 + 1e-9).all()


def test_keys_of_workers_that_leave_are_moved(planned, refused):
    columns = changed(worker=[0, 3, 1, 1, 3, 1])
    assert "--leaving" in refused(columns, "--workers", 2)
    answer = planned(columns, "--workers", 2, "--leaving", "--theta", 0.1)
    assert answer["loads_before"] == [7, 4, 0, 9]
    assert len(answer["loads"]) == 2
    assert {move["key"] for move in answer["moves"]} >= {"k2", "k5"}


def test_a_plan_that_cannot_be_is_the_best_found_and_says_why(planned, run, tmp_path):
    columns = changed(cost=[70, 1, 1, 1, 1, 1])
    answer = planned(columns, "--workers", 3, "--theta", 0.1)
    assert answer["feasible"] is False
    assert "one key alone costs 70" in answer["reason"]
    assert answer["failures"]
    code, out, _ = run("--stats", tmp_path / "stats.parquet", "--workers", 3, "--theta", 0.1)
    assert code == 0
    assert "not feasible" in out


def test_people_get_tables_that_no_key_can_spoil(run, tmp_path):
    columns = changed(key=["[red]x[/red]", "\x1b[31mred", "a\nb", "d" * 500, "é€", "e"])
    pq.write_table(pa.table(columns), tmp_path / "s.parquet")
    code, out, err = run("--stats", tmp_path / "s.parquet", "--workers", 2, "--theta", 0)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert "load after" in out
    assert "worst worker: 60.0% above its share before, 0.0% after" in out
    assert "feasible: " in out
    moved = json.loads(
        run("--stats", tmp_path / "s.parquet", "--workers", 2, "--theta", 0, "--json")[1]
    )
    assert {move["key"] for move in moved["moves"]} <= set(columns["key"])


def test_many_workers_and_moves_are_not_all_shown(run, tmp_path):
    pq.write_table(pa.table(many(workers=50)), tmp_path / "s.parquet")
    code, out, _ = run("--stats", tmp_path / "s.parquet", "--workers", 50)
    assert code == 0
    assert "30 more" in out
    assert "keys are hashed as by the scheme" in out
    assert out.count("\n") < 70


def test_list_names_every_planner(run):
    code, out, _ = run("--list", "--json")
    assert code == 0
    assert [one["name"] for one in strict_json(out)] == list(planners())
    code, out, _ = run("--list")
    assert code == 0
    assert all(name in out for name in planners())


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", REQUIRED)
def test_a_missing_column_is_named(refused, column):
    columns = {name: values for name, values in FIGURE_4.items() if name != column}
    assert f"has no column {column!r}" in refused(columns, "--workers", 2)


def test_a_column_that_is_misspelt_is_guessed(refused):
    columns = {("state_byte" if name == "state_bytes" else name): v for name, v in FIGURE_4.items()}
    assert "did you mean 'state_byte'?" in refused(columns, "--workers", 2)


@pytest.mark.parametrize("column", [*REQUIRED, "hash_worker"])
def test_null_is_refused_with_its_row(refused, column):
    values = list(FIGURE_4[column])
    values[3] = None
    line = refused(changed(**{column: values}), "--workers", 2)
    assert f"row 4: {column} is null" in line


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("cost", -1.0, "row 3: cost must be finite and not negative, got -1"),
        ("cost", float("nan"), "row 3: cost must be finite and not negative, got nan"),
        ("cost", float("inf"), "row 3: cost must be finite and not negative, got inf"),
        ("state_bytes", -5.0, "row 3: state_bytes must be finite and not negative, got -5"),
        ("worker", 2.0, "row 3: worker must be the number of a worker, 0 to 1, got 2"),
        ("worker", -1.0, "row 3: worker must be the number of a worker, 0 to 1, got -1"),
        ("worker", 0.5, "row 3: worker must be the number of a worker, 0 to 1, got 0.5"),
        ("worker", float("nan"), "row 3: worker must be the number of a worker"),
        ("hash_worker", 7.0, "row 3: hash_worker must be the number of a worker, 0 to 1, got 7"),
    ],
)
def test_a_bad_number_is_refused_with_its_row(refused, column, value, message):
    values = [float(v) for v in FIGURE_4[column]]
    values[2] = value
    assert message in refused(changed(**{column: values}), "--workers", 2)


def test_text_where_numbers_belong_is_refused(refused):
    assert "cost must be numbers, got string" in refused(
        changed(cost=["7", "4", "2", "1", "5", "x"]), "--workers", 2
    )


def test_a_key_that_stands_twice_is_named_with_both_rows(refused):
    line = refused(changed(key=["a", "b", "c", "b", "d", "e"]), "--workers", 2)
    assert "row 4: the key 'b' is already in row 2" in line


def test_a_type_that_cannot_be_a_key_is_refused(refused):
    assert "a key cannot be of type list" in refused(changed(key=[[1]] * 6), "--workers", 2)


def test_a_file_without_rows_is_refused(refused, run, tmp_path):
    empty = {name: values[:0] for name, values in FIGURE_4.items()}
    assert "no rows" in refused(empty, "--workers", 2)
    (tmp_path / "empty.csv").touch()
    assert "is empty" in complaint(run("--stats", tmp_path / "empty.csv", "--workers", 2))
    (tmp_path / "head.csv").write_text(",".join(FIGURE_4) + "\n")
    assert "no rows" in complaint(run("--stats", tmp_path / "head.csv", "--workers", 2))


def test_damaged_files_are_refused(run, tmp_path):
    (tmp_path / "s.csv").write_text(",".join(FIGURE_4) + "\na,1,2,0,0\nb,1\n")
    assert "cannot be read as CSV" in complaint(run("--stats", tmp_path / "s.csv", "--workers", 2))
    (tmp_path / "s.parquet").write_bytes(b"PAR1 and nothing else")
    assert "cannot be read as Parquet" in complaint(
        run("--stats", tmp_path / "s.parquet", "--workers", 2)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "--workers is missing"),
        ("--workers 0", "number of workers must be a whole number of at least 1, got 0"),
        ("--workers -2", "got -2"),
        ("--workers two", "--workers"),
        ("--workers 2 --theta -1", "θmax must be a finite number of at least 0, got -1"),
        ("--workers 2 --theta nan", "got nan"),
        ("--workers 2 --table-limit -1", "limit must be a whole number of at least 0, got -1"),
        ("--workers 2 --planner mixd", "did you mean 'mixed'?"),
        ("--workers 2 --planner nonsense", "no planner is called 'nonsense'"),
        ("--workers 2 --planner mixed:gamma=1", "has no parameter 'gamma'"),
        ("--workers 2 --planner mixed:beta=x", "must be a number, got 'x'"),
        ("--workers 2 --planner readj:sigma=0", "σ must be"),
        ("--workers 2 --planner compact-mixed:degree=3", "power of two"),
        ("--workers 2 --weights 1,x", "--weights takes numbers"),
        ("--workers 2 --weights 1,2,3", "2 workers, but 3 weights"),
        ("--workers 2 --weights 1,nan", "weights must be finite"),
        ("--workers 2 surplus", "unexpected extra argument"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_bad_options_are_one_line_and_exit_code_2(refused, arguments, message, as_json):
    assert message in refused(FIGURE_4, *arguments.split(), *(["--json"] if as_json else []))


def test_without_a_file_it_asks_for_one(run, tmp_path):
    assert "--stats is missing" in complaint(run("--workers", 2))
    assert "there is no file" in complaint(run("--stats", tmp_path / "no.csv", "--workers", 2))
    assert "must end in one of" in complaint(run("--stats", __file__, "--workers", 2))
