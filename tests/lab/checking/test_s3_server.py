"""The S3 server in memory: conditional writes, Spark's own s3a://, nothing left behind."""

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import from_url

from evenflow.model import InputError
from evenflow_lab.checking.s3_server import S3Server
from spark_on_s3a import run_spark_on


@pytest.mark.slow
def test_a_create_and_a_compare_and_swap_succeed_once(s3_server):
    place = s3_server.endpoint
    store = from_url(place.uri("conditional"), **place.obstore_arguments)
    first = obstore.put(store, "object", b"first", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "object", b"another", mode="create")
    obstore.put(store, "object", b"second", mode={"e_tag": first["e_tag"]})
    with pytest.raises(PreconditionError):
        obstore.put(store, "object", b"late", mode={"e_tag": first["e_tag"]})
    assert bytes(obstore.get(store, "object").bytes()) == b"second"


@pytest.mark.slow
def test_after_stop_nothing_is_left():
    server = S3Server.start()
    folder = server.folder
    assert folder.is_dir()
    server.stop()
    assert not folder.exists()
    assert not server.running
    with pytest.raises(InputError, match=r"was stopped; start another one with S3Server\.start"):
        server.restart()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_spark_writes_and_keeps_a_checkpoint_there(s3_server):
    run_spark_on(s3_server.endpoint)
