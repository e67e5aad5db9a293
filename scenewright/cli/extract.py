"""``scenewright extract``: the scene graph that is seen in a picture, with places and doubts."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
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
    from PIL import Image, ImageDraw, ImageFont

    from scenewright.core.ports.vision import Extraction, GraphExtractor

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
            "two-stage:ACCOUNT:MODEL, or a TOML file of its parts (docs/graphs.md).",
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
    quiet: QuietOption = False,
) -> None:
    """Read pictures as scene graphs."""
    with clear_errors():
        pass

        if to is not None and out is None:
            raise fail("--to says how --out is written: add --out FILE", Exit.USAGE)
        names = tuple(part.strip() for part in (labels or "").split(",") if part.strip())
        if labels is not None and not names:
            raise fail("--labels names no class: write for example --labels dog,ball", Exit.USAGE)
        wanted = Wanted(
            tuple(images), extractor, detector, names or None, out, to, show, as_json, quiet
        )
        raise typer.Exit(int(run(wanted)))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The arguments of the command."""

    images: tuple[Path, ...]
    """Picture files."""
    extractor: str
    """Name or TOML file."""
    detector: str | None
    """In place of the extractor's own."""
    labels: tuple[str, ...] | None
    """In place of the extractor's own."""
    out: Path | None
    """File of the scenes."""
    to: str | None
    """Format of that file."""
    show: Path | None
    """Picture, or folder of pictures, with boxes and relations."""
    as_json: bool
    """Records on standard output instead of tables."""
    quiet: bool
    """No progress."""


@dataclass(frozen=True, slots=True)
class Read:
    """A picture that was read."""

    path: Path
    """Its file."""
    image: Image.Image
    """Its pixels."""
    found: Extraction
    """What is seen in it."""


def run(wanted: Wanted) -> Exit:
    """Read the pictures, print and write what is seen; the exit code.

    Raises the errors of input and of models; of several pictures one that cannot be read is told
    and left out.
    """
    from scenewright.core.formats import FORMATS, FormatError
    from scenewright.core.images import load_image
    from scenewright.core.ports.vision import DetectionError, ExtractionError

    if wanted.to is not None and wanted.to not in FORMATS:
        raise FormatError(f"unknown format {wanted.to!r}: use one of {', '.join(FORMATS)}")
    pictures = [load_image(path) for path in wanted.images]
    quiet_libraries()
    try:
        made = _extractor(wanted)
        read, failed = asyncio.run(_read(made, wanted, pictures))
    except (DetectionError, ExtractionError) as error:
        if debugging():
            raise
        raise fail(str(error), Exit.FAILED) from None
    _print(read, wanted)
    if wanted.out is not None and read:
        _write(wanted.out, read, wanted.to)
    if wanted.show is not None and read:
        _draw(wanted.show, read, len(wanted.images) > 1)
    return Exit.FAILED if failed else Exit.OK


def _extractor(wanted: Wanted) -> GraphExtractor:
    from scenewright.runs.model_factory.extractors import extractor_of

    return extractor_of(wanted.extractor, detector=wanted.detector, labels=wanted.labels)


async def _read(
    extractor: GraphExtractor, wanted: Wanted, pictures: Sequence[Image.Image]
) -> tuple[list[Read], int]:
    """What was read, and how many pictures could not be."""
    from scenewright.core.images import ImageError
    from scenewright.core.ports.vision import ExtractionError

    read: list[Read] = []
    failed = 0
    try:
        with show_pictures(len(pictures), wanted.quiet) as step:
            for path, picture in zip(wanted.images, pictures, strict=True):
                step(path.name)
                try:
                    read.append(Read(path, picture, await extractor.extract(picture)))
                except (ExtractionError, ImageError) as error:
                    if len(pictures) == 1 or debugging():
                        raise
                    # The other pictures are still worth their work.
                    failed += 1
                    told = Text.assemble((f"{path}: ", "bold red"), str(error))
                    console(stderr=True).print(told, soft_wrap=True)
    finally:
        await extractor.aclose()
    return read, failed


