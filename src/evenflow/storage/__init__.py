"""Bytes under names: one small protocol, one file for each kind of store."""

from evenflow.storage.addresses import local_path, storage_at
from evenflow.storage.concurrent import together
from evenflow.storage.memory import MemoryStorage
from evenflow.storage.posix import PosixStorage
from evenflow.storage.protocol import Storage

__all__ = ["MemoryStorage", "PosixStorage", "Storage", "local_path", "storage_at", "together"]
