"""Fields of a TOML table, read with their types; what is wrong is named with its place."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from evenflow.model import InputError

_NEEDED: Any = object()


class Table:
    """A table that knows where it stands, and which of its fields have been asked for.

    Guarantee: each method returns a value of its type or raises an `InputError` that names the
    place, the field, what was expected and what was given; `finish` refuses fields that nobody
    asked for, so that a misspelt one is not passed over.

    Parameters:
        where: `papers/x/paper.toml: figure 'fig1'`, for messages.
        content: the table, as `tomllib` gives it.

    Example:
        >>> Table("paper.toml", {"title": "T"}).text("title")
        'T'
        >>> Table("paper.toml", {"title": 3}).text("title")
        Traceback (most recent call last):
        evenflow.model.errors.InputError: paper.toml: field 'title': expected a text, got 3
    """

    def __init__(self, where: str, content: Mapping[str, Any]) -> None:
        self._where = where
        self._content = content
        self._asked: dict[str, None] = {}

    def __contains__(self, name: str) -> bool:
        self._asked[name] = None
        return name in self._content

    def text(self, name: str, default: Any = _NEEDED) -> str:
        value = self._get(name, default)
        return str(self._expect(name, isinstance(value, str), "a text", value))

    def texts(self, name: str, needed: bool = False) -> tuple[str, ...]:
        """A text or a list of texts; none where the field is missing and not needed."""
        value = self._get(name, _NEEDED if needed else ())
        items = [value] if isinstance(value, str) else value
        fits = isinstance(items, list | tuple) and all(isinstance(item, str) for item in items)
        return tuple(self._expect(name, fits, "a text or a list of texts", items))

    def one_of(self, name: str, choices: Sequence[str], default: str) -> str:
        value = self._get(name, default)
        return str(self._expect(name, value in choices, f"one of {', '.join(choices)}", value))

    def whole(self, name: str, default: Any = _NEEDED) -> int | None:
        value = self._get(name, default)
        if value is None:
            return None
        return int(self._expect(name, _is_whole(value) and value > 0, "a number above 0", value))

    def wholes(self, name: str, default: Any = _NEEDED) -> tuple[int, ...]:
        value = self._get(name, default)
        fits = isinstance(value, list | tuple) and bool(value) and all(map(_is_whole, value))
        return tuple(self._expect(name, fits, "a list of whole numbers", value))

    def pair(self, name: str) -> tuple[float, float] | None:
        value = self._get(name, None)
        if value is None:
            return None
        numbers = isinstance(value, list) and all(isinstance(v, int | float) for v in value)
        low, high = self._expect(name, numbers and len(value) == 2, "[low, high]", value)
        return float(low), float(high)

    def truth(self, name: str, default: Any = _NEEDED) -> bool:
        value = self._get(name, default)
        return bool(self._expect(name, isinstance(value, bool), "true or false", value))

    def table(self, name: str, default: Any = _NEEDED) -> Mapping[str, Any]:
        value = self._get(name, default)
        return dict(self._expect(name, isinstance(value, Mapping), "a table", value))

    def tables(self, name: str) -> list[Mapping[str, Any]]:
        value = self._get(name, [])
        fits = isinstance(value, list) and all(isinstance(item, Mapping) for item in value)
        return list(self._expect(name, fits, "a list of tables", value))

    def grid(self, name: str) -> dict[str, tuple[Any, ...]]:
        """A table of lists; a single value counts as a list of one."""
        given = self.table(name, {})
        grid = {key: value if isinstance(value, list) else [value] for key, value in given.items()}
        for key, values in grid.items():
            self._expect(f"{name}.{key}", bool(values), "at least one value", values)
        return {key: tuple(values) for key, values in grid.items()}

    def finish(self) -> None:
        """Refuses fields that were not asked for."""
        for name in self._content:
            if name not in self._asked:
                near = difflib.get_close_matches(name, self._asked, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(self._asked)}"
                raise InputError(f"{self._where}: there is no field {name!r}; {hint}")

    def _get(self, name: str, default: Any) -> Any:
        self._asked[name] = None
        value = self._content.get(name, default)
        if value is _NEEDED:
            raise InputError(f"{self._where}: field {name!r} is missing; add it")
        return value

    def _expect(self, name: str, fits: bool, expected: str, value: Any) -> Any:
        if not fits:
            raise InputError(f"{self._where}: field {name!r}: expected {expected}, got {value!r}")
        return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
