"""A real HDFS on loopback: a NameNode and a DataNode of Apache Hadoop."""

from __future__ import annotations

import getpass
import json
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import ClassVar
from urllib.request import urlopen

from evenflow.model import InputError
from evenflow.spark.jars import Report
from evenflow.spark.java import find_java
from evenflow_lab.checking.server import Server, free_port
from evenflow_lab.checking.store_jars import JARS

_DATA_NODE = "HDFS's DataNode"
_LONGEST_FORMAT = 90.0  # seconds
_PACKAGE = "org.apache.hadoop.hdfs.server"
_JAVA_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

# The DataNode takes any free ports: the NameNode tells clients. A server that starts again leaves safe
# mode as soon as the DataNode has reported.
_SETTINGS = {
    "fs.defaultFS": "hdfs://127.0.0.1:{rpc}",
    "hadoop.tmp.dir": "{folder}/data",
    "dfs.replication": "1",
    "dfs.namenode.http-address": "127.0.0.1:{port}",
    "dfs.namenode.safemode.extension": "0",
    "dfs.namenode.datanode.registration.ip-hostname-check": "false",
    "dfs.datanode.address": "127.0.0.1:0",
    "dfs.datanode.http.address": "127.0.0.1:0",
    "dfs.datanode.ipc.address": "127.0.0.1:0",
    "dfs.datanode.hostname": "127.0.0.1",
    "dfs.heartbeat.interval": "1",
}

_LOGGING = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c{1}: %m%n
"""

_METRICS = "*.period=1\n"  # seconds for which /jmx shows the same numbers


class HdfsServer(Server):
    """Apache Hadoop's HDFS on loopback: a NameNode and a DataNode, each a process of its own.

    Guarantee: as for `Server`. What was acknowledged is there again after `kill` and `restart`, which
    mean both processes.

    Parameters:
        folder: where data, settings and the log lie.
        port: on which WebHDFS listens.
        own_folder: the folder is removed at the end.
        java: starts Java with Hadoop's archives.

    Example:
        >>> with HdfsServer.start() as server:  # doctest: +SKIP
        ...     storage = storage_at(server.address("ckpt"), server.options)
    """

    product: ClassVar[str] = "HDFS"

    def __init__(self, folder: Path, port: int, own_folder: bool, java: list[str]) -> None:
        super().__init__(folder, port, own_folder)
        self._java, self._rpc = java, 0

    @classmethod
    def start(
        cls, folder: str | Path | None = None, port: int = 0, report: Report | None = None
    ) -> HdfsServer:
        """Fetch Hadoop if need be (106 MB), and start it.

        Parameters:
            folder: for its data; one that a server left is used on. None for a temporary folder,
                which is removed at the end.
            port: of WebHDFS; 0 for a free one (the same as before in a folder that is used on).
            report: called while archives are fetched.
        """
        jars = ":".join(str(jar) for jar in JARS.archives("hdfs", report))
        java = [str(find_java().executable), *_JAVA_OPTIONS, "-cp", jars]
        return cls._start(folder, port, java=java)

    @property
    def url(self) -> str:
        """The address of WebHDFS."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """What evenflow needs to know besides an address."""
        return {"http_address": self.url, "user": getpass.getuser()}

    def address(self, path: str) -> str:
        """The address of a path there, for evenflow and for Spark.

        Parameters:
            path: in HDFS, with or without a `/` at the beginning.
        """
        return f"hdfs://127.0.0.1:{self._rpc}/{path.lstrip('/')}"

    @property
    def settings(self) -> Path:
        return self.folder / "conf" / "hdfs-site.xml"

    @property
    def running(self) -> bool:
        return super().running and self._watching().poll(_DATA_NODE) == "running"

    def prepare(self) -> list[str]:
        """Write the settings and format the folder, if no server left one; return the command."""
        self.settings.parent.mkdir(exist_ok=True)
        (self.settings.parent / "log4j.properties").write_text(_LOGGING)
        (self.settings.parent / "hadoop-metrics2.properties").write_text(_METRICS)
        written = self.settings.read_text() if self.settings.is_file() else ""
        kept = re.findall(r"127\.0\.0\.1:([1-9]\d*)<", written)
        self._rpc, before = map(int, kept) if len(kept) == 2 else (free_port(), 0)
        self.port = self.port or before or free_port()
        properties = "\n".join(
            f"<property><name>{name}</name><value>{value}</value></property>"
            for name, value in _SETTINGS.items()
        )
        self.settings.write_text(
            "<configuration>\n"
            + properties.format(rpc=self._rpc, port=self.port, folder=self.folder)
            + "\n</configuration>\n"
        )
        *java, jars = self._java
        self._java = [*java, f"{self.settings.parent}:{jars}"]
        name_node = [*self._java, f"{_PACKAGE}.namenode.NameNode"]
        if not (self.folder / "formatted").is_file():
            self._format(name_node)
        return name_node

    def ready(self, said: str) -> bool:
        """Whether it is out of safe mode and has its DataNode."""
        place = f"{self.url}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        try:
            with urlopen(place, timeout=5) as reply:
                (state,) = json.load(reply)["beans"]
        except (OSError, ValueError):
            return False
        return bool(state["FSState"] == "Operational" and state["NumLiveDataNodes"] == 1)

    def kill(self) -> None:
        """End both processes at once, as `kill -9` does; the folder stays for `restart`."""
        super().kill()
        self._watching().end(_DATA_NODE, signal.SIGKILL)

    def pause(self) -> None:
        """Shut both down in good order; the folder stays for `restart`."""
        self._watching().end(_DATA_NODE)
        super().pause()

    def _launch(self) -> None:
        data_node = [*self._java, f"{_PACKAGE}.datanode.DataNode"]
        self._watching().start(_DATA_NODE, data_node, self.log)
        super()._launch()

    def _format(self, name_node: list[str]) -> None:
        shutil.rmtree(self.folder / "data", ignore_errors=True)  # of a start that was interrupted
        formatted = subprocess.run(
            [*name_node, "-format", "-force", "-nonInteractive"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_FORMAT,
        )
        if formatted.returncode:
            output = (formatted.stderr + formatted.stdout).strip()
            raise InputError(f"HDFS's folder {self.folder} could not be prepared: {output[-300:]}")
        (self.folder / "formatted").touch()
