"""The examples of the documentation that need a Spark session run, and print what stands below them."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from evenflow_lab.checking.kafka_topics import new_topic, produced
from evenflow_lab.checking.table_formats import table_environment

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]
ALL = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = ("incoming", "ckpt", "hits", "state", "orders", "totals", "failed", "visits")


def examples(kind):
    """Page → (code, output) of its examples of a kind."""
    block = re.compile(rf"^```python {kind}\n(.*?)^```\n(?:\n^```text\n(.*?)^```\n)?", re.M | re.S)
    found = {page: block.findall(page.read_text(encoding="utf-8")) for page in ALL}
    return {page: blocks for page, blocks in found.items() if blocks}


PAGES, WITH_KAFKA, WITH_DELTA = (examples(kind) for kind in ("spark", "kafka", "delta"))


def test_the_readme_and_the_quick_start_have_examples():
    assert PAGES[ROOT / "README.md"]
    assert len(PAGES[ROOT / "docs" / "quick_start.md"]) >= 3


@pytest.mark.parametrize("page", list(PAGES), ids=lambda page: page.name)
def test_examples_run_in_order_and_print_what_stands_below_them(spark, tmp_path, page):
    """The blocks of a page share their names, as in a notebook."""
    run(spark, tmp_path, page.name, PAGES[page])


@pytest.mark.slow
@pytest.mark.parametrize("page", list(WITH_KAFKA), ids=lambda page: page.name)
@pytest.mark.long
def test_examples_with_kafka_run(spark, broker, tmp_path, page):
    topics = {"clicks-balanced": 12, "orders-balanced": 12, "clicks": 3, "counted": 3}
    made = {name: new_topic(broker, partitions) for name, partitions in topics.items()}
    produced(broker, made["clicks"], [(b"ann", b"1", 0), (b"bob", b"2", 1), (b"ann", b"3", 0)])
    blocks = []
    for code, output in WITH_KAFKA[page]:
        code = code.replace("localhost:9092", broker.bootstrap)
        for name, topic in made.items():
            code = code.replace(f'"{name}"', f'"{topic}"')
        blocks.append((code, output))
    run(spark, tmp_path, page.name, blocks)


WITH_TABLES = """\
from evenflow.spark.session import local_session
from evenflow_lab.checking.table_formats import table_settings

spark = local_session("local[2]", **table_settings({warehouse!r}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("page", list(WITH_DELTA), ids=lambda page: page.name)
@pytest.mark.long
def test_examples_with_delta_run(tmp_path, page):
    """In processes of their own, with a Spark that Delta has a release for."""
    for number, (code, output) in enumerate(WITH_DELTA[page]):
        folder = tmp_path / str(number)
        folder.mkdir()
        script = WITH_TABLES.format(warehouse=str(folder / "warehouse")) + code
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=folder,
            env=os.environ | table_environment(),
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.rstrip("\n") == output.rstrip("\n"), f"example {number}"


def run(spark, tmp_path, page, blocks):
    names = {"__name__": "example", "spark": spark}
    try:
        for number, (code, output) in enumerate(blocks):
            folder = tmp_path / str(number)
            folder.mkdir()
            if page != "quick_start.md":  # which promises to run as it stands
                (folder / "incoming").mkdir()
                (folder / "orders").mkdir()
            # Spark resolves relative paths by its own working directory. `hits` is a column, too.
            for name in FOLDERS:
                code = re.sub(rf'(?<!orderBy\()"{name}(?=["/])', f'"{folder}/{name}', code)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, f"<{page}, example {number}>", "exec"), names)
            if output:
                assert printed.getvalue().rstrip("\n") == output.rstrip("\n"), f"example {number}"
    finally:
        for query in spark.streams.active:
            query.stop()
