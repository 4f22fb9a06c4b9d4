"""The gateway on Spark: order, moves, replay, restart, several gateways."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import defaultdict
from dataclasses import replace
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenflow.model import InputError
from evenflow.planning.hot_keys import HotKeys
from evenflow_lab.checking.gateway_log import written
from evenflow_lab.checking.kafka_topics import consumed, end_offsets, new_topic, produced

PARTITIONS = 4
POLICY = HotKeys(PARTITIONS, threshold=0.02)


def clock_that_jumps(seconds=11.0):
    """Every look at it is a decision interval later."""
    ticks = count()
    return lambda: next(ticks) * seconds


def stream(n, seed=0, keys=200, shift=0):
    """Skewed keys with numbered values, dealt to source partitions by key, in four drifting parts."""
    rng = np.random.default_rng(seed)
    drawn = (rng.zipf(1.4, n) + np.arange(n) * 4 // n * 3 + shift) % keys
    return [(b"key-%d" % k, b"%d" % i, int(k) % 3) for i, k in enumerate(drawn)]


def sent_values(messages):
    """Each key's values in the order sent."""
    found = defaultdict(list)
    for key, value, *_ in messages:
        found[key].append(value)
    return dict(found)


@pytest.fixture(scope="module")
def source(broker):
    messages = stream(6000)
    topic = new_topic(broker, 3)
    produced(broker, topic, messages)
    return topic, messages


def run_gateway(spark, broker, source, target, checkpoint, most=600, **changes):
    from evenflow.kafka.gateway import TOPIC_ROWS, Gateway, read_topic

    settings = {"policy": POLICY, "clock": clock_that_jumps(), **changes}
    gateway = Gateway(broker.bootstrap, target, **settings)
    query = gateway.start(
        read_topic(spark, broker.bootstrap, source, most=most),
        checkpoint,
        TOPIC_ROWS,
        available_now=True,
    )
    assert query.awaitTermination(120)
    return query.metrics()


@pytest.mark.spark
@pytest.mark.slow
def test_a_keys_messages_are_written_in_the_order_of_the_source(spark, broker, source, tmp_path):
    topic, messages = source
    target = new_topic(broker, PARTITIONS)
    metrics = run_gateway(spark, broker, topic, target, tmp_path, most=1250)
    found = written(consumed(broker, target))
    assert found.values == sent_values(messages)
    assert found.duplicates == 0
    assert found.moves > 5
    assert found.moves == sum(m["moves"] for m in metrics)
    assert {name for m in metrics for name, n in m["moved"].items() if n} >= {"hot", "cooled"}
    assert sum(m["rows"] for m in metrics) == len(messages)
    assert max(m["hot_keys"] for m in metrics) <= 1 / POLICY.threshold
    sizes = end_offsets(broker, target)
    assert sum(sizes) == len(messages) + found.markers


@pytest.mark.spark
@pytest.mark.slow
def test_a_users_options_of_the_source_go_before_ours(spark, broker, source):
    """Kafka itself says so: it refuses this one, and would take ours."""
    from pyspark.errors import StreamingQueryException

    from evenflow.kafka.gateway import CONSUMER, read_topic

    assert "kafka.max.poll.records" in CONSUMER
    refused = {"kafka.max.poll.records": "0"}
    stream = read_topic(spark, broker.bootstrap, source[0], options=refused)
    query = stream.writeStream.format("noop").trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match=r"max\.poll\.records"):
        query.awaitTermination(120)


@pytest.mark.spark
@pytest.mark.parametrize("option", ["minPartitions", "maxRecordsPerPartition"])
def test_a_partition_is_not_read_by_several_tasks(spark, option):
    from evenflow.kafka.gateway import read_topic

    with pytest.raises(InputError, match=f"{option} would split .* lose their order"):
        read_topic(spark, "localhost:1", "clicks", options={option: "9"})


