"""Where the WebHDFS of an address is, by Hadoop's rules."""

import pickle

import pytest

from evenflow.model import InputError
from evenflow.storage import storage_at
from evenflow.storage.hdfs_addresses import hdfs_options

HA = {
    "dfs.nameservices": "blue,green",
    "dfs.ha.namenodes.blue": "a, b",
    "dfs.namenode.http-address.blue.a": "host1:50070",
    "dfs.namenode.http-address.blue.b": "host2:50070",
    "dfs.namenode.https-address.blue.a": "host1:50470",
    "dfs.namenode.https-address.blue.b": "host2:50470",
    "dfs.namenode.http-address.green": "host3:9870",
}


@pytest.mark.parametrize(
    ("address", "settings", "expected"),
    [
        ("webhdfs://host:1234/x", {}, "http://host:1234"),
        ("webhdfs://host/x", {}, "http://host:9870"),
        ("swebhdfs://host/x", {}, "https://host:9871"),
        ("hdfs://host:8020/x", {}, "http://host:9870"),
        ("hdfs://host", {}, "http://host:9870"),
        ("hdfs://host/x", {"dfs.namenode.http-address": "0.0.0.0:50070"}, "http://host:50070"),
        ("hdfs://host/x", {"dfs.http.policy": "HTTPS_ONLY"}, "https://host:9871"),
        ("hdfs:///x", {"fs.defaultFS": "hdfs://host:8020"}, "http://host:9870"),
        ("hdfs:///x", {"spark.hadoop.fs.defaultFS": "hdfs://host"}, "http://host:9870"),
        ("hdfs:///x", {"fs.defaultFS": "webhdfs://host:1234"}, "http://host:1234"),
        ("hdfs://blue/x", HA, "http://host1:50070,http://host2:50070"),
        ("webhdfs://blue/x", HA, "http://host1:50070,http://host2:50070"),
        ("swebhdfs://blue/x", HA, "https://host1:50470,https://host2:50470"),
        ("hdfs://green/x", HA, "http://host3:9870"),
        (
            "hdfs:///x",
            {**HA, "fs.defaultFS": "hdfs://blue"},
            "http://host1:50070,http://host2:50070",
        ),
    ],
)
def test_the_name_nodes_follow_from_address_and_settings(address, settings, expected):
    assert hdfs_options(settings, address) == {"http_address": expected}
    storage = storage_at(address, settings)
    assert storage.client.servers == tuple(expected.split(","))
    assert storage.where() == address, "Spark gets what the user wrote"


def test_options_come_before_settings_and_kerberos_from_settings():
    settings = {
        **HA,
        "hadoop.security.authentication": "kerberos",
        "http_address": "h:1,http://i:2",
    }
    client = storage_at("hdfs://blue/x", settings).client
    assert (client.servers, client.kerberos) == (("http://h:1", "http://i:2"), True)
    assert not storage_at("hdfs://blue/x", {**settings, "kerberos": "false"}).client.kerberos
    given = {"user": "alice", "verify": "/etc/ca.pem", "timeout": "3", "patience": 4}
    client = storage_at("hdfs://host/x", given).client
    assert (client.user, client.verify, client.timeout, client.patience) == (
        "alice",
        "/etc/ca.pem",
        3.0,
        4.0,
    )


def test_without_an_option_the_user_is_the_one_that_hadoop_takes(monkeypatch):
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    assert storage_at("hdfs://host/x").client.user == "bob"


@pytest.mark.parametrize(
    ("address", "options", "message"),
    [
        (
            "hdfs:///x",
            {},
            r"hdfs:///x names no NameNode, and fs.defaultFS is not set; write hdfs://",
        ),
        ("hdfs:///x", {"fs.defaultFS": "file:///"}, r"fs.defaultFS is file:///; write hdfs://"),
        ("hdfs://host:port/x", {}, r"is not an address on HDFS; write hdfs://"),
        ("webhdfs://alice@host/x", {}, r"is not an address on HDFS.* as the option user"),
        (
            "hdfs://host/x",
            {"usr": "a"},
            r"HDFS has no option 'usr'; choose from http_address, user",
        ),
        ("hdfs://host/x", {"http_address": ""}, r"http_address is empty; give the NameNode's"),
        (
            "hdfs://red/x",
            {"dfs.nameservices": "red", "dfs.ha.namenodes.red": "a"},
            r"nameservice red, but dfs.namenode.http-address.red.a is not set; set it, or give",
        ),
    ],
)
def test_what_does_not_lead_to_a_name_node_is_refused_with_advice(address, options, message):
    with pytest.raises(InputError, match=message):
        storage_at(address, options)


def test_a_storage_is_a_value_that_does_not_show_its_token():
    storage = storage_at("hdfs://host/x/", {"delegation_token": "secret", "user": "a"})
    assert "secret" not in repr(storage)
    copy = pickle.loads(pickle.dumps(storage))
    assert (copy, hash(copy)) == (storage, hash(storage))
    assert copy.client.token == "secret"
    assert storage.where("y") == "hdfs://host/x/y"
    assert storage.under("/y/") == storage.under("y")
    assert storage_at("hdfs://host").where("y") == "hdfs://host/y"
