"""The S3 server on disk: acknowledged objects survive its kill, races have one winner."""

import threading

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import from_url

from evenflow.model import InputError
from evenflow_lab.checking import disk_s3
from evenflow_lab.checking.disk_s3 import DiskS3, server_binary
from evenflow_lab.checking.store_proxy import Faults, StoreProxy
from spark_on_s3a import run_spark_on


@pytest.fixture(scope="module")
def server():
    with DiskS3.start() as started:
        yield started


def _store(place, prefix):
    return from_url(place.uri(prefix), **place.obstore_arguments)


def _race(store, name, mode, racers=6):
    """How many of several puts at the same time succeed."""
    wins = []

    def run(racer):
        try:
            obstore.put(store, name, b"%d" % racer, mode=mode)
            wins.append(racer)
        except (AlreadyExistsError, PreconditionError):
            pass

    threads = [threading.Thread(target=run, args=(racer,)) for racer in range(racers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(wins)


@pytest.mark.slow
@pytest.mark.long
def test_of_several_creates_or_swaps_at_once_one_succeeds(server):
    store = _store(server.endpoint, "races")
    for turn in range(30):
        assert _race(store, f"created/{turn}", "create") == 1
        tag = obstore.put(store, "swapped", b"turn %d" % turn)["e_tag"]
        assert _race(store, "swapped", {"e_tag": tag}) == 1


@pytest.mark.slow
@pytest.mark.long
def test_what_was_acknowledged_is_there_again_after_kill_and_restart(tmp_path):
    with DiskS3.start(tmp_path / "kept") as server:
        place = server.endpoint
        place_that_gives_up = {**place.obstore_arguments, "retry_config": {"max_retries": 0}}
        store = from_url(place.uri("kills"), **place_that_gives_up)
        acknowledged = []

        def write(writer):
            for number in range(100_000):
                name = f"{writer}/{number}"
                try:
                    obstore.put(store, name, name.encode() * 2000, mode="create")
                except BaseError:
                    return
                acknowledged.append(name)

        for turn in range(3):
            done = len(acknowledged)
            writers = [threading.Thread(target=write, args=(f"{turn}-{n}",)) for n in range(3)]
            for writer in writers:
                writer.start()
            while len(acknowledged) < done + 30:
                assert any(writer.is_alive() for writer in writers)
            server.kill()
            assert not server.running
            for writer in writers:
                writer.join()
            server.restart()
        for name in acknowledged:
            assert bytes(obstore.get(store, name).bytes()) == name.encode() * 2000
        for listed in obstore.list(store):
            for entry in listed:  # also those that were written while it was killed
                assert entry["size"] == len(entry["path"]) * 2000
        port = server.port
    with DiskS3.start(tmp_path / "kept") as server:
        assert server.port == port
        assert bytes(obstore.get(store, acknowledged[0]).bytes())


@pytest.mark.slow
@pytest.mark.long
def test_a_signature_stays_right_through_the_proxy_and_a_wrong_key_is_refused(server):
    with StoreProxy.start(server.endpoint.url) as proxy:
        place = server.endpoint.through(proxy.url)
        store = _store(place, "signed")
        obstore.put(store, "object", b"content")
        assert bytes(obstore.get(store, "object").bytes()) == b"content"
        arguments = place.obstore_arguments
        arguments["config"]["secret_access_key"] = "wrong"
        with pytest.raises(BaseError, match="SignatureDoesNotMatch"):
            obstore.get(from_url(place.uri("signed"), **arguments), "object")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_spark_writes_and_keeps_a_checkpoint_there_through_faults(server):
    faults = Faults.evenly(0.05, hold=1.0, slow=0.5, seed=7)
    with StoreProxy.start(server.endpoint.url, faults) as proxy:
        run_spark_on(server.endpoint.through(proxy.url))
        assert sum(proxy.counts()["faults"].values()) >= 3


def test_without_go_or_a_network_the_message_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_s3, "cache_folder", lambda purpose: tmp_path / purpose)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("EVENFLOW_OFFLINE", raising=False)
    with pytest.raises(InputError, match="there is no go on the PATH; install Go"):
        server_binary()
    monkeypatch.setenv("EVENFLOW_OFFLINE", "1")
    with pytest.raises(InputError, match="EVENFLOW_OFFLINE is set"):
        server_binary()


def test_a_build_that_fails_says_why_and_leaves_nothing(tmp_path, monkeypatch):
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho 'dial tcp: no such host' >&2\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setattr(disk_s3, "cache_folder", lambda purpose: tmp_path / purpose)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("EVENFLOW_OFFLINE", raising=False)
    with pytest.raises(InputError, match=r"could not be built with .*: dial tcp: no such host"):
        server_binary()
    assert [path.name for path in (tmp_path / "versitygw").iterdir()] == ["build.lock"]
