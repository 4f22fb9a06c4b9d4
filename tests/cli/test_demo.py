"""`evenflow demo`: its stream, its numbers, what it shows, and one small run on Spark."""

import io
import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from evenflow.cli import live_view
from evenflow.cli.app import main
from evenflow.metrics.measured_run import MeasuredRun
from evenflow.model import InputError
from evenflow.operators import Aggregates, count, on_table
from evenflow.operators.service_time import ServiceTime
from evenflow.report.demonstration import draw_runs
from evenflow.spark.demo_job import SOURCES, DemoStream, same_answer


def batch(number, loads, scheme="key", began=1000.0, seconds=2.0, keys=10, replicas=12):
    """Metrics as a batch with these loads would have them; 1 ms per row, tasks begin 0.1 s apart."""
    rows = sum(loads)
    return {
        "batch": number,
        "scheme": scheme,
        "reason": "asked for",
        "rows": rows,
        "keys": keys,
        "replicas": replicas,
        "replication": replicas / keys,
        "imbalance": max(loads) / rows - 1 / len(loads) if rows else 0.0,
        "max_over_average": max(loads) * len(loads) / rows if rows else 1.0,
        "began": began,
        "durations": {"plan": 0.5, "spark": seconds - 0.5},
        "hot_keys": [{"key": '["[red]\\u001b[31m"]', "lower": 5, "upper": 5}],
        "partitions": [
            {
                "partition": i,
                "rows": n,
                "keys": min(n, 3),
                "seconds": n / 1000,
                "update_seconds": n / 1000,
                "started": began + 0.1 * (i + 1) if n else None,
            }
            for i, n in enumerate(loads)
        ],
    }


# --- the stream ----------------------------------------------------------------------------------


def test_stream_is_the_same_every_time_and_its_hot_keys_change_half_way(tmp_path):
    stream = DemoStream(messages=6001, batches=5, exponent=1.4, keys=500, seed=3)
    stream.write(tmp_path / "a")
    files = sorted((tmp_path / "a").iterdir(), key=lambda file: file.stat().st_mtime)
    assert [file.name for file in files] == [f"{i:05d}.parquet" for i in range(5 * SOURCES)]
    tables = [pq.read_table(file) for file in files]
    assert pa.concat_tables(tables).equals(DemoStream(6001, 5, 1.4, 500, 3).table())
    cut = stream.changes_at * SOURCES
    hottest = [
        Counter(page for table in half for page in table["page"].to_pylist()).most_common(1)[0]
        for half in (tables[:cut], tables[cut:])
    ]
    assert hottest[0][0] != hottest[1][0]
    assert all(
        hits > 0.2 * 6001 * share for (_, hits), share in zip(hottest, (0.6, 0.4), strict=True)
    )


def test_stream_refuses_what_it_cannot_make():
    for wrong in ({"batches": 0}, {"messages": 3}, {"exponent": float("nan")}, {"keys": 0}):
        with pytest.raises(InputError):
            DemoStream(**wrong)


def test_same_answer_notices_a_lost_row():
    stream = DemoStream(messages=500, batches=2, keys=20)
    answer = on_table(Aggregates(hits=count(), ms=_mean()), stream.table(), "page")
    assert same_answer(stream, answer)
    hits = answer["hits"].to_pylist()
    wrong = answer.set_column(1, "hits", pa.array([hits[0] - 1, *hits[1:]]))
    assert not same_answer(stream, wrong)


def _mean():
    from evenflow.operators import mean

    return mean("ms")


def test_service_time_keeps_a_worker_busy_for_each_row_and_changes_nothing_else():
    slept = []
    plain = Aggregates(hits=count())
    slow = ServiceTime(plain, 0.25, slept.append)
    rows = pa.table({"page": ["a", "b", "a"]})
    assert on_table(slow, rows, "page").equals(on_table(plain, rows, "page"))
    assert 0.5 < sum(slept) <= 0.75
    assert slow.signature() == plain.signature()
    assert slow.mergeable
    with pytest.raises(InputError):
        ServiceTime(plain, -1.0)


# --- the numbers ---------------------------------------------------------------------------------


def test_measured_run_against_a_loop_over_all_messages():
    run = MeasuredRun(
        "key", (batch(0, [300, 100]), batch(1, [0, 50], began=1003.0), batch(2, [0, 0]))
    )
    latencies = [0.1 + (i + 1) / 1000 for i in range(300)]
    latencies += [0.2 + (i + 1) / 1000 for i in range(100)]
    latencies += [0.2 + (i + 1) / 1000 for i in range(50)]
    assert run.latencies == pytest.approx(np.array(latencies))
    latencies.sort()
    assert run.latency(0.5) == pytest.approx(latencies[224])
    assert run.latency(0.99) == pytest.approx(latencies[445])
    assert run.max_over_average == pytest.approx((1.5 * 400 + 2.0 * 50) / 450)
    assert run.worst_max_over_average == 2.0
    assert run.replication == 1.2
    assert MeasuredRun("none", ()).to_dict()["latency_p99"] is None
    timed = MeasuredRun("key", run.batches[:2])
    assert timed.seconds == pytest.approx(5.0)
    assert timed.throughput == pytest.approx(90.0)


