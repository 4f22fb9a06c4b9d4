"""A directory of files as one stream of keys."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenflow.cli.app import main
from evenflow.model import InputError
from evenflow.simulator.workloads import KeyFile, KeyFolder, keys_at


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "clicks"
    (place / "day=2").mkdir(parents=True)
    (place / "_temporary").mkdir()
    for name, first in (("part-1", 300), ("part-0", 0), ("day=2/part-0", 600)):
        pq.write_table(
            pa.table({"page": np.arange(first, first + 300) % 7}), place / f"{name}.parquet"
        )
    (place / "_SUCCESS").write_text("x")
    (place / ".part-0.parquet.crc").write_text("x")
    (place / "_temporary" / "part-9.parquet").write_text("broken")
    return place


@pytest.mark.parametrize("size", [1, 7, 299, 301, 5_000])
def test_its_keys_are_those_of_its_files_in_full_chunks(folder, size):
    stream = KeyFolder(folder, ("page",))
    chunks = list(stream.chunks(size))
    files = [folder / f"{name}.parquet" for name in ("day=2/part-0", "part-0", "part-1")]
    expected = [keys for file in files for keys in KeyFile(file, ("page",)).chunks(1000)]
    assert np.array_equal(np.concatenate(chunks), np.concatenate(expected))
    assert {len(chunk) for chunk in chunks[:-1]} <= {size}
    assert stream.length() == 900


@pytest.mark.parametrize("limit", [1, 300, 301, 899, 900, 5_000])
def test_a_limit_counts_over_all_files(folder, limit):
    chunks = keys_at(folder, ("page",), limit).chunks(64)
    assert sum(map(len, chunks)) == min(limit, 900) == keys_at(folder, ("page",), limit).length()


def test_mixed_formats_and_empty_directories_are_refused(folder, tmp_path):
    (folder / "more.csv").write_text("page\n3\n")
    with pytest.raises(InputError, match="keep one format"):
        KeyFolder(folder, ("page",))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no files of rows"):
        KeyFolder(tmp_path / "empty", ("page",))


def test_simulate_takes_a_directory(folder, capsys):
    given = ["--input", str(folder), "--key", "page", "--grouping", "key", "--workers", "4"]
    assert main(["simulate", *given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["messages"] == 900
