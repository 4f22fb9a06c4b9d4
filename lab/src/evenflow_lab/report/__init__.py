"""Figures and pages of the papers' experiments."""

from evenflow_lab.report.figures import draw_figure
from evenflow_lab.report.paper_page import write_page

__all__ = ["draw_figure", "write_page"]