def test_settled_is_the_part_under_the_last_scheme():
    schemes = ["key", "d-choices", "key", "partial-key", "partial-key"]
    run = MeasuredRun("auto", tuple(batch(i, [1, 1], s) for i, s in enumerate(schemes)))
    settled = run.settled()
    assert settled.label == "auto, once partial-key"
    assert [b["batch"] for b in settled.batches] == [3, 4]
    assert MeasuredRun("key", run.batches[:1]).settled() is None


# --- what is shown -------------------------------------------------------------------------------


def test_live_view_shows_partitions_hot_keys_and_the_runs_before():
    view = live_view._Bars()
    view.doing("starting")
    view.begin("key", 3)
    view.show(batch(0, [300, 50, 50, 0]))
    view.begin("auto", 3)
    view.show(batch(0, [100, 100, 100, 100], scheme="d-choices"))
    screen = io.StringIO()
    Console(file=screen, width=100, height=30, force_terminal=True, color_system=None).print(view)
    shown = screen.getvalue()
    assert "key · 1 of 3 batches · 400 rows · 200 rows per second" in shown
    assert "auto · 1 of 3 batches" in shown
    assert "[red]\\x1b[31m" in shown
    bars = [line.partition(" 100 ")[0] for line in shown.splitlines() if " 100 " in line]
    # The scale is that of the fullest partition of all runs: an even run's bars end at the average,
    # a third of the forty letters that there are for a bar here.
    assert [bar.count("█") for bar in bars] == [13] * 4


def test_live_view_fits_a_small_terminal():
    view = live_view._Bars()
    view.begin("key")
    view.show(batch(0, list(range(1, 201))))
    screen = io.StringIO()
    Console(file=screen, width=60, height=20, force_terminal=True, color_system=None).print(view)
    lines = screen.getvalue().splitlines()
    assert len(lines) <= 20
    assert all(len(line) <= 60 for line in lines)
    assert any("fullest of 200" in line for line in lines)


def test_batches_are_lines_without_a_terminal_and_nothing_where_quiet(capsys):
    with live_view.batches_view() as view:
        view.begin("key", 1)
        view.show(batch(0, [3, 1]))
        view.show(batch(1, [0, 0]))
    out, err = capsys.readouterr()
    assert out == ""
    assert "key: batch 0, key: 4 rows in 2.0 s (2 per second); fullest 1.50 × average" in err
    assert "\x1b" not in err
    with live_view.batches_view(quiet=True) as view:
        view.begin("key", 1)
        view.show(batch(0, [3, 1]))
    assert capsys.readouterr() == ("", "")


def test_picture_is_drawn_and_the_same_every_time(tmp_path):
    runs = [
        MeasuredRun("key", (batch(0, [300, 100, 0]), batch(1, [0, 0, 0]))),
        MeasuredRun("d-choices", (batch(0, [140, 130, 130]), batch(1, [1, 1, 1]))),
    ]
    first = draw_runs(runs, tmp_path / "a.png", "a $title$", changes_at=1).read_bytes()
    assert first.startswith(b"\x89PNG")
    assert draw_runs(runs, tmp_path / "b.png", "a $title$", changes_at=1).read_bytes() == first
    with pytest.raises(InputError):
        draw_runs([MeasuredRun("key", ())], tmp_path / "c.png")


# --- the command ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["--partitions", "0"],
        ["--partitions", "100000"],
        ["--messages", "1"],
        ["--zipf", "nan"],
        ["--service", "-1"],
        ["--grouping", "key"],
        ["--grouping", "nonsense"],
    ],
)
def test_demo_refuses_in_one_line_before_spark_starts(arguments, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("evenflow.spark.session.running_session", None)
    assert main(["demo", "--out", str(tmp_path), *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1


@pytest.mark.spark
@pytest.mark.long
def test_demo_runs_twice_draws_and_gives_the_right_answer(spark, tmp_path, capsys):
    small = ["--partitions", "2", "--messages", "400", "--batches", "2", "--service", "0.1"]
    assert main(["demo", "--out", str(tmp_path / "a"), *small, "-g", "d-choices", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    answer = json.loads(out)
    assert answer["same_answer"]
    assert [run["grouping"] for run in answer["runs"]] == ["key", "d-choices"]
    assert [run["rows"] for run in answer["runs"]] == [400, 400]
    assert all(run["latency_p99"] >= run["latency_p50"] > 0 for run in answer["runs"])
    assert (tmp_path / "a" / "demo.png").read_bytes().startswith(b"\x89PNG")
