"""What messages call a function of the user's."""

from __future__ import annotations

from typing import Any


def function_name(function: Any) -> str:
    """Module and name of a function, or of the class of another callable.

    Guarantee: the same in every process, unlike a function's own representation, which has an address.

    Example:
        >>> function_name(function_name), function_name(None)
        ('evenflow.model.function_names.function_name', 'None')
    """
    if function is None:
        return "None"
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"
