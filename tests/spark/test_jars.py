"""Java archives: every file is the one that the lock states, or it never appears in the cache."""

import hashlib
from pathlib import Path

import pytest

from evenflow.kafka.artifacts import JARS as LOCK
from evenflow.model import InputError
from evenflow.spark import jars
from evenflow.spark.jars import Archive, JarLock


def _as_file(folder: Path, name: str, content: bytes) -> Archive:
    archive = Archive("group", name, "1", hashlib.sha256(content).hexdigest())
    (folder / archive.file).write_bytes(content)
    return archive


def test_every_file_has_the_sha_256_that_the_lock_states(tmp_path, monkeypatch):
    good = _as_file(tmp_path, "good", b"good")
    bad = _as_file(tmp_path, "bad", b"bad")
    monkeypatch.setenv(LOCK.folder_variable, str(tmp_path))
    monkeypatch.setattr(JarLock, "locked", lambda lock, group: [good, bad])
    assert LOCK.archives("broker") == [tmp_path / "good-1.jar", tmp_path / "bad-1.jar"]
    (tmp_path / bad.file).write_bytes(b"changed")
    with pytest.raises(InputError, match=r"bad-1\.jar has the SHA-256"):
        LOCK.archives("broker")
    (tmp_path / bad.file).unlink()
    with pytest.raises(InputError, match=r"1 files are missing there, first bad-1\.jar"):
        LOCK.archives("broker")


def test_what_was_fetched_wrongly_never_appears_in_the_cache(tmp_path, monkeypatch):
    wanted = [Archive("group", "name", "1", hashlib.sha256(b"right").hexdigest())]

    def fetches(content):
        def fetch(wanted, folder, report):
            (folder / "jars").mkdir()
            (folder / "jars" / wanted[0].file).write_bytes(content)

        return fetch

    monkeypatch.delenv(LOCK.folder_variable, raising=False)
    monkeypatch.delenv(jars.OFFLINE, raising=False)
    monkeypatch.setattr(jars, "cache_folder", lambda purpose: tmp_path / purpose)
    monkeypatch.setattr(JarLock, "locked", lambda lock, group: wanted)
    monkeypatch.setattr(jars, "_by_ivy", lambda wanted, folder, report: "Ivy has no network")
    monkeypatch.setattr(jars, "_by_maven", lambda wanted, folder, report: "nor has mvn")
    with pytest.raises(InputError, match="Ivy has no network; nor has mvn"):
        LOCK.archives("broker")
    monkeypatch.setattr(jars, "_by_maven", fetches(b"wrong"))
    with pytest.raises(InputError, match="what was fetched for broker is not right"):
        LOCK.archives("broker")
    assert [path.name for path in (tmp_path / "kafka").iterdir()] == ["broker.lock"]
    monkeypatch.setattr(jars, "_by_maven", fetches(b"right"))
    (found,) = LOCK.archives("broker")
    assert found.read_bytes() == b"right"
    monkeypatch.setattr(jars, "_by_maven", fetches(b"not asked again"))
    assert LOCK.archives("broker") == [found]


def test_with_offline_set_nothing_is_fetched(tmp_path, monkeypatch):
    monkeypatch.delenv(LOCK.folder_variable, raising=False)
    monkeypatch.setattr(jars, "cache_folder", lambda purpose: tmp_path / purpose)
    monkeypatch.setenv(jars.OFFLINE, "1")
    with pytest.raises(InputError, match="EVENFLOW_OFFLINE is set"):
        LOCK.archives("broker")


def test_the_lock_names_whole_archives_once():
    for group in ("broker", "connector-4.1", "connector-4.2"):
        files = [archive.file for archive in LOCK.locked(group)]
        assert len(files) == len(set(files))
        assert all(len(archive.digest) == 64 for archive in LOCK.locked(group))


def test_a_heading_that_the_lock_does_not_have_is_named():
    with pytest.raises(
        InputError, match=r"no archives for 'zookeeper', only for broker, connector"
    ):
        LOCK.archives("zookeeper")
