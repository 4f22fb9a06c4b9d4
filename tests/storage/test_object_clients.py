"""Whose credentials sign a request."""

import pytest

from evenflow.model import InputError
from evenflow.storage import object_clients, storage_at
from stub_store import stub_store


@pytest.fixture(autouse=True)
def _environment(monkeypatch, tmp_path):
    """No credentials but those of a test, and no clients of an earlier one."""
    import os

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    object_clients._build.cache_clear()
    yield
    object_clients._build.cache_clear()


def signer(options=None, address="s3://bucket/x"):
    """The key, region and token of a request."""
    with stub_store(lambda _: (200, b"")) as stub:
        storage_at(address, {"endpoint": stub.url, **(options or {})}).put("a", [b"1"])
        headers = stub.requests[0].headers
    scope = headers.get("authorization", "").partition("Credential=")[2].split("/")
    return scope[0], "".join(scope[2:3]), headers.get("x-amz-security-token")


def test_the_environment_is_read_and_given_keys_win_as_a_group(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ambient")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert signer() == ("ambient", "eu-west-1", "token")
    assert signer({"key": "mine", "secret": "own"}) == ("mine", "eu-west-1", None)
    assert signer({"anon": "true"}) == ("", "", None)


def test_a_profile_is_read_through_boto3(monkeypatch, tmp_path):
    pytest.importorskip("boto3")
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text(
        "[default]\naws_access_key_id=plain\naws_secret_access_key=x\n"
        "[work]\naws_access_key_id=worker\naws_secret_access_key=x\nregion=eu-west-3\n"
    )
    assert signer()[0] == "plain"
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert signer()[:2] == ("worker", "eu-west-3")
    assert signer({"key": "mine", "secret": "own"})[0] == "mine"
    monkeypatch.setenv("AWS_PROFILE", "missing")
    with pytest.raises(InputError, match="profile"):
        signer()


def test_a_profile_without_boto3_is_refused(monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.setattr(object_clients, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"AWS_PROFILE is set.*pip install boto3"):
        signer()


def test_a_given_signature_of_azure_wins_over_the_environment(monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "YW1iaWVudA==")
    with stub_store(lambda _: (201, b"")) as stub:
        options = {"account_name": "acme", "sas_token": "sig=given", "endpoint": stub.url}
        storage_at("az://cont/x", options).put("a", [b"1"])
    assert "sig=given" in stub.requests[0].path
    assert "authorization" not in stub.requests[0].headers
