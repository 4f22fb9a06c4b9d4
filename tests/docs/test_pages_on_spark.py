"""The examples of the documentation that need a Spark session run, and print what stands below them."""

import contextlib
import io
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXAMPLE = re.compile(r"^```python spark\n(.*?)^```\n(?:\n^```text\n(.*?)^```\n)?", re.M | re.S)

EXAMPLES = [
    pytest.param(block[1], block[2], id=f"{page.name}:{number}")
    for page in sorted(DOCS.glob("*.md"))
    for number, block in enumerate(EXAMPLE.finditer(page.read_text(encoding="utf-8")))
]


def test_there_are_examples():
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize(("code", "output"), EXAMPLES)
def test_spark_examples_print_what_stands_below_them(spark, tmp_path, monkeypatch, code, output):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "incoming").mkdir()
    # Spark resolves relative paths by its own working directory.
    for name in ("incoming", "ckpt", "hits"):
        code = code.replace(f'"{name}"', f'"{tmp_path}/{name}"').replace(
            f'"{name}/', f'"{tmp_path}/{name}/'
        )
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<example>", "exec"), {"__name__": "example", "spark": spark})
    assert printed.getvalue() == output
