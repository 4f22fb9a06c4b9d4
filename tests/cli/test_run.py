"""`evenflow run`: the same answer as Arrow's own grouping, exactly once, and one line for a mistake."""

import gzip
import json
import math
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from evenflow.cli.app import main


@pytest.fixture
def run(capsys):
    def run(*arguments):
        code = main(["run", *(str(a) for a in arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def clicks(seed, n=3000):
    """Every third row is of one page; some pages and values are null."""
    rng = np.random.default_rng(seed)
    pages = [None if p == 0 else f"página {p}" for p in rng.zipf(1.5, n) % 200]
    pages = ["home" if i % 3 == 0 else page for i, page in enumerate(pages)]
    ms = [None if v % 11 == 0 else int(v) for v in rng.integers(0, 500, n)]
    return pa.table({"page": pa.array(pages), "user": rng.integers(0, 9, n), "ms": pa.array(ms)})


def expected(table, *key):
    grouped = table.group_by(list(key)).aggregate([([], "count_all"), ("ms", "mean")])
    return {
        tuple(row[k] for k in key): (row["count_all"], _rounded(row["ms_mean"]))
        for row in grouped.to_pylist()
    }


def answers(table, *key):
    rows = table.to_pylist()
    found = {tuple(row[k] for k in key): (row["n"], _rounded(row["mean_ms"])) for row in rows}
    assert len(found) == len(rows), "a key has two rows"
    return found


def _rounded(value):
    return None if value is None or math.isnan(value) else round(value, 9)


AGGREGATES = ("--aggregate", "n=count", "--aggregate", "mean:ms")


# --- answers -------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("grouping", ["auto", "key", "d-choices"])
def test_batch_gives_the_same_answer_as_arrow(spark, run, tmp_path, grouping):
    table = clicks(1)
    pq.write_table(table, tmp_path / "clicks.parquet")
    code, out, err = run(
        "--input", tmp_path / "clicks.parquet", "--key", "page", *AGGREGATES, "--grouping", grouping,
        "--partitions", 4, "--output", tmp_path / "out", "--json",
    )  # fmt: skip
    assert (code, err) == (0, "")
    summary = json.loads(out)
    right = expected(table, "page")
    assert answers(pq.read_table(tmp_path / "out"), "page") == right
    assert (summary["rows"], summary["keys"], summary["partitions"]) == (3000, len(right), 4)
    assert sum(summary["loads"]) == 3000
    assert summary["max_over_average"] == max(summary["loads"]) / 750
    assert summary["imbalance"] == pytest.approx(max(summary["loads"]) / 3000 - 1 / 4)
    assert summary["scheme"] == {"auto": "key"}.get(grouping, grouping)


@pytest.mark.spark
def test_batch_reads_csv_and_two_key_columns_and_tells_it_in_words(spark, run, tmp_path):
    table = clicks(2, 500)
    (tmp_path / "in").mkdir()
    csv.write_csv(table.slice(0, 300), tmp_path / "in" / "a.csv")
    csv.write_csv(table.slice(300), tmp_path / "b.csv")
    (tmp_path / "in" / "b.csv.gz").write_bytes(gzip.compress((tmp_path / "b.csv").read_bytes()))
    code, out, _ = run(
        "--input", tmp_path / "in", "--key", "page", "--key", "user", *AGGREGATES, "--partitions", 3,
        "--output", tmp_path / "out",
    )  # fmt: skip
    assert code == 0
    right = expected(table, "page", "user")
    assert answers(pq.read_table(tmp_path / "out"), "page", "user") == right
    assert f"500 rows, {len(right)} keys" in out
    assert "The fullest of 3 partitions" in out
    assert str(tmp_path / "out") in out.replace("\n", "")


def newest(output):
    """The row of each key from the last batch that has one."""
    batches = sorted(Path(output).glob("batch=*"), key=lambda p: int(p.name.partition("=")[2]))
    rows = {}
    for batch in batches:
        for row in pq.read_table(batch, partitioning=None).to_pylist():
            rows[row["page"]] = row
    return pa.Table.from_pylist(list(rows.values()))


@pytest.mark.spark
def test_stream_gives_the_same_answer_and_goes_on_where_it_ended(spark, run, tmp_path):
    table = clicks(3, 1500)
    folder, output, state = tmp_path / "in", tmp_path / "out", tmp_path / "state"
    folder.mkdir()
    for i in range(3):
        pq.write_table(table.slice(500 * i, 400), folder / f"{i}.parquet")
    command = (
        "--input", folder, "--key", "page", *AGGREGATES, "--partitions", 3, "--output", output,
        "--stream", "--checkpoint", state, "--files-per-batch", 1,
    )  # fmt: skip
    code, out, err = run(*command, "--json")
    summary = json.loads(out)
    assert (code, err) == (0, "")
    assert (summary["rows"], summary["batches"]) == (1200, 3)
    seen = pa.concat_tables([table.slice(500 * i, 400) for i in range(3)])
    assert answers(newest(output), "page") == expected(seen, "page")
    assert [m["batch"] for m in summary["metrics"]] == [0, 1, 2]

    pq.write_table(table.slice(400, 100), folder / "3.parquet")
    code, out, err = run(*command)
    assert code == 0
    assert "100 rows in 1 batches" in out
    assert "batch 3" in err  # no terminal: a line for each batch
    seen = pa.concat_tables([seen, table.slice(400, 100)])
    assert answers(newest(output), "page") == expected(seen, "page")

    code, out, _ = run(*command)
    assert code == 0
    assert "Nothing new" in out
    code, _, err = run(*command, "--overwrite")
    assert code == 2
    assert "to start over" in err


@pytest.mark.spark
def test_ctrl_c_ends_a_continuing_stream_after_its_batch(spark, run, tmp_path):
    folder, output = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    table = clicks(4, 300)
    pq.write_table(table, folder / "0.parquet")

    def press():
        for _ in range(1200):
            if (output / "batch=0").exists():
                os.kill(os.getpid(), signal.SIGINT)
                return
            time.sleep(0.1)

    before = signal.getsignal(signal.SIGINT)
    watcher = threading.Thread(target=press)
    watcher.start()
    code, out, _ = run(
        "--input", folder, "--key", "page", *AGGREGATES, "--partitions", 2, "--output", output,
        "--stream", "--checkpoint", tmp_path / "state", "--trigger", "1 second", "--json",
    )  # fmt: skip
    watcher.join()
    assert code == 0
    assert json.loads(out)["interrupted"]
    assert json.loads(out)["rows"] == 300
    assert answers(newest(output), "page") == expected(table, "page")
    assert signal.getsignal(signal.SIGINT) is before


# --- mistakes ------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    pq.write_table(clicks(1, 30), tmp_path / "ok.parquet")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "nothing" / "_SUCCESS").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "mixed").mkdir()
    pq.write_table(clicks(1, 30), tmp_path / "mixed" / "a.parquet")
    (tmp_path / "mixed" / "b.csv").write_text("page,ms\na,1\n")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "notes.txt").write_text("page\n")
    (tmp_path / "wrong.csv").write_bytes((tmp_path / "ok.parquet").read_bytes())
    (tmp_path / "wrong.parquet").write_text("page\na\n")
    (tmp_path / "broken.csv.gz").write_text("page\na\n")
    return tmp_path


OK = "--input {files}/ok.parquet --key page --output {files}/new"
COUNT = f"{OK} --aggregate count"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("--input {files}/missing --key page --output x --aggregate count", "there is no such file"),
        ("--input {files}/nothing --key page --output x --aggregate count", "has no files of rows"),
        ("--input {files}/mixed --key page --output x --aggregate count", "keep one format"),
        ("--input {files}/empty.csv --key page --output x --aggregate count", "is empty"),
        ("--input {files}/notes.txt --key page --output x --aggregate count", "name must end in"),
        ("--input {files}/wrong.csv --key page --output x --aggregate count", "it looks like Parquet"),
        ("--input {files}/wrong.parquet --key page --output x --aggregate count", "like text"),
        ("--input {files}/broken.csv.gz --key page --output x --aggregate count", "cannot be read"),
        (OK, "--aggregate"),
        (f"{OK} --aggregate cuont", "did you mean 'count'"),
        (f"{OK} --aggregate mean", "mean"),
        (f"{OK} --aggregate mean:ms --aggregate mean:ms", "two aggregates"),
        (f"{OK} --aggregate quantiles:ms:2", "2"),
        (f"{COUNT} --key page", "names a column twice"),
        (f"{COUNT} --partitions 0", "partitions"),
        (f"{COUNT} --partitions two", "--partitions"),
        (f"{COUNT} --partitions auto", "add --stream"),
        (f"{COUNT} --stream --checkpoint c --partitions auto:least=0", "at least 1"),
        (f"{COUNT} --stream --checkpoint c --partitions auto:top=3", "no parameter 'top'"),
        (f"{COUNT} --grouping nonsense", "no grouping scheme is called 'nonsense'"),
        (f"{COUNT} --stream", "--stream needs --checkpoint"),
        (f"{COUNT} --checkpoint {{files}}/state", "add --stream"),
        (f"{COUNT} --trigger 5s", "add --stream"),
        (f"{COUNT} --files-per-batch 3", "add --stream"),
        (f"{COUNT} --stream --checkpoint c --trigger 5bananas", "such as '5 seconds'"),
        (f"{COUNT} --stream --checkpoint c --files-per-batch 0", "at least 1"),
        ("--input {files}/ok.parquet --key page --aggregate count --output {files}/full", "not empty"),
        ("--input {files}/ok.parquet --key page --aggregate count --output {files}/notes.txt", "file"),
        ("--input {files}/mixed/a.parquet --key page --aggregate count --output {files}", "within one"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_and_found_before_spark_starts(
    run, files, monkeypatch, arguments, complaint
):
    def start(*_, **__):
        raise AssertionError("Spark was started")

    monkeypatch.setattr("evenflow.spark.session.running_session", start)
    monkeypatch.chdir(files)
    code, out, err = run(*arguments.format(files=files).split())
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert complaint in err


@pytest.mark.spark
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("--key pgae --aggregate count", "did you mean 'page'?"),
        ("--key page --aggregate mean:mss", "did you mean 'ms'?"),
        ("--key page --aggregate sum:page", "page"),
        ("--key page --aggregate page=count", "two columns 'page'"),
    ],
)
def test_mistakes_that_only_the_file_shows(spark, run, files, arguments, complaint):
    code, out, err = run(
        "--input", files / "ok.parquet", *arguments.split(), "--output", files / "new"
    )
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("error: ")
    assert complaint in err
    assert not (files / "new").exists()


@pytest.mark.spark
def test_a_file_that_is_damaged_further_on_is_named(spark, run, tmp_path):
    pq.write_table(clicks(1, 3000), tmp_path / "clicks.parquet", compression="none")
    content = bytearray((tmp_path / "clicks.parquet").read_bytes())
    content[4:400] = bytes(396)
    (tmp_path / "clicks.parquet").write_bytes(content)
    code, out, err = run(
        "--input", tmp_path / "clicks.parquet", "--key", "page", *AGGREGATES, "--grouping", "key",
        "--output", tmp_path / "out",
    )  # fmt: skip
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("error: ")
    assert "clicks.parquet" in err.splitlines()[-1]


@pytest.mark.spark
def test_a_stream_is_refused_where_it_could_lose_or_mix_rows(spark, run, files):
    from evenflow.state.checkpoint import Checkpoint

    folder = files / "in"
    folder.mkdir()
    pq.write_table(clicks(1, 30), folder / "a.parquet")
    command = ("--key", "page", "--aggregate", "count", "--stream", "--input")
    code, _, err = run(*command, files / "ok.parquet", "--output", files / "o", "--checkpoint", "c")
    assert code == 2
    assert "is a file" in err
    code, _, err = run(*command, folder, "--output", files / "o", "--checkpoint", folder / "state")
    assert code == 2
    assert "lie within one another" in err
    state = files / "state"
    with Checkpoint.open(state, {}).acquire():
        code, _, err = run(*command, folder, "--output", files / "o", "--checkpoint", state)
    assert code == 2
    assert f"in use by process {os.getpid()}" in err or "in use by" in err
