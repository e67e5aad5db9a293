"""A report on objects as files: HTML that needs no server, JSON, and plots."""

from __future__ import annotations

from pathlib import Path

from scenewright.evals.human_ratings.files import put_file
from scenewright.evals.human_ratings.objects.plots import GAPS, draw_object_plots
from scenewright.evals.human_ratings.objects.report import ObjectReport
from scenewright.evals.human_ratings.objects.view import TITLES
from scenewright.evals.human_ratings.report_page import DATA, PAGE, page_style, report_templates
from scenewright.evals.human_ratings.study import RatingError


def write_object_report(report: ObjectReport, folder: Path) -> Path:
    """Write ``index.html``, ``report.json`` and the plots into ``folder``; the page's path.

    Raises ``RatingError`` if they cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RatingError(f"{folder} cannot be made: {error.strerror or error}") from error
    plots = draw_object_plots(report, folder)
    put_file(folder / DATA, report.model_dump_json(indent=2) + "\n")
    return put_file(folder / PAGE, render_objects(report, plots))


def render_objects(report: ObjectReport, plots: dict[str, str]) -> str:
    """The page; ``plots``: file name without ending → what it shows."""
    template = report_templates().get_template("object_report.html.j2")
    return template.render(
        report=report, plots=plots, style=page_style(), titles=TITLES, gaps=GAPS
    )  # fmt: skip
