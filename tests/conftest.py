"""What all tests share: hypothesis' settings, and one Spark session for those that need one."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples in every run; and no deadline: the first call of a kernel may compile it.
settings.register_profile("evenflow", derandomize=True, deadline=None)
settings.load_profile("evenflow")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    """All Spark tests go to one process of `pytest -n`, so that one JVM serves them all."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark():
    """A local Spark session with two threads."""
    home = os.environ.get("JAVA_HOME")
    if not (home and Path(home, "bin", "java").exists()) and not shutil.which("java"):
        pytest.skip("no Java: neither $JAVA_HOME/bin/java nor java on the PATH")
    sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        sql.SparkSession.builder.master("local[2]")
        .appName("evenflow tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    yield session
    session.stop()
