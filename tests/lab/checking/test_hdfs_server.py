"""The HDFS of the tests: a folder that it left is used on."""

import pytest

from evenflow.model import InputError
from evenflow.storage import storage_at
from evenflow_lab.checking.hdfs_server import HdfsServer

pytest.importorskip("requests")


@pytest.mark.slow
@pytest.mark.long
def test_a_folder_that_is_used_on_has_its_objects_and_addresses(tmp_path):
    with HdfsServer.start(tmp_path / "kept") as server:
        address, options = server.address("x"), server.options
        storage_at(address, options).put("y", [b"1"])
    assert not server.running
    with pytest.raises(InputError, match=r"was stopped; start another one with HdfsServer\.start"):
        server.restart()
    with HdfsServer.start(tmp_path / "kept") as server:
        assert (server.address("x"), server.options) == (address, options)
        assert storage_at(address, options).read("y") == b"1"
