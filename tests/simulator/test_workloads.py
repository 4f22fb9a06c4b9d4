"""Streams: the right keys, in the same order, however they are read."""

import gzip
import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from evenflow.kernels.fingerprints import fingerprint
from evenflow.kernels.mixing import salt
from evenflow.model import InputError
from evenflow.simulator.workloads import KeyFile, Workload, Zipf
from evenflow.simulator.workloads.drawing import DRAW, IDENTITY, PERMUTE, alias_table

modest = settings(max_examples=40, deadline=None)


def whole(workload, size=1 << 20):
    return np.concatenate(list(workload.chunks(size)))


# --- Zipf ----------------------------------------------------------------------------------------


@modest
@given(
    st.integers(1, 400),
    st.integers(1, 120),
    st.none() | st.integers(1, 150),
    st.integers(0, 2**64),
)
def test_zipf_chunking_does_not_change_the_stream(messages, size, drift, seed):
    zipf = Zipf(1.2, keys=30, messages=messages, seed=seed, drift=drift)
    chunks = list(zipf.chunks(size))
    assert all(0 < len(chunk) <= size for chunk in chunks)
    assert len(whole(zipf)) == messages == zipf.length()
    assert (np.concatenate(chunks) == whole(zipf)).all()


@pytest.mark.parametrize("drift", [None, 70])
def test_zipf_agrees_with_its_twin(drift):
    zipf = Zipf(1.1, keys=40, messages=300, seed=5, drift=drift)
    accept, alias = (table.tolist() for table in alias_table(zipf.probabilities()))
    draw, identity = int(salt(5, DRAW)), int(salt(5, IDENTITY))
    names = [naive.mix((identity + rank) & (2**64 - 1)) for rank in range(40)]
    expected = []
    for position in range(300):
        epoch = 0 if drift is None else position // drift
        dealt = naive.shuffled(int(salt(5, PERMUTE, epoch)), names) if epoch else names
        expected.append(dealt[naive.zipf_rank(draw, position, accept, alias)])
    assert whole(zipf).tolist() == expected


@modest
@given(st.lists(st.floats(0, 1), min_size=1, max_size=50).filter(lambda p: sum(p) > 1e-3))
def test_alias_table_gives_exactly_the_probabilities(weights):
    probabilities = np.array(weights) / sum(weights)
    accept, alias = alias_table(probabilities)
    assert naive.alias_table_probabilities(accept, alias) == pytest.approx(probabilities, abs=1e-12)


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.4, 2.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_zipf_frequencies_follow_the_law(exponent, seed):
    messages, keys = 200_000, 500
    zipf = Zipf(exponent, keys, messages, seed)
    law = np.arange(1, keys + 1, dtype=float) ** -exponent
    law /= law.sum()
    seen, counts = np.unique(whole(zipf), return_counts=True)
    by_key = dict(zip(seen.tolist(), counts.tolist(), strict=True))
    observed = np.array([by_key.pop(key, 0) for key in zipf.key_of_rank().tolist()])
    assert not by_key, "a key that no rank has"
    # Ranks too rare for the normal approximation are taken together.
    common = int((messages * law >= 25).sum())
    observed, law = (np.append(v[:common], v[common:].sum()) for v in (observed, law))
    observed, law = observed[law > 0], law[law > 0]
    deviation = (observed - messages * law) / np.sqrt(messages * law * (1 - law))
    assert np.abs(deviation).max() < 5
    # The sum of squares of n such deviations is about n, with standard deviation √(2n).
    assert abs((deviation**2).sum() - len(law)) < 5 * math.sqrt(2 * len(law))


def test_zipf_ranks_have_different_fingerprints_and_seeds_different_keys():
    keys = Zipf(keys=50_000, seed=1).key_of_rank()
    assert len(set(keys.tolist())) == 50_000
    assert not set(keys.tolist()) & set(Zipf(keys=50_000, seed=2).key_of_rank().tolist())


def test_zipf_drift_deals_the_ranks_anew_among_the_same_keys():
    zipf = Zipf(1.4, keys=1_000, messages=30_000, seed=3, drift=10_000)
    tables = [zipf.key_of_rank(epoch) for epoch in range(3)]
    for table in tables[1:]:
        assert sorted(table.tolist()) == sorted(tables[0].tolist())
    for a, b in ((0, 1), (1, 2), (0, 2)):
        assert (tables[a] == tables[b]).mean() < 0.02
    stream = whole(zipf)
    for epoch, table in enumerate(tables):
        keys, counts = np.unique(stream[epoch * 10_000 :][:10_000], return_counts=True)
        assert keys[counts.argmax()] == table[0]


