"""Checks from outside: what went in and what came out, compared by code that shares nothing with the
product. Benchmarks and tests use them alike."""
