"""Experiments as data: papers, their figures, the runs behind them, and the claims ledger."""

from evenflow_lab.experiments.causes import Cause, causes_of
from evenflow_lab.experiments.cells import Row, run_and_time, run_cell
from evenflow_lab.experiments.claims import (
    Claim,
    FigureRows,
    LedgerEntry,
    Rows,
    Verdict,
    claim,
    claims_in,
    judge,
    open_claim,
)
from evenflow_lab.experiments.declaration import (
    Figure,
    Paper,
    Plot,
    load_paper,
    paper_folders,
    papers,
)
from evenflow_lab.experiments.expansion import (
    Cell,
    Run,
    expand,
    on_file,
    plan,
    with_schemes,
)
from evenflow_lab.experiments.forms import in_both_forms
from evenflow_lab.experiments.runner import (
    Execute,
    Outcome,
    Progress,
    on_processes,
    run_cells,
    warm_up,
)
from evenflow_lab.experiments.scheme_files import read_scheme_file
from evenflow_lab.experiments.seeds import Measured, Threshold
from evenflow_lab.experiments.store import CellStore, digest
from evenflow_lab.experiments.tables import figure_rows, write_ledger, write_table

__all__ = [
    "Cause",
    "Cell",
    "CellStore",
    "Claim",
    "Execute",
    "Figure",
    "FigureRows",
    "LedgerEntry",
    "Measured",
    "Outcome",
    "Paper",
    "Plot",
    "Progress",
    "Row",
    "Rows",
    "Run",
    "Threshold",
    "Verdict",
    "causes_of",
    "claim",
    "claims_in",
    "digest",
    "expand",
    "figure_rows",
    "in_both_forms",
    "judge",
    "load_paper",
    "on_file",
    "on_processes",
    "open_claim",
    "paper_folders",
    "papers",
    "plan",
    "read_scheme_file",
    "run_and_time",
    "run_cell",
    "run_cells",
    "warm_up",
    "with_schemes",
    "write_ledger",
    "write_table",
]
