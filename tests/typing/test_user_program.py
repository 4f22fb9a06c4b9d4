"""What an editor and mypy know of the public surface: a whole program passes, ten mistakes do not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")
pytest.importorskip("pyspark")

HERE = Path(__file__).parent
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    """File → line → what `mypy --strict` says of it, as a user would run it: without our settings."""
    folder = tmp_path_factory.mktemp("typing")
    settings = folder / "mypy.ini"
    settings.write_text("[mypy]\n[mypy-pyarrow.*]\nignore_missing_imports = True\n")
    files = [HERE / "user_program.py", HERE / "planted_mistakes.py"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file", settings),
            *("--cache-dir", folder / "cache", "--no-error-summary"),
            *files,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert not done.stderr, done.stderr
    lines: dict[str, dict[int, str]] = {file.name: {} for file in files}
    for line in done.stdout.splitlines():
        found = re.match(r"(.*?):(\d+): error: (.*)", line)
        if found:
            lines.setdefault(Path(found[1]).name, {})[int(found[2])] = found[3]
    return lines


def test_a_program_with_the_whole_surface_passes_mypy_strict(reported):
    assert reported["user_program.py"] == {}
    assert set(reported) == {"user_program.py", "planted_mistakes.py"}


def test_every_planted_mistake_is_reported_and_nothing_else(reported):
    text = (HERE / "planted_mistakes.py").read_text(encoding="utf-8").splitlines()
    planted = {number for number, line in enumerate(text, 1) if line.endswith("# mistake")}
    assert len(planted) == 10
    assert set(reported["planted_mistakes.py"]) == planted, reported["planted_mistakes.py"]


def test_the_program_uses_every_public_name():
    import evenflow as ef

    text = (HERE / "user_program.py").read_text(encoding="utf-8")
    assert [name for name in ef.__all__ if f"ef.{name}" not in text] == []


def test_importing_evenflow_loads_nothing_heavy():
    code = (
        "import sys, evenflow as ef; ef.InputError; dir(ef)\n"
        "print([m for m in ('numba', 'pyspark', 'pyarrow', 'numpy') if m in sys.modules])\n"
        "ef.count()\n"
        "print([m for m in ('numba', 'pyspark') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n[]\n"


def test_every_public_name_is_there_and_others_are_not():
    import evenflow as ef

    for name in ef.__all__:
        assert getattr(ef, name) is not None
    assert dir(ef) == sorted(ef.__all__)
    with pytest.raises(AttributeError, match="no attribute 'sinks'"):
        ef.sinks  # noqa: B018
    for name in ef.grouping.__all__:
        assert getattr(ef.grouping, name) is not None
    exported = {getattr(ef.grouping, name) for name in ef.grouping.__all__}
    ours = {c for c in ef.grouping.schemes().values() if c.__module__.startswith("evenflow.")}
    assert ours <= exported
