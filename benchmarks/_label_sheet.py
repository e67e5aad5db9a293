"""Label generated pictures by eye: draw them with a form, and read the filled form.

    python -m benchmarks._label_sheet draw   # pictures, sheets and form in out/labels
    $EDITOR out/labels/form.txt              # mark what is wrong, beside the sheets
    python -m benchmarks._label_sheet read --seen-by "who looked"

``read`` checks the form and writes the pictures with ``labels.json`` to tests/data/generated.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import math
import shutil
import sys
from pathlib import Path

from PIL import Image

from benchmarks._label_form import blank_form, number_of, phrases, read_form
from benchmarks._labels import FILE, FOLDER, LabelError, Labels, Picture, read_labels
from benchmarks._miniature_scenes import LEVELS, painting_of_level
from benchmarks._progress import progress
from benchmarks._sheets import line_height, paper, paste, rounded, write
from scenewright.config.settings import find_profile
from scenewright.core.images import load_image
from scenewright.core.ports.backend import GenerationRequest
from scenewright.runs.model_factory.profiles import RunModels, build_run_models

WORK = Path("out") / "labels"
FORM = "form.txt"
BITS = 6
"""Of every channel that a picture is kept with: half the bytes, at most 2 of 255 off."""
ZOOM = 3
_PER_SHEET = (2, 3)
_WORDS = 340
_SIZE = 14


async def drawn(run_models: RunModels, count: int, folder: Path) -> Labels:
    """Draw ``count`` held-out scenes, the levels in turn, as numbered files in ``folder``."""
    pictures = []
    for at in progress("pictures", range(count), count):
        level = LEVELS[at % len(LEVELS)]
        scene = painting_of_level(level, "labels", at).scene
        prompt = await run_models.composer.compose(scene, at)
        made = await run_models.backend.generate(
            GenerationRequest(prompt=prompt, seed=at), load_image
        )
        file = folder / f"{at + 1:02}.png"
        rounded(made.image, BITS).save(file, optimize=True)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        pictures.append(Picture(file=file.name, sha256=digest, level=level, seed=at, scene=scene))
    return Labels(generator=run_models.backend.fingerprint, pictures=tuple(pictures))


def sheets_of(labels: Labels, folder: Path) -> list[Image.Image]:
    """The pictures three times as large, each with its number and its facts beside it."""
    columns, rows = _PER_SHEET
    sheets = []
    for start in range(0, len(labels.pictures), columns * rows):
        part = labels.pictures[start : start + columns * rows]
        pictures = [Image.open(folder / picture.file).convert("RGB") for picture in part]
        side = ZOOM * max(image.width for image in pictures)
        longest = max(len(phrases(picture)) for picture in part)
        cell = (side + _WORDS + 16, max(side, (longest + 1) * line_height(_SIZE)) + 12)
        sheet = paper(columns * cell[0], math.ceil(len(part) / columns) * cell[1])
        for at, (picture, image) in enumerate(zip(part, pictures, strict=True)):
            left, top = at % columns * cell[0], at // columns * cell[1]
            paste(sheet, (left, top), image, side)
            title = f"picture {number_of(picture)} ({picture.level})"
            write(sheet, (left + side + 8, top), [title, *phrases(picture)], _SIZE)
        sheets.append(sheet)
    return sheets


def draw(count: int, work: Path) -> None:
    """Draw pictures, sheets and form into ``work``. Raises ``LabelError`` if a form is there."""
    if (work / FORM).exists():
        raise LabelError(f"{work / FORM} is there already: read it, or remove {work}")
    pictures = work / "pictures"
    shutil.rmtree(pictures, ignore_errors=True)
    pictures.mkdir(parents=True)

    async def all_drawn() -> Labels:
        return await drawn(await build_run_models(find_profile("miniature")), count, pictures)

    labels = asyncio.run(all_drawn())
    labels.write(pictures)
    for at, sheet in enumerate(sheets_of(labels, pictures), start=1):
        sheet.save(work / f"sheet-{at}.png")
    # The form comes last: where it is, all the rest is whole.
    (work / FORM).write_text(blank_form(labels), encoding="utf-8")
    print(f"look at {work}/sheet-*.png and fill in {work / FORM}")


def read(work: Path, out: Path, seen_by: str) -> None:
    """Check the filled form and write pictures and labels to ``out``, replacing older ones."""
    pictures = work / "pictures"
    labels = read_labels(pictures, labelled=False)
    try:
        form = (work / FORM).read_text(encoding="utf-8")
    except OSError as error:
        raise LabelError(
            f"{work / FORM} cannot be read ({error.strerror}): draw one first"
        ) from error
    marked = read_form(form, labels, seen_by)
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.png"):
        old.unlink()
    for picture in marked.pictures:
        shutil.copyfile(pictures / picture.file, out / picture.file)
    marked.write(out)
    read_labels(out)
    size = sum(path.stat().st_size for path in out.iterdir())
    print(f"{len(marked.pictures)} pictures with their labels in {out} ({size / 1000:.0f} kB)")


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=WORK, help="form, sheets and pictures")
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw", help="draw pictures, sheets and an empty form")
    drawing.add_argument("-n", type=int, default=36, help="pictures, the levels in turn")
    reading = commands.add_parser("read", help=f"check the filled form and write {FILE}")
    reading.add_argument("--out", type=Path, default=FOLDER, help="folder of the labels")
    reading.add_argument("--seen-by", required=True, help="who looked at the pictures")
    given = parser.parse_args(arguments)
    try:
        if given.command == "draw":
            draw(given.n, given.work)
        else:
            read(given.work, given.out, given.seen_by)
    except LabelError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
