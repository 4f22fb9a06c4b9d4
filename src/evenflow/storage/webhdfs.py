"""WebHDFS, the HTTP interface of HDFS: single operations, tried again until they are answered."""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

from evenflow.storage.requests import count
from evenflow.storage.webhdfs_connections import LONGEST_CONNECT, Transient, session, unanswered

if TYPE_CHECKING:
    import requests

T = TypeVar("T")

_PAUSES = (0.05, 5.0)  # the first and the longest, in seconds
_COUNTED = {"CREATE": "writes", "RENAME": "writes", "LISTSTATUS": "lists", "DELETE": "deletes"}

# What passes by itself: a failover, a start, a DataNode that is lost. A plain IOException is what HDFS
# throws when it finds no DataNode.
_TRANSIENT = frozenset(
    {
        "StandbyException",
        "RetriableException",
        "SafeModeException",
        "ObserverRetryOnActiveException",
        "ServerTooBusyException",
        "BlockMissingException",
        "ConnectException",
        "ConnectTimeoutException",
        "NoRouteToHostException",
        "SocketException",
        "SocketTimeoutException",
        "ClosedChannelException",
        "LeaseExpiredException",
        "IOException",
    }
)
_NO_DIRECTORY = re.compile(r"\(is not a directory\)")
_PAST_END = re.compile(r"out of the range|seek after EOF")
_NEVER = re.compile(r"must both be directories|Invalid path|is not a valid DFS filename")


