"""One page a paper: its figures again, the numbers behind them, and what became of its claims."""

from __future__ import annotations

import base64
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import evenflow
from evenflow.model import InputError
from evenflow_lab.experiments import Figure, LedgerEntry, Paper, load_paper
from evenflow_lab.experiments.tables import write_text
from evenflow_lab.report.key_numbers import key_numbers
from evenflow_lab.report.markup import Markup, element, join, page
from evenflow_lab.report.wording import Row, stream_label

# A colour alone is not enough: each verdict has a sign and its words.
_SIGNS = {"held": "✓", "not held": "✗", "open": "?"}
_MODES = {
    "quick": "quick: shorter streams and fewer points than the paper's",
    "full": "full: the paper's own numbers of messages, where they can be had",
}


def write_page(
    paper: Paper,
    pictures: dict[str, Path],
    rows: dict[str, list[dict[str, Any]]],
    ledger: list[LedgerEntry],
    out: Path,
    mode: str,
) -> Path:
    """Writes `out/index.html`: figures, data links, key numbers and claims of one paper.

    Guarantee: the page is one file that opens from disk, loads nothing and needs no script; text
    from data and from files of the user's stays text, whatever is in it. The same input gives the
    same bytes.

    Parameters:
        paper: with the figures that were run.
        pictures: figure id → PNG; it becomes part of the page.
        rows: figure id → rows; the tables `ID.csv` and `ID.json` are linked, beside the page.
        ledger: the verdicts.
        out: the paper's folder.
        mode: `quick` or `full`.
    """
    shown = [figure for figure in paper.figures if figure.id in pictures]
    body = [
        element("a", "To the ledger of all claims", href="#ledger", class_="skip"),
        element("header", _head(paper, shown, rows, ledger, mode)),
        element(
            "main",
            [
                _figure(paper, figure, number, pictures[figure.id], rows, ledger, out, mode)
                for number, figure in enumerate(shown, start=1)
            ],
            _ledger(shown, ledger),
        ),
    ]
    style = files("evenflow_lab.report").joinpath("page.css").read_text(encoding="utf-8")
    path = out / "index.html"
    try:
        write_text(path, page(f"{paper.title}: reproduced by evenflow", style, body))
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be written: {error.strerror or error}") from None
    return path


def _head(
    paper: Paper,
    figures: Sequence[Figure],
    rows: Mapping[str, Sequence[Row]],
    ledger: Sequence[LedgerEntry],
    mode: str,
) -> Iterator[Markup]:
    yield element("h1", paper.title)
    if paper.reference:
        yield element("p", paper.reference, class_="reference")
    yield _summary(ledger)
    facts: list[tuple[str, str | Markup]] = [
        ("Mode", _MODES.get(mode, mode)),
        ("Made by", f"evenflow {evenflow.__version__}"),
        ("Command", element("code", _command(paper, figures, mode))),
        ("Stand-ins", _stand_ins(figures, rows)),
    ]
    if paper.note:
        facts.append(("Note", paper.note))
    yield element(
        "dl",
        (join([element("dt", name), element("dd", fact)]) for name, fact in facts),
        class_="facts",
    )
    yield element(
        "nav",
        element("h2", "Figures"),
        element(
            "ol",
            (
                element("li", element("a", f"{f.id}: {f.title}", href=f"#figure-{i}"))
                for i, f in enumerate(figures, start=1)
            ),
            element("li", element("a", "All claims", href="#ledger")),
            class_="contents",
        ),
        aria_label="Figures",
    )


def _summary(ledger: Sequence[LedgerEntry]) -> Markup:
    if not ledger:
        return element("p", "No claim of the paper was judged in this run.")
    counts = {verdict: sum(e.verdict == verdict for e in ledger) for verdict in _SIGNS}
    return element(
        "ul",
        (element("li", _badge(verdict, f"{count} {verdict}")) for verdict, count in counts.items()),
        class_="summary",
        aria_label="Claims",
    )


