"""A store on loopback that answers as a test says: what real servers do not do on demand."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Seen(NamedTuple):
    """A request; the names of its headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    content: bytes


class Stub(NamedTuple):
    """The server's address, and the requests so far."""

    url: str
    requests: list[Seen]


def s3_error(code: str) -> bytes:
    """The body of S3's errors."""
    return f"<Error><Code>{code}</Code><Message>hush</Message></Error>".encode()


@contextmanager
def stub_store(answer: Callable[[Seen], tuple[int, bytes]]) -> Iterator[Stub]:
    """A server whose answers are those of a function: a status and a body."""
    seen: list[Seen] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            content = self.rfile.read(int(headers.get("content-length", 0)))
            request = Seen(self.command, self.path, headers, content)
            seen.append(request)
            status, body = answer(request)
            self.send_response(status)
            self.send_header("ETag", '"1"')
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _answer

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield Stub(f"http://127.0.0.1:{server.server_port}", seen)
        finally:
            server.shutdown()
