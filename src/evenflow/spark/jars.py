"""Downloads, verifies and caches Java archives that are listed with their checksums in a lock file."""

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

#: The environment variable that forbids downloads; tests that need one are then skipped.
OFFLINE = "EVENFLOW_OFFLINE"

_LONGEST_FETCH = 900.0  # seconds
_OVERRIDES = "ivy.default.ivy.user.dir"  # keeps Ivy out of the home directory

Report = Callable[[str, int, int], None]  #: (current archive, archives done, total)


@dataclass(frozen=True)
class Archive:
    """One Java archive of a public repository.

    Parameters:
        group, name, version: its Maven coordinates.
        digest: its SHA-256, in hexadecimal.

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


@dataclass(frozen=True)
class JarLock:
    """A lock file: under each heading the archives of one purpose, with their SHA-256.

    Parameters:
        path: the file.
        product: whose archives they are, such as "Kafka"; it names their folder in the cache, too.
        folder_variable: the environment variable for a folder with all archives, for machines without
            network access.

    Example:
        >>> from evenflow.kafka.artifacts import JARS
        >>> [archive.version for archive in JARS.locked("broker") if archive.name == "kafka-raft"]
        ['4.2.1']
    """

    path: Path
    product: str
    folder_variable: str

    def locked(self, group: str) -> list[Archive]:
        """The archives under a heading.

        Parameters:
            group: the heading, such as "broker".
        """
        found: dict[str, list[Archive]] = {}
        for line in self.path.read_text().splitlines():
            heading = re.fullmatch(r"\[(.+)\]", line)
            if heading:
                found[heading[1]] = []
            elif line and not line.startswith("#"):
                digest, place = line.split()
                group_id, name, version = place.split(":")
                found[list(found)[-1]].append(Archive(group_id, name, version, digest))
        if group not in found:
            raise InputError(
                f"{self.path.name} has no archives for {group!r}, only for {', '.join(found)}"
            )
        return found[group]

    def archives(self, group: str, report: Report | None = None) -> list[Path]:
        """The files of a group's archives, downloaded if they are not in the cache yet.

        Guarantee: every downloaded file has the SHA-256 of the lock file. All appear in the cache at
        once, so concurrent or killed downloads do no harm. Nothing is written outside the cache.

        Ivy, which comes with pyspark, downloads them from its default repository; if that fails, `mvn`
        does, with the user's settings. `folder_variable` names a folder to use instead; with
        `EVENFLOW_OFFLINE` set, nothing is downloaded.

        Parameters:
            group: a heading of the lock file.
            report: called with the progress.
        """
        wanted = self.locked(group)
        given = os.environ.get(self.folder_variable)
        if given:
            _check(wanted, Path(given), f"{self.folder_variable} is {given!r}, and")
            return [Path(given, archive.file) for archive in wanted]
        cache = cache_folder(self.product.lower())
        digest = hashlib.blake2b(
            "".join(archive.digest for archive in wanted).encode(), digest_size=6
        )
        home = cache / f"{group}-{digest.hexdigest()}"
        if not home.is_dir():
            if os.environ.get(OFFLINE):
                raise InputError(
                    f"{self.product}'s archives ({group}) are not on this machine, and {OFFLINE} is "
                    f"set; unset it, or {self._by_hand}"
                )
            cache.mkdir(parents=True, exist_ok=True)
            with only_one(cache / f"{group}.lock"):
                if not home.is_dir():
                    self._fetch(group, wanted, home, report or (lambda what, done, total: None))
        return [home / archive.file for archive in wanted]

    @property
    def _by_hand(self) -> str:
        return f"set {self.folder_variable} to a folder with the files listed in {self.path.name}"

    def _fetch(self, group: str, wanted: list[Archive], home: Path, report: Report) -> None:
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
            f"{self.product}'s archives ({group}, {len(wanted)} files) could not be downloaded: "
            f"{'; '.join(failures)}. Give this machine access to a Maven repository (mvn takes mirrors "
            f"and proxies from its settings), or {self._by_hand}"
        )


def _by_ivy(wanted: list[Archive], folder: Path, report: Report) -> str | None:
    """Download with this tool; return why it failed, None if it did not."""
    ivy = _ivy()
    if ivy is None:
        return "pyspark, which brings Ivy, is not installed"
    module = folder / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="evenflow" module="jars"/>'
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
    """Download with this tool; return why it failed, None if it did not."""
    maven = shutil.which("mvn")
    if maven is None:
        return "there is no mvn on the PATH"
    pom = folder / "pom.xml"
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>evenflow</groupId>"
        "<artifactId>jars</artifactId><version>1</version><packaging>pom</packaging><dependencies>"
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
    tool: str, command: list[str], pattern: str, total: int, folder: Path, report: Report
) -> str | None:
    done, lines = 0, []
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
        report(f"asking {tool}", 0, total)
        try:
            for line in process.stdout:
                lines.append(line.strip())
                one = re.search(pattern, line)
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
    reasons = [line for line in lines if any(sign in line.lower() for sign in signs)]
    return f"{tool} ended with code {code} ({(reasons or lines or ['no output'])[-1][:200]})"


def _check(wanted: list[Archive], folder: Path, preface: str) -> None:
    missing = [archive.file for archive in wanted if not (folder / archive.file).is_file()]
    if missing:
        raise InputError(f"{preface} {len(missing)} files are missing there, first {missing[0]}")
    for archive in wanted:
        with open(folder / archive.file, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != archive.digest:
            raise InputError(
                f"{preface} {archive.file} has the SHA-256 {found}, but {archive.digest} was expected"
            )


def _ivy() -> Path | None:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar"))
    return found[-1] if found else None


def cache_folder(purpose: str) -> Path:
    """The folder in the user's cache for files of a purpose; it need not exist.

    Parameters:
        purpose: its name, such as "kafka".

    Example:
        >>> cache_folder("kafka").name
        'kafka'
    """
    from evenflow.kernels.jit import cache_directory

    kernels = cache_directory()
    if kernels is None:
        raise InputError(
            f"there is no folder for {purpose!r}: neither the user's cache nor the temporary directory "
            "is writable; set EVENFLOW_CACHE_DIR to a writable directory"
        )
    return kernels.parents[1] / purpose


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """One process at a time; the lock ends with its process.

    Parameters:
        path: the lock's file.
    """
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
