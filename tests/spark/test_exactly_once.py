"""Every row counts exactly once, whoever dies: real processes, real signals, real damage."""

import ctypes
import json
import os
import resource
import shutil
import threading
from importlib import metadata
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import evenflow as ef
from evenflow.cli.app import app
from evenflow.state.checkpoint import Checkpoint
from evenflow_lab.checking.exactly_once.driver import FAILED
from evenflow_lab.checking.exactly_once.kills import run_and_kill
from evenflow_lab.checking.exactly_once.processes import Driver, names_in, wait_for
from evenflow_lab.checking.exactly_once.stream import (
    HOSTILE,
    SPARK_SCHEMA,
    Truth,
    add_files,
    aggregates,
    check_all,
    rows_of,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_MANY = int(os.environ.get("EVENFLOW_KILLS", "8"))


class Place:
    """Input, checkpoint and output of one query."""

    def __init__(self, directory: Path) -> None:
        self.files, self.checkpoint, self.output = (directory / n for n in ("in", "ckpt", "out"))
        self.evenflow = self.checkpoint / "evenflow"
        self.here = (self.files, self.checkpoint, self.output)

    def run(self, spark, scheme="d-choices", partitions=3, take=None):
        """All files that are there, in this process."""
        reader = spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1)
        rows = ef.keyed(reader.parquet(str(self.files)), "page")
        result = rows.balance(scheme, partitions=partitions).agg(**aggregates())
        writer = result.writeStream.option("checkpointLocation", self.checkpoint)
        if take is not None:
            writer.foreachBatch(take)
        assert writer.trigger(availableNow=True).start(self.output).awaitTermination(600)

    def check(self):
        return check_all(*self.here)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


# --- drivers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kills", [1, pytest.param(_MANY, marks=pytest.mark.long)])
def test_a_killed_driver_loses_nothing_and_does_nothing_twice(tmp_path, kills):
    """At every moment of a batch and at random ones; each driver has another scheme and other
    partitions than the one before, and keys move between them. `EVENFLOW_KILLS` says how many times."""
    schemes = ("table", "auto", "d-choices", "table", "key")
    batches = 4 if kills == 1 else 12
    result = run_and_kill(tmp_path, kills, schemes, seed=kills, say=print, batches=batches)
    assert result.kills.total() == kills
    if kills >= 8:
        assert result.moved > 0
        assert result.planned > 0
        assert len(result.kills) >= 6


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sessions", "duplicates", "timers", "ttl"])
def test_a_killed_driver_ends_every_state_once(tmp_path, kind):
    """Sessions, keys that are forgotten, timers and states with a TTL."""
    schemes = ("table", "auto", "key")
    result = run_and_kill(tmp_path, 2, schemes, seed=1, say=print, batches=6, kind=kind)
    assert result.kills.total() == 2


@pytest.mark.long
def test_a_second_driver_is_refused_until_the_first_is_dead(spark, place):
    add_files(place.files, 0, 2, seed=2)
    with Driver(*place.here, "--forever") as driver:
        assert wait_for(
            lambda: "0000000001-0000.json" in names_in(place.evenflow / "manifests"), driver
        )
        add_files(place.files, 2, 3, seed=2)
        with pytest.raises(ef.InputError, match=f"in use by process {driver.process.pid} on"):
            place.run(spark)
        # Its JVM takes five seconds to notice, and may go on with Spark's log: it is waited for.
        driver.pause()
        driver.kill(everybody=False)
        assert driver.family()
        threading.Timer(5, driver.resume).start()
        with Checkpoint.open(place.checkpoint).acquire():
            assert not _javas(driver)
        place.run(spark)
    assert place.check() == 3


def _javas(driver):
    programs = [Path(f"/proc/{pid}/exe") for pid in driver.family()]
    return [program for program in programs if "java" in os.path.realpath(program)]


# --- executors and tasks -------------------------------------------------------------------------


