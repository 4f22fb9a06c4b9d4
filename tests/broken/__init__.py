"""Schemes and sketches that are wrong on purpose; the conformance suite must reject each of them.

Every class says in `caught_by` which check must catch it, and in `also_by` which others see the
same fault. No other check may fail: a check that fails for a reason that is not its own misleads
whoever reads the report. `ANY` stands for all others.
"""

from __future__ import annotations

from inspect import getmembers, isclass
from types import ModuleType

ANY = frozenset({"any"})
DOCUMENTED = "docstring_has_a_running_example"


def broken_classes(*modules: ModuleType) -> list[type]:
    found = [
        c for module in modules for _, c in getmembers(module, isclass) if "caught_by" in vars(c)
    ]
    return list(dict.fromkeys(found))


def assert_caught(cls: type, failures: dict[str, str]) -> None:
    expected = {cls.caught_by, *getattr(cls, "also_by", ())}
    assert cls.caught_by in failures, f"{cls.__name__} was not caught; failed: {sorted(failures)}"
    if cls.caught_by != DOCUMENTED:
        failures.pop(DOCUMENTED, None)  # what is broken on purpose need not have an example
    if "any" not in expected:
        assert failures.keys() == expected, failures