def _stand_ins(figures: Sequence[Figure], rows: Mapping[str, Sequence[Row]]) -> str:
    resting = [figure.id for figure in figures if _streams(rows.get(figure.id, ()))]
    if not resting:
        return "none: no figure here rests on data that stands in for other data"
    listed = [f"{id} ({', '.join(_streams(rows[id]))})" for id in resting]
    return f"under {', '.join(listed)}: streams that stand in for data that are not available"


def _streams(rows: Sequence[Row]) -> list[str]:
    """The stand-ins among the rows' streams."""
    return list(
        dict.fromkeys(stream_label({**r, "stand_in": False}) for r in rows if r.get("stand_in"))
    )


def _figure(
    paper: Paper,
    figure: Figure,
    position: int,
    picture: Path,
    rows: Mapping[str, Sequence[Row]],
    ledger: Sequence[LedgerEntry],
    out: Path,
    mode: str,
) -> Markup:
    own = rows.get(figure.id, ())
    claims = [entry for entry in ledger if figure.id in entry.figures]
    heading = f"heading-{position}"
    stand_ins = _streams(own)
    return element(
        "section",
        element("h2", f"{figure.id}: {figure.title}", id=heading),
        element(
            "figure",
            element("img", src=_inline(picture), alt=_alt(figure, own)),
            element("figcaption", figure.shows) if figure.shows else (),
        ),
        element(
            "p", f"Rests on stand-in data: {', '.join(stand_ins)}.", class_="stand-in"
        ) if stand_ins else (),
        element(
            "p",
            "Data: ", _link(f"{figure.id}.csv"), ", ", _link(f"{figure.id}.json"),
            "; picture: ", _link(os.path.relpath(picture, out)), ".",
        ),
        element("p", "Again: ", element("code", _command(paper, [figure], mode))),
        _numbers(figure, own),
        element("h3", "Claims") if claims else (),
        map(_claim, claims),
        id=f"figure-{position}",
        aria_labelledby=heading,
    )  # fmt: skip


def _alt(figure: Figure, rows: Sequence[Row]) -> str:
    """The picture in words; the numbers are in the table below it."""
    plot = figure.plot
    schemes = dict.fromkeys(str(row["grouping"]) for row in rows if row.get("grouping"))
    words = f"{figure.title}. {', '.join(plot.y_label or plot.y)} against {plot.x_label or plot.x}"
    return f"{words}, for {', '.join(schemes)}." if schemes else f"{words}."


def _numbers(figure: Figure, rows: Sequence[Row]) -> Markup:
    table = key_numbers(figure, rows)
    if not table.columns:
        return Markup()
    names = len(table.about)
    head = [
        element("th", name, scope="col", class_="number" if i >= names - 1 else None)
        for i, name in enumerate([*table.about, *table.columns])
    ]
    lines = [
        element(
            "tr",
            element("th", about[0], scope="row"),
            (element("td", name) for name in about[1:-1]),
            (element("td", value, class_="number") for value in (about[-1], *values)),
        )
        for about, values in table.lines
    ]
    caption = "Key numbers, smallest – largest over the runs of this figure"
    return _scrolling(
        element(
            "table",
            element("caption", caption),
            element("thead", element("tr", head)),
            element("tbody", lines),
        ),
        f"Key numbers of {figure.id}",
    )


def _claim(entry: LedgerEntry) -> Markup:
    return element(
        "article",
        element(
            "p",
            _badge(entry.verdict),
            element("strong", entry.id),
            element("span", entry.section, class_="quiet"),
            class_="claim-name",
        ),
        element("blockquote", entry.says),
        element("p", "Measured: ", entry.measured) if entry.measured else (),
        element("p", f"Holds for {entry.held_by} of {entry.seeds} seeds by themselves.")
        if entry.seeds
        else (),
        element("p", "Why: ", entry.why) if entry.why else (),
        element("p", "Cause: ", _cause(entry), ".") if _cause(entry) else (),
        element("p", "Tested by ", element("code", entry.command)) if entry.figures else (),
        class_="claim",
    )


