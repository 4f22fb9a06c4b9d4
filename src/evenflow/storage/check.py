"""Before the first batch: can this process do with a store what a commit needs?"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlsplit
from uuid import uuid4

from evenflow.model.errors import InputError
from evenflow.storage.cache import CachedStorage
from evenflow.storage.object_store import ObjectStorage
from evenflow.storage.protocol import Storage
from evenflow.storage.store_errors import Problem, StoreError

PROBES = "preflight"  #: the folder of a storage in which probes are, for the time of a check
_PATIENCE = 30.0  # seconds: somebody is waiting, and a wrong address does not become right

_GIVE = {
    "s3": "storage_options, Spark's fs.s3a.* settings, AWS_… variables, a profile or a role",
    "gs": "storage_options, GOOGLE_APPLICATION_CREDENTIALS or the machine's service account",
    "az": "storage_options, Spark's fs.azure.* settings, AZURE_… variables or a managed identity",
}
_REGION = "AWS_REGION, fs.s3a.endpoint.region or the storage option region"


def check_store(storage: Storage) -> None:
    """Write, create, read, list and delete an object from this process, as a commit does.

    Guarantee: an object store that cannot do it is refused with an `InputError`, one sentence that says
    why and what to do next. Other storages raise their own `OSError`. Nothing stays there.

    Parameters:
        storage: where state is to go.

    Example:
        >>> from evenflow.storage.memory import MemoryStorage
        >>> check_store(MemoryStorage())
    """
    while isinstance(storage, CachedStorage):
        storage = storage.inner
    if isinstance(storage, ObjectStorage):
        storage = replace(storage, patience=min(_PATIENCE, storage.patience))
    folder, name = storage.under(PROBES), uuid4().hex
    doing = "write"
    try:
        folder.put(name, [b"put"])
        doing = "create"
        if folder.create(name, b"create"):
            raise InputError(
                f"{storage.where()} overwrites objects that are to be created only if they are not "
                "there; use a store that has conditional writes (If-None-Match)"
            )
        doing = "read"
        folder.read(name)
        doing = "list"
        folder.list(name)
        doing = "delete"
        folder.delete(name)
    except StoreError as error:
        if not isinstance(storage, ObjectStorage):
            raise
        raise InputError(_sentence(storage, doing, error)) from None
    finally:
        with suppress(OSError, InputError):
            if doing not in ("write", "delete"):
                folder.delete(name)


def _sentence(storage: ObjectStorage, doing: str, error: StoreError) -> str:
    where, place = storage.where(), storage.address
    kind = "container" if place.kind == "az" else "bucket"
    found = error.strerror
    if error.problem is Problem.BUCKET:
        return f"{where}: there is no {kind} {place.container}; check the name, or create it"
    if error.problem is Problem.CREDENTIALS:
        return f"{where}: {found}; they may be wrong or expired: give others in {_GIVE[place.kind]}"
    if error.problem is Problem.NO_CREDENTIALS:
        return f"{where}: {found}; give them in {_GIVE[place.kind]}"
    if error.problem is Problem.RIGHTS:
        return (
            f"{where}: {found} to {doing} objects there; grant reading, writing, listing and deleting "
            "below this folder, or choose another location"
        )
    if error.problem is Problem.REGION:
        return f"{where}: {found} than the one that is asked; give the right one in {_REGION}"
    if error.problem in (Problem.HOST, Problem.NETWORK, Problem.TIMEOUT):
        return (
            f"{where}: {found} at {_host(storage)}; check the endpoint and the region, and that this "
            "machine's network, proxy and firewall let it through"
        )
    if error.problem is Problem.CONDITIONAL and doing == "create":
        return (
            f"{where}: the store does not create objects only if they are not there; use one that has "
            "conditional writes (If-None-Match)"
        )
    if error.problem is Problem.BUSY:
        return f"{where}: {found}; try again when the store has recovered"
    return f"{where}: {found} to {doing} an object; check that the endpoint is that of the store"


def _host(storage: ObjectStorage) -> str:
    """Who is asked, without what may be secret in the address of an endpoint."""
    given = {**storage.address.config, **dict(storage.options)}
    endpoint = urlsplit(given.get("endpoint") or given.get("base_url") or "")
    if not endpoint.hostname:
        return "the vendor's usual address"
    return f"{endpoint.hostname}:{endpoint.port}" if endpoint.port else endpoint.hostname
