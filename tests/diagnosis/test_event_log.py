"""Event logs as they are found: rolled, compressed, cut off, of other versions, huge."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest

from evenflow.diagnosis import diagnose
from evenflow.diagnosis.applications import diagnose_application
from evenflow.diagnosis.compression import pieces
from evenflow.diagnosis.event_log import is_event_log, read_event_log
from evenflow.model import InputError

LOGS = Path(__file__).parent / "logs"
SAMPLE = LOGS / "hot-key-in-a-join.zstd"


@pytest.fixture(scope="module")
def text():
    return pa.input_stream(str(SAMPLE), compression="zstd").read()


def test_plain_gzip_and_zstd_say_the_same(tmp_path, text):
    (tmp_path / "app-1").write_bytes(text)
    (tmp_path / "app-1.gz").write_bytes(gzip.compress(text))
    answers = {
        diagnose(path).answer for path in (tmp_path / "app-1", tmp_path / "app-1.gz", SAMPLE)
    }
    assert len(answers) == 1


def lz4_blocks(text, size=32_768):
    """As lz4-java writes them: some blocks packed, some stored, an empty one at the end."""
    codec, out = pa.Codec("lz4_raw"), []
    for number, at in enumerate(range(0, len(text), size)):
        block = text[at : at + size]
        stored = number % 5 == 4
        packed = block if stored else bytes(codec.compress(block))
        token = 0x15 if stored else 0x25
        head = struct.pack("<8sBiiI", b"LZ4Block", token, len(packed), len(block), 7)
        out += [head, packed]
    return b"".join([*out, struct.pack("<8sBiiI", b"LZ4Block", 0x15, 0, 0, 0)])


def snappy_blocks(text, size=32_768):
    codec = pa.Codec("snappy")
    out = [b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)]
    for at in range(0, len(text), size):
        packed = bytes(codec.compress(text[at : at + size]))
        out.append(struct.pack(">i", len(packed)) + packed)
    return b"".join(out)


@pytest.mark.parametrize("packed", [lz4_blocks, snappy_blocks])
def test_blocks_of_lz4_and_snappy_are_read_and_may_be_joined(tmp_path, text, packed):
    path = tmp_path / "app"
    path.write_bytes(packed(text[:100_000]) + packed(text[100_000:]))
    assert b"".join(pieces(path)) == text


@pytest.mark.spark
@pytest.mark.parametrize("codec", ["LZ4", "Snappy", "ZStd"])
def test_what_sparks_own_codecs_write_is_read(spark, tmp_path, text, codec):
    jvm = spark._jvm
    path = tmp_path / "app"
    conf = spark.sparkContext._jsc.sc().getConf()
    made = getattr(jvm.org.apache.spark.io, f"{codec}CompressionCodec")(conf)
    stream = made.compressedOutputStream(jvm.java.io.FileOutputStream(str(path)))
    stream.write(bytearray(text))
    stream.close()
    assert b"".join(pieces(path)) == text
    assert diagnose(path).cause == "hot key"


def test_lzf_is_refused_with_what_to_set(tmp_path):
    (tmp_path / "app.lzf").write_bytes(b"ZV\x01" + bytes(50))
    with pytest.raises(InputError, match="lzf, which is not supported; set"):
        diagnose(tmp_path / "app.lzf")


def rolled(folder, text, parts=3, inprogress=False):
    folder.mkdir()
    lines = text.splitlines(keepends=True)
    for number in range(parts):
        some = lines[len(lines) * number // parts : len(lines) * (number + 1) // parts]
        (folder / f"events_{number + 1}_app-1").write_bytes(b"".join(some))
    (folder / f"appstatus_app-1{'.inprogress' if inprogress else ''}").write_bytes(b"")
    return folder


def test_a_rolled_log_is_one_log_whether_its_directory_or_the_one_above_is_given(tmp_path, text):
    folder = rolled(tmp_path / "eventlog_v2_app-1", text, parts=12)
    expected = diagnose(SAMPLE).answer
    assert diagnose(folder).answer == diagnose(tmp_path).answer == expected


def test_a_compacted_file_stands_for_all_before_it(tmp_path, text):
    folder = rolled(tmp_path / "eventlog_v2_app-1", text, parts=4)
    whole = b"".join((folder / f"events_{n}_app-1").read_bytes() for n in (1, 2))
    (folder / "events_2_app-1.compact").write_bytes(whole)
    assert diagnose(folder).answer == diagnose(SAMPLE).answer


def test_several_applications_in_a_directory_are_named(tmp_path, text):
    for name in ("app-1", "app-2"):
        (tmp_path / name).write_bytes(text)
    with pytest.raises(InputError, match=r"logs of 2 applications; give one of them: app-1, app-2"):
        diagnose(tmp_path)


@pytest.mark.parametrize("kept", [0.999, 0.9, 0.7])
@pytest.mark.parametrize("packed", ["plain", "zstd", "lz4"])
def test_a_truncated_log_is_read_as_far_as_it_goes(tmp_path, text, kept, packed):
    made = {"plain": text, "zstd": SAMPLE.read_bytes(), "lz4": lz4_blocks(text)}[packed]
    path = tmp_path / "app-1.inprogress"
    path.write_bytes(made[: int(kept * len(made))])
    found = diagnose(path)
    assert any("breaks off" in note or "incomplete" in note for note in found.notes)
    if kept > 0.95 and packed == "plain":  # the last block of others holds up to 128 kB
        assert found.cause == "hot key"


def test_a_log_that_is_still_written_says_so(tmp_path, text):
    lines = text.splitlines(keepends=True)
    (tmp_path / "app-1.inprogress").write_bytes(b"".join(lines[:-1]))
    found = diagnose(tmp_path / "app-1.inprogress")
    assert found.notes == (
        "the application had not ended when this was written: the log is incomplete",
    )
    assert found.cause == "hot key"


def test_tasks_that_were_still_running_are_named(tmp_path, text):
    lines = text.splitlines(keepends=True)
    ends = [i for i, line in enumerate(lines) if b'"SparkListenerTaskEnd"' in line]
    (tmp_path / "app-1.inprogress").write_bytes(b"".join(lines[: ends[-1]]))
    notes = diagnose(tmp_path / "app-1.inprogress").notes
    assert any(note.startswith("stage 8: 1 task was still running, for up to") for note in notes)


def test_an_application_without_finished_tasks_is_not_judged(tmp_path):
    (tmp_path / "app-1").write_text('{"Event":"SparkListenerLogStart","Spark Version":"4.0.1"}\n')
    assert diagnose(tmp_path / "app-1").answer.startswith("There is nothing to diagnose yet")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"no json\n", b'{"a": 1}\n', b'["Event"]\n'])
def test_what_is_no_event_log_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "app-1").write_bytes(content)
    with pytest.raises(InputError):
        diagnose(tmp_path / "app-1")
    with pytest.raises(InputError, match="has no events of Spark"):
        read_event_log(tmp_path / "app-1")


def of_spark_3_5(event):
    """An event as Spark 3.5 wrote it: fields that came later are gone."""
    if event["Event"] == "SparkListenerLogStart":
        return event | {"Spark Version": "3.5.1"}
    info = event.get("Task Info", {})
    for later in ("Partition ID",):
        info.pop(later, None)
    shuffle = event.get("Task Metrics", {}).get("Shuffle Read Metrics", {})
    shuffle.pop("Push Based Shuffle", None)
    event.pop("rootExecutionId", None)
    return event


def of_a_later_spark(event):
    """Unknown fields and events, and nulls where there were values."""
    if event["Event"] == "SparkListenerLogStart":
        return event | {"Spark Version": "5.2.0"}
    return event | {"Some New Field": {"x": [1, None]}, "Job Tags": None}


@pytest.mark.parametrize("other", [of_spark_3_5, of_a_later_spark])
def test_logs_of_other_versions_are_read(tmp_path, text, other):
    lines = [json.dumps(other(json.loads(line))) for line in text.splitlines()]
    lines.insert(3, '{"Event":"SparkListenerOfTheFuture","What":null}')
    lines.insert(9, '{"Event":"SparkListenerTaskEnd"}')
    (tmp_path / "app-1").write_text("\n".join(lines) + "\n")
    found = diagnose(tmp_path / "app-1")
    assert found.cause == "hot key"
    assert found.notes == ("1 lines could not be read and were passed over",)


def synthetic_log(path, megabytes):
    """A log of many stages of 200 tasks, as large as wanted: lines of the size that Spark writes."""
    padding = [
        {"ID": i, "Name": f"internal.metrics.number{i}", "Update": i, "Value": i, "Internal": True}
        for i in range(24)
    ]
    lines = []
    for task in range(200):
        seconds, rows = (30_000, 30_000) if task == 7 else (1_000 + task, 1_000)
        began = 1_700_000_000_000
        info = {"Task ID": task, "Launch Time": began}
        start = {"Event": "SparkListenerTaskStart", "Stage ID": -1, "Task Info": info}
        end = {
            "Event": "SparkListenerTaskEnd",
            "Stage ID": -1,
            "Stage Attempt ID": 0,
            "Task Info": {
                **info, "Index": task, "Partition ID": task, "Finish Time": began + seconds,
                "Executor ID": str(task % 40), "Host": f"h{task % 40}", "Accumulables": padding,
            },
            "Task Metrics": {
                "Executor Run Time": seconds, "JVM GC Time": 3,
                "Shuffle Read Metrics": {"Total Records Read": rows, "Local Bytes Read": 10 * rows},
            },
        }  # fmt: skip
        lines += [json.dumps(start | {"padding": "x" * 600}), json.dumps(end)]
    block = "\n".join(lines) + "\n"
    stages = (megabytes << 20) // len(block) + 1
    with path.open("w") as file:
        file.write('{"Event":"SparkListenerLogStart","Spark Version":"4.1.1"}\n')
        for stage in range(stages):
            file.write(block.replace('"Stage ID": -1', f'"Stage ID": {stage}'))
        file.write('{"Event":"SparkListenerApplicationEnd"}\n')
    return 200 * stages


def peak_of_reading(path):
    tracemalloc.start()
    try:
        application = read_event_log(path)
        return application, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_grows_with_the_tasks_not_with_the_bytes(tmp_path):
    tasks = synthetic_log(tmp_path / "app-1", megabytes=12)
    application, peak = peak_of_reading(tmp_path / "app-1")
    assert sum(len(stage) for stage in application.stages) == tasks
    assert peak < 4e6 + 400 * tasks


@pytest.mark.long
def test_a_log_of_a_gigabyte_is_read_in_bounded_memory(tmp_path):
    synthetic_log(tmp_path / "app-1", megabytes=1024)
    # Not ru_maxrss: a process that is started has at least that of the process that started it.
    code = (
        "import sys; from evenflow.diagnosis import diagnose; found = diagnose(sys.argv[1]);"
        "status = dict(line.split(':', 1) for line in open('/proc/self/status'));"
        "print(status['VmHWM'].split()[0], found.cause)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "app-1")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    kilobytes, cause = ran.stdout.split(maxsplit=1)
    assert cause.strip() == "hot key"
    assert int(kilobytes) < 500_000


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path, monkeypatch, text):
    from evenflow.diagnosis import event_log

    monkeypatch.setattr(event_log, "_LONGEST_LINE", 1 << 20)
    (tmp_path / "app-1").write_bytes(b'{"Event":"' + b"x" * (3 << 20) + b'"}\n' + text)
    found = diagnose_application(read_event_log(tmp_path / "app-1"))
    assert found.cause == "hot key"
    assert "1 lines could not be read" in found.notes[0]


def test_other_files_are_not_taken_for_event_logs(tmp_path):
    (tmp_path / "rows.csv").write_text("page\nhome\n")
    assert not is_event_log(tmp_path / "rows.csv")
    with pytest.raises(InputError, match="has rows: name the key column"):
        diagnose(tmp_path / "rows.csv")
