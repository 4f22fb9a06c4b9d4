"""A diagnosis as a page of its own: no script, nothing from the network, light and dark.

Keys and names are users' data: all text is escaped, and nothing of it becomes markup.
"""

from __future__ import annotations

from html import escape
from importlib.resources import files
from math import isfinite

from evenflow.diagnosis.diagnosis import Bars, Diagnosis, Table
from evenflow.diagnosis.rules import NOTHING
from evenflow.diagnosis.text import printable

_WIDTH, _HEIGHT, _LEFT, _TOP = 960, 200, 104, 16


def page(diagnosis: Diagnosis) -> str:
    """The whole page."""
    css = files("evenflow.diagnosis").joinpath("page.css").read_text(encoding="utf-8")
    well = " well" if diagnosis.cause == NOTHING else ""
    body = [
        "<header>",
        f'<p class="source">{_text(diagnosis.kind)}: {_text(diagnosis.source)}</p>',
        f'<h1 hidden>Diagnosis</h1><p class="answer{well}">{_text(diagnosis.answer)}</p>',
        *(f'<p class="note">Note: {_text(note)}.</p>' for note in diagnosis.notes),
        "</header><main>",
        *(_figure(one) for one in diagnosis.pictures if one.values),
        *(_table(one) for one in diagnosis.tables if one.rows),
    ]
    others = diagnosis.findings[1:]
    if others:
        body.append("<h2>Also</h2><ul>")
        body += [f"<li>{_text(one.sentence)}</li>" for one in others]
        body.append("</ul>")
    if diagnosis.remedies:
        body.append("<h2>What would help</h2>")
    for remedy in diagnosis.remedies:
        who = "Evenflow" if remedy.evenflow else "Spark"
        body.append(f'<p class="what"><b>{who}</b>: {_text(remedy.what)}</p>')
        if remedy.code:
            code = "\n".join(_text(line) for line in remedy.code.splitlines())
            body.append(f"<pre><code>{code}</code></pre>")
    body.append("</main>")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">"
        f"<title>evenflow diagnose: {_text(diagnosis.cause)}</title>\n<style>\n{css}</style></head>\n"
        f"<body>\n{chr(10).join(body)}\n</body></html>\n"
    )


def _text(value: object) -> str:
    return escape(printable(str(value)))


def _table(table: Table) -> str:
    names = list(table.rows[0])
    left = {
        name: any(any(c.isalpha() for c in str(row[name] or "")) for row in table.rows)
        and not all(isinstance(row[name], bool) for row in table.rows)
        for name in names
    }

    def cell(tag: str, name: str, value: object) -> str:
        kind = ' class="left"' if left[name] else ""
        return f"<{tag}{kind}>{_text(_written(value))}</{tag}>"

    head = "".join(cell("th", name, name) for name in names)
    rows = "\n".join(
        f"<tr>{''.join(cell('td', name, row[name]) for name in names)}</tr>" for row in table.rows
    )
    return (
        f'<h2>{_text(table.title.capitalize())}</h2><div class="wide"><table><thead><tr>{head}</tr>'
        f"</thead><tbody>\n{rows}\n</tbody></table></div>"
    )


def _written(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _figure(bars: Bars) -> str:
    """Bars with a line at the average; those far above it in another colour."""
    values = [value if isfinite(value) else 0.0 for value in bars.values]
    top = max(*values, bars.average, 1e-9)
    width = (_WIDTH - _LEFT) / len(values)
    shapes = []
    for i, value in enumerate(values):
        height = _HEIGHT * value / top
        over = ' class="over"' if value > 1.5 * bars.average else ""
        shapes.append(
            f'<rect{over} x="{_LEFT + i * width:.1f}" y="{_TOP + _HEIGHT - height:.1f}" '
            f'width="{max(width - 1.5, 0.6):.1f}" height="{height:.1f}"><title>{_amount(value)} '
            f"{_text(bars.unit)}</title></rect>"
        )
    level = _TOP + _HEIGHT * (1 - bars.average / top)
    summary = f"{bars.title}: largest {_amount(max(values))}, average {_amount(bars.average)}"
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT + 2 * _TOP}" role="img" '
        f'aria-label="{_text(summary)} {_text(bars.unit)}">{"".join(shapes)}'
        f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{level:.1f}" y2="{level:.1f}"/>'
        f'<text x="0" y="{_TOP + 8}">{_amount(top)} {_text(bars.unit)}</text>'
        f'<text x="0" y="{max(level, _TOP + 24):.1f}">average</text></svg>'
        f"<figcaption>{_text(summary)} {_text(bars.unit)}</figcaption></figure>"
    )


def _amount(value: float) -> str:
    return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
