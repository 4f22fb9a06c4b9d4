"""Queuing delay with and without SMALOPS, on a real broker."""
