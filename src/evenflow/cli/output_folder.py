"""The directory of a command's files."""

from __future__ import annotations

import os
from pathlib import Path

from evenflow.model.errors import InputError


def make_writable(folder: Path) -> None:
    """Creates the directory of --out before the work starts, so that no result is lost."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--out {str(folder)!r} cannot be created: {error.strerror or error}; "
            "choose another directory"
        ) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"--out {str(folder)!r} is not writable; choose another directory")
