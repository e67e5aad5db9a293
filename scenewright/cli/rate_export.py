"""``scenewright rate export``: ratings as a table, or as rated objects."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scenewright.cli.console import Exit, clear_errors, console, fail

FolderArgument = Annotated[
    Path, typer.Argument(metavar="RATINGS", help="Folder that `rate make` wrote.")
]


def export(
    folder: FolderArgument = Path("ratings"),
    place: Annotated[
        Path | None,
        typer.Argument(
            metavar="[OUT]",
            help="CSV file to write, or for a study of objects a folder; default ratings.csv.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The same, as an option.", show_default=False),
    ] = None,
    fewest: Annotated[
        int | None,
        typer.Option(
            "--fewest",
            min=1,
            help="Of objects: ratings that one needs; default all that its study asks for.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write all ratings as CSV, one row a rating; or rated objects, to train and measure with.

    For a study of objects and an OUT that does not end in .csv, OUT becomes a folder with
    objects.jsonl (each object's mean and single ratings) and the pictures.

    Examples:

      scenewright rate export ratings ratings.csv

      scenewright rate export ratings-objects rated

    Exit codes: 0 written; 2 wrong input; 3 could not run.
    """
    with clear_errors():
        from scenewright.evals.human_ratings.study import StudyFolder
        from scenewright.evals.human_ratings.table import ratings_of, write_csv

        if place is not None and out is not None:
            raise fail("OUT and --out are the same: give one of them", Exit.USAGE)
        target = place or out or Path("ratings.csv")
        study = StudyFolder(folder)
        if study.study.kind == "objects" and target.suffix.lower() != ".csv":
            from scenewright.evals.human_ratings.objects.export import export_objects

            made = export_objects(study, target, fewest)
            told = f"{made.objects} objects of {made.pictures} pictures written to {target}"
            lost = f"{made.excluded} that a rater took out, {made.unfinished} that need more raters"
            console().print(f"{told}; left out: {lost}", soft_wrap=True)
            return
        if fewest is not None:
            raise fail("--fewest is for folders of rated objects: leave it out", Exit.USAGE)
        count = write_csv(ratings_of(study), target)
        console().print(f"{count} ratings written to {target}", soft_wrap=True)
