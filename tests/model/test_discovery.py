"""A file adds an algorithm; names and parameters are read with clear errors."""

import importlib
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from evenflow import grouping, sketches
from evenflow.model import InputError, discovery
from evenflow.model.discovery import Catalogue, build, discover, look_up

MODULE = '''
from dataclasses import dataclass
from typing import ClassVar

@dataclass(frozen=True)
class Found:
    name: ClassVar[str] = {name!r}

class Helper:
    """Has no name: not an algorithm."""
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An empty package `shelf`; a file written into its folder is a module of it."""
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("shelf")
    for module in [name for name in sys.modules if name.split(".")[0] == "shelf"]:
        del sys.modules[module]


def add_file(package, file, text):
    (Path(package.__path__[0]) / file).write_text(text)
    importlib.invalidate_caches()


class Registered:
    name = "registered"


class Inherits(Registered):
    """No name of its own: a base class or a helper, not another algorithm."""


@dataclass(frozen=True)
class Tool:
    name: ClassVar[str] = "tool"

    size: int
    weight: float = 1.0
    parts: tuple[int, ...] = field(default_factory=tuple)
    made: str = field(default="here", init=False)


TOOLS = {"tool": Tool, "registered": Registered}


def test_a_file_adds_an_algorithm(package):
    assert discover("tools", package.__name__) == {}
    add_file(package, "saw.py", MODULE.format(name="saw"))
    add_file(
        package, "axe.py", MODULE.format(name="axe") + "\nfrom shelf.saw import Found as Saw\n"
    )
    found = discover("tools", package.__name__)
    assert list(found) == ["axe", "saw"]
    assert found["saw"].__module__ == "shelf.saw"


def test_another_package_registers_an_algorithm(package, monkeypatch):
    class Point:
        def __init__(self, loaded):
            self.load = lambda: loaded

    groups = {"shelf": [Point(Registered), Point(Inherits)]}
    monkeypatch.setattr(discovery, "entry_points", lambda group: groups[group])
    assert discover("tools", package.__name__) == {"registered": Registered}


def test_two_of_one_name_are_refused(package):
    add_file(package, "saw.py", MODULE.format(name="saw"))
    add_file(package, "axe.py", MODULE.format(name="saw"))
    with pytest.raises(InputError, match=r"two tools are called 'saw': shelf.axe and shelf.saw"):
        discover("tools", package.__name__)


def test_a_catalogue_finds_gets_and_makes_what_has_the_right_base(package):
    add_file(package, "saw.py", MODULE.format(name="saw"))
    add_file(package, "axe.py", MODULE.format(name="axe"))
    tools = Catalogue("tool", package.__name__)
    assert list(tools.all()) == ["axe", "saw"]
    assert isinstance(tools.make("saw"), tools.get("saw"))
    sharp = tools.get("saw")
    assert Catalogue("tool", package.__name__, base=sharp).all() == {"saw": sharp}
    with pytest.raises(InputError, match=r"no tool is called 'sew'; did you mean 'saw'\?"):
        tools.make("sew")


def test_an_unknown_name_gets_a_hint():
    with pytest.raises(InputError, match=r"no tool is called 'tol'; did you mean 'tool'\?"):
        look_up("tool", TOOLS, "tol")
    with pytest.raises(InputError, match="known: tool, registered"):
        look_up("tool", TOOLS, "xyzzy")


def test_parameters_are_read_from_text_and_keywords():
    assert build("tool", TOOLS, "tool:size=5", {}) == Tool(5)
    assert build("tool", TOOLS, " tool : size = 5 , weight = -2.5e1 ,", {}) == Tool(5, -25.0)
    assert build("tool", TOOLS, "tool:size=5", {"parts": (1, 2)}) == Tool(5, parts=(1, 2))
    assert build("tool", TOOLS, "tool:size=5", {"size": 4}) == Tool(5)
    assert build("tool", TOOLS, "tool:size=5,parts=true", {}).parts is True
    assert build("tool", TOOLS, "tool:size=5,parts=false", {}).parts is False
    assert isinstance(build("tool", TOOLS, "registered", {}), Registered)


@pytest.mark.parametrize("text", ["nan", "NaN", "inf", "-inf", "1E3"])
def test_any_number_that_python_reads_reaches_the_class(text):
    weight = build("tool", TOOLS, f"tool:size=1,weight={text}", {}).weight
    assert weight == float(text) or (math.isnan(weight) and "nan" in text.lower())


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("tool:size", "expected parameter=value after the colon, got 'size'"),
        ("tool:size=big", "size must be a number, got 'big'"),
        ("tool:size=", "size must be a number, got ''"),
        ("tool:size=1,colour=2", "'tool' has no parameter 'colour'; it takes size, weight, parts"),
        ("tool:size=1,made=2", "'tool' has no parameter 'made'"),
        ("tool", "'tool' needs size: write 'tool:size=…'"),
        ("registered:size=1", "'registered' has no parameter 'size'; it takes no parameters"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(spec, complaint):
    with pytest.raises(InputError) as error:
        build("tool", TOOLS, spec, {})
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_the_sketches_and_the_schemes_are_found():
    assert {"exact", "lossy-counting", "space-saving"} <= set(sketches.sketches())
    assert sketches.make("lossy-counting:epsilon=0.5") == sketches.make(
        "lossy-counting", epsilon=0.5
    )
    assert sketches.sketch_class("exact") is sketches.sketches()["exact"]
    for sketch in sketches.sketches().values():
        assert isinstance(sketch(), sketches.Sketch)
    assert grouping.make("greedy-d:d=5").d == 5
    with pytest.raises(InputError, match="no grouping scheme is called 'gredy-d'; did you mean"):
        grouping.make("gredy-d")
    with pytest.raises(InputError, match=r"epsilon .* got nan"):
        sketches.make("lossy-counting:epsilon=nan")
