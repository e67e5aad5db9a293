"""``scenewright object-realism score``: how real the objects of pictures look."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scenewright.cli.console import clear_errors

HELP = (
    "Score the realism of the objects in pictures: shape and texture from 1 to 5, and of each "
    "picture the mean over its largest objects (OcR).\n\n"
    "Without models of your own it scores the miniature world.\n\n"
    "Examples:\n\n"
    "  scenewright object-realism score painted.png\n\n"
    "  scenewright object-realism score *.jpg --scorer olip:FOLDER "
    "--detector transformers:OWNER/NAME --json scores.jsonl\n\n"
    "Exit codes: 0 scored; 2 wrong input; 3 could not run, or a picture could not be scored (the "
    "others still are)."
)


def score(
    images: Annotated[
        list[Path],
        typer.Argument(metavar="IMAGE...", help="Picture files.", show_default=False),
    ],
    scorer: Annotated[
        str,
        typer.Option(
            "--scorer",
            "-s",
            metavar="KIND:MODEL",
            help="Who scores: olip:FOLDER_OR_OWNER/NAME, vlm:ACCOUNT:MODEL, clip:MODEL, "
            "blip:MODEL, vqa:JUDGE, judge:JUDGE (docs/realism.md).",
        ),
    ] = "olip:miniature/olip-a",
    detector: Annotated[
        str,
        typer.Option(
            "--detector",
            "-d",
            metavar="NAME",
            help="What finds things: miniature, json:FILE, transformers:FOLDER_OR_OWNER/NAME.",
        ),
    ] = "miniature",
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="A,B,…",
            help="Classes that are looked for; open-vocabulary detectors need them.",
            show_default=False,
        ),
    ] = None,
    most: Annotated[
        int,
        typer.Option("--most", min=1, help="So many of the largest objects speak for a picture."),
    ] = 5,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json",
            metavar="FILE",
            help="Write the scores here, one JSON line a picture; - is standard output, where "
            "nothing else is then printed.",
            show_default=False,
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Score the realism of the objects in pictures."""
    with clear_errors():
        from scenewright.cli.object_realism_score_run import Wanted, run

        wanted = Wanted(tuple(images), scorer, detector, labels, most, json_file, quiet)
        raise typer.Exit(int(run(wanted)))
