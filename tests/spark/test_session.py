"""Sessions that somebody else started: what is refused before the first row."""

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
from pyspark.sql import SparkSession
import evenflow as ef

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    ef.keyed(spark.range(3), "id").balance("key").agg(n=ef.count()).collect()
except ef.InputError as error:
    print(error)
"""


@pytest.mark.long
def test_a_session_whose_tasks_run_under_another_python_is_refused_in_one_line(tmp_path):
    """A program started as `.venv/bin/python program.py`, with the environment not activated."""
    other = tmp_path / "python3"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    other.chmod(0o755)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    env = {name: value for name, value in os.environ.items() if name not in names}
    ended = subprocess.run(
        [sys.executable, program], env={**env, "PATH": path}, capture_output=True, text=True
    )
    (line,) = ended.stdout.splitlines()
    assert f"tasks run under {other}, which does not have evenflow" in line
    assert f"set PYSPARK_PYTHON to {sys.executable}" in line
