"""Files of the repository that no wheel contains: some benchmarks run the examples."""

from __future__ import annotations

from pathlib import Path

from evenflow.model import InputError

_ROOT = Path(__file__).resolve().parents[4]


def example(path: str) -> Path:
    """A file or folder in `examples/`.

    Example:
        >>> example("fleet").name
        'fleet'
    """
    found = _ROOT / "examples" / path
    if not found.exists():
        raise InputError(
            f"there is no {found}: this benchmark runs an example, so it needs evenflow's repository; "
            "install the laboratory from there with pip install --editable lab"
        )
    return found
