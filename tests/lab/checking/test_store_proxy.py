"""The proxy in front of a store: each fault as a client sees it, and nothing else changed."""

import http.client
import http.server
import os
import threading
from urllib.error import HTTPError
from urllib.request import urlopen

import obstore
import pytest
from obstore.store import from_url

from evenflow.model import InputError
from evenflow_lab.checking.server import free_port
from evenflow_lab.checking.store_proxy import Faults, StoreProxy
from evenflow_lab.checking.store_proxy_process import KINDS, kind_of

pytestmark = pytest.mark.slow

# moto refuses those who sign nothing, and checks no signature.
SIGNED = "AWS4-HMAC-SHA256 Credential=us/20260101/us-east-1/s3/aws4_request, Signature=none"
SOMEBODY = {"Authorization": SIGNED}


@pytest.fixture(scope="module")
def running(s3_server):
    with StoreProxy.start(s3_server.endpoint.url) as started:
        yield started


@pytest.fixture
def proxy(running):
    running.inject(Faults())
    running.reset()
    return running


@pytest.fixture
def request_(s3_server, proxy):
    """Sends one request over a connection of its own, through the proxy or past it."""

    def send(method, name, body=None, port=None):
        connection = http.client.HTTPConnection("127.0.0.1", port or proxy.port, timeout=20)
        connection.request(method, f"/{s3_server.endpoint.bucket}/{name}", body, SOMEBODY)
        reply = connection.getresponse()
        content = reply.read()
        connection.close()
        return reply.status, content

    return send


@pytest.fixture
def store(s3_server, proxy):
    place = s3_server.endpoint.through(proxy.url)
    return from_url(place.uri("proxied"), **place.obstore_arguments)


def always(kind, **others):
    return Faults(faults={kind: 1.0}, **others)


def test_without_faults_every_answer_is_the_stores_and_large_bodies_pass(store):
    content = os.urandom(12 << 20)
    obstore.put(store, "large", content, use_multipart=False)
    assert bytes(obstore.get(store, "large").bytes()) == content
    obstore.put(store, "parts", content, use_multipart=True, chunk_size=5 << 20)
    assert bytes(obstore.get(store, "parts").bytes()) == content
    assert bytes(obstore.get_range(store, "large", start=100, end=300)) == content[100:300]
    with pytest.raises(FileNotFoundError):
        obstore.get(store, "absent")


def test_requests_are_counted_by_method_and_kind(store, proxy):
    obstore.put(store, "a", b"12345")
    obstore.head(store, "a")
    obstore.get(store, "a").bytes()
    list(obstore.list(store))
    obstore.copy(store, "a", "b")
    obstore.delete(store, ["a", "b"])
    counts = proxy.counts()
    expected = {"PUT": 1, "HEAD": 1, "GET": 1, "LIST": 1, "COPY": 1, "DELETE_SEVERAL": 1}
    assert counts["kinds"] == expected
    assert counts["methods"] == {"PUT": 2, "HEAD": 1, "GET": 2, "POST": 1}
    assert counts["requests"] == 6
    assert counts["faults"] == {}
    proxy.reset()
    assert proxy.counts()["requests"] == 0


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("error", 500, b"<Code>InternalError</Code>"),
        ("unavailable", 503, b"<Code>ServiceUnavailable</Code>"),
        ("throttle", 503, b"<Code>SlowDown</Code>"),
    ],
)
def test_an_error_is_answered_and_the_store_is_not_asked(
    kind, status, code, proxy, request_, s3_server
):
    proxy.inject(always(kind))
    answered, content = request_("PUT", kind, b"x" * 100_000)
    assert answered == status
    assert code in content
    assert request_("HEAD", kind) == (status, b"")
    assert request_("GET", kind, port=s3_server.port)[0] == 404
    assert proxy.counts()["faults"] == {kind: 2}


def test_a_timed_out_request_is_not_applied_and_gets_no_answer(proxy, request_, s3_server):
    proxy.inject(always("timeout", hold=0.2))
    with pytest.raises(ConnectionError):
        request_("PUT", "timed-out", b"content")
    assert request_("GET", "timed-out", port=s3_server.port)[0] == 404


def test_a_request_with_a_lost_reply_is_applied_and_gets_no_answer(proxy, request_, s3_server):
    proxy.inject(always("lost_reply"))
    with pytest.raises(ConnectionError):
        request_("PUT", "lost", b"content")
    assert request_("GET", "lost", port=s3_server.port) == (200, b"content")


