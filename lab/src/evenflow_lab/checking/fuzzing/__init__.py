"""Fuzzing of everything that is parsed: seeded mutations of valid inputs, and one line per parser.

The contract: a parser returns a value, or raises an `EvenflowError` with a message, in bounded time and
memory. Any other exception is a crash.
"""