@pytest.mark.spark
@pytest.mark.slow
def test_rows_that_come_in_no_order_are_sorted(spark, broker, tmp_path):
    from evenflow.kafka.gateway import Gateway
    from evenflow.kafka.gateway_rows import Rows

    messages = stream(3000, seed=1)
    folder = tmp_path / "files"
    folder.mkdir()
    for i in range(3):
        part = messages[i * 1000 : (i + 1) * 1000]
        at = np.random.default_rng(i).permutation(1000)
        table = pa.table(
            {
                "who": [part[j][0].decode() for j in at],
                "what": [part[j][1] for j in at],
                "place": at + i * 1000,
            }
        )
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=100)
        os.utime(folder / f"{i}.parquet", (i, i))
    target = new_topic(broker, PARTITIONS)
    reader = spark.readStream.schema("who string, what binary, place long")
    files = reader.option("maxFilesPerTrigger", 1).parquet(str(folder))
    gateway = Gateway(broker.bootstrap, target, POLICY, clock=clock_that_jumps())
    rows = Rows("who", "what", ("place",))
    query = gateway.start(files, tmp_path / "ckpt", rows, available_now=True)
    assert query.awaitTermination(120)
    found = written(consumed(broker, target))
    assert found.values == sent_values(messages)
    assert found.moves > 0


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("sorted_by_us", [False, True])
def test_a_batch_that_is_run_again_writes_the_same_records(
    spark, broker, source, tmp_path, sorted_by_us, monkeypatch
):
    from evenflow.kafka import gateway as module

    topic, messages = source
    target = new_topic(broker, PARTITIONS)
    if sorted_by_us:
        rows = replace(module.TOPIC_ROWS, in_order=False)
        monkeypatch.setattr(module, "TOPIC_ROWS", rows)
    run_gateway(spark, broker, topic, target, tmp_path, most=1500)
    before = end_offsets(broker, target)
    last = max((tmp_path / "evenflow" / "manifests").glob("*.json"))
    batch = int(last.stem.split("-")[0])
    last.unlink()  # as if the driver had died before it could commit the last batch
    (tmp_path / "spark" / "commits" / str(batch)).unlink()
    (tmp_path / "spark" / "commits" / f".{batch}.crc").unlink(missing_ok=True)
    run_gateway(spark, broker, topic, target, tmp_path, most=1500)
    log = consumed(broker, target)
    again = [m for p, part in enumerate(log) for m in part[before[p] :]]
    found = written(log)  # compares what is written again with what was written before
    assert found.duplicates == len(again) > 5
    assert found.values == sent_values(messages)


@pytest.mark.spark
@pytest.mark.slow
def test_a_restarted_gateway_goes_on_with_what_it_had(spark, broker, tmp_path):
    messages = stream(4000, seed=2)
    one, two = new_topic(broker, PARTITIONS), new_topic(broker, PARTITIONS)
    topic = new_topic(broker, 3)
    ticks = clock_that_jumps()
    produced(broker, topic, messages[:2000])
    run_gateway(spark, broker, topic, one, tmp_path / "one", most=500, clock=ticks)
    produced(broker, topic, messages[2000:])
    run_gateway(spark, broker, topic, one, tmp_path / "one", most=500, clock=ticks)
    run_gateway(spark, broker, topic, two, tmp_path / "two", most=2000)
    found, whole = written(consumed(broker, one)), written(consumed(broker, two))
    assert found.values == whole.values == sent_values(messages)
    assert found.moves > 0


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_each_gateway_writes_the_keys_that_it_owns_and_no_others(spark, broker, source, tmp_path):
    topic, messages = source
    target = new_topic(broker, PARTITIONS)
    keys = []
    for index in range(2):
        run_gateway(
            spark, broker, topic, target, tmp_path / f"{index}", 3000, gateways=2, index=index
        )
        keys.append({m.key() for part in consumed(broker, target) for m in part})
    found = written(consumed(broker, target))
    assert found.values == sent_values(messages)
    assert 0 < len(keys[0]) < len(keys[1]) == len(found.values)


@pytest.mark.spark
@pytest.mark.slow
def test_messages_without_a_key_go_to_all_partitions_and_headers_are_kept(spark, broker, tmp_path):
    topic, target = new_topic(broker, 1), new_topic(broker, PARTITIONS)
    old = [("evenflow", b"of another gateway"), ("evenflow-move", b"")]
    theirs = [("evenflowers", b"rose")]
    produced(
        broker,
        topic,
        [(None, b"%d" % i, 0, [("trace", b"%d" % i), *old, *theirs]) for i in range(40)],
    )
    run_gateway(spark, broker, topic, target, tmp_path)
    log = consumed(broker, target)
    assert [len(part) for part in log] == [10] * PARTITIONS
    for message in (m for part in log for m in part):
        assert message.headers()[:-1] == [("trace", message.value()), *theirs]
        assert message.headers()[-1][0] == "evenflow"
    assert sorted(written(log).values[None], key=int) == [b"%d" % i for i in range(40)]


@pytest.mark.spark
@pytest.mark.slow
def test_a_checkpoint_of_another_topic_or_partition_count_is_refused(spark, broker, tmp_path):
    topic = new_topic(broker, 1)
    produced(broker, topic, [(b"k", b"v", 0)])
    target, other, more = (new_topic(broker, n) for n in (PARTITIONS, PARTITIONS, 5))
    run_gateway(spark, broker, topic, target, tmp_path)
    with pytest.raises(InputError, match=r"made by another computation .*" + other):
        run_gateway(spark, broker, topic, other, tmp_path)
    with pytest.raises(InputError, match="has 5 partitions, but the policy has 4"):
        run_gateway(spark, broker, topic, more, tmp_path)
    with pytest.raises(InputError, match="has no topic 'nothing'"):
        run_gateway(spark, broker, topic, "nothing", tmp_path)


