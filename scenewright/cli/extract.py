"""``scenewright extract``: the scene graph that is seen in a picture, with places and doubts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scenewright.cli.console import Exit, clear_errors, fail

HELP = (
    "Read pictures as scene graphs: what is there and where, what it is like, how it is related, "
    "and what was left out and why.\n\n"
    "Two stages by default: a detector finds things, then their attributes are read, relations of "
    "pairs scored and the likely ones confirmed by somebody else. Without models of your own it "
    "reads the miniature world.\n\n"
    "Examples:\n\n"
    "  scenewright extract painted.png --show boxes.png --out seen.json\n\n"
    "  scenewright extract photo.jpg --extractor one-stage:openai:gpt-6-luna\n\n"
    "  scenewright extract photo.jpg -e two-stage:openai:gpt-6-luna -d transformers:FOLDER\n\n"
    "  scenewright extract *.png --out seen.jsonl\n\n"
    "Exit codes: 0 read; 2 wrong input; 3 could not run, or a picture could not be read (the "
    "others are still written)."
)


def extract(
    images: Annotated[
        list[Path],
        typer.Argument(metavar="IMAGE...", help="Picture files.", show_default=False),
    ],
    extractor: Annotated[
        str,
        typer.Option(
            "--extractor",
            "-e",
            metavar="NAME",
            help="Who reads: miniature, miniature-one-stage, one-stage:ACCOUNT:MODEL, "
            "two-stage:ACCOUNT:MODEL, or a TOML file of its parts (docs/extraction.md).",
        ),
    ] = "miniature",
    detector: Annotated[
        str | None,
        typer.Option(
            "--detector",
            "-d",
            metavar="NAME",
            help="What finds things in two stages: miniature, json:FILE, "
            "transformers:FOLDER_OR_OWNER/NAME.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="A,B,…",
            help="Classes that are looked for; open-vocabulary detectors need them.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write the scenes to this file: of several pictures one JSON line each, with the "
            "picture's name, places, confidences and what was left out.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help="Write --out in this format instead: json, megasg, sg2im, visual-genome, "
            "triplets, networkx.",
            show_default=False,
        ),
    ] = None,
    show: Annotated[
        Path | None,
        typer.Option(
            "--show",
            metavar="PICTURE",
            help="Draw boxes and relations on the picture and write it here; of several pictures "
            "a folder.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="One JSON object a picture on standard output, nothing else there."
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Read pictures as scene graphs."""
    with clear_errors():
        from scenewright.cli.extract_run import Wanted, run

        if to is not None and out is None:
            raise fail("--to says how --out is written: add --out FILE", Exit.USAGE)
        names = tuple(part.strip() for part in (labels or "").split(",") if part.strip())
        if labels is not None and not names:
            raise fail("--labels names no class: write for example --labels dog,ball", Exit.USAGE)
        wanted = Wanted(
            tuple(images), extractor, detector, names or None, out, to, show, as_json, quiet
        )
        raise typer.Exit(int(run(wanted)))
