"""Pages: complete, escaped, self-contained, accessible, and the same every time."""

from __future__ import annotations

from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from evenflow_lab.experiments import Figure, LedgerEntry, Paper, Plot
from evenflow_lab.report.figures import draw_figure
from evenflow_lab.report.key_numbers import key_numbers
from evenflow_lab.report.markup import element
from evenflow_lab.report.paper_page import write_page

pytestmark = pytest.mark.slow

HOSTILE = "<script>alert(1)</script>"
SCHEMES = ("partial-key", "w-choices", HOSTILE)


def figure(id: str, title: str = "A title", **fields: Any) -> Figure:
    plot = fields.pop("plot", Plot(x="workers", y=("imbalance",)))
    return Figure(id, title, "What is seen.", "routing", plot, paper="example", **fields)


def rows_on(stream: str, stand_in: bool) -> list[dict[str, Any]]:
    common = {"workload_name": stream, "stand_in": stand_in, "worst_window": 1.5, "replicas": 9}
    return [
        {"grouping": scheme, "workers": n, "imbalance": n / 100, **common}
        for scheme in SCHEMES
        for n in (5, 10)
    ]


class Checked(HTMLParser):
    """Every element that is opened is closed, in order; what was seen is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in {"img", "meta", "br"}:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] != "style":
            self.words.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.seen if name == tag]


LEDGER = [
    LedgerEntry(
        "low", "§2", f"PKG {HOSTILE} is low.", ("fig1",), "evenflow x", True, "0.1 < 1", ""
    ),
    LedgerEntry(
        "lower", "§3", "W-C is lower.", ("fig1", "fig2"), "evenflow y", False, "2", "Skew."
    ),
    LedgerEntry("storm", "§4", "On Storm.", (), "evenflow z", None, "", "Needs a cluster."),
]


def page_in(out: Path, ledger: list[LedgerEntry] = LEDGER, **fields: Any) -> Path:
    figures = (figure("fig1", f"Title {HOSTILE}", **fields), figure("fig2"))
    rows = {"fig1": rows_on(HOSTILE, False), "fig2": rows_on("wp", True)}
    pictures = {f.id: draw_figure(f, rows[f.id], out / f"{f.id}.png") for f in figures}
    paper = Paper("example", "An example & more", HOSTILE, "", figures, out)
    return write_page(paper, pictures, rows, ledger, out, "quick")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Checked]:
    path = page_in(tmp_path_factory.mktemp("page"))
    page = Checked()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    assert page.stack == []
    return path, page


def test_a_page_is_well_formed_and_says_everything(written: tuple[Path, Checked]) -> None:
    path, page = written
    assert path.name == "index.html"
    text = " ".join(page.words)
    for expected in (
        "An example & more", "evenflow 0.", "quick: shorter streams", "fig2 (WP)",
        "evenflow reproduce example/fig1 example/fig2 --quick", "What is seen.", "0.1 < 1", "Skew.",
        "Needs a cluster.", "worst window (× fair load)", "replicas (worker, key)",
        "Rests on stand-in data: WP.",
    ):  # fmt: skip
        assert expected in text, expected
    for words in ("1 held", "1 not held", "1 open"):
        assert words in text


def test_text_from_data_stays_text(written: tuple[Path, Checked]) -> None:
    path, page = written
    assert page.of("script") == []
    assert "<script" not in path.read_text(encoding="utf-8")
    assert any(HOSTILE in words for words in page.words)
    assert not any(name.startswith("on") for _, attributes in page.seen for name in attributes)


def test_a_page_loads_nothing_and_links_only_beside_itself(written: tuple[Path, Checked]) -> None:
    _, page = written
    assert page.of("link") == []
    for picture in page.of("img"):
        assert (picture["src"] or "").startswith("data:image/png;base64,")
    targets = [link["href"] or "" for link in page.of("a")]
    assert "./fig1.csv" in targets
    assert "./fig1.json" in targets
    places = {attributes["id"] for _, attributes in page.seen if "id" in attributes}
    for target in targets:
        assert target.startswith("./") or target.removeprefix("#") in places
    [policy] = [m["content"] for m in page.of("meta") if "http-equiv" in m]
    assert "default-src 'none'" in (policy or "")


def test_a_page_is_accessible(written: tuple[Path, Checked]) -> None:
    _, page = written
    assert page.of("html") == [{"lang": "en"}]
    assert all(picture["alt"] for picture in page.of("img"))
    assert all(cell.get("scope") in {"col", "row"} for cell in page.of("th"))
    assert len(page.of("caption")) == len(page.of("table")) == 3
    levels = [int(tag[1]) for tag, _ in page.seen if tag in {"h1", "h2", "h3", "h4"}]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_a_page_is_the_same_every_time(tmp_path: Path) -> None:
    first = page_in(tmp_path).read_bytes()
    assert page_in(tmp_path).read_bytes() == first


def test_a_page_without_verdicts_says_so(tmp_path: Path) -> None:
    assert "No claim of the paper was judged" in page_in(tmp_path, []).read_text(encoding="utf-8")


def test_the_command_names_what_the_user_brought(tmp_path: Path) -> None:
    mine = {"mine": {"file": "/somewhere/my scheme.py", "source": ""}}
    given = {"name": "file", "input": "/data/$(rm).parquet", "key": ["k"]}
    text = page_in(tmp_path, scheme_files=mine, workload=given).read_text(encoding="utf-8")
    assert "--scheme &#x27;/somewhere/my scheme.py&#x27;" in text
    assert "--input &#x27;/data/$(rm).parquet&#x27; --key k" in text


def test_only_markup_is_markup() -> None:
    assert element("p", "<b>", element("i", "&")) == "<p>&lt;b&gt;<i>&amp;</i></p>"
    assert element("a", "x", href='"><script>') == '<a href="&quot;&gt;&lt;script&gt;">x</a>'
    assert element("p", "\x00\u202e\ud800") == "<p>???</p>"


def test_every_table_shows_worst_window_and_replicas_beside_the_imbalance() -> None:
    made = figure("fig1", plot=Plot(x="zipf", y=("imbalance_mean",)))
    rows = [{**row, "imbalance_mean": 0.2} for row in rows_on("zipf", False)]
    table = key_numbers(made, rows)
    assert table.columns == (
        "imbalance, average over time",
        "imbalance at the end",
        "worst window (× fair load)",
        "replicas (worker, key)",
    )
    assert [names for names, _ in table.lines] == [
        ("PKG (partial-key)", "2"),
        ("W-C (w-choices)", "2"),
        (HOSTILE, "2"),
    ]
    assert table.lines[0][1] == ("0.2", "0.05 – 0.1", "1.5", "9")
