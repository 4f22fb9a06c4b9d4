"""Errors that programs catch by the type that PySpark gives them."""

from __future__ import annotations

from pyspark.errors import IllegalArgumentException, PySparkException, PySparkTypeError

from evenflow.model import InputError


class CogroupKeysDiffer(InputError, IllegalArgumentException):
    """The sides of a cogroup have different numbers of keys."""

    def __init__(self, message: str) -> None:
        PySparkException.__init__(self, message)


class NotAnOperator(InputError, PySparkTypeError):
    """`apply` was given something else than an operator, or a function of PySpark's for groups."""

    def __init__(self, message: str) -> None:
        PySparkException.__init__(self, message)
