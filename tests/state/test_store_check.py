"""A store that cannot do what a commit needs is one sentence, before anything is written."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from evenflow.model import EvenflowError
from evenflow.state.store_check import check_store
from evenflow.storage import MemoryStorage, ObjectStorage, PosixStorage
from evenflow_lab.checking.server import free_port

SECRET = "a-secret-that-nobody-may-read"


@contextmanager
def answering(status: int, code: str = "", conditional_status: int | None = None):
    """A server that answers every request with a status and S3's code for an error."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            given = status
            if conditional_status is not None and self.headers.get("If-None-Match"):
                given = conditional_status
            body = f"<Error><Code>{code}</Code></Error>".encode() if given >= 300 else b""
            self.send_response(given)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", '"x"')
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def store_at(endpoint: str) -> ObjectStorage:
    options = {
        "endpoint": endpoint,
        "access_key_id": "somebody",
        "secret_access_key": SECRET,
        "region": "us-east-1",
    }
    return ObjectStorage("s3://bucket/ckpt", tuple(sorted(options.items())), patience=0.5)


def refused(storage) -> str:
    with pytest.raises(EvenflowError) as caught:
        check_store(storage)
    text = str(caught.value)
    assert "s3://bucket/ckpt" in text
    assert "\n" not in text
    assert SECRET not in text + repr(caught.value) + repr(storage)
    return text


@pytest.mark.parametrize(
    ("status", "code", "said", "advice"),
    [
        (404, "NoSuchBucket", "there is no such bucket", "create the bucket"),
        (403, "InvalidAccessKeyId", "does not accept the credentials", "storage_options"),
        (403, "SignatureDoesNotMatch", "does not accept the credentials", "fs.s3a.access.key"),
        (403, "AccessDenied", "lack the rights", "read, write, list and delete"),
        (301, "PermanentRedirect", "another region", "region"),
    ],
)
def test_what_a_store_refuses_is_one_sentence_with_a_remedy(status, code, said, advice):
    with answering(status, code) as endpoint:
        text = refused(store_at(endpoint))
    assert said in text
    assert advice in text


def test_a_store_that_cannot_be_reached_is_one_sentence_with_a_remedy():
    text = refused(store_at(f"http://127.0.0.1:{free_port()}"))
    assert "cannot be reached" in text
    assert "check the address" in text


@pytest.mark.parametrize("conditional_status", [200, 501])
def test_a_store_without_conditional_writes_is_refused(conditional_status):
    with answering(200, "NotImplemented", conditional_status) as endpoint:
        assert "conditional writes" in refused(store_at(endpoint))


def test_nothing_stays_where_all_is_well(tmp_path, s3_server):
    place = s3_server.endpoint
    options = tuple(sorted(place.storage_options.items()))
    for storage in (
        MemoryStorage("store-check"),
        PosixStorage(str(tmp_path)),
        ObjectStorage(place.uri("store-check"), options),
    ):
        check_store(storage)
        assert storage.list("") == []


def test_another_bucket_than_there_is_is_refused_by_a_real_server(s3_server):
    place = s3_server.endpoint
    options = tuple(sorted(place.storage_options.items()))
    with pytest.raises(EvenflowError, match=r"there is no such bucket .*create the bucket"):
        check_store(ObjectStorage("s3://no-such-bucket/ckpt", options, patience=1.0))
