"""Spark sessions: one of our own on this machine, and what the engine needs of any."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.model import InputError
from evenflow.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_VERSIONS = ((4, 1), (4, 2), (4, 3))

#: Spark's guard against a shuffle whose rows differ when one of its tasks is run again. By default,
#: Spark 4.1 has both off, newer versions have both on.
SHUFFLE_CHECKSUMS = (
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
)

# The names under which Spark's own shuffle goes.
_SORT_SHUFFLE = ("sort", "tungsten-sort", "org.apache.spark.shuffle.sort.sortshufflemanager")

_QUIET = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

# The level above is read late: until then the profile in this file speaks, or rather does not.
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOGGING = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"

# A call with a batch has a fixed price, in Arrow and in a kernel: Spark's own 10 000 rows are few for
# that. Spark also ends a batch at 64 MB, so wide rows do no harm.
_ARROW = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}

# Spark's Python notes for each expression which line made it, and takes as long again for that. Our
# expressions are built again in every batch.
_NO_LINES = {"spark.python.sql.dataFrameDebugging.enabled": "false"}

# Spark's usual way to write a stream's progress asks of every file whether it is a link, by a process
# (`readlink`), several times a batch. This one does not, and writes beside and renames just the same.
_NO_LINKS = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}


# Masters whose executors reach a driver that listens on loopback alone.
_ON_LOOPBACK = re.compile(r"local\b|spark://(127\.|localhost\b)")


def local_session(
    master: str | None = None, app: str = "evenflow", *, preload: bool = False, **conf: Any
) -> SparkSession:
    """Start Spark, quietly, with Java and this very Python found for it.

    Guarantee: it works without a network and on machines that cannot resolve their own name; where
    Spark does not start, an `InputError` says why in one line. The environment of this process is
    left as it was.

    Parameters:
        master: Spark's master, such as "local[4]" or "spark://host:7077"; None for all cores of this
            machine. On a cluster, tasks run under the Python that PYSPARK_PYTHON names, or else under
            the path of this one, which must have evenflow on every executor.
        app: the application's name.
        preload: import NumPy, Arrow and the kernels once, before Python workers are forked, and not
            in each of them. Executors must have evenflow installed.
        conf: Spark's own settings, which go before the ones made here.

    Example:
        >>> spark = local_session("local[4]", preload=True,
        ...                       **{"spark.sql.shuffle.partitions": 4})  # doctest: +SKIP
    """
    pyspark = _pyspark()
    if active_session() is not None:
        raise InputError(
            "a Spark session is running in this process already; use that one, or stop it first"
        )
    wanted = master or f"local[{os.cpu_count() or 1}]"
    java = find_java()
    # Workers of this machine must run this very interpreter, which has evenflow installed.
    environment = {
        "JAVA_HOME": None if java.home is None else str(java.home),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
    }
    settings = _QUIET | _ARROW | _NO_LINES
    if wanted.startswith("local"):
        environment["PYSPARK_PYTHON"] = sys.executable
        settings |= _NO_LINKS
    if _ON_LOOPBACK.match(wanted):
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if "EVENFLOW_PAPERS" in os.environ:
        settings["spark.executorEnv.EVENFLOW_PAPERS"] = os.environ["EVENFLOW_PAPERS"]
    if preload:
        settings["spark.python.daemon.module"] = "evenflow.spark.worker_daemon"
    settings |= {name: _spelled(value) for name, value in conf.items()}
    settings[_JAVA_OPTIONS] = f"{_LOGGING} {settings.get(_JAVA_OPTIONS, '')}".strip()
    builder = pyspark.sql.SparkSession.builder.master(wanted).appName(app)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        with _environment(environment):
            session: SparkSession = builder.getOrCreate()
    except Exception as error:
        raise InputError(f"Spark did not start with master {wanted!r}: {_reason(error)}") from error
    finally:
        # The builder is one for the whole process: without this, the next session of anybody in it
        # would have these settings too.
        builder._options.clear()
    session.sparkContext.setLogLevel(settings["spark.log.level"])
    return session


@contextmanager
def running_session(
    master: str | None = None, app: str = "evenflow", *, preload: bool = False, **conf: Any
) -> Iterator[SparkSession]:
    """The Spark session that is running in this process; else a `local_session` for a while.

    Guarantee: a session that was there is used as it is and left running; one that is started here
    is stopped at the end.

    Parameters:
        master, app, preload, conf: as in `local_session`, for one that is started here.
    """
    _pyspark()
    active = active_session()
    if active is not None:
        yield active
        return
    session = local_session(master, app, preload=preload, **conf)
    try:
        yield session
    finally:
        session.stop()


def active_session() -> SparkSession | None:
    """The Spark session that is running in this process, classic or Connect; None without one."""
    if "pyspark.sql" not in sys.modules:
        return None
    pyspark = _pyspark()
    try:
        session: SparkSession = pyspark.sql.SparkSession.active()
    except pyspark.errors.PySparkException:
        return None
    return session


def check_session(spark: SparkSession) -> None:
    """Refuse a session on which the engine could not keep its promises.

    It needs `repartitionById`, and shuffles whose checksum does not depend on the order of rows:
    without them, a task that is run again could send a row to a second partition, or to none, unseen.
    Its tasks need a Python that has this package.

    Guarantee: the checksums are on afterwards. Where Spark's default is off (4.1) and nobody has set
    them, they are switched on for this session; where somebody has switched them off, it is refused.

    Parameters:
        spark: a session, classic or Connect.
    """
    check_version(spark.version)
    for name in SHUFFLE_CHECKSUMS:
        if spark.conf.get(name) == "true":
            continue
        if spark.conf.get(name, None) is not None:
            raise InputError(
                f"{name} is false, and must be true, because exactly-once rests on it; set it with "
                f"spark.conf.set({name!r}, 'true'), or drop the setting"
            )
        spark.conf.set(name, "true")
    _check_shuffle(spark)
    _check_tasks_python(spark)


def _check_shuffle(spark: SparkSession) -> None:
    """Refuse ways to shuffle under which Spark's checksums are not made, or do not lead to a retry."""
    manager = str(spark.conf.get("spark.shuffle.manager", "sort"))
    if manager.lower() not in _SORT_SHUFFLE:
        raise InputError(
            f"spark.shuffle.manager is {manager}, and must be sort, because only Spark's own shuffle "
            "has the checksums that exactly-once rests on; start the session without this setting"
        )
    push, service = (
        spark.conf.get(f"spark.shuffle.{name}.enabled", "false") for name in ("push", "service")
    )
    for name, harmful, why in (
        (
            "spark.shuffle.push.enabled",
            push == service == "true",
            "with push-based shuffle Spark does not run the following stages again when a checksum "
            "differs",
        ),
        (
            "spark.shuffle.useOldFetchProtocol",
            spark.conf.get("spark.shuffle.useOldFetchProtocol", "false") == "true",
            "with the old protocol a task may fetch rows of two attempts at once",
        ),
    ):
        if harmful:
            raise InputError(
                f"{name} is true, and must be false, because {why}, and exactly-once rests on that; "
                f"start the session with --conf {name}=false"
            )


