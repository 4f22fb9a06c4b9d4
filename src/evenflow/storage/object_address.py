"""Addresses of object stores, such as `s3://bucket/folder`, taken apart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from evenflow.model.errors import InputError

#: The schemes that users write, and the kind of store that each means.
OBJECT_SCHEMES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
        "gs": "gs",
        **dict.fromkeys(("abfss", "abfs", "wasbs", "wasb", "az"), "az"),
    }
)

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(/[^?#]*)?$")
_AZURE_HOST = re.compile(r"([a-z0-9-]+)\.(?:dfs|blob)\.([a-z0-9.-]+)")
_FABRIC = "fabric.microsoft.com"


@dataclass(frozen=True)
class ObjectAddress:
    """A folder in a bucket or a container.

    Parameters:
        kind: `s3`, `gs` or `az`.
        container: the bucket or container.
        folder: what the keys of all objects begin with; empty, or with a `/` at its end.
        config: what the address itself says about the store, under obstore's names.

    Example:
        >>> place = ObjectAddress.parse("abfss://state@acme.dfs.core.windows.net/ckpt")
        >>> place.kind, place.container, place.folder, place.config["account_name"]
        ('az', 'state', 'ckpt/', 'acme')
    """

    kind: str
    container: str
    folder: str
    config: Mapping[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def parse(cls, url: str) -> ObjectAddress:
        """Take an address apart; an `InputError` says what is wrong with it.

        Nothing after a `?`, and nothing before an `@`, is repeated in the error: it may be a secret.
        """
        found = _URL.match(url)
        if not found:
            raise InputError(
                f"{url.partition('?')[0].rpartition('@')[2]} is not an address of an object store; "
                "give SCHEME://BUCKET/FOLDER without a query, and credentials as storage_options"
            )
        scheme, host, path = found[1], found[2], found[3] or ""
        kind = OBJECT_SCHEMES[scheme.lower()]
        folder = "/".join(part for part in path.split("/") if part)
        if any(part in (".", "..") for part in folder.split("/")):
            raise InputError(
                f"{scheme}://…{path} has a part that is . or ..; give the plain folder"
            )
        folder = f"{folder}/" if folder else ""
        if kind == "az" and "@" in host:
            container, _, account = host.partition("@")
            return cls(kind, container, folder, _azure_account(scheme, account))
        if "@" in host:
            raise InputError(
                f"{scheme}://…@{host.rpartition('@')[2]} has credentials in the address; give them as "
                "storage_options, as the address is written to logs and manifests"
            )
        if not host:
            raise InputError(f"{url} has no bucket; give {scheme}://BUCKET/FOLDER")
        return cls(kind, host, folder)


def _azure_account(scheme: str, host: str) -> dict[str, str]:
    """What `ACCOUNT.dfs.core.windows.net` says."""
    found = _AZURE_HOST.fullmatch(host.lower())
    if not found:
        raise InputError(
            f"{scheme}://…@{host} does not name a storage account; give "
            f"{scheme}://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER"
        )
    account, domain = found.groups()
    if domain == "core.windows.net":
        return {"account_name": account}
    if domain == _FABRIC:
        return {"account_name": account, "use_fabric_endpoint": "true"}
    return {"account_name": account, "endpoint": f"https://{account}.blob.{domain}"}