@pytest.mark.spark
@pytest.mark.slow
def test_the_command_makes_the_topic_and_tells_every_batch(spark, broker, source, tmp_path, capsys):
    from evenflow.cli.app import main

    topic, messages = source
    target = f"{topic}-balanced"
    options = ["--from", topic, "--to", target, "--bootstrap", broker.bootstrap, "--once", "--json"]
    options += ["--checkpoint", str(tmp_path / "ckpt"), "--decision-interval", "10ms"]
    options += ["--threshold", "0.02", "--most-per-batch", "2500"]
    assert main(["gateway", *options]) == 2
    assert "give its number of partitions to create it" in capsys.readouterr().err
    assert main(["gateway", *options, "--partitions", "4"]) == 0
    batches = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sum(batch["rows"] for batch in batches) == len(messages)
    found = written(consumed(broker, target))
    assert found.values == sent_values(messages)
    assert found.moves == sum(batch["moves"] for batch in batches)
    assert main(["gateway", *options, "--partitions", "5"]) == 2
    assert "has 4 partitions, not 5" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.slow
def test_the_command_takes_files(spark, broker, tmp_path, capsys):
    from evenflow.cli.app import main

    folder = tmp_path / "files"
    folder.mkdir()
    pq.write_table(pa.table({"who": [3, 1, 3, 3], "n": [1, 2, 3, 4]}), folder / "a.parquet")
    target = f"files-{os.getpid()}"
    options = ["--from", str(folder), "--key", "who", "--to", target, "--partitions", "2"]
    options += ["--bootstrap", broker.bootstrap, "--checkpoint", str(tmp_path / "ckpt"), "--once"]
    assert main(["gateway", *options]) == 0
    assert "4 messages" in capsys.readouterr().out
    values = written(consumed(broker, target)).values
    assert [json.loads(value)["n"] for value in values[b"3"]] == [1, 3, 4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--from", "a", "--bootstrap", "127.0.0.1:1"], "no Kafka broker answers at 127.0.0.1:1"),
        (["--from", "a", "--bootstrap", "nowhere"], "a broker's address has the form HOST:PORT"),
        (["--from", "b", "--bootstrap", "x:1"], "cannot read and write the same topic"),
        (["--from", "a", "--bootstrap", "x:1", "--key", "k"], "--key is for files"),
        (["--from", "./", "--bootstrap", "x:1"], "set the key column with --key"),
        (["--from", "a", "--bootstrap", "x:1", "--once", "--for", "3s"], "not both"),
        (["--from", "a", "--bootstrap", "x:1", "--for", "soon"], "--for"),
    ],
)
def test_a_mistake_is_said_in_a_line(options, message, tmp_path, capsys):
    pytest.importorskip("confluent_kafka")
    from evenflow.cli.app import main

    assert main(["gateway", *options, "--to", "b", "--checkpoint", str(tmp_path)]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert len(printed.splitlines()) == 1


KILLED = """
import sys
from evenflow.kafka.artifacts import connector_jars
from evenflow.kafka.gateway import TOPIC_ROWS, Gateway, read_topic
from evenflow.planning.hot_keys import HotKeys
from evenflow.spark.session import local_session

bootstrap, source, target, checkpoint = sys.argv[1:]
spark = local_session("local[2]", **{"spark.jars": ",".join(map(str, connector_jars()))})
gateway = Gateway(bootstrap, target, HotKeys(4, threshold=0.02), interval=0.05)
stream = read_topic(spark, bootstrap, source, most=1200)
query = gateway.start(stream, checkpoint, TOPIC_ROWS, available_now=True,
                      on_batch=lambda metrics: print(metrics["batch"], flush=True))
query.awaitTermination()
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_a_killed_gateway_continues_with_the_same_positions(spark, broker, source, tmp_path):
    topic, messages = source
    target, checkpoint = new_topic(broker, PARTITIONS), tmp_path / "ckpt"
    script = tmp_path / "gateway.py"
    script.write_text(textwrap.dedent(KILLED))
    command = [sys.executable, script, broker.bootstrap, topic, target, checkpoint]
    printed = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            printed.append(line.strip())
            if len(printed) == 2:
                time.sleep(0.15)  # into the midst of the next batch
                process.send_signal(signal.SIGKILL)
                break
    assert printed == ["0", "1"]
    assert process.returncode == -signal.SIGKILL
    # Goes on in another process, this one, which spares a second start of Spark.
    metrics = run_gateway(
        spark, broker, topic, target, checkpoint, 1200, interval=0.05, clock=time.time
    )
    # Without 2 if that was committed after all, and not reported.
    assert {m["batch"] for m in metrics} >= {0, 1, 3, 4}
    found = written(consumed(broker, target))
    assert found.values == sent_values(messages)
