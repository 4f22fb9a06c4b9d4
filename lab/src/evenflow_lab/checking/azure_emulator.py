"""Azure Blob Storage on loopback: Azurite, Microsoft's emulator, from npm."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import subprocess
import tempfile
from email.utils import formatdate
from pathlib import Path
from typing import ClassVar
from urllib.request import Request, urlopen

from evenflow.model import InputError
from evenflow.spark.jars import OFFLINE, cache_folder, only_one
from evenflow_lab.checking.server import Server, free_port

#: The version that was tested.
VERSION = "3.35.0"

_LONGEST_INSTALL = 900.0  # seconds
_API = "2021-08-06"


def emulator_script() -> Path:
    """The emulator's program for Node, installed into the user's cache if it is not there yet.

    Guarantee: concurrent or interrupted installations do no harm.
    """
    cache = cache_folder("azurite")
    script = Path("node_modules", "azurite", "dist", "src", "blob", "main.js")
    installed = cache / VERSION
    if (installed / script).is_file():
        return installed / script
    if os.environ.get(OFFLINE):
        raise InputError(
            f"Azurite is not installed on this machine, and {OFFLINE} is set; unset it"
        )
    npm = shutil.which("npm")
    if npm is None:
        raise InputError("Azurite comes from npm, and there is no npm on the PATH; install Node.js")
    cache.mkdir(parents=True, exist_ok=True)
    with only_one(cache / "install.lock"):
        if not (installed / script).is_file():
            _install(npm, installed)
    return installed / script


def _install(npm: str, folder: Path) -> None:
    made = Path(tempfile.mkdtemp(dir=folder.parent, prefix="unfinished-"))
    try:
        done = subprocess.run(
            [npm, "install", "--prefix", made, "--no-audit", "--no-fund", f"azurite@{VERSION}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_INSTALL,
        )
        if done.returncode:
            output = done.stderr.strip().splitlines() or ["no output"]
            raise InputError(f"npm cannot install Azurite {VERSION}: {output[-1][:300]}")
        os.rename(made, folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


class AzureEmulator(Server):
    """Azurite's blob service on loopback, as a process of its own, with one container in memory.

    Guarantee: as for `Server`. It has conditional writes and checks signatures.

    Example:
        >>> with AzureEmulator.start() as server:  # doctest: +SKIP
        ...     storage = storage_at(server.uri("x"), server.storage_options)
    """

    product: ClassVar[str] = "Azurite"
    account: ClassVar[str] = "evenflow"
    container: ClassVar[str] = "tests"
    key: ClassVar[str] = base64.b64encode(b"not-a-secret").decode()

    @classmethod
    def start(cls, folder: str | Path | None = None, port: int = 0) -> AzureEmulator:
        """Install it if need be, start it and create the container.

        Parameters:
            folder: for its log; None for a temporary folder, which is removed at the end.
            port: to listen on; 0 for a free one.
        """
        server = cls._start(folder, port)
        try:
            server._create_container()
        except BaseException:
            server.stop()
            raise
        return server

    @property
    def storage_options(self) -> dict[str, str]:
        """The options under obstore's names."""
        return {
            "endpoint": f"http://127.0.0.1:{self.port}/{self.account}",
            "account_name": self.account,
            "account_key": self.key,
        }

    def uri(self, path: str) -> str:
        """The address of `path` in the container.

        Parameters:
            path: below the container.
        """
        return f"az://{self.container}/{path}"

    def prepare(self) -> list[str]:
        node = shutil.which("node")
        if node is None:
            raise InputError("Azurite needs Node.js, and there is no node on the PATH; install it")
        self.port = self.port or free_port()
        return [
            *("env", f"AZURITE_ACCOUNTS={self.account}:{self.key}"),
            *(node, str(emulator_script()), "--silent", "--inMemoryPersistence"),
            *("--blobHost", "127.0.0.1", "--blobPort", str(self.port)),
            *("--skipApiVersionCheck", "--disableTelemetry"),
        ]

    def _create_container(self) -> None:
        date = formatdate(usegmt=True)
        place = f"/{self.account}/{self.container}"
        signed = (
            "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{_API}\n"
            f"/{self.account}{place}\nrestype:container"
        )
        digest = hmac.new(base64.b64decode(self.key), signed.encode(), hashlib.sha256).digest()
        headers = {
            "x-ms-date": date,
            "x-ms-version": _API,
            "Authorization": f"SharedKey {self.account}:{base64.b64encode(digest).decode()}",
        }
        url = f"http://127.0.0.1:{self.port}{place}?restype=container"
        with urlopen(Request(url, headers=headers, method="PUT"), timeout=30):
            pass
