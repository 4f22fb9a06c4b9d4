"""docs/add_a_scheme.md keeps its word: one file adds a scheme, everywhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evenflow
from evenflow.checks import GROUPING_CHECKS
from evenflow.grouping import schemes

pytestmark = pytest.mark.slow

PACKAGE = Path(evenflow.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "add_a_scheme.md").read_text(encoding="utf-8")
EXAMPLE, EXAMPLE_TEST = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
COMMAND = "import sys; from evenflow.cli.app import main; sys.exit(main())"

Run = Callable[..., Any]


def runner(folder: Path, *path: Path) -> Run:
    """Runs Python in `folder` with `path` before all else, and reads the JSON that it prints."""

    def run(*arguments: str) -> Any:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, path)),
            "EVENFLOW_CACHE_DIR": str(folder / "cache"),
        }
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="module")
def dropped_in(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A copy of the package with key grouping, the page's example, and no other scheme.

    The others are left out because all their kernels would be compiled anew, for their place on
    disk is another: that takes half a minute and proves nothing.
    """
    folder = tmp_path_factory.mktemp("dropped_in")
    shutil.copytree(PACKAGE, folder / "evenflow", ignore=shutil.ignore_patterns("__pycache__"))
    grouping = folder / "evenflow" / "grouping"
    shared = {"__init__.py", "protocol.py", "key.py"}
    for file in grouping.glob("*.py"):
        if file.name not in shared:
            file.unlink()
    (grouping / "home_first.py").write_text(EXAMPLE, encoding="utf-8")
    return runner(folder, folder)


def test_dropped_file_is_in_schemes(dropped_in: Run) -> None:
    found = {s["name"]: s for s in dropped_in("-c", COMMAND, "schemes", "--json")}
    assert found.keys() == {"key", "home-first"}
    assert found["home-first"]["parameters"] == {"slack": 100}
    assert found["home-first"]["summary"].startswith("Sends a key to its home by hash")


def test_dropped_file_passes_the_checks(dropped_in: Run) -> None:
    (report,) = dropped_in("-m", "evenflow.checks", "home-first", "--json")
    assert report["subject"] == "home-first"
    assert report["ok"]
    skipped = {o["check"] for o in report["outcomes"] if o["skipped"]}
    assert skipped == {"one_worker_a_key", "resizing_keeps_keys_whole"}  # it splits keys


def test_dropped_file_is_in_bench(dropped_in: Run) -> None:
    bench = dropped_in(
        "-c", COMMAND, "bench", "kernels", "--json", "--messages", "2000", "--rounds", "1"
    )
    assert bench["schemes"].keys() == {"key", "home-first"}
    assert bench["schemes"]["home-first"]["ratio"]["100"] > 0


def test_dropped_file_is_in_the_comparison(dropped_in: Run) -> None:
    comparison = dropped_in("-c", COMMAND, "compare", "--json", "--messages", "20000")
    results = {result["grouping"]: result for result in comparison["results"]}
    assert results.keys() == {"key", "home-first"}
    assert results["home-first"]["imbalance"] < results["key"]["imbalance"]


def test_dropped_file_stands_beside_all_others(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "evenflow", ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "evenflow" / "grouping" / "home_first.py"
    file.write_text(EXAMPLE, encoding="utf-8")
    found = runner(tmp_path, tmp_path)("-c", COMMAND, "schemes", "--json")
    assert {s["name"] for s in found} == {*schemes(), "home-first"}


def test_entry_point_of_another_package_adds_a_scheme(tmp_path: Path) -> None:
    (entry_point,) = re.findall(r'^home-first = "(.*)"$', PAGE, flags=re.MULTILINE)
    package = tmp_path / "their_schemes"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "home_first.py").write_text(EXAMPLE, encoding="utf-8")
    (tmp_path / "test_theirs.py").write_text(EXAMPLE_TEST, encoding="utf-8")
    # What installing such a package leaves behind.
    installed = tmp_path / "their_schemes-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: their-schemes\nVersion: 1.0\n"
    )
    (installed / "entry_points.txt").write_text(
        f"[evenflow.grouping]\nhome-first = {entry_point}\n"
    )

    run = runner(tmp_path, tmp_path, PACKAGE.parent)
    found = run("-c", COMMAND, "schemes", "--json")
    assert {s["name"] for s in found} == {*schemes(), "home-first"}
    use = "from evenflow.grouping import make; scheme = make('home-first:slack=7')"
    run_their_test = "from test_theirs import test_home_first_conforms as t; t()"
    printed = run("-c", f"{use}; {run_their_test}; print([scheme.slack])")
    assert printed == [7]


def test_page_lists_every_check() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", PAGE.partition("## The checks")[2], flags=re.MULTILINE)
    assert listed == [check.__name__ for check in GROUPING_CHECKS]