def test_a_slow_read_trickles_and_is_whole(proxy, request_, s3_server):
    content = os.urandom(5000)
    request_("PUT", "slow", content)
    proxy.inject(always("slow_read", slow=1.0))
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
    connection.request("GET", f"/{s3_server.endpoint.bucket}/slow", headers=SOMEBODY)
    reply = connection.getresponse()
    pieces = []
    while piece := reply.read1():
        pieces.append(piece)
    connection.close()
    assert b"".join(pieces) == content
    assert len(pieces) > 1


def test_one_connection_serves_many_requests_with_errors_among_them(proxy, s3_server):
    proxy.inject(Faults(faults={"throttle": 0.5}, seed=3))
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
    seen = set()
    for number in range(40):
        connection.request("PUT", f"/{s3_server.endpoint.bucket}/kept-{number}", b"x")
        reply = connection.getresponse()
        reply.read()
        seen.add(reply.status)
        assert (
            connection.sock is not None
        )  # http.client lets go of a connection that is to be closed
    connection.close()
    assert seen == {200, 503}


def test_the_same_seed_harms_the_same_requests(proxy, request_):
    def statuses(seed):
        proxy.inject(Faults(faults={"error": 0.3, "throttle": 0.2}, seed=seed))
        return [request_("GET", "absent")[0] for _ in range(30)]

    assert statuses(1) == statuses(1)
    assert statuses(1) != statuses(2)


def test_only_the_chosen_kinds_of_requests_are_harmed(proxy, request_):
    proxy.inject(always("error", only=("PUT",)))
    assert request_("PUT", "chosen", b"x")[0] == 500
    assert request_("GET", "chosen")[0] == 404


def test_a_client_that_retries_gets_through_all_kinds_of_faults(store, proxy):
    proxy.inject(Faults.evenly(0.3, hold=0.1, slow=0.1, seed=5))
    for number in range(60):
        obstore.put(store, f"retried/{number}", b"%d" % number)
    read = [bytes(obstore.get(store, f"retried/{n}").bytes()) for n in range(60)]
    assert read == [b"%d" % number for number in range(60)]
    assert set(proxy.counts()["faults"]) == set(KINDS)


class _Redirecting(http.server.BaseHTTPRequestHandler):
    """Redirects `/there` to another port, as a NameNode redirects to a DataNode."""

    other = 0

    def do_GET(self):
        self.send_response(307 if self.path == "/there" else 200)
        self.send_header("Location", f"http://localhost:{self.other}/here?op=OPEN")
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"here")

    def log_message(self, *arguments):
        pass


@pytest.fixture
def plain_server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Redirecting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_redirect_to_another_server_leads_through_the_proxy(plain_server, monkeypatch):
    monkeypatch.setattr(_Redirecting, "other", plain_server)
    with StoreProxy.start(f"http://127.0.0.1:{plain_server}") as proxy:
        with urlopen(f"{proxy.url}/there", timeout=20) as reply:
            assert reply.read() == b"here"
            assert reply.url == f"{proxy.url}/__through/{plain_server}/here?op=OPEN"
        assert proxy.counts()["kinds"] == {"LIST": 1, "OPEN": 1}


def test_while_the_store_is_down_connections_are_closed_without_an_answer():
    port = free_port()
    with StoreProxy.start(f"http://127.0.0.1:{port}") as proxy:
        with pytest.raises(ConnectionError):
            urlopen(f"{proxy.url}/bucket/name", timeout=20)
        with http.server.HTTPServer(("127.0.0.1", port), _Redirecting) as server:
            thread = threading.Thread(target=server.handle_request)
            thread.start()
            with urlopen(f"{proxy.url}/bucket/name", timeout=20) as reply:
                assert reply.read() == b"here"
            thread.join()


def test_an_unknown_control_path_is_not_found(proxy):
    with pytest.raises(HTTPError, match="404"):
        proxy._control("GET", "nothing")


def test_kinds_of_requests_in_both_protocols():
    assert kind_of("GET", "/webhdfs/v1/a?op=LISTSTATUS", {}) == "LISTSTATUS"
    assert kind_of("GET", "/bucket?list-type=2&prefix=a", {}) == "LIST"
    assert kind_of("PUT", "/bucket/a", {b"x-amz-copy-source": b"/bucket/b"}) == "COPY"
    assert kind_of("POST", "/bucket/a?uploads", {}) == "MULTIPART"
    assert kind_of("DELETE", "/bucket/a", {}) == "DELETE"


def test_wrong_faults_and_targets_are_named():
    with pytest.raises(InputError, match="there is no fault 'eror'; choose from error, "):
        Faults(faults={"eror": 0.1})
    with pytest.raises(InputError, match="at most 1"):
        Faults(faults={"error": 0.7, "timeout": 0.7})
    with pytest.raises(InputError, match=r"not 'https://s3\.amazonaws\.com'"):
        StoreProxy.start("https://s3.amazonaws.com")
