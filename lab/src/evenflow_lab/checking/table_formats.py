"""A Spark with Delta and Iceberg, beside the installed one.

Their jars are built for one minor version of Spark each and come some months after it: with Spark 4.3
neither loads. So tests of them start a process with an older pyspark before the installed one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from evenflow.model import InputError
from evenflow.spark.jars import OFFLINE, cache_folder, only_one
from evenflow_lab.checking.store_jars import JARS

_LOCK = Path(__file__).with_name("spark-4.1.lock")
_VERSION = "4.1"


def table_environment() -> dict[str, str]:
    """The environment variables of a Python process whose pyspark has releases of Delta and Iceberg.

    Guarantee: the package is installed once, into the user's cache, with the hashes of the lock file;
    the installed pyspark is left as it is.
    """
    found = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(_pyspark()), *([found] if found else [])])}


def table_settings(warehouse: str | Path) -> dict[str, Any]:
    """Spark's settings for Delta tables, and for Iceberg tables in the catalog `lake`.

    Parameters:
        warehouse: the directory of all tables.
    """
    jars = [*JARS.archives(f"delta-{_VERSION}"), *JARS.archives(f"iceberg-{_VERSION}")]
    extensions = (
        "io.delta.sql.DeltaSparkSessionExtension",
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    )
    return {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.extensions": ",".join(extensions),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": f"{warehouse}/lake",
        "spark.sql.warehouse.dir": f"{warehouse}/spark",
        # Delta reads its log in 50 tasks, and a small one takes as long as its tasks do.
        "spark.databricks.delta.snapshotPartitions": 1,
    }


def _pyspark() -> Path:
    cache = cache_folder("pyspark")
    home = cache / _VERSION / _LOCK.read_text().split("sha256:")[1][:12]
    if not home.is_dir():
        if os.environ.get(OFFLINE):
            raise InputError(
                f"pyspark {_VERSION} is not on this machine, and {OFFLINE} is set; unset it"
            )
        home.parent.mkdir(parents=True, exist_ok=True)
        with only_one(cache / "lock"):
            if not home.is_dir():
                _install(home)
    return home


def _install(home: Path) -> None:
    unfinished = tempfile.mkdtemp(dir=home.parent, prefix="unfinished-")
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *("--require-hashes", "--no-deps", "--target", unfinished, "-r", str(_LOCK)),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:]
            raise InputError(f"pyspark {_VERSION} could not be installed: {''.join(last)}")
        os.rename(unfinished, home)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
