"""Spark's own settings of object stores, its Hadoop configuration, as options for ours."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Mapping

from evenflow.storage.hdfs_addresses import HDFS_SCHEMES, hdfs_options
from evenflow.storage.object_address import OBJECT_SCHEMES, ObjectAddress
from evenflow.storage.store_options import merge_options

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_TENANT = re.compile(r"https://([^/]+)/([^/]+)/oauth2")
_AWS_HOST = re.compile(r"(?:https://)?s3[.-]([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/?")

Lookup = Callable[[str], str]


def spark_address(address: str, settings: Mapping[str, str]) -> str:
    """The address under which Spark's own file systems know a place.

    `s3://` is EMR's name, and open-source Spark has only `s3a://`, unless its session says which class
    reads `s3://`; `az://` is unknown to Hadoop.

    Parameters:
        address: as a user wrote it, or as `Storage.where` says it.
        settings: the session's Hadoop configuration, or its `spark.hadoop.…` settings.

    Example:
        >>> spark_address("s3://bucket/x", {}), spark_address("/data/x", {})
        ('s3a://bucket/x', '/data/x')
        >>> spark_address("s3://bucket/x", {"fs.s3.impl": "com.amazon.ws.emr.hadoop.fs.EmrFileSystem"})
        's3://bucket/x'
    """
    found = _SCHEME.match(address)
    scheme = found[1].lower() if found else ""
    if scheme in ("s3", "s3n") and not _lookup(settings)(f"fs.{scheme}.impl"):
        return "s3a" + address[len(scheme) :]
    return address


def options_from_hadoop(settings: Mapping[str, str], address: str) -> dict[str, str]:
    """What Spark's Hadoop configuration says about the store at an address, under obstore's names.

    Credentials are among them where the configuration has them; else the store finds its own, from the
    environment or the machine. Encrypted credential files (JCEKS), assumed roles and custom providers
    are not read.

    Parameters:
        settings: the Hadoop configuration, or a session's `spark.hadoop.…` settings.
        address: such as `s3a://bucket/folder`.

    Example:
        >>> options_from_hadoop({"fs.s3a.access.key": "a", "fs.s3a.secret.key": "b"}, "s3a://bucket/x")
        {'access_key_id': 'a', 'secret_access_key': 'b'}
        >>> options_from_hadoop({}, "/data/x")
        {}
    """
    found = _SCHEME.match(address)
    if not found or found[1].lower() not in OBJECT_SCHEMES:
        return {}
    place = ObjectAddress.parse(address)
    lookup = _lookup(settings)
    if place.kind == "s3":
        return _s3(lookup, place.container)
    if place.kind == "gs":
        return _gs(lookup)
    account = place.config.get("account_name", "")
    return _azure(lookup, account, place.container) if account else {}


def options_for(
    address: str, given: Mapping[str, object] | None, settings: Mapping[str, str]
) -> dict[str, str]:
    """The options for `storage_at`: those that are given win over those of Hadoop's configuration.

    Parameters:
        address: where the storage is.
        given: `storage_options` of the user.
        settings: the session's Hadoop configuration.

    Example:
        >>> options_for("s3a://b/x", {"region": "eu-west-1"}, {"fs.s3a.endpoint.region": "us-west-2"})
        {'region': 'eu-west-1'}
    """
    found = _SCHEME.match(address)
    scheme = found[1].lower() if found else ""
    kind = OBJECT_SCHEMES.get(scheme)
    if kind is None:
        own = {name: str(value) for name, value in (given or {}).items()}
        if scheme in HDFS_SCHEMES:
            return {**hdfs_options(ChainMap(own, settings), address), **own}  # type: ignore[arg-type]
        return own
    return merge_options(kind, options_from_hadoop(settings, address), given or {})


def _lookup(settings: Mapping[str, str]) -> Lookup:
    """A setting by its Hadoop name, stripped; empty if it is not there."""

    def lookup(name: str) -> str:
        value = settings.get(name)
        if value is None:
            value = settings.get(f"spark.hadoop.{name}")
        return (value or "").strip()

    return lookup


def _present(**options: str) -> dict[str, str]:
    return {name: value for name, value in options.items() if value}


# --- S3 ------------------------------------------------------------------------------------------


def _s3(lookup: Lookup, bucket: str) -> dict[str, str]:
    def own(name: str) -> str:
        return lookup(f"fs.s3a.bucket.{bucket}.{name}") or lookup(f"fs.s3a.{name}")

    options = _s3_credentials(own)
    options |= _s3_endpoint(own, bucket)
    algorithm = own("encryption.algorithm") or own("server-side-encryption-algorithm")
    key = own("encryption.key") or own("server-side-encryption.key")
    if algorithm in ("SSE-KMS", "DSSE-KMS"):
        encryption = {"SSE-KMS": "aws:kms", "DSSE-KMS": "aws:kms:dsse"}[algorithm]
        options |= _present(server_side_encryption=encryption, sse_kms_key_id=key)
    elif algorithm in ("SSE-C", "AES256"):
        encryption = "sse-c" if algorithm == "SSE-C" else "AES256"
        customer = key if algorithm == "SSE-C" else ""
        options |= _present(server_side_encryption=encryption, sse_customer_key_base64=customer)
    if own("requester.pays.enabled") == "true":
        options["request_payer"] = "true"
    if host := own("proxy.host"):
        port = own("proxy.port")
        options["proxy_url"] = f"http://{host}:{port}" if port else f"http://{host}"
    return options


def _s3_credentials(own: Lookup) -> dict[str, str]:
    """As S3A would choose them: a provider that is not named does not count."""
    providers = own("aws.credentials.provider")
    names = {name.strip().rpartition(".")[2] for name in providers.split(",") if name.strip()}
    if any(name.startswith("Anonymous") for name in names):
        return {"skip_signature": "true"}
    temporary = not names or "TemporaryAWSCredentialsProvider" in names
    if not temporary and "SimpleAWSCredentialsProvider" not in names:
        return {}
    key, secret = own("access.key"), own("secret.key")
    token = own("session.token") if temporary else ""
    return _present(access_key_id=key, secret_access_key=secret, session_token=token)


def _s3_endpoint(own: Lookup, bucket: str) -> dict[str, str]:
    endpoint, region = own("endpoint"), own("endpoint.region")
    if region == "sdk":  # S3A's word for "as the AWS SDK finds it"
        region = ""
    found = _AWS_HOST.fullmatch(endpoint)
    if found:
        region = region or found[1]
    if endpoint.removeprefix("https://").rstrip("/") == "s3.amazonaws.com":
        endpoint = ""  # every region's, so the region says more
    if not endpoint:
        return _present(region=region)
    if "://" not in endpoint:
        secure = own("connection.ssl.enabled") != "false"
        endpoint = f"{'https' if secure else 'http'}://{endpoint}"
    options = _present(endpoint=endpoint, region=region)
    if own("path.style.access") == "true" or found:
        return options
    scheme, _, host = endpoint.partition("://")
    return {
        **options,
        "endpoint": f"{scheme}://{bucket}.{host}",
        "virtual_hosted_style_request": "true",
    }


# --- Google and Azure ----------------------------------------------------------------------------


def _gs(lookup: Lookup) -> dict[str, str]:
    options = _present(base_url=lookup("fs.gs.storage.root.url").rstrip("/"))
    if lookup("fs.gs.auth.type") == "UNAUTHENTICATED":
        return {**options, "skip_signature": "true"}
    for prefix in ("fs.gs", "google.cloud"):
        if file := lookup(f"{prefix}.auth.service.account.json.keyfile"):
            return {**options, "service_account": file}
    return options


def _azure(lookup: Lookup, account: str, container: str) -> dict[str, str]:
    """An account's own settings win over those for all accounts."""
    hosts = [f"{account}.{service}.core.windows.net" for service in ("dfs", "blob")]

    def own(name: str) -> str:
        for full in (*(f"fs.azure.{name}.{host}" for host in hosts), f"fs.azure.{name}"):
            if value := lookup(full):
                return value
        return ""

    if own("account.auth.type") == "OAuth":
        tenant = _TENANT.match(own("account.oauth2.client.endpoint"))
        host = f"https://{tenant[1]}" if tenant else ""
        usual = host == "https://login.microsoftonline.com"
        return _present(
            client_id=own("account.oauth2.client.id"),
            client_secret=own("account.oauth2.client.secret"),
            tenant_id=tenant[2] if tenant else own("account.oauth2.msi.tenant"),
            authority_host="" if usual else host,
        )
    sas = own("sas.fixed.token") or next(
        (sas for host in hosts if (sas := lookup(f"fs.azure.sas.{container}.{host}"))), ""
    )
    if sas:
        return {"sas_key": sas.removeprefix("?")}
    return _present(account_key=own("account.key"))
