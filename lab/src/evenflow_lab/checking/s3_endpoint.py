"""How clients reach a bucket of an S3 server on loopback."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class S3Endpoint:
    """A bucket on an S3 server, with made-up credentials.

    Parameters:
        url: the server's address.
        bucket: the bucket's name.
        access_key, secret_key: the credentials.
        region: the region for signatures.

    Example:
        >>> place = S3Endpoint("http://127.0.0.1:9000", "tests")
        >>> place.uri("checkpoint"), place.s3a("checkpoint")
        ('s3://tests/checkpoint', 's3a://tests/checkpoint')
        >>> place.through("http://127.0.0.1:9001").spark_settings["spark.hadoop.fs.s3a.endpoint"]
        'http://127.0.0.1:9001'
    """

    url: str
    bucket: str
    access_key: str = "evenflow-tests"
    secret_key: str = "not-a-secret"
    region: str = "us-east-1"

    def uri(self, path: str) -> str:
        """The address of `path` in the bucket, for obstore.

        Parameters:
            path: below the bucket.
        """
        return f"s3://{self.bucket}/{path}"

    def s3a(self, path: str) -> str:
        """The address of `path` in the bucket, for Spark.

        Parameters:
            path: below the bucket.
        """
        return f"s3a://{self.bucket}/{path}"

    def through(self, url: str) -> S3Endpoint:
        """The same bucket, reached through a proxy.

        Parameters:
            url: the proxy's address.
        """
        return replace(self, url=url)

    @property
    def storage_options(self) -> dict[str, str]:
        """The options under obstore's names, with the client's option `allow_http` among them."""
        return {
            "endpoint": self.url,
            "access_key_id": self.access_key,
            "secret_access_key": self.secret_key,
            "region": self.region,
            "virtual_hosted_style_request": "false",
            "allow_http": "true",
        }

    @property
    def obstore_arguments(self) -> dict[str, Any]:
        """The same as arguments: `obstore.store.from_url(uri, **obstore_arguments)`."""
        config: dict[str, Any] = dict(self.storage_options)
        return {"client_options": {"allow_http": config.pop("allow_http")}, "config": config}

    @property
    def spark_settings(self) -> dict[str, str]:
        """The settings of a new Spark session, whose `spark.jars` must have `s3a_jars()`."""
        settings = {
            "impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
            "endpoint": self.url,
            "endpoint.region": self.region,
            "access.key": self.access_key,
            "secret.key": self.secret_key,
            "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            "change.detection.mode": "none",
        }
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}
