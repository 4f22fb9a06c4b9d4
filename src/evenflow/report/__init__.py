"""Pictures and pages of what was measured. The only place that knows matplotlib."""

from evenflow.report.comparison import draw_comparison
from evenflow.report.figures import draw_figure
from evenflow.report.paper_page import write_page

__all__ = ["draw_comparison", "draw_figure", "write_page"]
