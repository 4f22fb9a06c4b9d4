"""Where a command's files go."""

from __future__ import annotations

import os
from pathlib import Path

from evenflow.model.errors import InputError


def make_writable(folder: Path) -> None:
    """Has the folder of --out ready before the work begins, so that the work is not lost."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--out {str(folder)!r} cannot be made: {error.strerror or error}; choose another one"
        ) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"--out {str(folder)!r} cannot be written to; choose another folder")