def _check_tasks_python(spark: SparkSession) -> None:
    """Refuse a local session whose tasks run under a Python without this package.

    That is what a program has that is started as `.venv/bin/python program.py`, with the environment
    not activated and no PYSPARK_PYTHON: Spark then starts the `python3` of the PATH. On a cluster only
    its executors can tell.
    """
    try:
        context = spark.sparkContext
    except Exception:  # Spark Connect: the server has its own Python
        return
    used = str(getattr(context, "pythonExec", sys.executable))
    found = shutil.which(used)
    if not str(context.master).startswith("local") or found is None or has_evenflow(found):
        return
    raise InputError(
        f"Spark's tasks run under {found}, which does not have evenflow; set PYSPARK_PYTHON to "
        f"{sys.executable} before the session starts (or activate the environment), or start it with "
        "evenflow.spark.session.local_session()"
    )


@cache
def has_evenflow(python: str) -> bool:
    """Whether a Python on this machine has this package."""
    if os.path.abspath(python) == os.path.abspath(sys.executable):
        return True
    asked = "import importlib.util as u, sys; sys.exit(u.find_spec('evenflow') is None)"
    return subprocess.run([python, "-c", asked], capture_output=True).returncode == 0


def check_version(version: str) -> None:
    """Refuse a version of Spark that the engine has not been tested with.

    Example:
        >>> check_version("4.3.0")
        >>> check_version("3.5.1")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        evenflow.model.errors.InputError: Spark is 3.5.1, and evenflow runs on 4.1, 4.2 and 4.3; ...
    """
    match = re.match(r"(\d+)\.(\d+)", version)
    install = "pip install 'evenflow[spark]', and the same version on the cluster"
    if match is None or (int(match[1]), int(match[2])) not in SPARK_VERSIONS:
        *others, newest = (f"{major}.{minor}" for major, minor in SPARK_VERSIONS)
        known = f"{', '.join(others)} and {newest}"
        raise InputError(f"Spark is {version}, and evenflow runs on {known}; {install}")
    if re.match(r"4\.1\.0\b", version):
        raise InputError(
            "Spark is 4.1.0, and evenflow needs 4.1.1 or newer, because 4.1.0 does not always run the "
            "following stages again when a shuffle's checksum differs (SPARK-54556), and exactly-once "
            f"rests on that; {install}"
        )


def _pyspark() -> Any:
    try:
        import pyspark.sql
    except ImportError:
        raise InputError(
            "Spark is needed for this and pyspark is not installed; pip install 'evenflow[spark]'"
        ) from None
    return pyspark


@contextmanager
def _environment(changes: dict[str, str | None]) -> Iterator[None]:
    """Environment variables while Spark starts, which alone reads them; None for not set."""
    before = {name: os.environ.get(name) for name in changes}
    _put(changes)
    try:
        yield
    finally:
        _put(before)


def _put(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _spelled(value: object) -> str:
    """As Spark spells it: true, not True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _reason(error: Exception) -> str:
    # The second line of a Java error is the one that says something.
    lines = [line.strip(": ") for line in str(error).splitlines() if line.strip(": ")]
    return lines[min(1, len(lines) - 1)] if lines else type(error).__name__
