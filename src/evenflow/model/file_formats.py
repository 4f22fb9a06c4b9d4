"""File formats, by file name and by first bytes."""

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
HEAD = 4096  #: bytes that `not_what_it_says` needs

# The first bytes of formats that often have a wrong suffix.
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
    """The format by a file's name; None if it is unknown.

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
    """The actual format of a file named as `kind`, by its first bytes; None if it may be `kind`.

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
    """The format that the first bytes indicate; None if they are inconclusive."""
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    if b"\0" in head:
        return "binary data"
    # A first line that is a complete JSON object is not meant as a CSV header.
    first = head.lstrip(b"\xef\xbb\xbf \t\r\n").partition(b"\n")[0].rstrip()
    return "JSON" if first.startswith(b"{") and first.endswith(b"}") else None
