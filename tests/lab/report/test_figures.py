"""Pictures: everything is seen and named, nothing is cut off, and they come out the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenflow.grouping import schemes
from evenflow.model import InputError
from evenflow.report.style import house_style
from evenflow_lab.experiments import Figure, Plot
from evenflow_lab.report.arrangement import curve_over_time, panels_of, series_of
from evenflow_lab.report.figures import compose, draw_figure
from evenflow_lab.report.looks import scheme_looks, shade
from evenflow_lab.report.scale import Scale, scale_of, tick_places

pytestmark = pytest.mark.slow

HOSTILE = "<script>alert(1)</script>"
SCHEMES = ("partial-key", "d-choices", "w-choices")


def row(grouping: str = "partial-key", **columns: Any) -> dict[str, Any]:
    common = {"workload_name": "zipf", "stand_in": False, "extra": False, "workers": 5, "seed": 1}
    return {"grouping": grouping, **common, **columns}


def figure(plot: Plot, **fields: Any) -> Figure:
    fixed = {"id": "fig1", "title": "A title", "shows": "What is seen.", "kind": "routing"}
    return Figure(**{**fixed, "plot": plot, "paper": "example", **fields})


def sweep() -> tuple[Figure, list[dict[str, Any]]]:
    plot = Plot(
        x="zipf", y=("imbalance",), panels=("workers",), log_y=True,
        lines=({"y": 5e-4, "label": "s·ε"},),
    )  # fmt: skip
    rows = [
        row(s, zipf=z, workers=n, imbalance=0.0 if (s, z) == ("w-choices", 0.5) else z * n / 1000)
        for n in (5, 50)
        for z in (0.5, 1.0, 2.0)
        for s in SCHEMES
    ]
    flights = {"workload_name": "flights", "key": "origin", "extra": True}
    rows += [row(s, workers=n, imbalance=0.01, **flights) for n in (5, 50) for s in SCHEMES]
    return figure(plot), rows


def timelines() -> tuple[Figure, list[dict[str, Any]]]:
    plot = Plot(
        x="time", y=("queue_max", "latency_mean"), log_y=True, lines=({"x": 30, "label": "change"},)
    )
    rows = [
        row(
            s,
            seed=seed,
            stand_in=True,
            workload_name="wp",
            timeline=[
                {"time": 10.0 * t, "queue_max": t * seed, "latency_mean": None if t == 3 else t + 1}
                for t in range(8)
            ],
        )
        for s in ("key", "consistent")
        for seed in (1, 2, 4)
    ]
    return figure(plot, kind="queueing"), rows


def stacked() -> tuple[Figure, list[dict[str, Any]]]:
    plot = Plot(x="worker", y=("head", "tail"), style="stacked", panels=("grouping",))
    rows = [row(s, worker=w, head=0.1, tail=0.05 * w) for s in SCHEMES for w in range(5)]
    return figure(plot), rows


def stacked_by_series() -> tuple[Figure, list[dict[str, Any]]]:
    plot = Plot(x="worker", y=("load",), series=("part",), style="stacked")
    parts = (("head", 0.2), ("tail", 0.1))
    return figure(plot), [row(worker=w, part=p, load=v) for w in range(3) for p, v in parts]


def bars() -> tuple[Figure, list[dict[str, Any]]]:
    plot = Plot(x="heterogeneity", y=("replicas",), style="bars", log_y=True)
    rows = [
        row(s, heterogeneity=h, seed=seed, replicas=seed * (10**i))
        for i, s in enumerate(SCHEMES)
        for h in ([3, 5], [2, 10])
        for seed in (1, 2)
    ]
    return figure(plot), rows


def every_scheme() -> tuple[Figure, list[dict[str, Any]]]:
    plot = Plot(x="workers", y=("replication",), log_x=True)
    names = [*schemes(), "mine", HOSTILE]
    return figure(plot), [
        row(s, workers=n, replication=i + n) for i, s in enumerate(names) for n in (5, 10, 100)
    ]


def ordered_numbers() -> tuple[Figure, list[dict[str, Any]]]:
    plot = Plot(x="zipf", y=("d",), series=("n",), style="points", y_limits=(0.0, 10.0))
    return figure(plot, kind="analysis"), [
        {"zipf": z, "n": n, "d": z * n / 10} for n in (50, 100, 10) for z in (0.5, 2.0)
    ]


KINDS = {
    made.__name__: made
    for made in (sweep, timelines, stacked, stacked_by_series, bars, every_scheme, ordered_numbers)
}


def composed(made: tuple[Figure, list[dict[str, Any]]]) -> Any:
    with house_style():
        return compose(*made)


def legend_of(picture: Any) -> list[str]:
    return [text.get_text() for legend in picture.legends for text in legend.get_texts()]


def words_of(picture: Any) -> str:
    return "\n".join(text.get_text() for text in picture.texts)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_picture_is_drawn_wide_and_not_blank(kind: str, tmp_path: Path) -> None:
    from matplotlib.image import imread

    path = draw_figure(*KINDS[kind](), tmp_path / "deep" / "picture.png")
    pixels = imread(path)[:, :, :3]
    assert pixels.shape[1] == 1500
    drawn = np.any(pixels < 0.9, axis=2)
    assert 0.005 < drawn.mean() < 0.6
    # Colour, not only axes and text.
    assert np.mean(np.ptp(pixels, axis=2) > 0.2) > 0.0003
    # Nothing is cut off: the outermost pixels are empty.
    for edge in (drawn[:3], drawn[-3:], drawn[:, :3], drawn[:, -3:]):
        assert not edge.any()


@pytest.mark.parametrize("kind", ["timelines", "stacked"])
def test_the_same_rows_give_the_same_bytes(kind: str, tmp_path: Path) -> None:
    import matplotlib

    first = draw_figure(*KINDS[kind](), tmp_path / "a.png").read_bytes()
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        again = draw_figure(*KINDS[kind](), tmp_path / "b.png").read_bytes()
    assert first == again


def test_the_legend_names_schemes_and_data_once_each() -> None:
    names = legend_of(composed(sweep()))
    assert names == [
        "PKG (partial-key)",
        "D-C (d-choices)",
        "W-C (w-choices)",
        "on flights by origin",
    ]
    assert legend_of(composed(stacked())) == ["head", "tail"]
    assert legend_of(composed(stacked_by_series())) == ["head", "tail"]
    assert legend_of(composed(ordered_numbers())) == ["n = 50", "n = 100", "n = 10"]
    assert HOSTILE in legend_of(composed(every_scheme()))


def test_no_text_lies_on_another_or_outside_the_picture() -> None:
    picture = composed(every_scheme())
    picture.canvas.draw()
    renderer = picture.canvas.get_renderer()
    [legend] = picture.legends
    boxes = [legend.get_window_extent(renderer)]
    boxes += [text.get_window_extent(renderer) for text in picture.texts]
    boxes += [axes.get_tightbbox(renderer) for axes in picture.axes]
    for i, box in enumerate(boxes):
        assert picture.bbox.x0 <= box.x0
        assert box.x1 <= picture.bbox.x1
        assert picture.bbox.y0 <= box.y0
        assert box.y1 <= picture.bbox.y1
        assert not any(box.overlaps(other) for other in boxes[:i])


def test_a_zero_on_a_logarithmic_axis_stands_at_the_edge_with_a_mark_of_its_own() -> None:
    picture = composed(sweep())
    for axes in picture.axes:
        edge = [line for line in axes.lines if line.get_marker() == "v"]
        assert len(edge) == 1  # w-choices at z = 0.5
        assert list(edge[0].get_xdata()) == [0.5]
        assert list(edge[0].get_ydata()) == [axes.get_ylim()[0]]
        assert edge[0].get_markerfacecolor() == "white"
    assert "▽ zero, or below the axis" in words_of(picture)


def test_values_beyond_given_limits_stand_at_the_edge() -> None:
    made, rows = ordered_numbers()
    picture = composed((made, rows))
    assert "△ above the axis" in words_of(picture)  # 2.0 · 100 / 10 = 20 > 10
    [axes] = picture.axes
    marks = [line for line in axes.lines if line.get_marker() == "^" and not line.get_clip_on()]
    assert any(list(line.get_ydata()) == [10.0] for line in marks)


def test_values_that_are_missing_are_counted_and_not_passed_over() -> None:
    plot = Plot(x="workers", y=("worst_window",))
    rows = [row(workers=5, worst_window=1.5), row(workers=10, worst_window=None)]
    assert "1 of 2 runs have no value" in words_of(composed((figure(plot), rows)))


def test_stand_in_data_is_named_in_the_picture() -> None:
    assert "stand-in data: WP" in words_of(composed(timelines()))
    assert "stand-in" not in words_of(composed(sweep()))


def test_several_seeds_are_a_median_with_a_band() -> None:
    made, rows = timelines()
    curve = curve_over_time(rows[:3], "queue_max", "example/fig1")
    assert curve.median.tolist() == [t * 2 for t in range(8)]
    assert curve.least.tolist() == [t * 1 for t in range(8)]
    assert curve.greatest.tolist() == [t * 4 for t in range(8)]
    assert np.isnan(curve_over_time(rows[:3], "latency_mean", "x").median[3])
    picture = composed((made, rows))
    assert len(picture.axes) == 2
    assert len(picture.axes[0].collections) == 2  # a band for each scheme
    assert "shaded" in words_of(picture)


def test_timelines_with_other_moments_are_read_between_their_own() -> None:
    long = [{"time": t, "y": t} for t in range(5)]
    short = [{"time": t, "y": 10 * t} for t in (1, 3)]
    curve = curve_over_time([{"timeline": long}, {"timeline": short}], "y", "x")
    assert curve.greatest.tolist() == [0, 10, 20, 30, 4]


def test_streams_of_different_lengths_do_not_share_a_time_axis() -> None:
    plot = Plot(x="time", y=("imbalance",), panels=("workload_name",))
    rows = [
        row(workload_name=name, timeline=[{"time": t * end, "imbalance": 0.1} for t in (0.5, 1.0)])
        for name, end in (("wp", 22_000_000), ("ct", 690_000))
    ]
    long, short = composed((figure(plot), rows)).axes
    assert long.get_xlim()[1] > 2e7 > 1e6 > short.get_xlim()[1]


def test_panels_are_a_table_and_share_their_axes() -> None:
    plot = Plot(x="zipf", y=("imbalance",), panels=("sources", "workers"))
    rows = [
        row(zipf=z, sources=s, workers=n, imbalance=z * n)
        for n in (5, 10, 50)
        for s in (1, 2)
        for z in (1.0, 2.0)
    ]
    titles = [panel.title for panel in panels_of(plot, rows)]
    assert titles[:4] == [
        "1 source, 5 workers", "1 source, 10 workers", "1 source, 50 workers", "2 sources, 5 workers",
    ]  # fmt: skip
    axes = composed((figure(plot), rows)).axes
    assert len({(*one.get_xlim(), *one.get_ylim()) for one in axes}) == 1


def test_other_data_without_the_panels_column_gets_a_panel_of_its_own() -> None:
    plot = Plot(x="workers", y=("imbalance",), panels=("zipf",))
    rows = [row(zipf=1.0, imbalance=0.1)]
    rows += [row(workload_name="flights", key="route", extra=True, imbalance=0.2)]
    assert [p.title for p in panels_of(plot, rows)] == ["z = 1", "flights by route"]


def test_a_scheme_looks_the_same_in_every_figure_and_unlike_all_others() -> None:
    looks = scheme_looks([*schemes(), "mine", "yours"])
    assert len({look.colour for look in looks.values()}) == len(looks)
    assert len({look.marker for look in looks.values()}) == len(looks)
    plot = Plot(x="workers", y=("imbalance",))
    alone = series_of(plot, [row("w-choices")])
    among = series_of(plot, [row(s) for s in ("mine", *SCHEMES)])
    assert alone[0].look == among[-1].look == looks["w-choices"]


def test_variants_of_a_scheme_differ_in_colour_marks_and_dashes() -> None:
    plot = Plot(x="workers", y=("imbalance",), series=("grouping", "how"))
    rows = [row(f"greedy-d:d={d}", how=how) for d in (2, 5) for how in ("a", "b")]
    looks = [series.look for series in series_of(plot, rows)]
    assert len({(look.colour, look.marker) for look in looks}) == 4
    assert len({look.dash for look in looks}) == 4


def test_colours_can_be_seen_on_white() -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for name, look in scheme_looks([*schemes(), "mine"]).items():
        assert 1.05 / (luminance(look.colour) + 0.05) > 2.1, name
    assert shade("#336699", 1.0) == "#ffffff"


def test_an_upright_line_is_named_in_the_legend_where_it_covers_nothing() -> None:
    plot = Plot(
        x="workers", y=("imbalance",), lines=({"x": 7, "label": "limit"}, {"y": 0.2, "label": "ε"})
    )
    rows = [row("key", workers=n, imbalance=n / 20) for n in (5, 10)]
    picture = composed((figure(plot), rows))
    assert "limit" in legend_of(picture)
    assert "ε" not in legend_of(picture)
    assert [text.get_text() for axes in picture.axes for text in axes.texts] == ["ε"]


def test_a_word_that_says_nothing_alone_is_explained_in_the_panels_title() -> None:
    plot = Plot(x="workers", y=("imbalance",), panels=("arrivals",))
    rows = [row("key", workers=5, imbalance=0.1, arrivals=a) for a in ("hourly", "constant")]
    titles = [panel.title for panel in panels_of(plot, rows)]
    assert titles == ["hourly arrivals", "constant arrivals"]


def test_a_length_that_only_some_streams_have_says_whose_it_is() -> None:
    plot = Plot(x="workers", y=("imbalance",), panels=("workload_name",))
    rows = [
        row("key", workers=5, imbalance=0.1, workload_name="wp", messages=22, sources=1),
        row("key", workers=5, imbalance=0.1, workload_name="ct", messages=3, sources=1, extra=True),
    ]
    assert "22 messages (WP), 1 source" in words_of(composed((figure(plot), rows)))
    rows[1]["messages"] = 22
    assert "22 messages, 1 source" in words_of(composed((figure(plot), rows)))


def test_a_long_name_of_an_axis_leaves_no_single_word_over() -> None:
    plot = Plot(x="workers", y=("imbalance",), y_label=("utilisation over the day, max − min",))
    picture = composed((figure(plot), [row("key", workers=5, imbalance=0.1)]))
    lines = picture.axes[0].get_ylabel().splitlines()
    assert len(lines) == 2
    assert max(map(len, lines)) < 1.5 * min(map(len, lines))


@pytest.mark.parametrize(("low", "high"), [(0.0052, 0.0107), (1.02, 1.43), (0.9, 1.85), (3.0, 3.2)])
def test_a_short_logarithmic_axis_names_at_least_four_ticks(low: float, high: float) -> None:
    ticks = tick_places(Scale(low, high, log=True))
    assert 4 <= len(ticks) <= 9
    assert low <= ticks[0]
    assert ticks[-1] <= high


def test_a_logarithmic_scale_hides_nothing_and_names_at_least_two_ticks() -> None:
    scale = scale_of([0.0, 1e-20, 1e-3, 0.5], log=True)
    placed, below, _ = scale.place(np.array([0.0, 1e-20, 1e-3]))
    assert below.tolist() == [True, True, False]
    assert placed[0] == placed[1] == scale.low < 1e-3 / 2
    for low, high in ((0.9, 2.1), (0.4, 30.0), (1e-9, 1.0), (1.0, 1.2), (3.0, 4.0)):
        assert 2 <= len(tick_places(Scale(low, high, log=True))) <= 9
    assert scale_of([0.0, 0.0], log=True).low > 0
    assert scale_of([], log=False) == Scale(0.0, 1.05)


@pytest.mark.parametrize(
    ("plot", "rows", "message"),
    [
        (Plot(x="workers", y=("imbalance",)), [], "nothing to draw"),
        (Plot(x="workers", y=("latency",)), [row(imbalance=1)], "no column 'latency'"),
        (Plot(x="workers", y=("grouping",)), [row()], "a number is needed, got 'partial-key'"),
        (Plot(x="time", y=("imbalance",)), [row()], "no row has a timeline"),
        (Plot(x="workers", y=("y",)), [row(y=None)], "no row has “y”"),
    ],
)
def test_what_cannot_be_drawn_is_refused_by_name(
    plot: Plot, rows: list[dict[str, Any]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        draw_figure(figure(plot), rows, tmp_path / "x.png")
    assert "example/fig1" in str(caught.value)


def test_names_with_dollar_signs_and_foreign_letters_are_drawn(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    plot = Plot(x="workers", y=("imbalance",), panels=("key",))
    rows = [row("$\\frac{", workers=n, key="流れ\x1b\u202e$x_", imbalance=n) for n in (1, 2)]
    made = figure(plot, title="A $very$ " + "long title " * 20)
    assert draw_figure(made, rows, tmp_path / "x.png").is_file()
    assert not recwarn.list
