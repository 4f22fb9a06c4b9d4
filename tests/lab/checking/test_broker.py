"""The broker for tests and demos: it takes messages, keeps them over a kill, leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evenflow.model import InputError
from evenflow_lab.checking.kafka_topics import end_offsets, new_topic, produced

STARTS_AND_WAITS = """
import sys, time
from evenflow_lab.checking.broker import Broker
broker = Broker.start()
print(broker.port, broker.folder, flush=True)
time.sleep(600)
"""


def _gone(command_line: str) -> bool:
    """Whether no process has these words in its command line."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if command_line.encode() in entry.read_bytes():
                return False
        except OSError:
            continue
    return True


def _soon(condition, seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.slow
def test_when_start_returns_it_takes_messages(broker):
    topic = new_topic(broker, partitions=3)
    produced(broker, topic, [(b"key", b"value", 2)])
    assert end_offsets(broker, topic) == [0, 0, 1]


@pytest.mark.slow
@pytest.mark.long
def test_what_was_acknowledged_is_there_again_after_kill_and_restart(tmp_path):
    from evenflow_lab.checking.broker import Broker

    with Broker.start(tmp_path / "kept") as broker:
        topic = new_topic(broker, partitions=1)
        produced(broker, topic, [(b"k", b"%d" % i, 0) for i in range(1000)])
        broker.kill()
        assert not broker.running
        broker.restart()
        assert broker.running
        assert end_offsets(broker, topic) == [1000]
        port = broker.port
    assert not broker.running
    assert (tmp_path / "kept" / "broker.log").is_file()  # a folder that was given is kept
    with Broker.start(tmp_path / "kept") as broker:
        assert broker.port == port
        assert end_offsets(broker, topic) == [1000]
    assert _gone(str(tmp_path / "kept"))


@pytest.mark.slow
def test_when_the_process_that_started_it_is_killed_nothing_is_left():
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_AND_WAITS], stdout=subprocess.PIPE, text=True
    ) as process:
        _, folder = process.stdout.readline().split()
        assert not _gone(folder)
        process.send_signal(signal.SIGKILL)
    assert _soon(lambda: _gone(folder))
    assert not os.path.exists(folder)


@pytest.mark.slow
def test_a_port_that_is_taken_is_named(broker):
    from evenflow_lab.checking.broker import Broker

    with pytest.raises(InputError, match=f"port {broker.port} of this machine is taken"):
        Broker.start(port=broker.port)


@pytest.mark.slow
def test_the_command_prints_the_address_and_stops_when_told():
    with subprocess.Popen(
        [sys.executable, "-m", "evenflow.cli", "kafka", "up", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        address = json.loads(process.stdout.readline())
        assert address["bootstrap"].startswith("127.0.0.1:")
        folder = os.path.dirname(address["log"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert not os.path.exists(folder)
    assert _gone(folder)
