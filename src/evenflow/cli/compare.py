"""`evenflow compare`: every scheme on one skewed stream that changes half-way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenflow.cli.options import Json
from evenflow.cli.output_folder import make_writable
from evenflow.cli.terminal import note, print_json, progress, say, stdout
from evenflow.model.errors import InputError

_WORKERS, _SOURCES, _SEED = 50, 5, 1
_MESSAGES = 2_000_000


def compare(
    out: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("out"),
    messages: Annotated[int, typer.Option(help="Length of the stream.")] = _MESSAGES,
    as_json: Json = False,
) -> None:
    """Compare all schemes on one skewed stream whose hot keys change half-way."""
    make_writable(out)
    from evenflow.grouping import make, schemes
    from evenflow.simulator import simulate
    from evenflow.simulator.workloads import Zipf

    stream = Zipf(
        exponent=1.4, keys=10_000, messages=messages, seed=_SEED, drift=max(1, messages // 2)
    )
    results, left_out = {}, {}
    with progress("compare", quiet=as_json) as report:
        every = schemes()
        for i, name in enumerate(every):

            def show(done: int, name: str = name, i: int = i) -> None:
                report(name, i * messages + done, len(every) * messages)

            show(0)
            try:
                results[name] = simulate(
                    make(name), stream, _WORKERS, _SOURCES, _SEED, progress=show
                )
            except InputError as error:
                left_out[name] = str(error)
    for name, reason in left_out.items():
        note(f"left out: {name}: {reason}")
    # The most even first; between equals the one that needs less memory.
    ordered = sorted(
        results.items(), key=lambda kv: (round(kv[1].worst_window or 0, 1), kv[1].replication)
    )

    from evenflow.report.comparison import draw_comparison

    picture = draw_comparison(dict(ordered), out / "compare.png")
    if as_json:
        print_json(
            {
                "results": [result.to_dict() for _, result in ordered],
                "left_out": left_out,
                "picture": str(picture),
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
        "busy even while the hot keys change; of equals the thriftiest comes first.",
    )
    say(console, f"Picture: {picture}", "bold")
