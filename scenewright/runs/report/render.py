"""The run page and the page that leads to several runs: HTML files that need nothing else."""

from __future__ import annotations

import functools
import os
import secrets
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from scenewright.runs.report import words
from scenewright.runs.report.chart import draw_chart
from scenewright.runs.report.content import page_content, summary_of
from scenewright.runs.report.record import PageError, RunView, read_run

PAGE_FILE = "index.html"


def write_page(run_folder: Path | str) -> Path:
    """Write ``index.html`` into a run folder from its stored events; returns its path.

    Works for an unfinished run too. Raises ``PageError`` if the folder holds no run or
    cannot be written.
    """
    folder = Path(run_folder)
    return _write(folder / PAGE_FILE, render_run(read_run(folder)))


def render_run(view: RunView) -> str:
    """The run page as HTML text."""
    return (
        _environment()
        .get_template("run.html.j2")
        .render(page=page_content(view), chart=Markup(draw_chart(view)), live=None)
    )


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
            raise PageError(f"{page} is not there: write it first with `scenewright page`")
        link = Path(os.path.relpath(page, folder)).as_posix()
        runs.append(summary_of(read_run(run_folder), link))
    text = _environment().get_template("index.html.j2").render(title=title, runs=runs)
    return _write(folder / PAGE_FILE, text)


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


def _asset(name: str) -> str | None:
    found = files("scenewright.runs.report").joinpath("assets", name)
    return found.read_text(encoding="utf-8") if found.is_file() else None


def tab_rules(indices: Iterable[int]) -> Markup:
    """The rules that show the panel of the chosen tab: one a round, no script needed."""
    return Markup(
        "".join(
            f"#g{i}:checked~.panels>#p{i}{{display:block}}"
            f"#g{i}:checked~.tablist>label[for=g{i}]{{--on:1;color:var(--ink);"
            "background:var(--card);box-shadow:var(--lift)}"
            f"#g{i}:focus-visible~.tablist>label[for=g{i}]"
            "{outline:2px solid var(--accent);outline-offset:2px}"
            for i in indices
        )
    )


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in (
        *("percent", "score", "signed", "duration", "money", "count", "tool_call", "author"),
        "method_words",
    ):
        environment.filters[name] = getattr(words, name)
    environment.globals["symbols"] = words.SYMBOLS
    environment.globals["meanings"] = words.MEANINGS
    environment.globals["tab_rules"] = tab_rules
    return environment
