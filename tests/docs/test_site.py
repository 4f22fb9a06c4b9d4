"""The site is built from the same Markdown, without a warning."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-E", "-W", "-q", "-b", "html"]
    ended = subprocess.run(
        [*command, ROOT / "docs", tmp_path / "site"], capture_output=True, text=True, cwd=ROOT
    )
    assert ended.returncode == 0, ended.stderr
    page = (tmp_path / "site" / "way_of_a_row.html").read_text(encoding="utf-8")
    assert "engine/keyed_states.py" in page
