"""Bytes under names: one small protocol, one file for each kind of store."""

from evenflow.storage.protocol import Lock, Storage

__all__ = ["Lock", "Storage"]
