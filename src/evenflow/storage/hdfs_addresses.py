"""Where the WebHDFS of an `hdfs://` address is: from options, or from Hadoop's configuration."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from typing import Any

from evenflow.model.errors import InputError
from evenflow.storage.hdfs import HdfsStorage
from evenflow.storage.webhdfs import WebHdfs

#: How addresses on HDFS begin.
HDFS_SCHEMES = ("hdfs", "webhdfs", "swebhdfs")
_ADDRESS = re.compile(
    r"(?P<scheme>s?webhdfs|hdfs)://(?P<host>[^/:@]*)(:(?P<port>\d+))?(?P<path>/.*)?"
)
_PORTS = {"http": 9870, "https": 9871}
_OPTIONS = ("http_address", "user", "delegation_token", "kerberos", "verify", "timeout", "patience")


def hdfs_storage(address: str, options: Mapping[str, Any]) -> HdfsStorage:
    """The storage at an address on HDFS.

    Parameters:
        address: `hdfs://namenode:8020/…`, `hdfs://nameservice/…`, `hdfs:///…`, `webhdfs://host:9870/…`
            or `swebhdfs://host:9871/…`.
        options: `http_address`, the WebHDFS address of the NameNode, or several with commas between
            them; `user`, if HDFS does not authenticate; `delegation_token`; `kerberos`; `verify`;
            `timeout`; `patience`: see `WebHdfs`. Names with dots are settings of Hadoop, as in
            `hdfs_options`; others are refused.

    Example:
        >>> options = {"http_address": "namenode:9870", "user": "alice"}
        >>> hdfs_storage("hdfs://nameservice/ckpt", options).client.servers
        ('http://namenode:9870',)
    """
    own = {name: value for name, value in options.items() if "." not in name}
    unknown = sorted(set(own) - set(_OPTIONS))
    if unknown:
        raise InputError(f"HDFS has no option {unknown[0]!r}; choose from {', '.join(_OPTIONS)}")
    given: dict[str, Any] = {**hdfs_options(options, address), **own}
    kerberos = given.get("kerberos", False)
    return HdfsStorage(
        address.rstrip("/"),
        WebHdfs(
            servers=_servers(given["http_address"], _parsed(address)["scheme"]),
            user=given.get("user") or os.environ.get("HADOOP_USER_NAME") or getpass.getuser(),
            token=given.get("delegation_token"),
            kerberos=kerberos if isinstance(kerberos, bool) else str(kerberos).lower() == "true",
            verify=_flag_or_path(given.get("verify", True)),
            timeout=float(given.get("timeout", WebHdfs.timeout)),
            patience=float(given.get("patience", WebHdfs.patience)),
        ),
    )


def hdfs_options(settings: Mapping[str, Any], address: str) -> dict[str, str]:
    """The options that follow from an address and Hadoop's settings, by Hadoop's own rules.

    A nameservice with several NameNodes gives all of them: only the active one answers. Without
    settings, WebHDFS is at the NameNode's host and Hadoop's default port, 9870 (9871 for HTTPS).

    Parameters:
        settings: of `core-site.xml` and `hdfs-site.xml`, as Spark has them in its Hadoop configuration;
            the prefix `spark.hadoop.` is allowed.
        address: of something on HDFS.

    Example:
        >>> hdfs_options({"fs.defaultFS": "hdfs://namenode:8020"}, "hdfs:///ckpt")
        {'http_address': 'http://namenode:9870'}
        >>> settings = {
        ...     "dfs.nameservices": "blue",
        ...     "dfs.ha.namenodes.blue": "a,b",
        ...     "dfs.namenode.http-address.blue.a": "host1:50070",
        ...     "dfs.namenode.rpc-address.blue.b": "host2:8020",
        ... }
        >>> hdfs_options(settings, "hdfs://blue/ckpt")
        {'http_address': 'http://host1:50070,http://host2:9870'}
    """
    known = _Known(settings)
    parts = _parsed(address)
    options: dict[str, str] = {}
    if known("hadoop.security.authentication").lower() == "kerberos":
        options["kerberos"] = "true"
    if "http_address" in settings:
        return options
    host, scheme = parts["host"], parts["scheme"]
    if not host:
        default = known("fs.defaultFS")
        found = _ADDRESS.fullmatch(default)
        if found is None or not found["host"]:
            raise InputError(
                f"{address} names no NameNode, and fs.defaultFS is {default or 'not set'}; write "
                "hdfs://namenode:8020/…, or give the option http_address"
            )
        parts, host = found, found["host"]
        scheme = parts["scheme"] if scheme == "hdfs" else scheme
    only_https = known("dfs.http.policy").upper() == "HTTPS_ONLY"
    protocol = "https" if scheme == "swebhdfs" or (scheme == "hdfs" and only_https) else "http"
    if host in _listed(known("dfs.nameservices")):
        servers = [
            _server(known, protocol, f".{host}{name_node}")
            for name_node in _name_nodes(known(f"dfs.ha.namenodes.{host}"))
        ]
        missing = [place for place, server in servers if server is None]
        if missing:
            raise InputError(
                f"{address} is on the nameservice {host}, but {missing[0]} is not set; set it, or give "
                "the option http_address"
            )
        options["http_address"] = ",".join(str(server) for _, server in servers)
    elif scheme != "hdfs" and parts["port"]:
        options["http_address"] = f"{protocol}://{host}:{parts['port']}"
    else:
        port = known(f"dfs.namenode.{protocol}-address").rpartition(":")[2]
        options["http_address"] = f"{protocol}://{host}:{port or _PORTS[protocol]}"
    return options


class _Known:
    """Settings by Hadoop's names, with or without Spark's prefix; empty if they are not there.

    They are asked for one by one: in a session, all of them would be a thousand calls to the JVM.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings

    def __call__(self, name: str) -> str:
        value = self._settings.get(name)
        if value is None:
            value = self._settings.get(f"spark.hadoop.{name}")
        return str(value or "").strip()


def _server(known: _Known, protocol: str, suffix: str) -> tuple[str, str | None]:
    """The setting that is looked for, and the WebHDFS address of one NameNode of a nameservice."""
    setting = f"dfs.namenode.{protocol}-address{suffix}"
    if address := known(setting):
        return setting, f"{protocol}://{address}"
    host = known(f"dfs.namenode.rpc-address{suffix}").partition(":")[0]
    return setting, f"{protocol}://{host}:{_PORTS[protocol]}" if host else None


def _name_nodes(text: str) -> list[str]:
    """What follows the nameservice in settings: nothing where it has a single NameNode."""
    return [f".{name}" for name in _listed(text)] or [""]


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _parsed(address: str) -> re.Match[str]:
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise InputError(
            f"{address} is not an address on HDFS; write hdfs://namenode:8020/path, "
            "hdfs://nameservice/path or webhdfs://host:9870/path, and the user as the option user"
        )
    return parts


def _servers(given: Any, scheme: str) -> tuple[str, ...]:
    """WebHDFS addresses in full."""
    protocol = "https" if scheme == "swebhdfs" else "http"
    texts = _listed(given) if isinstance(given, str) else [str(one) for one in given]
    servers = tuple(
        (text if re.match("https?://", text) else f"{protocol}://{text}").rstrip("/")
        for text in texts
    )
    if not servers:
        raise InputError("http_address is empty; give the NameNode's, such as namenode:9870")
    return servers


def _flag_or_path(given: Any) -> bool | str:
    if isinstance(given, bool):
        return given
    text = str(given)
    return text.lower() == "true" if text.lower() in ("true", "false") else text
