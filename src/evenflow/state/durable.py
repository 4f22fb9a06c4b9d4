"""Moved to `evenflow.storage.durable`."""

from evenflow.storage.durable import TEMPORARY, sync_directory, write_whole

__all__ = ["TEMPORARY", "sync_directory", "write_whole"]
