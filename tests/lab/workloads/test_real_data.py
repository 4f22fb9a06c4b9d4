"""Data from packages: fetched once, checked, put in place whole; and what the streams make of it."""

import hashlib
import os
import re
import sys
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenflow.kernels.fingerprints import fingerprint
from evenflow.model import InputError
from evenflow_lab.workloads import Flights, Words, flights, packaged, words
from evenflow_lab.workloads.packaged import PackagedData, data_directory

PARTS = {"package/data/b.txt": b"world", "package/data/a.txt": b"hello", "package/x.txt": b"no"}
TEXT = b"hello\nworld\n"

FAKE_NPM = """#!{python}
import shutil, sys
assert sys.argv[1:3] == ["pack", "greetings@1.0.0"], sys.argv
assert sys.argv[3:] == ["--pack-destination", "."], sys.argv
with open({log!r}, "a") as log:
    log.write("called\\n")
{action}
"""


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """`npm(action)` puts an npm on the PATH that does just that; returns how often it was called."""
    monkeypatch.setenv("EVENFLOW_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(packaged, "_VERIFIED", set())
    bin_folder, archive, log = tmp_path / "bin", tmp_path / "greetings.tgz", tmp_path / "log"
    bin_folder.mkdir()
    monkeypatch.setenv("PATH", str(bin_folder))
    with tarfile.open(archive, "w:gz") as tar:
        for name, content in PARTS.items():
            source = tmp_path / "part"
            source.write_bytes(content)
            tar.add(source, name)

    def install(action=f"shutil.copy({str(archive)!r}, 'greetings-1.0.0.tgz')"):
        script = bin_folder / "npm"
        script.write_text(FAKE_NPM.format(python=sys.executable, log=str(log), action=action))
        script.chmod(0o755)
        return lambda: log.read_text().count("called") if log.exists() else 0

    return install


def greetings(content=TEXT, members="package/data/*.txt"):
    checksum = hashlib.sha256(content).hexdigest()
    return PackagedData("greetings", "1.0.0", members, "greetings.txt", checksum)


def files_in_cache():
    return sorted(os.listdir(data_directory())) if data_directory().exists() else []


def test_packaged_data_is_fetched_once_and_only_the_wanted_files(npm, monkeypatch):
    calls = npm()
    path = greetings().path()
    assert path.read_bytes() == TEXT
    assert greetings().path() == path
    monkeypatch.setattr(packaged, "_VERIFIED", set())  # as in another process
    assert greetings().path() == path
    assert calls() == 1
    assert files_in_cache() == ["greetings.txt"]


def test_packaged_data_of_one_file_is_that_file(npm):
    npm()
    one = greetings(b"world", "package/data/b.txt")
    assert one.path().read_bytes() == b"world"


def test_packaged_data_that_was_damaged_is_fetched_again(npm, monkeypatch):
    calls = npm()
    path = greetings().path()
    path.write_bytes(TEXT[:-1])
    monkeypatch.setattr(packaged, "_VERIFIED", set())
    assert greetings().path().read_bytes() == TEXT
    assert calls() == 2


def test_packaged_data_with_another_checksum_is_thrown_away(npm):
    npm()
    with pytest.raises(InputError, match="has not the checksum"):
        greetings(b"something else").path()
    assert files_in_cache() == []


@pytest.mark.parametrize(
    ("action", "complaint"),
    [
        ("print('npm error code E404', file=sys.stderr); sys.exit(1)", "npm error code E404"),
        ("sys.exit(3)", "exit code 3"),
        ("pass", "'npm pack greetings@1.0.0' failed"),
        ("open('x.tgz', 'w').write('no archive')", "it cannot be unpacked"),
    ],
)
def test_packaged_data_says_why_it_could_not_be_fetched(npm, action, complaint):
    npm(action)
    with pytest.raises(InputError) as caught:
        greetings().path()
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
    assert files_in_cache() == []


def test_packaged_data_without_npm_says_what_to_install(npm):
    with pytest.raises(InputError, match=r"npm, which is not on the PATH: install Node\.js"):
        greetings().path()


def test_packaged_data_without_a_place_says_what_to_set(npm, tmp_path, monkeypatch):
    npm()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EVENFLOW_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(InputError, match="set EVENFLOW_CACHE_DIR"):
        greetings().path()


def test_data_directory_follows_the_users_settings(monkeypatch):
    monkeypatch.delenv("EVENFLOW_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", os.path.join("somewhere", "cache"))
    assert data_directory().parts == ("somewhere", "cache", "evenflow", "data")


class Here:
    """In place of packaged data: a file of the test's own."""

    def __init__(self, path):
        self._path = path

    def path(self):
        return self._path


@pytest.mark.parametrize("size", [1, 7, 100])
def test_flights_are_the_keys_of_the_rows_in_order(tmp_path, monkeypatch, size):
    table = pa.table(
        {"origin": ["LAX", "ORD", "LAX"] * 9, "destination": ["ORD", "LAX", "JFK"] * 9}
    )
    pq.write_table(table, tmp_path / "flights.parquet")
    monkeypatch.setattr(flights, "_DATA", Here(tmp_path / "flights.parquet"))
    origins = np.concatenate(list(Flights().chunks(size)))
    assert origins.tolist() == fingerprint(table["origin"]).tolist()
    routes = np.concatenate(list(Flights("route", messages=20).chunks(size)))
    assert routes.tolist() == fingerprint(table).tolist()[:20]


SPEECH = "Fellow-Citizens: don’t DON'T\n\n— 1791, it's “we”; naïve\nThe end"


def split(text):
    """The twin: what is no letter or digit ends a word, apostrophes are dropped."""
    return re.findall("[a-z0-9]+", re.sub("['’]", "", text).lower())


def test_more_words_than_there_are_are_drawn_from_the_place_they_are_asked_for(
    tmp_path, monkeypatch
):
    path = tmp_path / "text.txt"
    path.write_text("a b c d " * 10 + "w x y z " * 10, encoding="utf-8")
    monkeypatch.setattr(words, "_DATA", Here(path))
    assert [one.to_pylist() for one in words.jumps(2, 3)] == [["a", "b", "c"], ["w", "x", "y"]]
    first, second = (one.to_pylist() for one in words.jumps(2, 4000))
    assert len(first) == len(second) == 4000
    assert set(first) == set("abcd")
    assert set(second) == set("wxyz")
    assert 800 < first.count("a") < 1200
    assert [one.to_pylist() for one in words.jumps(2, 4000)] == [first, second]


def test_split_words_agrees_with_its_twin():
    assert split(SPEECH)[:4] == ["fellow", "citizens", "dont", "dont"]
    for text in (SPEECH, "", "a", "--", " a b", "a b ", "9"):
        assert words.split_words(text.encode()).to_pylist() == split(text)


@pytest.mark.parametrize("size", [1, 4, 1_000])
@pytest.mark.parametrize("messages", [None, 1, 5, 10_000])
def test_words_are_those_of_the_text_in_order(tmp_path, monkeypatch, size, messages):
    path = tmp_path / "speech.txt"
    path.write_text(SPEECH, encoding="utf-8")
    monkeypatch.setattr(words, "_DATA", Here(path))
    monkeypatch.setattr(words, "_BLOCK", 5)
    chunks = list(Words(messages).chunks(size))
    assert all(0 < len(chunk) <= size for chunk in chunks)
    expected = fingerprint(pa.array(split(SPEECH)[:messages])).tolist()
    assert np.concatenate(chunks).tolist() == expected


def in_cache(data):
    return (data_directory() / data.file).exists()


@pytest.mark.skipif(not in_cache(flights._DATA), reason="the flights have not been downloaded")
@pytest.mark.parametrize(("key", "keys", "p1"), [("origin", 229, 0.0554), ("route", 3_399, 0.0028)])
def test_downloaded_flights_match_their_description(key, keys, p1):
    stream = np.concatenate(list(Flights(key).chunks(1 << 20)))
    _, counts = np.unique(stream, return_counts=True)
    assert len(stream) == Flights(key).length()
    assert (len(counts), round(counts.max() / len(stream), 4)) == (keys, p1)


@pytest.mark.skipif(not in_cache(words._DATA), reason="the words have not been downloaded")
def test_downloaded_words_match_their_description():
    stream = np.concatenate(list(Words().chunks(1 << 20)))
    keys, counts = np.unique(stream, return_counts=True)
    assert len(stream) == Words().length()
    assert keys[counts.argmax()] == fingerprint(pa.array(["the"]))[0]
    assert (len(keys), round(counts.max() / len(stream), 3)) == (25_431, 0.083)
