"""The proxy's process: passes requests on to a store, and does some of them harm.

Run as a file, with nothing but Python's own library: `python -I store_proxy_process.py PORT TARGET
SETTINGS`, where TARGET is the store's port on loopback. `store_proxy.py` says what the settings mean.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

_CONTROL = "/__proxy/"
_THROUGH = (
    "/__through/"  # …/PORT/path: a redirect of WebHDFS to another server, led through the proxy
)
_LARGEST_HEAD = 1 << 16
_PIECE = 1 << 18
_DRIPS = 10  # pieces of a slow reply
_NOT_PASSED_ON = {b"connection", b"keep-alive", b"expect", b"proxy-connection"}

_ERRORS = {
    "error": (500, "Internal Server Error", "InternalError", "We encountered an internal error."),
    "unavailable": (503, "Service Unavailable", "ServiceUnavailable", "Please try again."),
    "throttle": (503, "Slow Down", "SlowDown", "Please reduce your request rate."),
}
_XML = b'<?xml version="1.0" encoding="UTF-8"?>\n'
KINDS = (*_ERRORS, "timeout", "lost_reply", "slow_read")

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Head:
    """The first line and the headers of a request or a reply, as they came."""

    def __init__(self, raw: bytes) -> None:
        first, *lines = raw[:-4].split(b"\r\n")
        self.first = first.decode("latin-1").split(" ", 2)
        self.lines = lines
        self.headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(b":") for line in lines)
        }

    def raw(self, first: str, *more: bytes) -> bytes:
        """The head to pass on: without what is between two neighbours only."""
        kept = (line for line in self.lines if _name(line) not in _NOT_PASSED_ON)
        return b"\r\n".join((first.encode("latin-1"), *kept, *more, b"", b""))

    @property
    def length(self) -> int | None:
        """The bytes of the body; None if it is chunked, -1 if nothing is said."""
        if b"chunked" in self.headers.get(b"transfer-encoding", b"").lower():
            return None
        return int(self.headers.get(b"content-length", b"-1"))

    @property
    def closes(self) -> bool:
        return self.headers.get(b"connection", b"").lower() == b"close"


def _name(line: bytes) -> bytes:
    return line.partition(b":")[0].strip().lower()


async def _read_head(reader: asyncio.StreamReader) -> _Head:
    return _Head(await reader.readuntil(b"\r\n\r\n"))


async def _body(reader: asyncio.StreamReader, length: int | None) -> AsyncIterator[bytes]:
    """The body in pieces, with the frames of its chunks."""
    if length is not None:
        while length > 0:
            piece = await reader.read(min(length, _PIECE))
            if not piece:
                raise asyncio.IncompleteReadError(b"", length)
            length -= len(piece)
            yield piece
        return
    size = -1
    while size:
        line = await reader.readline()
        size = int(line.split(b";")[0], 16)
        yield line
        async for piece in _body(reader, size):
            yield piece
        end = await reader.readline()
        while size == 0 and end != b"\r\n":  # trailers, which the SDK has its checksums in
            yield end
            end = await reader.readline()
        yield end


async def _until_end(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while piece := await reader.read(_PIECE):
        yield piece


def kind_of(method: str, target: str, headers: dict[bytes, bytes]) -> str:
    """What a request does: WebHDFS's operation, or S3's by method, query and headers."""
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    if "op" in query:
        return query["op"][0].upper()
    if "uploads" in query or "uploadId" in query:
        return "MULTIPART"
    if method == "PUT" and b"x-amz-copy-source" in headers:
        return "COPY"
    if method == "POST" and "delete" in query:
        return "DELETE_SEVERAL"
    if method == "GET" and "/" not in parts.path.strip("/"):
        return "LIST"
    return method


class Proxy:
    """One store's proxy.

    Parameters:
        port: on which it listens.
        target: the store's port on loopback.
        settings: as in `store_proxy.py`.
    """

    def __init__(self, port: int, target: int, settings: dict[str, Any]) -> None:
        self.port, self.target = port, target
        self.settings: dict[str, Any] = {}
        self.kinds: Counter[str] = Counter()
        self.methods: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.configure(settings)

    def configure(self, settings: dict[str, Any]) -> None:
        self.settings = {**self.settings, **settings}
        if "seed" in settings:
            self._random = random.Random(self.settings["seed"])

    def draw(self, kind: str) -> str | None:
        """Which harm is done to the next request."""
        only = self.settings["only"]
        if only and kind not in only:
            return None
        left = self._random.random()
        for fault, share in self.settings["faults"].items():
            left -= share
            if left < 0:
                return str(fault)
        return None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client's connection."""
        store: dict[int, Stream] = {}  # this client's connections, by port
        try:
            while await self._answer(reader, writer, store):
                pass
        except (OSError, EOFError, asyncio.LimitOverrunError, ValueError):
            pass  # one of the two is gone, or speaks no HTTP
        finally:
            for _, other in store.values():
                other.close()
            with contextlib.suppress(OSError):
                writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, store: dict[int, Stream]
    ) -> bool:
        """One request; False if the connection is to be closed."""
        request = await _read_head(reader)
        method, target, _ = request.first
        length = request.length
        if length == -1:
            length = 0
        if b"expect" in request.headers:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if target.startswith(_CONTROL):
            content = b"".join([piece async for piece in _body(reader, length)])
            self._reply(writer, *self._control(method, target, content))
            await writer.drain()
            return not request.closes
        kind = kind_of(method, target, request.headers)
        self.kinds[kind] += 1
        self.methods[method] += 1
        fault = self.draw(kind)
        if fault is not None:
            self.faults[fault] += 1
        if self.settings["latency"]:
            await asyncio.sleep(self.settings["latency"])
        if fault == "timeout":
            await asyncio.sleep(self.settings["hold"])
            return False
        if fault in _ERRORS:
            async for _ in _body(reader, length):
                pass
            status, reason, code, message = _ERRORS[fault]
            error = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
            body = b"" if method == "HEAD" else _XML + error.encode()
            self._reply(writer, status, reason, body, "application/xml")
            await writer.drain()
            return not request.closes
        return await self._pass_on(request, length, (reader, writer), store, fault)

    async def _pass_on(
        self,
        request: _Head,
        length: int | None,
        client: Stream,
        store: dict[int, Stream],
        fault: str | None,
    ) -> bool:
        (reader, writer), (method, target, version) = client, request.first
        port = self.target
        through = re.match(rf"{_THROUGH}(\d+)(/.*)", target)
        if through:
            port, target = int(through[1]), through[2]
        from_store, to_store = await self._connection(store, port)
        to_store.write(request.raw(f"{method} {target} {version}"))
        async for piece in _body(reader, length):
            self.bytes["sent"] += len(piece)
            to_store.write(piece)
            await to_store.drain()
        reply = await _read_head(from_store)
        while reply.first[1].startswith("1"):
            reply = await _read_head(from_store)
        rest: int | None = reply.length
        if method == "HEAD" or reply.first[1] in ("204", "304"):
            rest = 0
        ends = rest == -1 or reply.closes  # the store closes its connection, not the client's
        pieces = _until_end(from_store) if rest == -1 else _body(from_store, rest)
        if fault == "lost_reply":
            async for _ in pieces:
                pass
            return False
        closing = request.closes or rest == -1
        await self._send(writer, self._reply_head(reply, closing), pieces, rest, fault)
        if ends:
            store.pop(port)[1].close()
        return not closing

    def _reply_head(self, reply: _Head, closing: bool) -> bytes:
        lines = reply.lines
        for place, line in enumerate(lines):
            if _name(line) == b"location":
                ours = f"http://127.0.0.1:{self.port}{_THROUGH}".encode()
                lines[place] = re.sub(rb"https?://[^/:]+:(\d+)", ours + rb"\1", line, count=1)
        more = [b"Connection: close"] if closing else []
        return reply.raw(" ".join(reply.first), *more)

    async def _send(
        self,
        writer: asyncio.StreamWriter,
        head: bytes,
        pieces: AsyncIterator[bytes],
        length: int | None,
        fault: str | None,
    ) -> None:
        slow = self.settings["slow"] if fault == "slow_read" else 0.0
        if slow and length == 0:
            await asyncio.sleep(slow)
        writer.write(head)
        async for piece in pieces:
            self.bytes["received"] += len(piece)
            size = min(len(piece), max(1, (length or len(piece)) // _DRIPS if slow else len(piece)))
            for start in range(0, len(piece), size):
                writer.write(piece[start : start + size])
                await writer.drain()
                if slow:
                    await asyncio.sleep(slow * size / (length or size * _DRIPS))
        await writer.drain()

    async def _connection(self, store: dict[int, Stream], port: int) -> Stream:
        kept = store.get(port)
        if kept is not None and not kept[0].at_eof():
            return kept
        opened = await asyncio.open_connection("127.0.0.1", port, limit=_LARGEST_HEAD)
        store[port] = opened
        return opened

    def _control(self, method: str, target: str, content: bytes) -> tuple[int, str, bytes]:
        what = target.removeprefix(_CONTROL)
        if what == "settings" and method == "PUT":
            self.configure(json.loads(content))
        elif what == "counts" and method == "DELETE":
            for counter in (self.kinds, self.methods, self.faults, self.bytes):
                counter.clear()
        elif what not in ("settings", "counts") or method != "GET":
            return 404, "Not Found", b"{}"
        counts = {
            "requests": self.methods.total(),
            "methods": self.methods,
            "kinds": self.kinds,
            "faults": self.faults,
            "bytes_sent": self.bytes["sent"],
            "bytes_received": self.bytes["received"],
        }
        return 200, "OK", json.dumps(self.settings if what == "settings" else counts).encode()

    @staticmethod
    def _reply(
        writer: asyncio.StreamWriter,
        status: int,
        reason: str,
        content: bytes,
        content_type: str = "application/json",
    ) -> None:
        head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\n"
        writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)


async def main(port: int, target: int, settings: dict[str, Any]) -> None:
    proxy = Proxy(port, target, settings)
    server = await asyncio.start_server(
        proxy.serve, "127.0.0.1", port, limit=_LARGEST_HEAD, backlog=1024
    )
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])))
