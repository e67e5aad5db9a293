"""An extraction for people: a table on the terminal, boxes and relations on the picture."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from scenewright.core.ports.extractor import Extraction

_COLORS = (
    *("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080"),
    *("#9a6324", "#800000", "#808000", "#000075"),
)
_LEAST_SIDE = 640
_INK = "#1a1a1a"
_PAPER = "#ffffff"


def print_extraction(found: Extraction, where: Console) -> None:
    """Objects with box and confidence, attributes, relations, and what was left out."""
    from scenewright.cli.tables import plain_table
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
