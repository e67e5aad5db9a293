"""The rounds of a run as one labelled picture."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from scenewright.core.images import ImageError, load_image
from scenewright.graphs.events import Generated
from scenewright.runs.record import PageError, Round, RunRecord, read_run
from scenewright.runs.report import words
from scenewright.runs.report.pictures import fit

PAPER, INK, MUTED, RULE, ACCENT = "#ffffff", "#1d1c1a", "#66625a", "#e3dfd6", "#3d4fc4"
COLOURS = {"yes": "#1f7a4d", "no": "#b3261e", "unscored": "#9a6700"}
"""Of the marks of facts, by state."""
PAD, GAP, LABEL = 20, 16, 46
MARK, STEP = 10, 14
"""Side of a fact's mark, and from one to the next."""


def contact_sheet(run_folder: Path | str, side: int = 256) -> Image.Image:
    """All rounds side by side, RGB: each candidate with its score, below it its reference.

    A mark for each fact is a disc where it holds and a square where it does not: full where the
    panel is sure, a thick line where it is likely, a thin one where the panel is hardly sure.
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
    height = top + side + LABEL + STEP + (small + 30 if with_references else 0) + PAD
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
        card = r.shown_card
        said = f"{words.verdict_line(card)} · {words.score(card.sgscore if card else None)}"
        pen.text((x, top + side + 27), said, fill=MUTED, font=_font(13))
        _marks(pen, r, x, top + side + LABEL, side)
        if r.reference is not None:
            y = top + side + LABEL + STEP + 10
            sheet.paste(_picture(view, r.reference, small), (x, y))
            pen.rectangle((x - 1, y - 1, x + small, y + small), outline=RULE)
            pen.text((x + small + 10, y + 2), "reference of", fill=MUTED, font=_font(13))
            pen.text((x + small + 10, y + 19), "what is missing", fill=MUTED, font=_font(13))
    return sheet


def _marks(pen: ImageDraw.ImageDraw, shown: Round, left: int, top: int, width: int) -> None:
    """Draw a mark for each stated fact: discs for yes, squares for no, the fuller the surer."""
    stated = () if shown.shown_card is None else shown.shown_card.stated
    for at, verdict in enumerate(stated[: width // STEP]):
        state, _, grade = words.verdict_mark(verdict).partition("-")
        box = (left + at * STEP, top, left + at * STEP + MARK, top + MARK)
        colour, edge = COLOURS.get(state, MUTED), {"": 0, "likely": 3, "hardly": 1}[grade]
        if state == "yes":
            pen.ellipse(box, fill=None if edge else colour, outline=colour, width=edge or 1)
        elif state == "no":
            pen.rectangle(box, fill=None if edge else colour, outline=colour, width=edge or 1)
        else:
            pen.line((box[0], top + MARK // 2, box[2], top + MARK // 2), fill=colour, width=2)


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
