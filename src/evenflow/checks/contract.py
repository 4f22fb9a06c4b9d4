"""Checks of a scheme or a sketch itself, before it gets any message."""

from __future__ import annotations

import doctest
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np

from evenflow.checks.outcome import CheckFailed
from evenflow.checks.probing import GAPPED, SEED, copied, route
from evenflow.checks.streams import Stream
from evenflow.grouping.protocol import GroupingScheme
from evenflow.model import InputError

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_CLASS_VARIABLES = {"name": str, "symbol": str, "splits_keys": bool, "weighted": bool}
_METHODS = ("start", "route", "candidates", "observe", "resize")


class Named(Protocol):
    """A scheme or a sketch: frozen configuration with a name."""

    name: ClassVar[str]


def protocol_is_complete(scheme: GroupingScheme, streams: Sequence[Stream]) -> None:
    """The class has all variables, of the right types, and all methods of the protocol."""
    require_members(scheme, _CLASS_VARIABLES, _METHODS)


def require_members(subject: Named, variables: Mapping[str, type], methods: Sequence[str]) -> None:
    """Fail unless the class has these variables, of these types, and these methods."""
    cls = type(subject)
    for variable, kind in variables.items():
        value = getattr(cls, variable, None)
        if not isinstance(value, kind):
            raise CheckFailed(f"{cls.__name__}.{variable} must be a {kind.__name__}, got {value!r}")
    if not _NAME.fullmatch(cls.name):
        raise CheckFailed(
            f"{cls.__name__}.name must be lower-case words joined by hyphens, got {cls.name!r}"
        )
    for method in methods:
        if not callable(getattr(cls, method, None)):
            raise CheckFailed(f"{cls.name} has no method {method}; see the protocol")


def configuration_is_frozen(subject: Named, streams: Sequence[Stream]) -> None:
    """Nothing can be set on the instance, and a pickled copy equals it."""
    try:
        # A new attribute: a subclass of a frozen dataclass without `@dataclass` guards only the
        # inherited fields.
        subject.set_by_the_checks = True  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        pass
    else:
        object.__delattr__(subject, "set_by_the_checks")
        raise CheckFailed(
            f"attributes of {subject.name} can be set; use @dataclass(frozen=True), and keep what "
            "changes in the state"
        )
    if copied(subject) != subject:
        raise CheckFailed(f"a pickled copy of {subject.name} is not equal to it")


def docstring_has_a_running_example(subject: Named, streams: Sequence[Stream]) -> None:
    """The docstring states a guarantee and has an example, which passes."""
    cls = type(subject)
    text = cls.__dict__.get("__doc__") or ""
    for needed, what in (("Guarantee", "no sentence on its guarantee"), (">>>", "no example")):
        if needed not in text:
            raise CheckFailed(f"the docstring of {cls.__name__} has {what} ({needed!r})")
    output: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    names = vars(sys.modules[cls.__module__])
    test = doctest.DocTestParser().get_doctest(text, dict(names), cls.__name__, None, 0)
    if runner.run(test, out=output.append).failed:
        raise CheckFailed(
            f"the example of {cls.__name__} fails: {' '.join(''.join(output).split())}"
        )


def state_is_plain_arrays(scheme: GroupingScheme, streams: Sequence[Stream]) -> None:
    """The state is a NamedTuple of arrays (or of such NamedTuples), as kernels need it."""
    state = scheme.start(GAPPED, SEED)
    route(scheme, state, streams[0].keys)
    require_plain(scheme.name, state)


def bad_input_is_refused(scheme: GroupingScheme, streams: Sequence[Stream]) -> None:
    """Fewer than one worker: `InputError`, from `start` and from `resize`."""
    state = scheme.start(GAPPED, SEED)
    for workers in (0, -3):
        require_refused(scheme, f"start({workers})", partial(scheme.start, workers))
        require_refused(scheme, f"resize(state, {workers})", partial(scheme.resize, state, workers))


def require_refused(scheme: GroupingScheme, call: str, do: Callable[[], Any]) -> None:
    """Fail unless `do` raises `InputError`."""
    try:
        do()
    except InputError:
        return
    except Exception as error:
        raise CheckFailed(
            f"{scheme.name}.{call} must raise InputError, got {type(error).__name__}: {error}"
        ) from error
    raise CheckFailed(f"{scheme.name}.{call} must raise InputError, but was accepted")


def require_plain(subject: str, state: Any) -> None:
    """Fail unless `state` is a NamedTuple of arrays, or of such NamedTuples."""
    if not isinstance(state, tuple) or not hasattr(state, "_fields"):
        raise CheckFailed(
            f"the state of {subject} must be a NamedTuple, got {type(state).__name__}"
        )
    for path, leaf in leaves(state):
        if not isinstance(leaf, np.ndarray) or leaf.dtype == object:
            raise CheckFailed(
                f"{subject}: {path} must be an array of numbers, got {type(leaf).__name__}; "
                "kernels and checkpoints support nothing else"
            )


def leaves(state: Any, path: str = "state") -> list[tuple[str, Any]]:
    """(path, value) of everything in a NamedTuple of NamedTuples, in order."""
    if not (isinstance(state, tuple) and hasattr(state, "_fields")):
        return [(path, state)]
    return [
        leaf
        for field, value in zip(state._fields, state, strict=True)
        for leaf in leaves(value, f"{path}.{field}")
    ]
