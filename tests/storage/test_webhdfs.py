"""WebHDFS operations against servers that answer as written here: standby, start, HttpFS, no rights."""

import json
import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("requests")

from evenflow.storage.hdfs import HdfsStorage
from evenflow.storage.webhdfs import WebHdfs

TOKEN = "very-secret"


def _error(kind, message="said the server"):
    return 403, json.dumps({"RemoteException": {"exception": kind, "message": message}})


STANDBY = _error("StandbyException", "Operation category READ is not supported in state standby")
STATUS = 200, json.dumps({"FileStatus": {"type": "FILE", "length": 7}})


@contextmanager
def _server(*answers):
    """A server with these answers, the last one again and again; and the requests that it got."""
    left, got = list(answers), []

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            got.append(f"{self.command} {self.path}")
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, body = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            if status == 307:
                self.send_header("Location", f"http://{self.headers['Host']}/data")
            self.send_header("Set-Cookie", "hadoop.auth=somebody")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())
            if "cookie" in (name.lower() for name in self.headers):
                got.append("a cookie")

        do_GET = do_PUT = do_DELETE = answer

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _storage(*servers, **options):
    return HdfsStorage(
        "hdfs://blue/x", WebHdfs(servers, **{"user": "alice", "patience": 5, **options})
    )


def test_a_standby_is_passed_over_and_the_active_one_is_remembered():
    with ExitStack() as stack:
        standby, asked = stack.enter_context(_server(STANDBY))
        active, answered = stack.enter_context(_server(STATUS))
        storage = _storage(standby, active)
        assert [storage.size("y") for _ in range(3)] == [7, 7, 7]
        assert (len(asked), len(answered)) == (1, 3)
        assert answered[0] == "GET /webhdfs/v1/x/y?op=GETFILESTATUS&user.name=alice"
        assert "a cookie" not in answered


@pytest.mark.parametrize(
    "failure",
    [
        _error("RetriableException", "Namenode is in startup mode"),
        _error("SafeModeException"),
        _error("IOException", "Failed to find datanode, suggest to check cluster health."),
        (500, ""),
        (503, "<html>"),
    ],
)
def test_what_passes_by_itself_is_tried_again(failure):
    with _server(failure, failure, STATUS) as (url, got):
        assert _storage(url).size("y") == 7
        assert len(got) == 3


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (
            _error("SafeModeException", "Cannot create"),
            OSError,
            "safe mode: .*dfsadmin -safemode leave",
        ),
        (STANDBY, OSError, "state standby.*no NameNode is active: .*haadmin"),
        (
            _error("AccessControlException", "user=alice"),
            PermissionError,
            "'alice'; grant the rights",
        ),
        ((401, "<html>"), PermissionError, "HTTP 401 .*or give the option user, kerberos"),
        ((404, "<html>"), OSError, "HTTP 404 .*; is the option http_address that of a NameNode"),
        (
            _error("DSQuotaExceededException", "quota = 1"),
            OSError,
            "quota = 1; raise the quota, or",
        ),
        (_error("FileNotFoundException"), FileNotFoundError, "No such object: 'hdfs://blue/x/y'"),
    ],
)
def test_what_does_not_pass_is_one_line_with_what_to_do(answer, error, message):
    with _server(answer) as (url, _):
        with pytest.raises(error, match=message) as raised:
            _storage(url, patience=0.1).size("y")
        assert "hdfs://blue/x/y" in str(raised.value)
        assert "\n" not in str(raised.value)


def test_an_unknown_host_is_not_waited_for_and_a_closed_port_is(monkeypatch):
    def unknown(*_):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    start = time.monotonic()
    with pytest.raises(
        OSError, match=r"no-such-host\.invalid:1: the host is unknown\), tried 1 time"
    ):
        _storage("http://no-such-host.invalid:1", patience=60).size("y")
    assert time.monotonic() - start < 30
    monkeypatch.undo()
    with pytest.raises(
        OSError, match=r"connection refused.*tried [2-9] times; check that HDFS is runn"
    ):
        _storage("http://127.0.0.1:1", patience=1).size("y")


def test_no_message_shows_the_token():
    with _server(_error("InvalidToken", f"token {TOKEN} is expired")) as (url, got):
        with pytest.raises(PermissionError) as refused:
            _storage(url, token=TOKEN).size("y")
        assert f"delegation={TOKEN}" in got[0]
        assert "user.name" not in got[0]
    with pytest.raises(OSError, match="http_address") as unanswered:
        _storage(url, token=TOKEN, patience=0.1).size("y")
    for raised in (refused, unanswered):
        assert TOKEN not in str(raised.value)
        assert TOKEN not in repr(raised.value.__cause__)


def test_a_server_that_cannot_replace_in_one_step_is_refused():
    """As HttpFS, which answers with the boolean of a rename that does not replace."""
    answers = [(307, ""), (201, ""), (200, '{"boolean": true}'), (200, '{"boolean": true}')]
    with (
        _server(*answers) as (url, _),
        pytest.raises(OSError, match="HttpFS cannot; give the NameN"),
    ):
        _storage(url).put("y", [b"1"])


def test_each_attempt_to_write_has_a_name_of_its_own_and_what_failed_is_removed():
    with _server((307, ""), (500, ""), (307, ""), (201, ""), (200, "")) as (url, got):
        _storage(url).put("y", [b"1"])
    names = [line.partition("?")[0].rpartition("/")[2] for line in got if "op=CREATE" in line]
    assert len(set(names)) == 2
    assert [names[0] in line for line in got if line.startswith("DELETE")] == [True]
    assert [names[1] in line for line in got if "op=RENAME" in line] == [True]