def record(path: Path, found: Extraction) -> dict[str, Any]:
    """An extraction as JSON: the scene, places in pixels, confidences by fact, what was left
    out, and what is unknown because a model failed on it."""
    return {
        "image": path.name,
        "scene": found.scene.model_dump(mode="json"),
        "things": {
            id_: {
                "name": one.name,
                "box": [round(value, 2) for value in one.box],
                "score": round(one.score, 4),
            }
            for id_, one in found.things.items()
        },
        "confidence": {fact: round(value, 4) for fact, value in found.confidence.items()},
        "dropped": [
            {"what": one.what, "stage": one.stage, "reason": one.reason} for one in found.dropped
        ],
        "unread": [asdict(one) for one in found.unread],
    }


def _print(read: Sequence[Read], wanted: Wanted) -> None:
    if wanted.as_json:
        for one in read:
            line = json.dumps(record(one.path, one.found), ensure_ascii=True, allow_nan=False)
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        return
    pass

    where = console()
    for at, one in enumerate(read):
        if len(wanted.images) > 1:
            where.print(Text(f"{'' if at == 0 else chr(10)}{one.path}", style="bold underline"))
        print_extraction(one.found, where)


def _write(out: Path, read: Sequence[Read], to: str | None) -> None:
    from scenewright.core.formats import dump_scenes
    from scenewright.core.scene import SceneError

    if to is None and (len(read) > 1 or out.suffix == ".jsonl"):
        lines = [json.dumps(record(one.path, one.found), ensure_ascii=False) for one in read]
        text = "".join(f"{line}\n" for line in lines)
    else:
        seen = [one for one in read if one.found.scene]
        if not seen:
            raise fail("nothing was seen: there is no scene to write", Exit.FAILED)
        for one in read:
            for unread in one.found.unread:
                told = Text(f"note: {out} lacks what is unknown of {one.path}: {unread}")
                console(stderr=True).print(told, soft_wrap=True)
            if not one.found.scene:
                told = Text(f"note: {one.path} is left out of {out}: nothing was seen in it")
                console(stderr=True).print(told, soft_wrap=True)
        text = dump_scenes([one.found.scene for one in seen], to or "json")
    try:
        out.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise SceneError(
            f"{out} cannot be written: {error.strerror or error}; name a writable file"
        ) from error


def _draw(show: Path, read: Sequence[Read], several: bool) -> None:
    pass
    from scenewright.core.images import ImageError

    try:
        if several:
            show.mkdir(parents=True, exist_ok=True)
        for one in read:
            place = show / f"{one.path.stem}.png" if several else show
            drawn(one.image, one.found).save(place)
    except (OSError, ValueError) as error:
        raise ImageError(
            f"{show} cannot be written ({error}): name a writable .png or .jpg file"
            + (", or a folder" if several else "")
        ) from error


_COLORS = (
    *("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080"),
    *("#9a6324", "#800000", "#808000", "#000075"),
)
_LEAST_SIDE = 640
_INK = "#1a1a1a"
_PAPER = "#ffffff"


