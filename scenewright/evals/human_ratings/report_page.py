"""A rating report as files: HTML that needs no server, JSON, and plots."""

from __future__ import annotations

import functools
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from scenewright.evals.human_ratings.files import put_file
from scenewright.evals.human_ratings.plots import MEANS, draw_plots, short_names
from scenewright.evals.human_ratings.report import RatingReport
from scenewright.evals.human_ratings.study import RatingError
from scenewright.evals.statistics.figures import Figure

PAGE, DATA = "index.html", "report.json"


def write_report(report: RatingReport, folder: Path) -> Path:
    """Write ``index.html``, ``report.json`` and the plots into ``folder``; the page's path.

    Raises ``RatingError`` if they cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RatingError(f"{folder} cannot be made: {error.strerror or error}") from error
    plots = draw_plots(report, folder)
    put_file(folder / DATA, report.model_dump_json(indent=2) + "\n")
    return put_file(folder / PAGE, render(report, plots))


def render(report: RatingReport, plots: dict[str, str]) -> str:
    """The page; ``plots``: file name without ending → what it shows."""
    names = dict(
        zip(
            (arm.arm for arm in report.arms),
            short_names([arm.arm for arm in report.arms]),
            strict=True,
        )
    )
    return (
        report_templates()
        .get_template("report.html.j2")
        .render(
            report=report,
            plots=plots,
            style=page_style(),
            names=names,
            means=MEANS[report.kind],
        )
    )


def page_style() -> Markup:
    """The style that all pages share, to stand within one."""
    found = files("scenewright.runs.report").joinpath("assets", "style.css")
    return Markup(found.read_text(encoding="utf-8"))


def figure_text(figure: Figure, digits: int = 3) -> str:
    """``0.931 [0.902, 0.957]`` with a true minus sign, or a dash."""
    return figure.text(digits).replace("-", "−")


def number_text(value: float | None) -> str:
    """Three decimals with a true minus sign, or a dash."""
    return "–" if value is None else f"{value:.3f}".replace("-", "−")


@functools.cache
def report_templates() -> Environment:
    """The templates of reports, with filters for figures."""
    made = Environment(
        loader=PackageLoader("scenewright.evals.human_ratings", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["figure"] = figure_text
    made.filters["number"] = number_text
    return made