def test_zipf_of_a_huge_exponent_is_one_key():
    assert len(set(whole(Zipf(5_000.0, keys=100, messages=1_000)).tolist())) == 1


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"exponent": -0.1}, "exponent must be a finite number of at least 0, got -0.1"),
        ({"exponent": math.nan}, "got nan"),
        ({"exponent": math.inf}, "got inf"),
        ({"keys": 0}, "number of keys must lie in 1..100000000, got 0"),
        ({"keys": 10**12}, "got 1000000000000"),
        ({"messages": 0}, "messages must be at least 1, got 0"),
        ({"drift": 0}, "leave it out for no drift"),
    ],
)
def test_zipf_refuses_what_makes_no_stream(parameters, complaint):
    with pytest.raises(InputError, match=complaint):
        Zipf(**parameters)


# --- files ---------------------------------------------------------------------------------------

PAGES = ["home", "help", None, "home", "buy", "größe"] * 500
USERS = list(range(len(PAGES)))


@pytest.fixture
def table():
    return pa.table({"page": PAGES, "user": USERS, "a.b": [u % 7 for u in USERS]})


def write(folder, name, table):
    path = folder / name
    if ".parquet" in name:
        pq.write_table(table, path, row_group_size=700)
    else:
        opened = gzip.open if name.endswith(".gz") else open
        with opened(path, "wt", encoding="utf-8") as file:
            if ".csv" in name:
                file.write(",".join(table.column_names) + "\n")
            for row in table.to_pylist():
                file.write(
                    ",".join("" if v is None else str(v) for v in row.values())
                    if ".csv" in name
                    else json.dumps(row)
                )
                file.write("\n")
    return path


NAMES = [
    "a.parquet",
    "a.csv",
    "a.csv.gz",
    "a.json",
    "a.jsonl",
    "a.ndjson",
    "a.jsonl.gz",
    "A.CSV.GZ",
]


@pytest.mark.parametrize("name", NAMES)
def test_key_file_gives_the_fingerprints_of_its_rows_in_order(tmp_path, table, name):
    if name.startswith("A."):
        write(tmp_path, "a.csv.gz", table).rename(tmp_path / name)
        path = tmp_path / name
    else:
        path = write(tmp_path, name, table)
    stream = KeyFile(path, ("page",))
    assert isinstance(stream, Workload)
    text = ["" if page is None else page for page in PAGES] if "csv" in name.lower() else PAGES
    assert whole(stream).tolist() == fingerprint(pa.array(text)).tolist()


@pytest.mark.parametrize("name", NAMES[:4])
@pytest.mark.parametrize("size", [1, 999, 10**6])
@pytest.mark.parametrize("limit", [None, 1, 1_234])
def test_key_file_chunking_does_not_change_the_stream(tmp_path, table, name, size, limit):
    stream = KeyFile(write(tmp_path, name, table), ("user",), limit)
    chunks = list(stream.chunks(size))
    assert all(0 < len(chunk) <= size for chunk in chunks)
    assert (np.concatenate(chunks) == whole(KeyFile(stream.path, ("user",)))[:limit]).all()


def test_key_file_length_is_known_for_parquet_and_for_a_limit(tmp_path, table):
    parquet, text = write(tmp_path, "a.parquet", table), write(tmp_path, "a.csv", table)
    assert KeyFile(parquet, ("page",)).length() == len(PAGES)
    assert KeyFile(parquet, ("page",), limit=10).length() == 10
    assert KeyFile(parquet, ("page",), limit=10**9).length() == len(PAGES)
    assert KeyFile(text, ("page",)).length() is None


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
def test_key_file_with_several_columns_has_compound_keys(tmp_path, table, name):
    stream = KeyFile(write(tmp_path, name, table), ("a.b", "page"))
    assert whole(stream).tolist() == fingerprint(table.select(["a.b", "page"])).tolist()


def test_key_file_reads_a_dotted_name_and_a_quoted_line_break(tmp_path, table):
    assert len(set(whole(KeyFile(write(tmp_path, "a.parquet", table), ("a.b",))).tolist())) == 7
    path = tmp_path / "quoted.csv"
    path.write_text('k,v\n"a\nb",1\n"a\nb",2\n')
    assert len(set(whole(KeyFile(path, ("k",))).tolist())) == 1


