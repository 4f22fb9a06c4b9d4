"""The pictures of `evenflow demo` and `evenflow compare`. Needs the extra `report` (matplotlib)."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

NO_PICTURE = "No picture: matplotlib is not installed; pip install 'evenflow[report]'"


def drawn(draw: Callable[[], Path]) -> Path | None:
    """The picture's file; None where matplotlib is not installed."""
    return None if find_spec("matplotlib") is None else draw()
