"""The documentation keeps its word: examples run, links lead somewhere, nothing is out of date."""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import json
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenflow import __version__
from evenflow.cli.app import main
from evenflow.grouping import schemes

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
# Its examples are run by test_add_a_scheme.py, in a package of their own.
WITH_EXAMPLES = [page for page in PAGES if page.name != "add_a_scheme.md"]

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXAMPLE = re.compile(
    r"^```python\n(.*?)^```$(?:\s*^```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def script(name: str) -> ModuleType:
    """docs/NAME.py as a module."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def python_examples() -> list[tuple[str, str, str | None]]:
    """(name, code, output) of each Python block; its output, if a text block follows at once."""
    found = []
    for page in WITH_EXAMPLES:
        text = page.read_text(encoding="utf-8")
        for block in EXAMPLE.finditer(text):
            line = text[: block.start()].count("\n") + 1
            found.append((f"{name_of(page)}:{line}", block[1], block[2]))
    return found


EXAMPLES = python_examples()


def test_readme_and_concepts_have_examples():
    assert {name.partition(":")[0] for name, _, _ in EXAMPLES} >= {"docs/concepts.md"}


@pytest.mark.parametrize(
    ("code", "output"), [e[1:] for e in EXAMPLES], ids=[e[0] for e in EXAMPLES]
)
def test_python_blocks_run_and_print_what_stands_below_them(code, output):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<example>", "exec"), {"__name__": "example"})
    if output is not None:
        assert printed.getvalue() == output


def readme_commands() -> list[str]:
    """The lines of the README that begin with `evenflow`, without their comments."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8").partition("<!-- end -->")[2]
    blocks = [code for language, code in FENCE.findall(readme) if language == "sh"]
    lines = [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("evenflow ")]


@pytest.mark.parametrize("command", readme_commands())
def test_command_lines_of_the_readme_run(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"page": ["home", "cart"]}), "clicks.parquet")
    shorter = {"simulate": ["--messages", "1000"], "bench": ["--messages", "1000", "--rounds", "1"]}
    _, name, *arguments = command.split()
    assert main([name, *arguments, *shorter.get(name, []), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name_of)
def test_every_fence_says_what_it_holds(page):
    """A block without a language, or with a new one, would be run by nobody."""
    languages = {block[1] for block in FENCE.finditer(page.read_text(encoding="utf-8"))}
    run = {"python", "python delta", "python kafka", "python spark", "pycon"}
    assert languages <= run | {"text", "toml", "sh", "dockerfile"}


@pytest.mark.parametrize("page", sorted((DOCS / "reference").glob("*.md")), ids=name_of)
def test_reference_examples_run_as_printed(page):
    """With the imports that the page shows, and not only inside of their modules."""
    runner = doctest.DocTestRunner(verbose=False)
    for language, code in FENCE.findall(page.read_text(encoding="utf-8")):
        if language == "pycon":
            test = doctest.DocTestParser().get_doctest(code, {}, page.name, str(page), 0)
            said: list[str] = []
            assert not runner.run(test, out=said.append).failed, "".join(said)


def test_reference_is_fresh():
    made = script("build").pages()
    assert {path.name for path in (DOCS / "reference").iterdir()} == {p.name for p in made}
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is old; run 'make docs'"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_internal_links_resolve(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_file(), f"{target}: there is no such file"
        assert file.is_relative_to(ROOT), f"{target} leads out of the project"
        if anchor:
            assert anchor in anchors(file), f"{target}: there is no such heading"


def test_all_pages_can_be_reached_from_the_readme():
    reached, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            if "://" not in target and target.partition("#")[0]:
                left.append((page.parent / target.partition("#")[0]).resolve())
    assert reached == set(PAGES)


def test_readme_lists_every_scheme_with_its_symbol():
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Schemes")[2]
    listed = dict(re.findall(r"^\| `([\w-]+)` \| ([\w-]+) \|", text, re.MULTILINE))
    shipped = {n: s for n, s in schemes().items() if s.__module__.startswith("evenflow.")}
    assert listed == {name: scheme.symbol for name, scheme in shipped.items()}


def test_changelog_has_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{__version__}]" in changelog


def test_measured_blocks_stand_where_the_script_writes_them():
    measure = script("measure")
    marked = {
        (name, name_of(page))
        for page in PAGES
        for name in re.findall(r"^<!-- measured: (.*) -->$", page.read_text("utf-8"), re.MULTILINE)
    }
    assert marked == {(name, block.page) for name, block in measure.BLOCKS.items()}
    for name, block in measure.BLOCKS.items():
        (found,) = measure.pattern(name).findall((ROOT / block.page).read_text(encoding="utf-8"))
        assert "| --- |" in found, f"{name} is empty; run 'python docs/measure.py {name}'"


def test_readme_shows_what_compare_measures():
    measure = script("measure")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = measure.pattern("compare").findall(readme)
    assert shown == measure.compare(), "run 'python docs/measure.py compare'"


# What only one machine, or only one installation, could follow.
PRIVATE = {
    "a package index or its address": (
        r"(index-url|find-links|trusted-host)[ =]+\S*[/.]"
        r"|\b(pypi|pythonhosted|npmjs|maven|artifactory|nexus|jfrog)[\w-]*\.(org|com|io|net)\b"
    ),
    "an absolute path of a machine": r"(?<![\w.~)}/])/(home|root|Users|work|mnt|media|tmp|opt)/\w",
    "a folder outside of the project": r"\.\./(\.\./)*shared",
}


def committed_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listing.returncode:
        pytest.skip("not a git checkout")
    files = [ROOT / name for name in listing.stdout.split("\0") if name]
    assert ROOT / "pyproject.toml" in files
    return [file for file in files if file.is_file() and file != Path(__file__).resolve()]


@pytest.mark.parametrize("what", PRIVATE)
def test_committed_files_can_be_followed_elsewhere(what):
    for file in committed_files():
        text = file.read_bytes().decode("utf-8", errors="replace")
        found = re.search(PRIVATE[what], text)
        assert found is None, f"{name_of(file)} has {what}: {found[0]!r}"


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("a package index or its address", "--index-url https://packages.example/simple"),
        ("a package index or its address", "url = https://files.pythonhosted.org/x.whl"),
        ("an absolute path of a machine", "open('/home/ada/clicks.csv')"),
        ("a folder outside of the project", "see ../shared/notes.md"),
    ],
)
def test_private_things_would_be_found(what, line):
    assert re.search(PRIVATE[what], line)