def test_key_file_takes_times_and_other_text_in_one_json_column(tmp_path):
    path = tmp_path / "mixed.jsonl"
    path.write_text('{"k": "2020-01-01 00:00:00"}\n{"k": "never"}\n{"other": 1}\n')
    assert (
        whole(KeyFile(path, ("k",))).tolist()
        == fingerprint(pa.array(["2020-01-01 00:00:00", "never", None])).tolist()
    )


def test_key_file_keeps_keys_that_are_not_utf8(tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes("k\nä\nö\nä\n".encode("latin-1"))
    a, b, c = whole(KeyFile(path, ("k",))).tolist()
    assert a == c != b


def broken_files(folder):
    table = pa.table({"k": [1, 2, 3], "page": ["a", "b", "c"], "list": [[1]] * 3})
    parquet = write(folder, "good.parquet", table)
    data = parquet.read_bytes()
    zipped = gzip.compress(b"k\n" + b"1\n" * 10_000)
    contents = {
        "empty.csv": b"",
        "empty.parquet": b"",
        "empty.json": b"",
        "empty.csv.gz": gzip.compress(b""),
        "header.csv": b"k,v\n",
        "blank.json": b"\n\n",
        "parquet.csv": data,
        "parquet.json": data,
        "text.parquet": b"hello, this is text",
        "half.parquet": data[: len(data) // 2],
        "json.csv": b'{"k": 1}\n{"k": 2}\n',
        "csv.json": b"k,v\n1,2\n",
        "array.json": b'[{"k": 1}, {"k": 2}]',
        "zipped.csv": zipped,
        "plain.csv.gz": b"k\n1\n",
        "half.csv.gz": zipped[: len(zipped) // 2],
        "ragged.csv": b"k,v\n1,2\n1,2,3\n",
        "utf16.csv": "k,v\n1,2\n".encode("utf-16"),
        "header_latin.csv": "k,ä\n1,2\n".encode("latin-1"),
        "twice.csv": b"k,k\n1,2\n",
        "types.jsonl": b'{"k": 1}\n{"k": "x"}\n',
        "unknown.txt": b"k\n1\n",
        "no_suffix": b"k\n1\n",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder.csv").mkdir()
    return parquet


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("missing.csv", "there is no file"),
        ("folder.csv", "is a directory"),
        ("empty.csv", "is empty"),
        ("empty.parquet", "is empty"),
        ("empty.json", "is empty"),
        ("empty.csv.gz", "is empty"),
        ("header.csv", "has columns but no rows"),
        ("blank.json", "cannot be read as JSON"),
        ("parquet.csv", "is not CSV, as its name says: it looks like Parquet"),
        ("parquet.json", "is not JSON, as its name says: it looks like Parquet"),
        ("text.parquet", "is not Parquet, as its name says"),
        ("half.parquet", "cannot be read as Parquet"),
        ("json.csv", "is not CSV, as its name says: it looks like JSON"),
        ("csv.json", "one object per line is expected"),
        ("array.json", "one object per line is expected"),
        ("zipped.csv", "it looks like gzip"),
        ("plain.csv.gz", "cannot be read as CSV"),
        ("half.csv.gz", "cannot be read as CSV"),
        ("ragged.csv", "Expected 2 columns, got 3"),
        ("utf16.csv", "it looks like binary data"),
        ("header_latin.csv", "cannot be read as CSV"),
        ("twice.csv", "has 2 columns called 'k'"),
        ("types.jsonl", "changed from number to string"),
        ("unknown.txt", "the name must end in one of .parquet"),
        ("no_suffix", "the name must end in one of .parquet"),
    ],
)
def test_key_file_refuses_in_one_line(tmp_path, name, complaint):
    broken_files(tmp_path)
    with pytest.raises(InputError) as caught:
        whole(KeyFile(tmp_path / name, ("k",)))
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        (("pgae",), "has no column 'pgae'; did you mean 'page'\\? its columns are 'k', 'page'"),
        (("zzz",), "has no column 'zzz'; its columns are 'k', 'page', 'list'"),
        (("k", "k"), "'k' was given twice"),
        ((), "no key column was given"),
        (("list",), "a key cannot be of type list"),
    ],
)
def test_key_file_refuses_columns(tmp_path, columns, complaint):
    with pytest.raises(InputError, match=complaint):
        whole(KeyFile(broken_files(tmp_path), columns))


def test_key_file_names_only_some_of_many_columns(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{i}" for i in range(500)) + "\n" + ",".join("1" * 500) + "\n")
    with pytest.raises(InputError, match=r"'c11' and 488 more$"):
        KeyFile(path, ("zzz",))
