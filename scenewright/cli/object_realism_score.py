"""``scenewright object-realism score``: how real the objects of pictures look."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from scenewright.cli.console import (
    Exit,
    clear_errors,
    console,
    debugging,
    fail,
    plain_table,
    quiet_libraries,
)
from scenewright.cli.options import QuietOption
from scenewright.cli.progress import show_pictures

if TYPE_CHECKING:
    from rich.console import Console

    from scenewright.cli.object_realism_score_file import ScoresFile
    from scenewright.core.ports.vision import Detector, RealismScorer
    from scenewright.tools.vision.realism.pictures import PictureRealism

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
    quiet: QuietOption = False,
) -> None:
    """Score the realism of the objects in pictures."""
    with clear_errors():
        pass

        wanted = Wanted(tuple(images), scorer, detector, labels, most, json_file, quiet)
        raise typer.Exit(int(run(wanted)))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The arguments of the command."""

    images: tuple[Path, ...]
    """Picture files."""
    scorer: str
    """Who scores."""
    detector: str
    """What finds things."""
    labels: str | None
    """Classes that are looked for, with commas."""
    most: int
    """So many of the largest objects speak for a picture."""
    json_file: Path | None
    """File of the scores; ``-``: they go to standard output."""
    quiet: bool
    """No progress."""

    @property
    def names(self) -> tuple[str, ...]:
        """The classes, one by one."""
        return tuple(part.strip() for part in (self.labels or "").split(",") if part.strip())


def run(wanted: Wanted) -> Exit:
    """Score the pictures, print and write what came out; the exit code.

    Raises the errors of input; of several pictures one that cannot be scored is told and left
    out.
    """
    from scenewright.cli.object_realism_score_file import ScoresFile
    from scenewright.core.ports.vision import DetectionError, RealismError

    if wanted.labels is not None and not wanted.names:
        raise fail("--labels names no class: write for example --labels dog,ball", Exit.USAGE)
    quiet_libraries()
    try:
        from scenewright.runs.model_factory.local_models import cached_detector_of
        from scenewright.runs.model_factory.realism_scorers import scorer_of

        scorer, detector = scorer_of(wanted.scorer), cached_detector_of(wanted.detector)
        file = ScoresFile.of(wanted.json_file, scorer, detector, wanted.names)
        scored, failed = asyncio.run(_scored(scorer, detector, wanted, file))
    except (DetectionError, RealismError) as error:
        if debugging():
            raise
        raise fail(str(error), Exit.FAILED) from None
    if not file.is_output:
        _print(scored, len(wanted.images) > 1, console())
    return Exit.FAILED if failed else Exit.OK


async def _scored(
    scorer: RealismScorer, detector: Detector, wanted: Wanted, file: ScoresFile
) -> tuple[list[tuple[Path, PictureRealism]], int]:
    """What was scored, and how many pictures could not be."""
    from scenewright.core.images import ImageError, hash_of_image, load_image
    from scenewright.core.ports.vision import DetectionError, RealismError
    from scenewright.runs.model_factory.local_models import SHARED
    from scenewright.tools.vision.realism.pictures import picture_realism

    scored: list[tuple[Path, PictureRealism]] = []
    failed = 0
    try:
        with show_pictures(len(wanted.images), wanted.quiet) as step:
            for path in wanted.images:
                step(path.name)
                try:
                    picture = await asyncio.to_thread(load_image, path)
                    mark = await asyncio.to_thread(hash_of_image, picture)
                    found = file.known(mark, wanted.most)
                    if found is None:
                        found = await picture_realism(
                            picture, detector, scorer, labels=wanted.names, most=wanted.most
                        )
                        file.add(path, picture.size, mark, found)
                except (DetectionError, RealismError, ImageError) as error:
                    if len(wanted.images) == 1 or debugging():
                        raise
                    # The other pictures are still worth their work.
                    failed += 1
                    told = Text.assemble((f"{path}: ", "bold red"), str(error))
                    console(stderr=True).print(told, soft_wrap=True)
                    continue
                scored.append((path, found))
    finally:
        await SHARED.aclose()
    return scored, failed


def _print(scored: Sequence[tuple[Path, PictureRealism]], several: bool, where: Console) -> None:
    from scenewright.runs.report import words

    for at, (path, found) in enumerate(scored):
        if several:
            where.print(Text(f"{'' if at == 0 else chr(10)}{path}", style="bold underline"))
        if found.objects:
            table = plain_table("object", "box", "shape", "texture", "OcR", "note")
            for place, (item, realism) in enumerate(found.objects):
                box = " ".join(str(round(value)) for value in item.box)
                note = realism.reason or ("" if place < found.most else "not among the largest")
                scores = (realism.shape, realism.texture, realism.average)
                table.add_row(*map(Text, (item.name, box, *map(_score, scores), note)))
            where.print(table)
            where.print()
        if found.ocr is None:
            where.print(f"no realism: {found.reason}")
            continue
        largest = words.count(min(found.most, len(found.objects)), "object")
        left = found.found - len(found.objects)
        where.print(
            f"realism {_score(found.ocr)} of 5 (shape {_score(found.shape)}, texture "
            f"{_score(found.texture)}) by the largest {largest}; {left} left out"
        )


def _score(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
