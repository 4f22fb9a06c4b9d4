"""What Spark's Hadoop configuration says about a store, as options of ours."""

import pytest

from evenflow.storage import options_for, options_from_hadoop, spark_address, storage_at

ANONYMOUS = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
SIMPLE = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
TEMPORARY = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
INSTANCE = "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"
KEYS = {"access.key": "key", "secret.key": "secret", "session.token": "token"}


def s3(address="s3a://bucket/x", **settings):
    names = {name.replace("_", "."): value for name, value in settings.items()}
    return options_from_hadoop({f"fs.s3a.{name}": value for name, value in names.items()}, address)


@pytest.mark.parametrize("prefix", ["", "spark.hadoop."])
def test_keys_endpoint_and_style_of_s3a(prefix):
    settings = {
        "fs.s3a.access.key": "key",
        "fs.s3a.secret.key": "secret",
        "fs.s3a.endpoint": "minio:9000",
        "fs.s3a.endpoint.region": "eu-west-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
    }
    given = {prefix + name: value for name, value in settings.items()}
    assert options_from_hadoop(given, "s3a://bucket/x") == {
        "access_key_id": "key",
        "secret_access_key": "secret",
        "endpoint": "http://minio:9000",
        "region": "eu-west-1",
    }


def test_a_buckets_own_settings_win():
    settings = {
        "fs.s3a.access.key": "common",
        "fs.s3a.secret.key": "secret",
        "fs.s3a.bucket.mine.access.key": "own",
        "fs.s3a.bucket.other.access.key": "other",
        "fs.s3a.bucket.mine.endpoint.region": "eu-west-1",
    }
    assert options_from_hadoop(settings, "s3a://mine/x") == {
        "access_key_id": "own",
        "secret_access_key": "secret",
        "region": "eu-west-1",
    }
    assert options_from_hadoop(settings, "s3://third")["access_key_id"] == "common"


@pytest.mark.parametrize(
    ("provider", "options"),
    [
        ("", {"access_key_id": "key", "secret_access_key": "secret", "session_token": "token"}),
        (
            f" {TEMPORARY},\n{SIMPLE} ",
            {"access_key_id": "key", "secret_access_key": "secret", "session_token": "token"},
        ),
        (SIMPLE, {"access_key_id": "key", "secret_access_key": "secret"}),
        (ANONYMOUS, {"skip_signature": "true"}),
        (INSTANCE, {}),
    ],
)
def test_only_the_providers_that_s3a_uses_count(provider, options):
    settings = {f"fs.s3a.{name}": value for name, value in KEYS.items()}
    settings["fs.s3a.aws.credentials.provider"] = provider
    assert options_from_hadoop(settings, "s3a://bucket/x") == options


@pytest.mark.parametrize(
    ("endpoint", "options"),
    [
        ("s3.amazonaws.com", {}),
        (
            "s3.eu-west-1.amazonaws.com",
            {"endpoint": "https://s3.eu-west-1.amazonaws.com", "region": "eu-west-1"},
        ),
        (
            "store.example:9000",
            {
                "endpoint": "https://bucket.store.example:9000",
                "virtual_hosted_style_request": "true",
            },
        ),
    ],
)
def test_endpoints_as_s3a_reads_them(endpoint, options):
    assert s3(endpoint=endpoint) == options
    assert "region" not in s3(endpoint_region="sdk")


def test_encryption_requester_and_proxy():
    assert s3(
        encryption_algorithm="SSE-KMS",
        encryption_key="arn",
        requester_pays_enabled="true",
        proxy_host="proxy",
        proxy_port="3128",
    ) == {
        "server_side_encryption": "aws:kms",
        "sse_kms_key_id": "arn",
        "request_payer": "true",
        "proxy_url": "http://proxy:3128",
    }


ACCOUNT = "acme.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({f"account.key.{ACCOUNT}": "key"}, {"account_key": "key"}),
        ({"account.key.acme.blob.core.windows.net": "key"}, {"account_key": "key"}),
        ({"account.key.other.dfs.core.windows.net": "key"}, {}),
        ({f"sas.fixed.token.{ACCOUNT}": "?sv=1&sig=2"}, {"sas_key": "sv=1&sig=2"}),
        ({"sas.cont.acme.blob.core.windows.net": "sv=1"}, {"sas_key": "sv=1"}),
        (
            {
                f"account.auth.type.{ACCOUNT}": "OAuth",
                f"account.oauth2.client.id.{ACCOUNT}": "id",
                "account.oauth2.client.id": "common",
                "account.oauth2.client.secret": "secret",
                "account.oauth2.client.endpoint": "https://login.microsoftonline.com/t/oauth2/token",
                f"account.key.{ACCOUNT}": "not used",
            },
            {"client_id": "id", "client_secret": "secret", "tenant_id": "t"},
        ),
    ],
)
def test_azure_by_key_signature_or_client(settings, options):
    named = {f"fs.azure.{name}": value for name, value in settings.items()}
    assert options_from_hadoop(named, f"abfss://cont@{ACCOUNT}/x") == options


@pytest.mark.parametrize("prefix", ["fs.gs", "google.cloud"])
def test_google_by_key_file_or_anonymous(prefix):
    file = {f"{prefix}.auth.service.account.json.keyfile": "/key.json"}
    assert options_from_hadoop(file, "gs://b/x") == {"service_account": "/key.json"}
    anonymous = {**file, "fs.gs.auth.type": "UNAUTHENTICATED"}
    assert options_from_hadoop(anonymous, "gs://b/x") == {"skip_signature": "true"}


@pytest.mark.parametrize("address", ["/data/x", "file:/x", "hdfs://name/x", "memory://x"])
def test_other_storages_take_nothing_of_it(address):
    assert options_from_hadoop({"fs.s3a.access.key": "key"}, address) == {}


def test_given_options_win_and_credentials_are_never_mixed():
    settings = {f"fs.s3a.{name}": value for name, value in KEYS.items()}
    settings["fs.s3a.endpoint.region"] = "eu-west-1"
    given = {"AWS_ACCESS_KEY_ID": "mine", "AWS_SECRET_ACCESS_KEY": "own"}
    options = options_for("s3a://b/x", given, settings)
    assert options == {"access_key_id": "mine", "secret_access_key": "own", "region": "eu-west-1"}
    assert options_for("s3a://b/x", {"region": "x"}, settings)["session_token"] == "token"
    assert dict(storage_at("s3a://b/x", options).options) == options
    assert options_for("/data", None, settings) == {}


@pytest.mark.parametrize(
    ("address", "settings", "expected"),
    [
        ("s3://b/x", {}, "s3a://b/x"),
        ("s3n://b/x", {}, "s3a://b/x"),
        ("s3a://b/x", {}, "s3a://b/x"),
        ("s3://b/x", {"fs.s3.impl": "com.amazon.EmrFileSystem"}, "s3://b/x"),
        ("s3://b/x", {"spark.hadoop.fs.s3.impl": "com.amazon.EmrFileSystem"}, "s3://b/x"),
        ("gs://b/x", {}, "gs://b/x"),
        ("/data/s3://x", {}, "/data/s3://x"),
    ],
)
def test_spark_gets_an_address_that_it_knows(address, settings, expected):
    assert spark_address(address, settings) == expected
