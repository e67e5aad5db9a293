"""Pictures with the boxes and relations of an extraction drawn on them."""

from __future__ import annotations

import math

from PIL import Image, ImageDraw, ImageFont

from scenewright.core.ports.vision import Box, Extraction
from scenewright.tools.vision.detection.boxes import center_of

_COLORS = (
    *("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080"),
    *("#9a6324", "#800000", "#808000", "#000075"),
)
_LEAST_SIDE = 640
_INK = "#1a1a1a"
_PAPER = "#ffffff"


def draw_extraction(image: Image.Image, found: Extraction) -> Image.Image:
    """Return ``image`` with a box and id for each object and an arrow for each relation.

    Small pictures are enlarged; objects without a place are not drawn.
    """
    factor = max(1, math.ceil(_LEAST_SIDE / max(image.size)))
    size = (image.width * factor, image.height * factor)
    shown = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    pen = ImageDraw.Draw(shown)
    width = max(2, max(shown.size) // 300)
    font = ImageFont.load_default(max(12, max(shown.size) // 45))
    colors = {id_: _COLORS[at % len(_COLORS)] for at, id_ in enumerate(found.things)}
    boxes: dict[str, Box] = {}
    for id_, thing in found.things.items():
        left, top, right, bottom = (value * factor for value in thing.box)
        boxes[id_] = (left, top, right, bottom)
    for id_, (left, top, right, bottom) in boxes.items():
        pen.rectangle((left, top, right - 1, bottom - 1), outline=colors[id_], width=width)
    # Several relations of one pair share an arrow.
    joined: dict[tuple[str, str], list[str]] = {}
    for relation in found.scene.relations:
        if relation.source in boxes and relation.target in boxes:
            joined.setdefault((relation.source, relation.target), []).append(relation.predicate)
    for (source, target), predicates in joined.items():
        start, end = center_of(boxes[source]), center_of(boxes[target])
        pen.line((*start, *end), fill=colors[source], width=width)
        along = math.atan2(end[1] - start[1], end[0] - start[0])
        for turn in (along + 2.6, along - 2.6):
            tip = (end[0] + 6 * width * math.cos(turn), end[1] + 6 * width * math.sin(turn))
            pen.line((*end, *tip), fill=colors[source], width=width)
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        _label(pen, middle, ", ".join(predicates), _INK, font, shown.size, "mm")
    for id_, (left, top, _, _) in boxes.items():
        _label(pen, (left, top), id_, colors[id_], font, shown.size, "la")
    return shown


def _label(
    pen: ImageDraw.ImageDraw,
    at: tuple[float, float],
    text: str,
    color: str,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
    size: tuple[int, int],
    anchor: str,
) -> None:
    """Draw ``text`` on a white ground, moved so that all of it is on the picture."""
    left, top, right, bottom = pen.textbbox(at, text, font=font, anchor=anchor)
    across = min(0.0, size[0] - 2 - right) or max(0.0, 2 - left)
    down = min(0.0, size[1] - 2 - bottom) or max(0.0, 2 - top)
    place = (at[0] + across, at[1] + down)
    back = (left + across - 2, top + down - 1, right + across + 2, bottom + down + 1)
    pen.rectangle(back, fill=_PAPER)
    pen.text(place, text, fill=color, font=font, anchor=anchor)
