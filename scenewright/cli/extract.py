"""``scenewright extract``: scene graphs of pictures, with places and confidences."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scenewright.cli import console as terminal
from scenewright.cli import options
from scenewright.cli.progress import each_picture

if TYPE_CHECKING:
    from PIL import Image

    from scenewright.core.ports.vision import Extraction

    Read = tuple[Path, Image.Image, Extraction]
    """A picture's file, its pixels, and what is seen in it."""


def extract(
    images: list[Path],
    extractor: Annotated[str, typer.Option("--extractor", "-e")] = "miniature",
    detector: options.Detector = None,
    labels: str | None = None,
    out: options.OptionalOut = None,
    to: str | None = None,
    show: Path | None = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> terminal.Exit:
    """Read pictures as scene graphs: objects with places, attributes, relations.

    By default in two stages: a detector finds objects, then their attributes are read, relations
    of pairs are scored and the likely ones confirmed by another model. Reasons are given for what
    was left out. Without models of your own it reads the miniature world.

    Examples of use:

      scenewright extract painted.png --show boxes.png --out seen.json

      scenewright extract photo.jpg --extractor one-stage:openai:gpt-6-luna

      scenewright extract photo.jpg -e two-stage:openai:gpt-6-luna -d transformers:FOLDER

      scenewright extract *.png --out seen.jsonl

    Exit codes: 0 read; 2 wrong input; 3 could not run, or a picture could not be read (the others
    are still written).

    Args:
        images (IMAGE...): Picture files.
        extractor (NAME): Extractor: miniature, miniature-one-stage, one-stage:ACCOUNT:MODEL,
            two-stage:ACCOUNT:MODEL, or a TOML file of its parts (docs/graphs.md).
        out (FILE): Write the scenes to this file: for several pictures one JSON line each, with the
            picture's name, places, confidences and what was left out.
        to (FORMAT): Format of --out instead: json, megasg, sg2im, visual-genome, triplets,
            networkx.
        show (PICTURE): Write the picture with boxes and relations here; for several pictures a
            folder.
        as_json: Print one JSON object a picture on standard output, nothing else.
    """
    from scenewright.core.formats import FORMATS, FormatError, dump_scenes
    from scenewright.core.images import ImageError, load_image
    from scenewright.core.ports.vision import ExtractionError
    from scenewright.runs.model_factory.extractors import extractor_of
    from scenewright.tools.vision.extraction.overlay import draw_extraction

    names = options.label_names(labels)
    if to is not None and out is None:
        raise terminal.fail("--to is the format of --out: add --out FILE")
    if to is not None and to not in FORMATS:
        raise FormatError(f"unknown format {to!r}: use one of {', '.join(FORMATS)}")
    for path in images:
        # A name that is mistyped ends the command before any work; a damaged file does not.
        if not path.is_file():
            load_image(path)
    if out is not None:
        terminal.check_writable(out)
    if show is not None:
        terminal.check_writable(show, "folder" if len(images) > 1 else ".png or .jpg file")
    made = extractor_of(extractor, detector=detector, labels=names or None)

    async def read_pictures() -> tuple[list[Read], int]:
        async def read_one(path: Path) -> Read:
            picture = load_image(path)
            return path, picture, await made.extract(picture)

        try:
            errors = (ExtractionError, ImageError)
            return await each_picture(tuple(dict.fromkeys(images)), read_one, errors, quiet)
        finally:
            await made.aclose()

    read, failed = terminal.run_async(read_pictures())
    if as_json:
        sys.stdout.write("".join(f"{_line(path, found, True)}\n" for path, _, found in read))
        sys.stdout.flush()
    for at, (path, _, found) in enumerate(read):
        if len(images) > 1:
            terminal.say(f"{chr(10) if at else ''}{path}", "bold underline")
        print_extraction(found)
    if out is not None and read:
        if to is None and (len(read) > 1 or out.suffix == ".jsonl"):
            text = "".join(f"{_line(path, found, False)}\n" for path, _, found in read)
        else:
            seen = [found.scene for _, _, found in read if found.scene]
            if not seen:
                raise terminal.fail(
                    "no objects were found in the pictures: no file is written",
                    terminal.Exit.FAILED,
                )
            for path, _, found in read:
                for unread in found.unread:
                    terminal.note(f"note: {out} lacks what is unknown of {path}: {unread}")
                if not found.scene:
                    terminal.note(f"note: {path} is left out of {out}: nothing was seen in it")
            text = dump_scenes(seen, to or "json")
        terminal.write_file(out, lambda path: path.write_text(text, encoding="utf-8", newline="\n"))
    for path, picture, found in read if show is not None else ():
        assert show is not None
        place = show / f"{path.stem}.png" if len(images) > 1 else show
        terminal.write_file(place, draw_extraction(picture, found).save, ".png or .jpg file")
    return terminal.Exit.FAILED if failed else terminal.Exit.OK


def _line(path: Path, found: Extraction, ascii_only: bool) -> str:
    """Return an extraction as one line of JSON, places in pixels."""
    record: dict[str, Any] = {
        "image": path.name,
        "scene": found.scene.model_dump(mode="json"),
        "things": {
            id_: terminal.fields_of(
                one, "name", box=[round(v, 2) for v in one.box], score=round(one.score, 4)
            )
            for id_, one in found.things.items()
        },
        "confidence": {fact: round(value, 4) for fact, value in found.confidence.items()},
        "dropped": [terminal.fields_of(one, "what", "stage", "reason") for one in found.dropped],
        "unread": [asdict(one) for one in found.unread],
    }
    return json.dumps(record, ensure_ascii=ascii_only, allow_nan=False)


def print_extraction(found: Extraction) -> None:
    """Print objects with box and confidence, relations, and what was left out."""
    from scenewright.core.questions import attribute_fact_id, object_fact_id, relation_fact_id
    from scenewright.runs.report import words

    def percent(fact: str) -> str:
        known = found.confidence.get(fact)
        return "" if known is None else words.percent(known)

    scene = found.scene
    if not scene:
        terminal.say("nothing was seen")
    rows = []
    for item in scene.objects:
        thing = found.things.get(item.id)
        box = "" if thing is None else " ".join(str(round(value)) for value in thing.box)
        values = [
            f"{key}: {value} {percent(attribute_fact_id(item.id, key))}".rstrip()
            for key, value in item.attributes.items()
        ]
        rows.append((item.id, box, percent(object_fact_id(item.id)), "; ".join(values)))
    relations = [(str(one), percent(relation_fact_id(one))) for one in scene.relations]
    dropped = [(one.what, one.stage, one.reason) for one in found.dropped]
    unread = [
        (", ".join(one.words) or one.part, " and ".join(one.objects), one.reason)
        for one in found.unread
    ]
    terminal.print_table(("object", "box", "confidence", "attributes"), rows)
    for heads, lines, wraps in (
        (("relation", "confidence"), relations, False),
        (("left out", "stage", "reason"), dropped, True),
        (("unknown", "of", "reason"), unread, True),
    ):
        if lines:
            terminal.say("")
        terminal.print_table(heads, lines, wraps=wraps)
    counts = (
        words.count(len(scene.objects), "object"),
        words.count(sum(len(item.attributes) for item in scene.objects), "attribute"),
        words.count(len(scene.relations), "relation"),
    )
    unknown = f"; {len(found.unread)} unknown" if found.unread else ""
    terminal.say(f"\n{', '.join(counts)}; {len(found.dropped)} left out{unknown}")
