"""obstore's clients: one for each store and configuration, built once in a process."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from evenflow.model.errors import InputError
from evenflow.storage.object_address import ObjectAddress
from evenflow.storage.store_options import CLIENT_OPTIONS

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store

    Client = S3Store | GCSStore | AzureStore

Options = tuple[tuple[str, str], ...]

#: A stalled connection is given up after this many seconds without a byte.
STALLED = 30
_LIMITS = {
    "connect_timeout": "5s",
    "read_timeout": f"{STALLED}s",
    "timeout": "600s",  # with the body: a large object on a slow line takes long
    "pool_idle_timeout": "60s",
}
_PAUSES = {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=5), "base": 2}

_process: int | None = None  # in which obstore's threads run


def client(address: ObjectAddress, options: Options, patience: float) -> Client:
    """The client for a store.

    Guarantee: one per process and configuration; threads share it. A process that was forked from one
    that has used a client gets an `OSError` instead of waiting forever: obstore's threads do not
    survive a fork. Spark's Python workers are forked before any of this, and are fine.

    Parameters:
        address: the bucket or container; its folder does not matter.
        options: under obstore's names.
        patience: seconds in which requests that fail are made again.
    """
    global _process
    if _process is None:
        _process = os.getpid()
    elif _process != os.getpid():
        raise OSError(
            "this process was forked from one that had used an object store, and the store's threads "
            'do not survive that; start it with multiprocessing\'s "spawn" or "forkserver" method'
        )
    config = tuple(sorted(address.config.items()))
    return _build(address.kind, address.container, config, options, patience)


@cache
def _build(kind: str, container: str, config: Options, options: Options, patience: float) -> Client:
    import obstore
    from obstore import store

    settings: dict[str, Any] = {**dict(config), **dict(options)}
    connection: dict[str, Any] = {**_LIMITS}
    connection |= {name: settings.pop(name) for name in CLIENT_OPTIONS & settings.keys()}
    endpoint = settings.get("endpoint") or settings.get("base_url") or ""
    if endpoint.startswith("http://"):
        connection.setdefault("allow_http", "true")  # the user has said so
    arguments: dict[str, Any] = {
        "client_options": connection,
        "retry_config": {
            "max_retries": 10,
            "retry_timeout": timedelta(seconds=patience),
            "backoff": _PAUSES,
        },
    }
    try:
        if kind == "s3":
            provider = _s3_provider(settings)
            return store.S3Store(
                container, config=cast(Any, settings), credential_provider=provider, **arguments
            )
        if kind == "gs":
            return store.GCSStore(container, config=cast(Any, settings), **arguments)
        return store.AzureStore(container, config=cast(Any, _one_credential(settings)), **arguments)
    except (obstore.exceptions.BaseError, ValueError) as error:
        raise InputError(
            f"the options for {kind}://{container} are not accepted: {_refusal(error)}; their names "
            "are in docs/stores.md, under Credentials"
        ) from None


def _refusal(error: Exception) -> str:
    """The first line of obstore's text, without values: they may be secrets."""
    text = str(error).partition("\n")[0]
    if type(error).__name__ != "UnknownConfigurationKeyError":
        text = re.sub(r'"[^"]*"', "a value", text)
    return text.rstrip(". ")


# --- credentials ---------------------------------------------------------------------------------


def _s3_provider(settings: dict[str, Any]) -> Callable[[], Any] | None:
    """Who signs for S3, where obstore's own chain would not do.

    Keys that are given must not meet a session token of the environment. Profiles of `~/.aws` are
    unknown to obstore: boto3 reads them where it is installed.
    """
    if "access_key_id" in settings and "secret_access_key" in settings:
        fixed = {
            "access_key_id": settings.pop("access_key_id"),
            "secret_access_key": settings.pop("secret_access_key"),
            "token": settings.pop("session_token", None),
            "expires_at": None,
        }
        return lambda: fixed
    if settings.get("skip_signature") == "true" or not _profile():
        return None
    if find_spec("boto3") is None:
        if "AWS_PROFILE" not in os.environ:
            return None
        raise InputError(
            "AWS_PROFILE is set, and profiles are read by boto3, which is not installed; run pip "
            "install boto3, or give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    return _boto3_provider(settings)


def _profile() -> bool:
    """Whether credentials may be in a profile; where the environment has them, they are not."""
    environment: Mapping[str, str] = os.environ
    if "AWS_PROFILE" in environment:
        return True
    if {"AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"} & environment.keys():
        return False
    files = (
        environment.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
        environment.get("AWS_CONFIG_FILE", "~/.aws/config"),
    )
    return any(os.path.isfile(os.path.expanduser(file)) for file in files)


def _boto3_provider(settings: dict[str, Any]) -> Callable[[], Any] | None:
    import boto3
    from botocore.exceptions import BotoCoreError
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        session = boto3.Session()
        if session.get_credentials() is None:
            return None
    except BotoCoreError as error:
        raise InputError(f"the AWS profile cannot be used: {error}") from None
    if session.region_name and "AWS_REGION" not in os.environ:
        settings.setdefault("region", session.region_name)
    return Boto3CredentialProvider(session)


def _one_credential(settings: dict[str, Any]) -> dict[str, Any]:
    """Azure: what is given counts, whatever else the environment has."""
    given = {
        "token": "bearer_token",
        "account_key": "access_key",
        "sas_key": "sas_token",
        "client_secret": "client_secret",
    }
    for name, kind in given.items():
        if name in settings:
            settings.setdefault("credential_type", kind)
    return settings
