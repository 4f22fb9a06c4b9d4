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


UNPROTECTED = """
import json
from evenflow import InputError
from evenflow.spark.session import check_session, local_session

for settings in {settings!r}:
    spark = local_session("local[1]", **settings)
    try:
        check_session(spark)
        print("accepted")
    except InputError as error:
        print(error)
    spark.stop()
"""


def test_settings_under_which_checksums_do_not_protect_are_refused_in_one_sentence(tmp_path):
    push = {"spark.shuffle.push.enabled": "true"}
    settings = [
        {"spark.shuffle.manager": "SORT", **push},  # pushes nothing without the service
        {"spark.shuffle.manager": "org.apache.spark.shuffle.sort.SortShuffleManager"},
        {"spark.shuffle.service.enabled": "true", **push},
        {"spark.shuffle.useOldFetchProtocol": "true"},
    ]
    program = tmp_path / "program.py"
    program.write_text(UNPROTECTED.format(settings=settings))
    ended = subprocess.run([sys.executable, program], capture_output=True, text=True)
    one, other, pushed, old = ended.stdout.splitlines()
    assert (one, other) == ("accepted", "accepted")
    assert pushed.startswith("spark.shuffle.push.enabled is true, and must be false, because")
    assert old.startswith("spark.shuffle.useOldFetchProtocol is true, and must be false, because")


def test_another_shuffle_than_sparks_own_is_refused(spark):
    """A class that this machine does not have, so the session only seems to be started with it."""
    from evenflow import InputError
    from evenflow.spark.session import check_session

    class Pretending:
        version = spark.version

        class conf:
            @staticmethod
            def get(name, default=None):
                if name == "spark.shuffle.manager":
                    return "org.apache.spark.shuffle.celeborn.SparkShuffleManager"
                return (
                    spark.conf.get(name, default) if default is not None else spark.conf.get(name)
                )

    with pytest.raises(
        InputError, match=r"celeborn.SparkShuffleManager, and must be sort, because"
    ):
        check_session(Pretending)
