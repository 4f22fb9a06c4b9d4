"""The errors of functions that users wrote, in one sentence that says where to look."""

from __future__ import annotations

import traceback
from pathlib import Path

from evenflow.model import EvenflowError

_LONGEST = 1000  # characters of an error's text
_EVENFLOW = str(Path(__file__).parents[1])
_LIBRARIES = ("site-packages", "dist-packages", "/lib/python3", "<frozen")


class FunctionFailed(EvenflowError, RuntimeError):
    """A function of the user's has failed: the message names it, the key, the batch and the partition.

    Nothing of the batch has had an effect.
    """


def function_failed(
    function: str,
    key: str | None,
    batch: int | None,
    partition: int,
    error: Exception,
    can_set_aside: bool = True,
) -> FunctionFailed:
    """The error in one sentence.

    Parameters:
        function: what failed, by its name.
        key: as text; None if it is not known.
        batch: its number; None for a batch DataFrame.
        partition: of the task.
        error: that the function raised.
        can_set_aside: whether the query could go on without the rows.
    """
    whose = "" if key is None else f" for the key {key}"
    which = "" if batch is None else f"batch {batch}, "
    remedy = "correct the function or the rows"
    if batch is not None:
        remedy += " and start the query again"
        remedy += ', or set such rows aside with option "deadLetterPath"' if can_set_aside else ""
    why = error_text(error).rstrip(".")
    return FunctionFailed(
        f"{function} failed{whose} in {which}partition {partition}: {why}; {remedy}"
    )


def error_text(error: BaseException) -> str:
    """An error in one line, with the line of the user's code that it comes from.

    Guarantee: the same for the same error in every process, and at most about a thousand characters.

    Example:
        >>> error_text(KeyError("price"))
        "KeyError: 'price'"
    """
    words = " ".join(str(error).split())
    text = f"{type(error).__name__}: {words}" if words else type(error).__name__
    cause = error.__cause__
    if cause is not None:
        text += f" <- {type(cause).__name__}: {' '.join(str(cause).split())}"
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_the_users(frame.filename)]
    return f"{text} ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else text


def _is_the_users(file: str) -> bool:
    return not file.startswith(_EVENFLOW) and not any(part in file for part in _LIBRARIES)
