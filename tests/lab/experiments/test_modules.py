"""Python files by path: installed ones are imported, the user's own are run."""

import sys

import pytest

from evenflow.model import InputError
from evenflow_lab.experiments.modules import load_module
from evenflow_lab.papers.smalops import terms


def test_a_file_of_an_installed_package_is_imported_under_its_name():
    from pathlib import Path

    assert load_module(Path(terms.__file__)) is terms


@pytest.mark.parametrize("package", [False, True])
def test_a_file_that_nothing_could_import_is_run(tmp_path, package):
    folder = tmp_path / "own_paper"
    folder.mkdir()
    if package:
        (folder / "__init__.py").write_text("")
    path = folder / "analysis.py"
    path.write_text("x = 1")
    assert load_module(path).x == 1
    assert load_module(path) is load_module(path)
    path.write_text("x = 2")
    assert load_module(path).x == 2
    assert "own_paper.analysis" not in sys.modules


def test_a_folder_called_like_an_installed_package_is_not_taken_for_it(tmp_path):
    folder = tmp_path / "evenflow_lab" / "papers" / "smalops"
    folder.mkdir(parents=True)
    for parent in (folder, folder.parent, folder.parent.parent):
        (parent / "__init__.py").write_text("")
    (folder / "terms.py").write_text("KEY = 'mine'")
    assert load_module(folder / "terms.py").KEY == "mine"
    assert terms.KEY == "key"


def test_a_mistake_names_the_file(tmp_path):
    path = tmp_path / "analysis.py"
    with pytest.raises(InputError, match=r"analysis\.py cannot be read"):
        load_module(path)
    path.write_text("1 / 0")
    with pytest.raises(InputError, match=r"analysis\.py cannot be loaded: ZeroDivisionError"):
        load_module(path)
