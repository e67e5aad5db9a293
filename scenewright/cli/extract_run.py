"""What ``scenewright extract`` does: one extractor, picture after picture."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from scenewright.cli.console import Exit, console, debugging, fail, quiet_libraries

if TYPE_CHECKING:
    from PIL import Image

    from scenewright.core.ports.extractor import Extraction, GraphExtractor


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
    from scenewright.core.ports.detector import DetectionError
    from scenewright.core.ports.extractor import ExtractionError

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
    from scenewright.core.ports.extractor import ExtractionError

    read: list[Read] = []
    failed = 0
    try:
        with show_progress(len(pictures), wanted.quiet) as step:
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


@contextmanager
def show_progress(total: int, quiet: bool) -> Iterator[Any]:
    """Shows how far a command is: gives what is told the name of each picture as it begins."""
    where = console(stderr=True)
    if quiet or (total == 1 and not where.is_terminal):
        yield lambda name: None
        return
    if not where.is_terminal:
        done = iter(range(1, total + 1))
        yield lambda name: where.print(Text(f"{next(done)}/{total} {name}", style="dim"))
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=where, transient=True) as bar:
        task = bar.add_task("loading the models", total=total, completed=-1)

        def step(name: str) -> None:
            bar.update(task, advance=1, description=name)

        yield step


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
    from scenewright.cli.extract_show import print_extraction

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
    from scenewright.cli.extract_show import drawn
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
