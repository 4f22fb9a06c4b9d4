"""Files of rows: what their names promise, and what their first bytes say."""

from __future__ import annotations

from pathlib import PurePath

FORMATS = {
    ".parquet": "Parquet",
    ".csv": "CSV",
    ".json": "JSON",
    ".jsonl": "JSON",
    ".ndjson": "JSON",
}
SUFFIXES = ", ".join(FORMATS)
HEAD = 4096  #: so many bytes are enough for `looks_like`

# How files begin that are often found under a wrong name.
_MAGIC = {
    b"PAR1": "Parquet",
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "a zip archive or a spreadsheet",
    b"ORC": "ORC",
    b"Obj\x01": "Avro",
    b"ARROW1": "an Arrow file",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"SQLite format 3": "an SQLite database",
    b"%PDF": "PDF",
}


def is_compressed(path: PurePath) -> bool:
    """Whether the name ends in .gz."""
    return path.suffix.lower() == ".gz"


def format_of(path: PurePath) -> str | None:
    """The format that a file's name promises; None where it promises none that is known.

    Example:
        >>> format_of(PurePath("clicks.csv.gz")), format_of(PurePath("clicks.PARQUET"))
        ('CSV', 'Parquet')
        >>> format_of(PurePath("clicks.parquet.gz")) is None
        True
    """
    stem = path.with_suffix("") if is_compressed(path) else path
    found = FORMATS.get(stem.suffix.lower())
    return None if found == "Parquet" and is_compressed(path) else found


def not_what_it_says(kind: str, head: bytes) -> str | None:
    """What a file of the format `kind` looks like instead, by its first bytes; None if nothing speaks
    against it.

    Example:
        >>> not_what_it_says("CSV", b"PAR1..."), not_what_it_says("Parquet", b"page,user")
        ('Parquet', 'text')
        >>> not_what_it_says("CSV", b"page,user") is None
        True
    """
    actual = _looks_like(head)
    if actual is None and kind == "Parquet":
        actual = "text"
    return None if actual == kind else actual


def _looks_like(head: bytes) -> str | None:
    """The format that the first bytes speak for; None where they say nothing."""
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    if b"\0" in head:
        return "binary data"
    # A CSV header that is a complete JSON object is no header that anybody meant.
    first = head.lstrip(b"\xef\xbb\xbf \t\r\n").partition(b"\n")[0].rstrip()
    return "JSON" if first.startswith(b"{") and first.endswith(b"}") else None
