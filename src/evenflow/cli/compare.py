"""`evenflow compare`: every scheme on one skewed stream that changes half-way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenflow.cli.options import Json
from evenflow.cli.output_folder import make_writable
from evenflow.cli.simulate import choose_schemes, measure_schemes
from evenflow.cli.terminal import print_json, say, stdout

_WORKERS, _SOURCES, _SEED = 50, 5, 1
_MESSAGES = 2_000_000


def compare(
    out: Annotated[Path, typer.Option(help="Directory for the picture.")] = Path("out"),
    messages: Annotated[int, typer.Option(help="Length of the stream.")] = _MESSAGES,
    as_json: Json = False,
) -> None:
    """Compare all schemes on one skewed stream whose hot keys change half-way."""
    make_writable(out)
    from evenflow.model import Workers
    from evenflow.simulator import simulate
    from evenflow.simulator.workloads import Zipf

    stream = Zipf(
        exponent=1.4, keys=10_000, messages=messages, seed=_SEED, drift=max(1, messages // 2)
    )
    chosen, left_out = choose_schemes(["all"], Workers.numbered(_WORKERS), _SEED)
    results = measure_schemes(
        "compare", chosen, messages, as_json,
        lambda scheme, show: simulate(scheme, stream, _WORKERS, _SOURCES, _SEED, progress=show),
    )  # fmt: skip
    # The most even first; among equals, the one that needs the least memory.
    ordered = sorted(
        zip((name for name, _ in chosen), results, strict=True),
        key=lambda pair: (round(pair[1].worst_window or 0, 1), pair[1].replication),
    )

    from evenflow.report import NO_PICTURE, drawn
    from evenflow.report.comparison import draw_comparison

    picture = drawn(lambda: draw_comparison(dict(ordered), out / "compare.png"))
    if as_json:
        print_json(
            {
                "results": [result.to_dict() for _, result in ordered],
                "left_out": left_out,
                "picture": picture and str(picture),
            }
        )
        return
    from evenflow.cli.results_table import HOW_TO_READ, results_table

    console = stdout()
    say(
        console,
        f"{messages:,} messages, {stream.keys:,} keys, z = {stream.exponent}, hot keys changed "
        f"half-way; {_WORKERS} workers, {_SOURCES} sources",
        "bold",
    )
    console.print(results_table(ordered))
    say(console, HOW_TO_READ)
    say(
        console,
        "Sorted by worst window, then replication: the schemes at the top keep every worker evenly "
        "busy even while the hot keys change; among equals, the one that needs the least memory "
        "comes first.",
    )
    say(console, f"Picture: {picture}" if picture else NO_PICTURE, "bold")
