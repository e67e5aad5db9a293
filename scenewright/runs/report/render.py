"""The run page and the page that leads to several runs: HTML files that need nothing else.

The rounds of a run as one labelled picture.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup
from PIL import Image, ImageDraw, ImageFont

from scenewright.core.images import ImageError, load_image
from scenewright.graphs.events import Generated
from scenewright.runs.folder import PAGE_FILE
from scenewright.runs.record import PageError, RunRecord, read_run
from scenewright.runs.report import templates, words
from scenewright.runs.report.content import page_content, summary_of
from scenewright.runs.report.parts import draw_chart, fit


def write_page(run_folder: Path | str) -> Path:
    """Write ``index.html`` into a run folder from its stored events; returns its path.

    Works for an unfinished run too. Raises ``PageError`` if the folder holds no run or
    cannot be written.
    """
    folder = Path(run_folder)
    return _write(folder / PAGE_FILE, render_run(read_run(folder)))


def render_run(view: RunRecord) -> str:
    """Return the run page as HTML text.

    ``unread`` are the passages of its sentence that the scene does not hold.
    """
    page = page_content(view)
    return templates.render("run.html.j2", page=page, chart=Markup(draw_chart(view)), live=None)


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
            raise PageError(f"{page} does not exist: write it first with `scenewright open`")
        link = Path(os.path.relpath(page, folder)).as_posix()
        runs.append(summary_of(read_run(run_folder), link))
    return _write(folder / PAGE_FILE, templates.render("index.html.j2", title=title, runs=runs))


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


PAPER, INK, MUTED, RULE, ACCENT = "#ffffff", "#1d1c1a", "#66625a", "#e3dfd6", "#3d4fc4"
PAD, GAP, LABEL = 20, 16, 46


def contact_sheet(run_folder: Path | str, side: int = 256) -> Image.Image:
    """All rounds side by side, RGB: each candidate with its score, below it its reference.

    ``side`` is the side of a candidate in pixels. Raises ``PageError`` for a folder that
    holds no run or a run without an image.
    """
    view = read_run(run_folder)
    drawn = [r for r in view.rounds if r.candidate is not None]
    if not drawn:
        raise PageError(f"{run_folder} has no image yet: nothing to put on a contact sheet")
    small = side // 2
    with_references = any(r.reference is not None for r in drawn)
    title_lines = _wrap(words.scene_words(view.scene), _font(20), side * len(drawn))
    top = PAD + 28 * len(title_lines) + 10
    height = top + side + LABEL + (small + 30 if with_references else 0) + PAD
    width = 2 * PAD + len(drawn) * side + (len(drawn) - 1) * GAP
    sheet = Image.new("RGB", (width, height), PAPER)
    pen = ImageDraw.Draw(sheet)
    for at, line in enumerate(title_lines):
        pen.text((PAD, PAD + 28 * at), line, fill=INK, font=_font(20))
    for at, r in enumerate(drawn):
        x = PAD + at * (side + GAP)
        sheet.paste(_picture(view, r.candidate, side), (x, top))
        pen.rectangle((x - 1, top - 1, x + side, top + side), outline=RULE)
        kept = view.best is r
        if kept:
            pen.rectangle((x - 3, top - 3, x + side + 2, top + side + 2), outline=ACCENT, width=3)
        head = f"round {r.index}" + (", kept" if kept else "")
        pen.text((x, top + side + 8), head, fill=ACCENT if kept else INK, font=_font(15))
        said = f"{words.verdict_line(r.cards.get('loop'))} · {words.score(r.score('loop'))}"
        pen.text((x, top + side + 27), said, fill=MUTED, font=_font(13))
        if r.reference is not None:
            y = top + side + LABEL + 10
            sheet.paste(_picture(view, r.reference, small), (x, y))
            pen.rectangle((x - 1, y - 1, x + small, y + small), outline=RULE)
            pen.text((x + small + 10, y + 2), "reference of", fill=MUTED, font=_font(13))
            pen.text((x + small + 10, y + 19), "what is missing", fill=MUTED, font=_font(13))
    return sheet


def _picture(view: RunRecord, made: Generated | None, side: int) -> Image.Image:
    square = Image.new("RGB", (side, side), RULE)
    path = None if made is None else view.image_path(made.image)
    try:
        image = None if path is None else fit(load_image(path), side)
    except ImageError:
        image = None
    if image is None:
        ImageDraw.Draw(square).text((10, 10), "image missing", fill=MUTED, font=_font(13))
        return square
    square.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
    return square


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _wrap(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: int) -> list[str]:
    lines, line = [], ""
    for word in text.split():
        longer = f"{line} {word}".strip()
        if line and font.getlength(longer) > width:
            lines.append(line)
            line = word
        else:
            line = longer
    lines.append(line)
    return lines if len(lines) <= 3 else [*lines[:2], words.shorten(lines[2], 60) + " …"]
