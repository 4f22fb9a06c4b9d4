"""Bytes under names: one small protocol, one file for each kind of store."""

from evenflow.storage.addresses import local_path, storage_at
from evenflow.storage.check import check_store
from evenflow.storage.concurrent import together
from evenflow.storage.hadoop import options_for, options_from_hadoop, spark_address
from evenflow.storage.memory import MemoryStorage
from evenflow.storage.object_store import ObjectStorage
from evenflow.storage.posix import PosixStorage
from evenflow.storage.protocol import Storage

__all__ = [
    "MemoryStorage",
    "ObjectStorage",
    "PosixStorage",
    "Storage",
    "check_store",
    "local_path",
    "options_for",
    "options_from_hadoop",
    "spark_address",
    "storage_at",
    "together",
]
