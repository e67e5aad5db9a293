"""``scenewright page`` and ``scenewright show``: a run that is already there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scenewright.cli.console import clear_errors, console, print_json
from scenewright.cli.refine import JsonOption, exit_code, run_json, show_run

RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN_DIR", help="A run folder.", show_default=False)
]


def page(
    run_dir: RunArgument,
    sheet: Annotated[
        Path | None,
        typer.Option("--sheet", help="Also write all rounds as one picture to this file."),
    ] = None,
) -> None:
    """Write the page of a run again, also of an unfinished one; prints its path."""
    with clear_errors():
        from scenewright.runs.report import PageError, contact_sheet, write_page

        where = console()
        where.print(str(write_page(run_dir)), soft_wrap=True)
        if sheet is not None:
            try:
                contact_sheet(run_dir).save(sheet)
            except (OSError, ValueError) as error:
                if isinstance(error, PageError):
                    raise
                raise PageError(
                    f"{sheet} cannot be written ({error}): name a writable .png or .jpg file"
                ) from error
            where.print(str(sheet), soft_wrap=True)


def show(run_dir: RunArgument, as_json: JsonOption = False) -> None:
    """Show the facts by round and the result of a run, and each fact's id for `edit`."""
    with clear_errors():
        from scenewright.runs.report import read_run
        from scenewright.runs.report.render import PAGE_FILE

        view = read_run(run_dir)
        found = run_dir / PAGE_FILE
        place = found if found.is_file() else None
        if as_json:
            print_json(run_json(view, place, exit_code(view.card("loop"))))
        else:
            show_run(view, place, ids=True)
