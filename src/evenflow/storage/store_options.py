"""Options of object stores under the many names that people know, brought to obstore's."""

from __future__ import annotations

from collections.abc import Mapping

#: Options of the connection, for every kind of store.
CLIENT_OPTIONS = frozenset(
    [
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    ]
)

#: Options that say who asks. They come as a group: a key of one source never meets a token of another.
CREDENTIALS: Mapping[str, frozenset[str]] = {
    "s3": frozenset(
        [
            "access_key_id",
            "secret_access_key",
            "session_token",
            "skip_signature",
            "role_arn",
            "role_session_name",
            "web_identity_token_file",
            "container_credentials_relative_uri",
            "container_credentials_full_uri",
            "container_authorization_token_file",
        ]
    ),
    "gs": frozenset(
        [
            "service_account",
            "service_account_key",
            "application_credentials",
            "bearer_token",
            "skip_signature",
        ]
    ),
    "az": frozenset(
        [
            "account_key",
            "sas_key",
            "token",
            "client_id",
            "client_secret",
            "tenant_id",
            "federated_token_file",
            "authority_host",
            "skip_signature",
            "use_azure_cli",
            "credential_type",
            "msi_endpoint",
            "object_id",
            "msi_resource_id",
        ]
    ),
}

_PREFIXES = {"s3": ("aws_",), "gs": ("google_",), "az": ("azure_storage_", "azure_")}

# What fsspec's file systems, delta-rs and the vendors' tools call it.
_OTHER_NAMES: Mapping[str, Mapping[str, str]] = {
    "s3": {
        "key": "access_key_id",
        "secret": "secret_access_key",
        "token": "session_token",
        "endpoint_url": "endpoint",
        "endpoint_url_s3": "endpoint",
        "anon": "skip_signature",
        "region_name": "region",
    },
    "gs": {
        "service_account_path": "service_account",
        "service_account_json": "service_account_key",
        "anon": "skip_signature",
        "endpoint_url": "base_url",
        "endpoint": "base_url",
    },
    "az": {
        "access_key": "account_key",
        "master_key": "account_key",
        "sas_token": "sas_key",
        "authority_id": "tenant_id",
        "endpoint_url": "endpoint",
        "anon": "skip_signature",
    },
}


def known_names(kind: str, options: Mapping[str, object]) -> dict[str, str]:
    """Options under obstore's names; of two names for one thing, the later one counts.

    Parameters:
        kind: of the store: `s3`, `gs` or `az`.
        options: under obstore's names, those of environment variables, of fsspec or of delta-rs.

    Example:
        >>> known_names("s3", {"AWS_ACCESS_KEY_ID": "a", "endpoint_url": "http://minio", "anon": False})
        {'access_key_id': 'a', 'endpoint': 'http://minio', 'skip_signature': 'false'}
    """
    found = {}
    for name, value in options.items():
        if value is None:
            continue
        short = name.lower()
        for prefix in _PREFIXES[kind]:
            short = short.removeprefix(prefix)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        found[_OTHER_NAMES[kind].get(short, short)] = text
    return found


def merge_options(
    kind: str, before: Mapping[str, object], given: Mapping[str, object]
) -> dict[str, str]:
    """Options of two sources; those that are given win, and credentials among them win as a group.

    Parameters:
        kind: of the store.
        before: such as those of Hadoop's configuration.
        given: by the user.

    Example:
        >>> hadoop = {"access_key_id": "a", "session_token": "b", "region": "x"}
        >>> merge_options("s3", hadoop, {"key": "mine", "secret": "hidden"})
        {'region': 'x', 'access_key_id': 'mine', 'secret_access_key': 'hidden'}
    """
    first, last = known_names(kind, before), known_names(kind, given)
    if CREDENTIALS[kind] & last.keys():
        first = {name: first[name] for name in first if name not in CREDENTIALS[kind]}
    return {**first, **last}
