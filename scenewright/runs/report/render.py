"""The run page and the page that leads to several runs: HTML files that need nothing else."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from scenewright.runs.folder import PAGE_FILE
from scenewright.runs.record import PageError, RunRecord, read_run
from scenewright.runs.report import templates
from scenewright.runs.report.chart import draw_chart
from scenewright.runs.report.content import page_content


def write_page(run_folder: Path | str) -> Path:
    """Write ``index.html`` into a run folder from its stored events; returns its path.

    Works for an unfinished run too. Raises ``PageError`` if the folder holds no run or
    cannot be written.
    """
    folder = Path(run_folder)
    return _write(folder / PAGE_FILE, render_run(read_run(folder)))


def render_run(view: RunRecord) -> str:
    """Return the run page as HTML text.

    ``unread`` are the passages of its sentence that the scene does not hold.
    """
    page = page_content(view)
    return templates.render("run.html.j2", page=page, chart=Markup(draw_chart(view)), live=None)


def write_index(folder: Path | str, run_folders: Sequence[Path | str], title: str = "Runs") -> Path:
    """Write ``index.html`` into ``folder`` that shows several runs and links to their pages.

    The run folders lie below ``folder``; each page must be there already. Raises
    ``PageError`` otherwise.
    """
    folder = Path(folder)
    runs = []
    for run_folder in map(Path, run_folders):
        page = run_folder / PAGE_FILE
        if not page.is_file():
            raise PageError(f"{page} does not exist: write it first with `scenewright open`")
        link = Path(os.path.relpath(page, folder)).as_posix()
        runs.append((link, page_content(read_run(run_folder))))
    return _write(folder / PAGE_FILE, templates.render("index.html.j2", title=title, runs=runs))


def _write(path: Path, text: str) -> Path:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise PageError(
            f"{path} cannot be written ({error.strerror or error}): "
            "make the folder writable or free some space"
        ) from error
    return path
