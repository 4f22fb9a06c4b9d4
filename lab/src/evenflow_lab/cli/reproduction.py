"""The work of `evenflow reproduce`: which figures, what is run for them, what is written."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenflow.model import InputError
from evenflow_lab import experiments
from evenflow_lab.experiments import Cell, Figure, LedgerEntry, Outcome, Paper, Row, Run
from evenflow_lab.workloads.declaration import make_workload


@dataclass(frozen=True)
class Reproduction:
    """Figures of some papers, and what of the user's own takes part in them.

    Parameters:
        chosen: papers, each with those of its figures that are wanted.
        quick: with shorter streams and fewer points.
        own_schemes: names of the user's schemes.
        own_file: the file whose keys replace the papers' streams.
        left_out: figures that were wanted and cannot be run, with the reason.
    """

    chosen: tuple[tuple[Paper, tuple[Figure, ...]], ...]
    quick: bool
    own_schemes: tuple[str, ...] = ()
    own_file: Path | None = None
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, targets: Sequence[str], quick: bool) -> Reproduction:
        """The figures that `PAPER` or `PAPER/FIGURE` name; everything where nothing is named."""
        folders = experiments.paper_folders()
        wanted: dict[str, list[str]] = {}
        for target in targets or folders:
            name, slash, figure = target.partition("/")
            if name not in folders:
                near = difflib.get_close_matches(name, folders, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(folders)}"
                raise InputError(f"no paper is called {name!r}; {hint}")
            wanted.setdefault(name, []).append(figure if slash else "")
        chosen = []
        for name, ids in wanted.items():
            paper = experiments.load_paper(folders[name])
            named = {paper.figure(id).id for id in ids if id}
            figures = [f for f in paper.figures if "" in ids or f.id in named]
            chosen.append((paper, tuple(figures)))
        return cls(tuple(chosen), quick)

    def with_schemes(self, paths: Sequence[Path]) -> Reproduction:
        """The user's schemes beside the others in every routing figure."""
        files: dict[str, dict[str, str]] = {}
        for path in paths:
            for name, file in experiments.read_scheme_file(path).items():
                if name in files:
                    raise InputError(
                        f"two of the --scheme files have a scheme {name!r}; rename one"
                    )
                files[name] = file
        if not any(f.kind == "routing" for _, figures in self.chosen for f in figures):
            raise InputError(
                "--scheme adds to figures of the kind 'routing', and none of those chosen is one"
            )
        return self._changed(
            lambda f: experiments.with_schemes(f, files) if f.kind == "routing" else f,
            own_schemes=tuple(files),
        )

    def on_file(self, path: Path, key: Sequence[str]) -> Reproduction:
        """The figures with a file's keys in place of their streams; formulas have no stream."""
        make_workload({"name": "file", "input": str(path), "key": list(key)})  # refused at once
        formulas = {
            f"{paper.name}/{f.id} is a formula and reads no stream": f.id
            for paper, figures in self.chosen
            for f in figures
            if f.kind == "analysis"
        }
        if len(formulas) == sum(len(figures) for _, figures in self.chosen):
            raise InputError(f"{next(iter(formulas))}; choose another figure for --input")
        changed = self._changed(
            lambda f: None if f.kind == "analysis" else experiments.on_file(f, path, key),
            own_file=path,
        )
        return dataclasses.replace(changed, left_out=(*self.left_out, *formulas))

    def _changed(self, change: Callable[[Figure], Figure | None], **fields: Any) -> Reproduction:
        chosen = tuple(
            (paper, tuple(new for f in figures if (new := change(f)) is not None))
            for paper, figures in self.chosen
        )
        return dataclasses.replace(self, chosen=tuple(c for c in chosen if c[1]), **fields)

    @property
    def mode(self) -> str:
        return "quick" if self.quick else "full"

    def runs(self, figure: Figure) -> list[Run]:
        """The runs of one figure."""
        return experiments.plan(figure, self.quick)

    def cells(self) -> list[Cell]:
        """The cells of all figures."""
        return [run.cell for _, figures in self.chosen for f in figures for run in self.runs(f)]

    def write(self, outcomes: Mapping[str, Outcome], out: Path) -> dict[str, Any]:
        """Writes tables, pictures, ledgers and pages below `out`, and returns what is where."""
        return {
            "mode": self.mode,
            "out": str(out),
            "left_out": list(self.left_out),
            "papers": [
                self._write_paper(paper, figures, outcomes, out / paper.name)
                for paper, figures in self.chosen
            ],
        }

    def _write_paper(
        self,
        paper: Paper,
        figures: Sequence[Figure],
        outcomes: Mapping[str, Outcome],
        folder: Path,
    ) -> dict[str, Any]:
        from evenflow_lab.report.figures import draw_figure
        from evenflow_lab.report.paper_page import write_page

        rows: dict[str, list[Row]] = {}
        pictures: dict[str, Path] = {}
        summaries = []
        for figure in figures:
            runs = self.runs(figure)
            rows[figure.id] = experiments.figure_rows(runs, outcomes)
            table = folder / f"{figure.id}.csv"
            experiments.write_table(rows[figure.id], table)
            pictures[figure.id] = draw_figure(figure, rows[figure.id], folder / f"{figure.id}.png")
            ran = {experiments.digest(run.cell) for run in runs}
            summaries.append(
                {
                    "figure": figure.id,
                    "title": figure.title,
                    "kind": figure.kind,
                    "cells": len(ran),
                    "seconds": sum(outcomes[name]["seconds"] for name in ran),
                    "stand_in": any(row.get("stand_in") for row in rows[figure.id]),
                    "csv": str(table),
                    "picture": str(pictures[figure.id]),
                }
            )
        ledger = self._ledger(paper, rows)
        experiments.write_ledger(paper.title, ledger, folder)
        shown = dataclasses.replace(paper, figures=tuple(figures))
        page = write_page(shown, pictures, rows, ledger, folder, self.mode)
        return {
            "paper": paper.name,
            "title": paper.title,
            "page": str(page),
            "figures": summaries,
            "ledger": [entry.to_dict() for entry in ledger],
        }

    def _ledger(self, paper: Paper, rows: Mapping[str, Sequence[Row]]) -> list[LedgerEntry]:
        """The paper's claims are about its own schemes on its own streams."""
        if self.own_file is not None:
            return []
        theirs = {
            id: [row for row in of_figure if row.get("scheme") not in self.own_schemes]
            for id, of_figure in rows.items()
        }
        return experiments.judge(paper, theirs, self.mode)