def _cause(entry: LedgerEntry) -> str:
    """What a verdict of "not held" is due to; nothing for the others."""
    return "" if entry.held is not False else entry.cause or "not known"


def _ledger(figures: Sequence[Figure], ledger: Sequence[LedgerEntry]) -> Markup:
    places = {figure.id: i for i, figure in enumerate(figures, start=1)}
    columns = (
        *("Verdict", "Claim", "The paper says", "Measured", "Seeds"),
        *("Why", "Cause", "Figures", "Command"),
    )
    lines = [
        element(
            "tr",
            element("td", _badge(entry.verdict)),
            element("th", entry.id, element("br"), _quiet(entry.section), scope="row"),
            element("td", entry.says),
            element("td", entry.measured),
            element("td", f"{entry.held_by} of {entry.seeds}" if entry.seeds else "–"),
            element("td", entry.why),
            element("td", _cause(entry) or "–"),
            element("td", _figure_links(entry, places)),
            element("td", element("code", entry.command) if entry.figures else "–"),
        )
        for entry in ledger
    ]
    table = element(
        "table",
        element("caption", "Every claim of the paper that was judged, and those that are open"),
        element("thead", element("tr", (element("th", name, scope="col") for name in columns))),
        element("tbody", lines),
        class_="ledger",
    )
    return element(
        "section",
        element("h2", "All claims"),
        _scrolling(table, "All claims")
        if ledger
        else element("p", "No claim of the paper was judged in this run."),
        id="ledger",
    )


def _figure_links(entry: LedgerEntry, places: Mapping[str, int]) -> Markup:
    links = [
        element("a", id, href=f"#figure-{places[id]}") if id in places else id
        for id in entry.figures
    ]
    separated: list[str] = []
    for link in links:
        separated += [", ", link] if separated else [link]
    return join(separated or ["–"])


def _badge(verdict: str, words: str = "") -> Markup:
    sign = element("span", _SIGNS[verdict], aria_hidden="true")
    return element(
        "span", sign, f" {words or verdict}", class_=f"badge {verdict.replace(' ', '-')}"
    )


def _quiet(text: str) -> Markup:
    return element("span", text, class_="quiet")


def _scrolling(table: Markup, name: str) -> Markup:
    """A wide table scrolls by itself, for keyboards too; the page does not."""
    return element("div", table, class_="scroll", role="region", aria_label=name, tabindex="0")


def _inline(picture: Path) -> str:
    try:
        content = picture.read_bytes()
    except OSError as error:
        raise InputError(f"{str(picture)!r} cannot be read: {error.strerror or error}") from None
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def _link(target: str) -> Markup:
    # `./` first and colons quoted: a strange name must not become the scheme of an address.
    return element("a", target, href=f"./{quote(Path(target).as_posix())}")


def _command(paper: Paper, figures: Sequence[Figure], mode: str) -> str:
    """What to type to get these figures again."""
    declared = None
    with suppress(InputError):
        declared = [figure.id for figure in load_paper(paper.folder).figures]
    whole = declared == [figure.id for figure in figures]
    targets = [paper.name] if whole else [f"{paper.name}/{figure.id}" for figure in figures]
    words = ["evenflow", "reproduce", *targets, f"--{mode}"]
    own = dict.fromkeys(file["file"] for f in figures for file in f.scheme_files.values())
    for path in own:
        words += ["--scheme", path]
    given = next((f.workload for f in figures if f.workload.get("name") == "file"), None)
    if given is not None:
        words += ["--input", str(given.get("input", ""))]
        for column in given.get("key", ()):
            words += ["--key", str(column)]
    return shlex.join(words)
