"""The run page: one self-contained HTML file that shows a run round by round."""

from scenewright.runs.report.record import PageError, RoundView, RunView, read_run, view_of
from scenewright.runs.report.render import contact_sheet, render_run, write_index, write_page

__all__ = [
    "PageError",
    "RoundView",
    "RunView",
    "contact_sheet",
    "read_run",
    "render_run",
    "view_of",
    "write_index",
    "write_page",
]
