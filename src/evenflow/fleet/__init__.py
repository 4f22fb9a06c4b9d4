"""Streaming queries placed over several Spark applications, and moved between them."""
