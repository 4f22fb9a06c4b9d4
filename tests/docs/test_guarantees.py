"""The table of guarantees: every promise has a test, and every test that it names exists."""

import ast
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
PROMISES = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if NAMED.search(line)]


def functions_of(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("promise", PROMISES, ids=lambda line: line[2:50])
def test_the_tests_that_hold_a_promise_exist(promise):
    for file, name in NAMED.findall(promise):
        assert name in functions_of(PAGE.parents[1] / file), f"{file}::{name}"


def test_every_row_of_the_tables_names_what_it_rests_on_and_a_test():
    rows, inside = [], False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        inside = line.startswith("|") and (inside or line.startswith("| promise |"))
        if inside and not line.startswith(("| promise", "| ---")):
            rows.append(line)
    assert len(rows) == len(PROMISES) > 25
    for row in rows:
        promise, rests, tests = (cell.strip() for cell in row.strip("|").split("|"))
        assert promise
        assert rests
        assert NAMED.search(tests), promise