def print_extraction(found: Extraction, where: Console) -> None:
    """Objects with box and confidence, attributes, relations, and what was left out."""
    from scenewright.core.questions import attribute_fact_id, object_fact_id, relation_fact_id
    from scenewright.runs.report import words

    sure = found.confidence

    def percent(fact: str) -> str:
        return words.percent(sure[fact]) if fact in sure else ""

    scene = found.scene
    if not scene:
        where.print("nothing was seen")
    else:
        table = plain_table("object", "box", "sure", "attributes")
        for item in scene.objects:
            thing = found.things.get(item.id)
            box = "" if thing is None else " ".join(str(round(value)) for value in thing.box)
            values = [
                f"{key}: {value} {percent(attribute_fact_id(item.id, key))}".rstrip()
                for key, value in item.attributes.items()
            ]
            row = (item.id, box, percent(object_fact_id(item.id)), "; ".join(values))
            table.add_row(*map(Text, row))
        where.print(table)
    if scene.relations:
        where.print()
        table = plain_table("relation", "sure")
        for relation in scene.relations:
            table.add_row(Text(str(relation)), Text(percent(relation_fact_id(relation))))
        where.print(table)
    if found.dropped:
        where.print()
        table = plain_table("left out", "at", "why")
        table.columns[2].no_wrap = False
        for one in found.dropped:
            table.add_row(Text(one.what), Text(one.stage), Text(one.reason))
        where.print(table)
    if found.unread:
        where.print()
        table = plain_table("unknown", "of", "why")
        table.columns[2].no_wrap = False
        for unread in found.unread:
            what = ", ".join(unread.words) or unread.part
            table.add_row(Text(what), Text(" and ".join(unread.objects)), Text(unread.reason))
        where.print(table)
    where.print()
    counts = (
        words.count(len(scene.objects), "object"),
        words.count(sum(len(item.attributes) for item in scene.objects), "attribute"),
        words.count(len(scene.relations), "relation"),
    )
    unknown = f"; {len(found.unread)} unknown" if found.unread else ""
    where.print(f"{', '.join(counts)}; {len(found.dropped)} left out{unknown}")


def drawn(image: Image.Image, found: Extraction) -> Image.Image:
    """``image``, enlarged if it is small, with each thing's box and id and each relation as an
    arrow from subject to object; things without a place are not drawn."""
    from PIL import Image, ImageDraw, ImageFont

    factor = max(1, math.ceil(_LEAST_SIDE / max(image.size)))
    size = (image.width * factor, image.height * factor)
    shown = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    pen = ImageDraw.Draw(shown)
    width = max(2, max(shown.size) // 300)
    font = ImageFont.load_default(max(12, max(shown.size) // 45))
    colors = {id_: _COLORS[at % len(_COLORS)] for at, id_ in enumerate(found.things)}
    boxes = {
        id_: tuple(value * factor for value in thing.box) for id_, thing in found.things.items()
    }
    for id_, (left, top, right, bottom) in boxes.items():
        pen.rectangle((left, top, right - 1, bottom - 1), outline=colors[id_], width=width)
    # Several relations of one pair share an arrow.
    joined: dict[tuple[str, str], list[str]] = {}
    for relation in found.scene.relations:
        if relation.source in boxes and relation.target in boxes:
            joined.setdefault((relation.source, relation.target), []).append(relation.predicate)
    for (source, target), predicates in joined.items():
        start, end = _center(boxes[source]), _center(boxes[target])
        _arrow(pen, start, end, colors[source], width)
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        _label(pen, middle, ", ".join(predicates), _INK, font, shown.size, "mm")
    for id_, (left, top, _, _) in boxes.items():
        _label(pen, (left, top), id_, colors[id_], font, shown.size, "la")
    return shown


def _center(box: tuple[float, ...]) -> tuple[float, float]:
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def _arrow(
    pen: ImageDraw.ImageDraw,
    start: tuple[float, float],
    end: tuple[float, float],
    color: str,
    width: int,
) -> None:
    pen.line((*start, *end), fill=color, width=width)
    along = math.atan2(end[1] - start[1], end[0] - start[0])
    for turn in (2.6, -2.6):
        tip = (
            end[0] + 6 * width * math.cos(along + turn),
            end[1] + 6 * width * math.sin(along + turn),
        )
        pen.line((*end, *tip), fill=color, width=width)


def _label(
    pen: ImageDraw.ImageDraw,
    at: tuple[float, float],
    text: str,
    color: str,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
    size: tuple[int, int],
    anchor: str,
) -> None:
    """``text`` on paper, moved so far that all of it is on the picture."""
    left, top, right, bottom = pen.textbbox(at, text, font=font, anchor=anchor)
    across = min(0.0, size[0] - 2 - right) or max(0.0, 2 - left)
    down = min(0.0, size[1] - 2 - bottom) or max(0.0, 2 - top)
    place = (at[0] + across, at[1] + down)
    back = (left + across - 2, top + down - 1, right + across + 2, bottom + down + 1)
    pen.rectangle(back, fill=_PAPER)
    pen.text(place, text, fill=color, font=font, anchor=anchor)
