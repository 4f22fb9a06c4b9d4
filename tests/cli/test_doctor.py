"""`evenflow doctor`: every check can fail, says what to do, and decides the exit code."""

import json
import os
import sys

import pytest

from evenflow.cli import app
from evenflow.model import InputError
from evenflow.spark import requirements
from evenflow.spark.requirements import Check


def answers(monkeypatch, *checks):
    monkeypatch.setattr(requirements, "examine", lambda *_: iter(checks))


def test_a_problem_makes_exit_code_1_and_is_reported_with_its_remedy(monkeypatch, capsys):
    answers(
        monkeypatch,
        Check("Python", "ok", "3.12"),
        Check("cores", "warning", "1", "take two"),
        Check("Java", "problem", "none", "pip install 'evenflow[java]'"),
    )
    assert app.main(["doctor"]) == 1
    printed = capsys.readouterr().out
    (line,) = [line.split(maxsplit=3) for line in printed.splitlines() if "Java" in line]
    assert [part.strip() for part in line] == [
        "problem",
        "Java",
        "none",
        "pip install 'evenflow[java]'",
    ]
    assert printed.endswith("evenflow cannot be used here: 1 problem.\n")
    assert app.main(["doctor", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["usable"] is False
    assert answer["checks"][1] == {
        "name": "cores",
        "verdict": "warning",
        "found": "1",
        "advice": "take two",
    }


def test_warnings_alone_make_exit_code_0(monkeypatch, capsys):
    answers(monkeypatch, Check("cores", "warning", "1", "take two"))
    assert app.main(["doctor"]) == 0
    assert capsys.readouterr().out.endswith("evenflow can be used here; 1 warning.\n")


def test_each_package_is_checked_against_its_bounds(monkeypatch):
    wanted = [
        "numpy>=2",
        "rich>=999",
        "no-such-package>=1",
        "pyspark<4.4,>=4.1.1; extra == 'spark'",
    ]
    wanted.append("also-missing; extra == 'kafka'")
    monkeypatch.setattr(requirements.metadata, "requires", lambda name: wanted)
    monkeypatch.setattr(
        requirements.metadata,
        "version",
        lambda name: {"numpy": "2.4", "rich": "15.0", "pyspark": "4.1.0"}.get(name) or missing(),
    )

    def missing():
        raise requirements.metadata.PackageNotFoundError

    assert list(requirements.packages()) == [
        Check("numpy", "ok", "2.4"),
        Check("rich", "problem", "15.0, where >=999 is needed", "pip install --upgrade 'evenflow'"),
        Check("no-such-package", "problem", "not installed", "pip install --upgrade 'evenflow'"),
        Check(
            "pyspark",
            "problem",
            "4.1.0, where <4.4,>=4.1.1 is needed",
            "pip install --upgrade 'evenflow[spark]'",
        ),
    ]


def test_this_machine_has_the_packages():
    assert {check.verdict for check in requirements.packages()} == {"ok"}


def test_java_that_is_missing_is_a_problem_with_a_remedy(monkeypatch):
    def none():
        raise InputError("Spark needs Java 17 or newer: none; pip install 'evenflow[java]'")

    monkeypatch.setattr(requirements, "find_java", none)
    check = requirements.java()
    assert (check.verdict, check.advice) == ("problem", "pip install 'evenflow[java]'")


def test_a_session_without_an_activated_environment_is_a_warning(monkeypatch, tmp_path):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    assert requirements.worker_python().verdict == "ok"
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    check = requirements.worker_python()
    assert check.verdict == "warning"
    assert f"{bare}, which does not have evenflow" in check.found
    assert check.advice.endswith(f"export PYSPARK_PYTHON={sys.executable}")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert "no python3 is on the PATH" in requirements.worker_python().found


def test_the_python_of_the_tasks(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert requirements.worker_python().verdict == "ok"
    monkeypatch.setenv("PYSPARK_PYTHON", "/bin/sh")
    assert "does not have evenflow" in requirements.worker_python().found
    assert requirements.worker_python().verdict == "problem"
    monkeypatch.setenv("PYSPARK_PYTHON", "/no/such/python")
    assert requirements.worker_python().verdict == "problem"


def test_the_python_that_an_environment_was_made_from_is_not_the_environment(monkeypatch):
    """Its name leads to the same file, and it has none of the environment's packages."""
    made_from = os.path.realpath(sys.executable)
    if made_from == sys.executable:
        pytest.skip("this Python is not in a virtual environment")
    monkeypatch.setenv("PYSPARK_PYTHON", made_from)
    assert requirements.worker_python().verdict == "problem"


def test_a_cache_that_cannot_be_written_is_a_warning(monkeypatch):
    from evenflow.kernels import jit

    monkeypatch.setattr(jit, "cache_directory", lambda: None)
    assert requirements.kernel_cache().verdict == "warning"


def test_space_and_memory_and_cores(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "missing"))
    assert requirements.temporary_space().verdict == "problem"
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(requirements, "_LITTLE_DISK", 2**70)
    assert requirements.temporary_space().verdict == "warning"
    monkeypatch.setattr(requirements, "_LITTLE_MEMORY", 2**70)
    assert requirements.memory().verdict == "warning"
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)
    assert requirements.cores().verdict == "warning"


def test_spark_that_does_not_start_is_a_problem(monkeypatch):
    def fails(*_):
        raise InputError("Spark did not start with master 'local[2]': no room; make room")

    monkeypatch.setattr(requirements, "running_session", fails)
    (check,) = requirements.spark_checks()
    assert (check.verdict, check.advice) == ("problem", "make room")


@pytest.mark.spark
def test_a_job_of_the_engines_shape_runs_and_the_store_is_tried(spark, tmp_path):
    check, store = requirements.spark_checks(location=str(tmp_path / "ckpt"))
    assert store == Check("checkpoint location", "ok", str(tmp_path / "ckpt"))
    assert check == Check(
        "Spark", "ok", f"{spark.version} starts; eight rows reached their partitions"
    )


@pytest.mark.spark
def test_a_location_that_cannot_be_written_is_a_problem(spark, tmp_path):
    (tmp_path / "file").write_text("")
    checks = list(requirements.spark_checks(location=str(tmp_path / "file" / "ckpt")))
    assert [check.verdict for check in checks] == ["ok", "problem"]
    assert str(tmp_path / "file") in checks[1].found
