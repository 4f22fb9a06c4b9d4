"""A store that cannot be used is refused with one sentence, before anything depends on it."""

import pytest

from evenflow.model import InputError
from evenflow.storage import MemoryStorage, PosixStorage, check_store, storage_at
from evenflow.storage import check as check_module
from evenflow.storage.cache import CachedStorage
from evenflow_lab.checking.server import free_port
from stub_store import s3_error, stub_store

KEYS = {"access_key_id": "AKIAHUSH", "secret_access_key": "hush"}


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(check_module, "_PATIENCE", 0.3)


def refusal(address, options):
    """The sentence; it has no secrets."""
    with pytest.raises(InputError) as raised:
        check_store(storage_at(address, options))
    sentence = str(raised.value)
    assert "\n" not in sentence
    assert "hush" not in sentence.lower()
    assert sentence.startswith(address)
    assert "; " in sentence, "what to do next"
    return sentence


def refusal_of(answer, address="s3://bucket/x"):
    with stub_store(answer) as stub:
        return refusal(address, {"endpoint": stub.url, **KEYS})


def test_a_store_that_works_is_accepted_and_left_as_it_was(s3_server, tmp_path):
    endpoint = s3_server.endpoint
    remote = storage_at(endpoint.uri("check"), endpoint.storage_options)
    for storage in (remote, CachedStorage(remote), MemoryStorage(), PosixStorage(str(tmp_path))):
        check_store(storage)
        assert storage.list("") == []


def test_a_wrong_bucket_is_named(s3_server):
    sentence = refusal("s3://no-such/x", s3_server.endpoint.storage_options)
    assert "there is no bucket no-such; check the name" in sentence


@pytest.mark.parametrize("code", ["InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"])
def test_wrong_credentials_are_told_from_missing_rights(code):
    assert f"does not accept the credentials (403 {code})" in refusal_of(
        lambda _: (403, s3_error(code))
    )


def test_missing_credentials_are_told_from_wrong_ones(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with stub_store(lambda _: (404, b"")) as metadata:
        options = {"metadata_endpoint": metadata.url, "endpoint": metadata.url}
        assert "no credentials were found; give them in" in refusal("s3://bucket/x", options)
        assert metadata.requests[-1].path == "/latest/api/token"


@pytest.mark.parametrize(
    ("refused", "doing"),
    [("PUT", "write"), ("GET", "create"), ("POST", "delete")],
)
def test_missing_rights_are_named(refused, doing):
    def answer(request):
        if request.method == refused:
            return 403, s3_error("AccessDenied")
        if request.method == "PUT" and "if-none-match" in request.headers:
            return 412, s3_error("PreconditionFailed")
        return 200, b"<ListBucketResult></ListBucketResult>"

    assert f"lack the rights (403 AccessDenied) to {doing} objects" in refusal_of(answer)


def test_an_unknown_host_is_named():
    options = {"endpoint": "http://no-such-host.invalid:9000", **KEYS}
    sentence = refusal("s3://bucket/x", options)
    assert "the host of the store is unknown at no-such-host.invalid:9000; check" in sentence


def test_a_store_that_is_not_reached_is_named():
    port = free_port()
    sentence = refusal("s3://bucket/x", {"endpoint": f"http://127.0.0.1:{port}", **KEYS})
    assert f"cannot be reached at 127.0.0.1:{port}; check" in sentence


def test_a_store_that_ignores_conditions_is_refused():
    assert "conditional writes" in refusal_of(lambda _: (200, b"create"))


@pytest.mark.parametrize("status", [501, 405])
def test_a_store_that_does_not_know_conditions_is_refused(status):
    def answer(request):
        return (
            (status, s3_error("NotImplemented"))
            if "if-none-match" in request.headers
            else (200, b"")
        )

    assert "conditional writes" in refusal_of(answer)


@pytest.mark.parametrize("status", [301, 307])
def test_a_bucket_in_another_region_is_told(status):
    sentence = refusal_of(lambda _: (status, s3_error("PermanentRedirect")))
    assert "in another region" in sentence
    assert "AWS_REGION, fs.s3a.endpoint.region" in sentence


def test_a_store_that_keeps_failing_is_told():
    assert "(503 SlowDown); try again" in refusal_of(lambda _: (503, s3_error("SlowDown")))


@pytest.mark.parametrize("options", [{"endpont": "hush"}, {"skip_signature": "hush"}])
def test_options_that_do_not_exist_are_refused_without_their_values(options):
    with pytest.raises(InputError, match="options for s3://bucket are not accepted") as raised:
        check_store(storage_at("s3://bucket/x", options))
    assert "hush" not in str(raised.value)