@dataclass(frozen=True)
class WebHdfs:
    """A client of one HDFS: of its NameNode, or of several of which one is active.

    Guarantee: an operation is sent again, to each NameNode in turn, as long as the failure may pass and
    `patience` lasts; so one whose reply was lost may be carried out twice, and the second time it finds
    what the first has done. Otherwise it raises `FileNotFoundError`, `FileExistsError`,
    `NotADirectoryError`, `PermissionError` or another `OSError`. No message contains the token.

    Parameters:
        servers: `http://host:port` or `https://…` of each NameNode, without `/webhdfs/v1`.
        user: who HDFS takes this client for where it does not authenticate.
        token: a delegation token.
        kerberos: authenticate by SPNEGO with the user's ticket.
        verify: False to trust any certificate, or the path of a file with those to trust.
        timeout: seconds to wait for an answer.
        patience: seconds to go on trying.

    Example:
        >>> WebHdfs(("http://namenode:9870",), user="alice", token="secret")
        WebHdfs(servers=('http://namenode:9870',), user='alice', kerberos=False, verify=True, \
timeout=60.0, patience=60.0)
    """

    servers: tuple[str, ...]
    user: str | None = None
    token: str | None = field(default=None, repr=False)
    kerberos: bool = False
    verify: bool | str = True
    timeout: float = 60.0
    patience: float = 60.0

    def status(self, path: str, where: str) -> dict[str, Any]:
        """What HDFS knows of a path: its `type`, `length` and more."""
        reply = self._repeat(where, lambda server: self._ask(server, "GET", "GETFILESTATUS", path))
        status: dict[str, Any] = json.loads(reply.content)["FileStatus"]
        return status

    def entries(self, path: str, where: str) -> list[dict[str, Any]]:
        """The statuses of what is in a directory, each with its name as `pathSuffix`."""
        reply = self._repeat(where, lambda server: self._ask(server, "GET", "LISTSTATUS", path))
        entries: list[dict[str, Any]] = json.loads(reply.content)["FileStatuses"]["FileStatus"]
        return entries

    def open(self, path: str, where: str, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file from `offset`; fewer than `length` only at its end."""
        part: dict[str, Any] = {"offset": offset}
        if length is not None:
            part["length"] = length

        def attempt(server: str) -> bytes:
            reply = self._ask(server, "GET", "OPEN", path, **part)
            place = reply.headers.get("Location")
            if place is not None:
                reply = self._send("GET", place, "OPEN")
            return bytes(reply.content)

        try:
            content = self._repeat(where, attempt)
        except _PastEnd:
            return b""
        count(read_bytes=len(content))
        return content

    def create(self, path: str, content: bytes, where: str, name: Callable[[], str]) -> str:
        """Write a file that is closed when this returns, and on the disks of its DataNodes.

        Guarantee: each attempt writes under a name of its own, so a request that was given up and
        arrives later cannot harm the file of the one that succeeded.

        Parameters:
            name: gives what follows `path` in the name of the next attempt.

        Returns:
            the path of the file.
        """
        tried: list[str] = []

        def attempt(server: str) -> str:
            tried.append(f"{path}{name()}")
            # SYNC_BLOCK: the DataNodes call fsync before they acknowledge the end of a block.
            flags = {"overwrite": "false", "createflag": "CREATE,SYNC_BLOCK"}
            reply = self._ask(server, "PUT", "CREATE", tried[-1], **flags)
            place = reply.headers.get("Location")
            if place is None:
                raise Transient("it did not say where to write")
            count(written_bytes=len(content))
            self._send("PUT", place, "CREATE", content)
            return tried[-1]

        try:
            return self._repeat(where, attempt)
        except BaseException:
            tried.append("")  # none of them is kept
            raise
        finally:
            for left in tried[:-1]:
                self.discard(left)

    def rename(self, path: str, to: str, where: str, replace: bool) -> None:
        """Give a file another name, at once for all readers.

        Raises:
            FileExistsError: there is a file of that name, and it is not to be replaced.
            FileNotFoundError: there is no file `path`, maybe because this very call has renamed it
                and the reply was lost.
        """
        how = {"destination": to, "renameoptions": "OVERWRITE" if replace else "NONE"}
        reply = self._repeat(where, lambda server: self._ask(server, "PUT", "RENAME", path, **how))
        if reply.content:  # {"boolean": …}: the option was not understood
            raise OSError(
                f"{where}: {self._servers} cannot rename and replace in one step, as HttpFS cannot; "
                "give the NameNode's own WebHDFS address as the option http_address"
            )

    def delete(self, path: str, where: str) -> None:
        """Remove a file or an empty directory; what is not there is fine."""
        self._repeat(
            where, lambda server: self._ask(server, "DELETE", "DELETE", path, recursive="false")
        )

    def discard(self, path: str) -> None:
        """Remove a file if that works at the first attempt."""
        with suppress(Transient, OSError):
            self._ask(self._order()[0], "DELETE", "DELETE", path, recursive="false")

    # --- one request -----------------------------------------------------------------------------

    @property
    def _servers(self) -> str:
        return " and ".join(self.servers)

    def _ask(
        self, server: str, method: str, operation: str, path: str, **parameters: Any
    ) -> requests.Response:
        """Ask a NameNode; the answer may be a redirection."""
        who = {"delegation": self.token} if self.token else {"user.name": self.user}
        if self.kerberos and not self.token:
            who = {}
        query = {"op": operation, **parameters, **who}
        return self._send(method, f"{server}/webhdfs/v1{quote(path)}", operation, query=query)

    def _send(
        self,
        method: str,
        url: str,
        operation: str,
        content: bytes | None = None,
        query: dict[str, Any] | None = None,
    ) -> requests.Response:
        connections = session(os.getpid(), self.kerberos and not self.token, self.verify)
        import requests

        count(**{_COUNTED.get(operation, "reads"): 1})
        headers = {"Accept-Encoding": "identity"}
        if content is not None:
            headers["Content-Type"] = "application/octet-stream"
        try:
            reply = connections.request(
                method,
                url,
                params=query,
                data=content,
                headers=headers,
                allow_redirects=False,
                timeout=(min(LONGEST_CONNECT, self.timeout), self.timeout),
            )
        except requests.RequestException as error:
            failure = unanswered(error)
            at_name_node = query is not None  # another DataNode may be chosen the next time
            reason = f"{urlsplit(url).netloc}: {failure}"
            raise Transient(reason, failure.hopeless and at_name_node) from None
        promised = reply.headers.get("Content-Length")
        if promised is not None and int(promised) != len(reply.content):
            raise Transient("the answer was cut off")
        if reply.status_code < 400:
            return reply
        raise self._refused(reply)

    def _refused(self, reply: requests.Response) -> Exception:
        """What a reply of HDFS means that is not a success."""
        status = reply.status_code
        try:
            said = json.loads(reply.content)["RemoteException"]
            kind, message = str(said["exception"]), str(said["message"])
        except (ValueError, KeyError, TypeError):
            kind, message = "", ""
        message = message.splitlines()[0][:300] if message else f"HTTP {status} {reply.reason}"
        if self.token:
            message = message.replace(self.token, "…")
        if _PAST_END.search(message):
            return _PastEnd()
        if _NO_DIRECTORY.search(message) or kind == "ParentNotDirectoryException":
            return NotADirectoryError(errno.ENOTDIR, message)
        if kind == "FileNotFoundException":
            return FileNotFoundError(errno.ENOENT, message)
        if kind == "FileAlreadyExistsException":
            return FileExistsError(errno.EEXIST, message)
        if kind in ("AccessControlException", "SecurityException", "InvalidToken") or status == 401:
            return PermissionError(errno.EACCES, message)
        if status >= 500 or status == 429 or (kind in _TRANSIENT and not _NEVER.search(message)):
            return Transient(message if kind != "SafeModeException" else f"safe mode: {message}")
        if "Quota" in kind:
            message += "; raise the quota, or delete what is not needed"
        elif kind in ("", "IllegalArgumentException"):  # a web server, or a DataNode
            message += "; is the option http_address that of a NameNode?"
        return OSError(errno.EIO, message)

    # --- again -----------------------------------------------------------------------------------

    def _repeat(self, where: str, attempt: Callable[[str], T]) -> T:
        """What an attempt returns, which gets a NameNode's address."""
        end, (pause, longest) = None, _PAUSES
        for turn in itertools.count(1):
            hopeless = 0
            for server in self._order():
                try:
                    result = attempt(server)
                except Transient as error:
                    reason = str(error)
                    hopeless += error.hopeless
                except OSError as error:
                    raise self._explained(error, where) from None
                else:
                    _active[self.servers] = server
                    return result
            now = time.monotonic()
            end = now + self.patience if end is None else end
            if hopeless == len(self.servers) or now + pause > end:
                raise OSError(
                    f"{where}: no success with {self._servers} ({reason}), tried {turn} "
                    f"{'time' if turn == 1 else 'times'}; {_advice(reason)}"
                )
            time.sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, longest)
        raise AssertionError("unreachable")

    def _order(self) -> list[str]:
        """The NameNodes, the one first that answered last."""
        last = _active.get(self.servers)
        return sorted(self.servers, key=lambda server: server != last)

    def _explained(self, error: OSError, where: str) -> OSError:
        message = error.strerror or "failed"
        if isinstance(error, FileNotFoundError):
            message = "No such object"
        if isinstance(error, PermissionError):
            who = "this token" if self.token else "Kerberos" if self.kerberos else f"{self.user!r}"
            message = (
                f"HDFS refuses this ({message}) to {who}; grant the rights, or give the option user, "
                "kerberos or delegation_token"
            )
        elif type(error) is OSError:
            message = f"{self._servers} answered: {message}"
        return type(error)(error.errno, message, where)


class _PastEnd(Exception):
    """A range begins after the end of its file."""


_active: dict[tuple[str, ...], str] = {}  # the NameNode that answered last, by those to ask


def _advice(reason: str) -> str:
    if "safe mode" in reason.lower():
        return "wait until HDFS has left it, or run: hdfs dfsadmin -safemode leave"
    if "standby" in reason.lower():
        return "no NameNode is active: check them with hdfs haadmin -getAllServiceState"
    if "certificate" in reason:
        return "give the option verify: the path of a file with the certificates to trust"
    return "check that HDFS is running and that the option http_address is its WebHDFS address"
