"""Java archives that Kafka needs: which, fetched how, checked how, kept where."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from evenflow.model import InputError
from evenflow.spark.java import find_java

#: The environment variable that names a folder with all archives in it, for machines that cannot
#: fetch any.
JARS_FOLDER = "EVENFLOW_KAFKA_JARS"
#: The environment variable that says that nothing may be fetched, and tests may be skipped.
OFFLINE = "EVENFLOW_OFFLINE"

_LOCK = Path(__file__).with_name("jars.lock")
_LONGEST_FETCH = 900.0  # seconds
_OVERRIDES = "ivy.default.ivy.user.dir"  # keeps Ivy out of the home directory

Report = Callable[[str, int, int], None]  #: (what is being fetched, archives done, archives in all)


@dataclass(frozen=True)
class Archive:
    """One Java archive of a public repository.

    Parameters:
        group, name, version: as repositories name it.
        digest: the SHA-256 of its bytes, in hexadecimal.

    Example:
        >>> Archive("org.apache.kafka", "kafka_2.13", "4.2.1", "00").file
        'kafka_2.13-4.2.1.jar'
    """

    group: str
    name: str
    version: str
    digest: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


def locked(group: str) -> list[Archive]:
    """The archives that `jars.lock` names under a heading.

    Parameters:
        group: the heading, such as "broker".

    Example:
        >>> [archive.version for archive in locked("broker") if archive.name == "kafka-raft"]
        ['4.2.1']
    """
    found: dict[str, list[Archive]] = {}
    for line in _LOCK.read_text().splitlines():
        heading = re.fullmatch(r"\[(.+)\]", line)
        if heading:
            found[heading[1]] = []
        elif line and not line.startswith("#"):
            digest, place = line.split()
            group_id, name, version = place.split(":")
            found[list(found)[-1]].append(Archive(group_id, name, version, digest))
    return found[group]


def archives(group: str, report: Report | None = None) -> list[Path]:
    """The archives of a group as files, fetched if this machine does not have them yet.

    Guarantee: every file has the SHA-256 that `jars.lock` states, when it was fetched. They appear in
    the cache all at once, so that processes that fetch at the same time, or are killed while they
    do, do no harm. Nothing is written outside the cache.

    Fetched by Ivy, which comes with pyspark, from the repository that Ivy takes by default; where
    that fails, by `mvn` with the user's settings. `EVENFLOW_KAFKA_JARS` names a folder that is used
    instead of both; with `EVENFLOW_OFFLINE` set, nothing is fetched.

    Parameters:
        group: a heading of `jars.lock`.
        report: called with what is being fetched.

    Example:
        >>> [path.name for path in archives("broker")]  # doctest: +SKIP
    """
    wanted = locked(group)
    given = os.environ.get(JARS_FOLDER)
    if given:
        _check(wanted, Path(given), f"{JARS_FOLDER} is {given!r}, and")
        return [Path(given, archive.file) for archive in wanted]
    cache = _cache()
    digest = hashlib.blake2b("".join(archive.digest for archive in wanted).encode(), digest_size=6)
    home = cache / f"{group}-{digest.hexdigest()}"
    if not home.is_dir():
        if os.environ.get(OFFLINE):
            raise InputError(
                f"Kafka's archives ({group}) are not on this machine, and {OFFLINE} is set; unset it, "
                f"or set {JARS_FOLDER} to a folder that has the files named in {_LOCK.name}"
            )
        cache.mkdir(parents=True, exist_ok=True)
        with _only_one(cache / f"{group}.lock"):
            if not home.is_dir():
                _fetch(group, wanted, home, report or (lambda what, done, total: None))
    return [home / archive.file for archive in wanted]


def connector_jars(report: Report | None = None) -> list[Path]:
    """Spark's own Kafka source and sink, for the setting `spark.jars` of a new session.

    Guarantee: as `archives`. A session that has them reads and writes `format("kafka")`; on a cluster
    that has the connector of its own version, use that instead.

    Example:
        >>> jars = connector_jars()  # doctest: +SKIP
        >>> spark = local_session(**{"spark.jars": ",".join(map(str, jars))})  # doctest: +SKIP
    """
    return archives("connector", report)


def _fetch(group: str, wanted: list[Archive], home: Path, report: Report) -> None:
    made = Path(tempfile.mkdtemp(dir=home.parent, prefix="unfinished-"))
    failures = []
    try:
        for fetch in (_by_ivy, _by_maven):
            shutil.rmtree(made / "jars", ignore_errors=True)
            reason = fetch(wanted, made, report)
            if reason is None:
                _check(wanted, made / "jars", f"what was fetched for {group} is not right:")
                os.rename(made / "jars", home)
                return
            failures.append(reason)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    raise InputError(
        f"Kafka's archives ({group}, {len(wanted)} files) could not be fetched: {'; '.join(failures)}. "
        f"Give this machine a way to a Maven repository (mvn takes mirrors and proxies from its "
        f"settings), or set {JARS_FOLDER} to a folder that has the files named in {_LOCK.name}"
    )


def _by_ivy(wanted: list[Archive], folder: Path, report: Report) -> str | None:
    """Why it failed; None if it did not."""
    ivy = _ivy()
    if ivy is None:
        return "pyspark, which brings Ivy, is not installed"
    module = folder / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="evenflow" module="kafka"/>'
        '<configurations><conf name="default"/></configurations><dependencies>'
        + "".join(
            f"<dependency org={quoteattr(a.group)} name={quoteattr(a.name)} "
            f'rev={quoteattr(a.version)} conf="default->master" transitive="false"/>'
            for a in wanted
        )
        + "</dependencies></ivy-module>"
    )
    command = [
        str(find_java().executable),
        f"-D{_OVERRIDES}={folder / 'ivy'}",
        "-jar",
        str(ivy),
        *("-cache", str(folder / "cache"), "-m2compatible", "-ivy", str(module)),
        *("-confs", "default", "-types", "jar", "bundle", "eclipse-plugin"),
        *("-retrieve", f"{folder / 'jars'}/[artifact]-[revision].[ext]"),
    ]
    return _run("Ivy", command, r"\[SUCCESSFUL \] [^#]*#(\S+);", len(wanted), folder, report)


def _by_maven(wanted: list[Archive], folder: Path, report: Report) -> str | None:
    """Why it failed; None if it did not."""
    maven = shutil.which("mvn")
    if maven is None:
        return "there is no mvn on the PATH"
    pom = folder / "pom.xml"
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>evenflow</groupId>"
        "<artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging><dependencies>"
        + "".join(
            f"<dependency><groupId>{a.group}</groupId><artifactId>{a.name}</artifactId>"
            f"<version>{a.version}</version><exclusions><exclusion><groupId>*</groupId>"
            "<artifactId>*</artifactId></exclusion></exclusions></dependency>"
            for a in wanted
        )
        + "</dependencies></project>"
    )
    command = [
        maven,
        *("--batch-mode", "--strict-checksums", "--file", str(pom)),
        f"-Dmaven.repo.local={folder / 'repository'}",
        "dependency:copy-dependencies",
        "-DexcludeTransitive=true",
        f"-DoutputDirectory={folder / 'jars'}",
    ]
    return _run("mvn", command, r"Downloaded from [^:]*: \S*/(\S+)\.jar", 0, folder, report)


def _run(
    who: str, command: list[str], line_of_one: str, total: int, folder: Path, report: Report
) -> str | None:
    done, told = 0, []
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        report(f"asking {who}", 0, total)
        try:
            for line in process.stdout:
                told.append(line.strip())
                one = re.search(line_of_one, line)
                if one:
                    done += 1
                    report(one[1], done, total)
            code = process.wait(_LONGEST_FETCH)
        except BaseException:
            process.kill()
            raise
    if code == 0 and (folder / "jars").is_dir():
        return None
    signs = ("error", "fail", "not found", "unknown host", "refused")
    reasons = [line for line in told if any(sign in line.lower() for sign in signs)]
    return f"{who} ended with code {code} ({(reasons or told or ['it said nothing'])[-1][:200]})"


def _check(wanted: list[Archive], folder: Path, preface: str) -> None:
    missing = [archive.file for archive in wanted if not (folder / archive.file).is_file()]
    if missing:
        raise InputError(f"{preface} {len(missing)} files are missing there, first {missing[0]}")
    for archive in wanted:
        with open(folder / archive.file, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != archive.digest:
            raise InputError(
                f"{preface} {archive.file} has the SHA-256 {found}, and {archive.digest} was expected"
            )


def _ivy() -> Path | None:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar"))
    return found[-1] if found else None


def _cache() -> Path:
    from evenflow.kernels.jit import cache_directory

    kernels = cache_directory()
    if kernels is None:
        raise InputError(
            "there is no folder for Kafka's archives: neither the user's cache nor the temporary "
            "directory can be written; set EVENFLOW_CACHE_DIR to a directory that can be"
        )
    return kernels.parents[1] / "kafka"


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """One process at a time; the lock ends with the process that has it."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
