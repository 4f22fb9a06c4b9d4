"""HTML in which text cannot become markup: what is not `Markup` is escaped, always."""

from __future__ import annotations

import html
from collections.abc import Iterable

from evenflow.report.style import printable

_WITHOUT_CONTENT = frozenset({"img", "meta", "br"})


class Markup(str):
    """Text that is HTML already. Only this module makes it."""

    __slots__ = ()


def element(
    name: str, /, *children: str | Iterable[str], **attributes: str | bool | None
) -> Markup:
    """An element. Strings are escaped, control characters in them replaced.

    Parameters:
        name: `p`.
        children: text, other elements, or iterables of them.
        attributes: `class_` is `class`, `aria_label` is `aria-label`; None or False leaves one out.

    Example:
        >>> element("p", "1 < 2 ", element("b", "so"), class_="note")
        '<p class="note">1 &lt; 2 <b>so</b></p>'
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{_escape(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _WITHOUT_CONTENT:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def join(children: Iterable[str | Iterable[str]]) -> Markup:
    """Text and elements one after another."""
    parts = []
    for child in children:
        if isinstance(child, Markup):
            parts.append(str(child))
        elif isinstance(child, str):
            parts.append(_escape(child))
        else:
            parts.append(str(join(child)))
    return Markup("".join(parts))


def page(title: str, style: str, body: Iterable[str]) -> str:
    """A whole page that loads nothing and runs nothing.

    Parameters:
        title: of the window.
        style: CSS; it is this package's, and not escaped.
        body: elements.
    """
    # Even if some text found its way around the escaping, a browser would run nothing of it.
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'"
    head = join(
        [
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=policy),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("title", title),
            Markup(f"<style>\n{style}</style>"),
        ]
    )
    content = "\n".join(str(join([part])) for part in body)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n'
        f"<body>\n{content}\n</body>\n</html>\n"
    )


def _escape(value: str | bool) -> str:
    lines = str(value).split("\n")
    return html.escape("\n".join(printable(line) for line in lines), quote=True)