@pytest.mark.long
def test_a_killed_executor_changes_nothing(place, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", str(_spark_home(tmp_path)))
    add_files(place.files, 0, 5, seed=3)
    cluster = ("--master", "local-cluster[2,1,1024]", "--conf", "spark.executor.memory=512m")
    killed = []
    with Driver(*place.here, *cluster) as driver:
        for moment in ("plans", "segments"):
            before = names_in(place.evenflow / moment)
            assert wait_for(lambda b=before, m=moment: _grown(place.evenflow / m, b, 3), driver)
            killed.append(driver.executors()[0])
            os.kill(killed[-1], 9)
        code, said = driver.wait()
        assert code == 0, said
    assert len(set(killed)) == 2
    assert place.check() == 5


def _grown(directory, before, by):
    return len(names_in(directory) - before) >= by


def _spark_home(tmp_path):
    """A local cluster writes into Spark's home: this one may be thrown away."""
    import pyspark

    home = tmp_path / "spark-home"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    return home


@pytest.mark.long
def test_a_failing_task_changes_nothing(place, tmp_path):
    """Tasks fail in their first attempt, some before and some after they have written their state."""
    marks = tmp_path / "marks"
    marks.mkdir()
    add_files(place.files, 0, 3, seed=4)
    with Driver(*place.here, "--flaky", marks, "--master", "local[2,4]") as driver:
        code, said = driver.wait()
        assert code == 0, said
    assert place.check() == 3
    assert {name.split("-")[0] for name in names_in(marks)} == {"update", "emit"}
    counted = Checkpoint.open(place.checkpoint).last().segments
    assert len(list((place.evenflow / "segments").glob("*.seg"))) > len(counted)


@pytest.mark.long
def test_lost_shuffle_blocks_change_nothing(place, tmp_path):
    """Spark's own injection: of every shuffle the first task's rows are lost, after one task has read
    them, and made again. If they were not the same, Spark would give up in the last stage."""
    if metadata.version("pyspark").startswith("4.1."):
        pytest.skip(
            "Spark 4.1 cannot inject fetch failures; a killed executor loses its blocks, too"
        )
    events = tmp_path / "events"
    events.mkdir()
    settings = {
        "spark.driver.extraJavaOptions": "-Dspark.testing=true",
        "spark.testing.injectShuffleFetchFailures": "true",
        "spark.testing.injectShuffleFetchFailuresResultStageDelay": 1,
        "spark.shuffle.io.maxRetries": 0,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    add_files(place.files, 0, 3, seed=5)
    conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    with Driver(*place.here, "--master", "local[1]", *conf) as driver:  # one task after the other
        code, said = driver.wait()
        assert code == 0, said
    assert place.check() == 3
    batches, shuffles, ends = 3, 2, 2
    repeated = _repeated_stages(events)
    # In a last stage whose tasks are all done by then, nothing is read again; that may happen once.
    least = batches * shuffles * ends - ends
    assert len(repeated) >= least, f"not all were lost: {sorted(repeated)}"


def _repeated_stages(events):
    """The stages that Spark ran more than once, from its event log."""
    found = set()
    for file in (f for f in events.rglob("*") if f.is_file()):
        for line in file.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerStageCompleted":
                info = event["Stage Info"]
                if info["Stage Attempt ID"] > 0:
                    found.add(info["Stage ID"])
    return found


# --- sinks ---------------------------------------------------------------------------------------


def test_a_batch_that_is_run_again_has_the_same_number_plan_and_rows(spark, place):
    """A sink that fails halfway in batch 2; then a driver with another scheme and other partitions."""
    add_files(place.files, 0, 4, seed=6)
    taken = {}

    def take(df, batch):
        rows = df.toArrow()
        if batch == 2 and batch not in taken:
            taken[batch, "first"] = rows
            taken[batch] = None
            raise OSError("half of it is written, the disk is gone")
        assert taken.get(batch) is None, "handed over again after it was committed"
        taken[batch] = rows

    with pytest.raises(ef.QueryFailed, match="the disk is gone"):
        place.run(spark, "d-choices", 3, take)
    fixed = (place.evenflow / "plans" / "0000000002.json").read_bytes()
    assert Checkpoint.open(place.checkpoint).last().batch == 1
    place.run(spark, "key", 2, take)
    assert (place.evenflow / "plans" / "0000000002.json").read_bytes() == fixed
    assert rows_of(taken[2]) == rows_of(taken[2, "first"])
    schemes = [(m["scheme"], len(m["state"])) for m in ef.read_metrics(place.checkpoint)]
    assert schemes == [("d-choices", 3)] * 3 + [("key", 2)]
    truth = Truth()
    for batch in range(4):
        touched = truth.add(pq.read_table(place.files / f"{batch:05d}.parquet"))
        assert rows_of(taken[batch]) == truth.rows(touched)


def test_the_output_of_another_query_is_not_taken_for_ones_own(spark, place):
    """A new checkpoint begins at batch 0 again, whose directory is there already."""
    add_files(place.files, 0, 1, seed=7)
    place.run(spark)
    shutil.rmtree(place.checkpoint)
    with pytest.raises((ef.InputError, ef.QueryFailed), match="another query"):
        place.run(spark)


@pytest.mark.parametrize("scheme", ["key", "w-choices"])
def test_hostile_keys_stay_text(spark, place, scheme):
    place.files.mkdir()
    truth = Truth()
    for number in range(2):
        pages = [None, *HOSTILE] * 30
        rows = {"page": pages, "ms": list(range(len(pages))), "user": [number] * len(pages)}
        table = pa.table(rows)
        truth.add(table)
        pq.write_table(table, place.files / f"{number}.parquet")
    place.run(spark, scheme)
    assert place.check() == 2
    read = spark.read.parquet(str(place.output)).where("batch = 1").drop("batch").toArrow()
    assert rows_of(read) == truth.rows()
    files = sorted((place.evenflow / "metrics").iterdir())
    assert len(files) == 2
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert all(character.isprintable() for character in text)
        hot = json.loads(text)["hot_keys"]
        assert {json.loads(key["key"])[0] for key in hot} <= {None, *HOSTILE}


# --- disks ---------------------------------------------------------------------------------------


def test_a_flipped_byte_in_a_segment_stops_the_query_and_is_named(spark, place):
    add_files(place.files, 0, 2, seed=8)
    place.run(spark, "key", partitions=1)
    add_files(place.files, 2, 3, seed=8)
    (segment,) = Checkpoint.open(place.checkpoint).last().segments
    file = place.evenflow / "segments" / segment.file
    whole = file.read_bytes()
    broken = bytearray(whole)
    broken[len(whole) // 2] ^= 16
    file.write_bytes(broken)
    with pytest.raises(ef.QueryFailed, match=f"{segment.file} is damaged.*backup"):
        place.run(spark, "key", partitions=1)
    verified = CliRunner().invoke(app, ["state", "verify", str(place.checkpoint)])
    assert verified.exit_code == 1
    assert segment.file in verified.output.replace("\n", "")
    file.write_bytes(whole)
    place.run(spark, "key", partitions=1)
    assert place.check() == 3


@pytest.mark.long
def test_a_read_only_checkpoint_stops_the_query_which_then_resumes(spark, place):
    add_files(place.files, 0, 1, seed=9)
    place.run(spark)
    add_files(place.files, 1, 2, seed=9)
    segments = place.evenflow / "segments"
    segments.chmod(0o555)
    try:
        with Driver(*place.here, before=_as_anybody) as driver:
            code, said = driver.wait()
    finally:
        segments.chmod(0o755)
    assert code == FAILED, said
    assert f"cannot write {segments}" in said
    assert "let this user write there" in said
    place.run(spark)
    assert place.check() == 2


def _as_anybody():
    """Root may write anywhere, but for this: without CAP_DAC_OVERRIDE it asks as everybody does."""
    drop_from_bounding_set, dac_override = 24, 1
    ctypes.CDLL(None).prctl(drop_from_bounding_set, dac_override, 0, 0, 0)


@pytest.mark.long
def test_a_full_disk_stops_the_query_which_then_resumes(spark, place):
    """No file may grow beyond a megabyte, which the state does and a batch's rows do not."""
    add_files(place.files, 0, 6, seed=10, rows=8000, keys=100_000)
    with Driver(*place.here, "--scheme", "key", "--partitions", 1, before=_small_disk) as driver:
        code, said = driver.wait()
    assert code == FAILED, said
    assert f"cannot write {place.evenflow / 'segments'}" in said
    assert "make room there" in said
    committed = Checkpoint.open(place.checkpoint).last().batch
    assert committed < 5
    place.run(spark, "key", partitions=1)
    assert place.check() == 6


def _small_disk():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
