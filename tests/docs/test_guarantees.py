"""Guarantees and findings: every promise and every mend has a test, and the tests they name exist."""

import ast
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
PROMISES = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if NAMED.search(line)]
FINDINGS = PAGE.with_name("findings.md").read_text(encoding="utf-8").splitlines()


def functions_of(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("promise", PROMISES, ids=lambda line: line[2:50])
def test_the_tests_that_hold_a_promise_exist(promise):
    for file, name in NAMED.findall(promise):
        assert name in functions_of(PAGE.parents[1] / file), f"{file}::{name}"


def test_every_finding_has_a_mend_and_a_test_that_exists():
    rows = [line.strip("|").split("|") for line in FINDINGS if re.match(r"\| (\d+ )?\| ", line)]
    rows = [row for row in rows if row[1] != " what was wrong "]
    for number, wrong, mend, tests, before in rows:
        assert wrong.strip(), number
        assert "`" in mend or "before" in mend, wrong
        assert before.strip(), wrong
        assert NAMED.search(tests), wrong
        for file, name in NAMED.findall(tests):
            assert name in functions_of(PAGE.parents[1] / file), f"{file}::{name}"
    assert {number.strip() for number, *_ in rows} - {""} == set(map(str, range(1, 23)))


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
