"""A scene graph as inline SVG, every object, attribute and relation marked by its verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape

from scenewright.core.facts import Fact
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.runs.report.layout import MAX_ROW, WRAP, Box, Drawing, Wire, lay_out
from scenewright.runs.report.record import Shown
from scenewright.runs.report.words import MEANINGS, shorten, text_width

NAME_SIZE = 14.0
CHIP_SIZE = 12.0
LABEL_SIZE = 12.0
BOLD = 1.12
"""How much wider than regular the name's weight runs."""
ICON = 15.0
PAD = 11.0
CHIP_HEIGHT = 21.0
CHIP_GAP = 5.0
NAME_ROW = 24.0
MARGIN = 4.0
NARROW_WRAP = 290.0
"""Width in pixels of a narrow drawing's rows."""
LIMIT = 26
"""Characters of a name, value or predicate before it is cut (its title keeps all)."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How one fact is shown."""

    state: Shown
    """Decides colour, line and icon."""
    title: str
    """All that is known of the fact, as plain text."""
    anchor: str = ""
    """Id of the page's tooltip for the fact, if there is one."""
    fact: str = ""
    """Id of the fact, where a script is to find its part of the drawing."""


@dataclass(frozen=True, slots=True)
class _Chip:
    mark: Mark
    text: str
    x: float
    y: float
    width: float


@dataclass(frozen=True, slots=True)
class _Card:
    item: SceneObject
    mark: Mark
    width: float
    height: float
    chips: tuple[_Chip, ...]


def draw_graph(
    scene: SceneGraph,
    facts: tuple[Fact, ...],
    marks: Mapping[str, Mark],
    label: str,
    narrow: bool = False,
) -> str:
    """SVG markup of ``scene``; ``marks`` gives the look of a fact by its id.

    A part of the scene that is no fact is drawn as pending. ``label`` is read out by
    screen readers; ``narrow`` draws it for a column. Sizes are in pixels; the drawing scales
    with its box.
    """
    if not scene:
        return ""
    unknown = Mark("pending", MEANINGS["pending"])
    index = {_key(fact): marks.get(fact.id, unknown) for fact in facts}

    def mark(*key: str) -> Mark:
        return index.get(key, unknown)

    cards = {item.id: _card(item, mark) for item in scene.objects}
    wires = [(r, mark("relation", r.source, r.predicate, r.target)) for r in scene.relations]
    labels = [_label_size(r.predicate) for r, _ in wires]
    drawing = lay_out(
        {name: (card.width, card.height) for name, card in cards.items()},
        [(r.source, r.target) for r, _ in wires],
        labels,
        wrap=NARROW_WRAP if narrow else WRAP,
        max_row=2 if narrow else MAX_ROW,
    )
    parts = [_head(drawing, label)]
    parts.extend(_line(wire, at) for wire, (_, at) in zip(drawing.wires, wires, strict=True))
    parts.extend(_node(cards[name], box) for name, box in drawing.boxes.items())
    parts.extend(
        _label(wire.label, r.predicate, at)
        for wire, (r, at) in zip(drawing.wires, wires, strict=True)
    )
    parts.append("</svg>")
    return "".join(parts)


def _key(fact: Fact) -> tuple[str, ...]:
    if fact.kind == "object":
        return ("object", fact.subject)
    if fact.kind == "attribute":
        return ("attribute", fact.subject, fact.key or "")
    if fact.kind == "realism":
        return ("realism", fact.subject, fact.key or "")
    return ("relation", fact.subject, fact.predicate or "", fact.target or "")


def _card(item: SceneObject, mark: Callable[..., Mark]) -> _Card:
    name_width = text_width(shorten(item.name, LIMIT), NAME_SIZE) * BOLD + ICON + 9
    chips: list[tuple[Mark, str, float]] = []
    for key, value in item.attributes.items():
        text = shorten(value, LIMIT)
        width = text_width(text, CHIP_SIZE) + ICON + 13
        chips.append((mark("attribute", item.id, key), text, width))
    inner = max(name_width, *(w for *_, w in chips), min(150.0, _row(chips)), 0.0)
    placed: list[_Chip] = []
    x, y = 0.0, NAME_ROW
    for at, text, width in chips:
        if x > 0 and x + width > inner + 0.1:
            x, y = 0.0, y + CHIP_HEIGHT + CHIP_GAP
        placed.append(_Chip(at, text, x + PAD, y + PAD, width))
        x += width + CHIP_GAP
    height = y + CHIP_HEIGHT if chips else NAME_ROW - 6
    return _Card(item, mark("object", item.id), inner + 2 * PAD, height + 2 * PAD, tuple(placed))


def _row(chips: list[tuple[Mark, str, float]]) -> float:
    return sum(width for *_, width in chips) + CHIP_GAP * (len(chips) - 1)


def _label_size(predicate: str) -> tuple[float, float]:
    return text_width(shorten(predicate, LIMIT), LABEL_SIZE) + ICON + 20, 24.0


def _head(drawing: Drawing, label: str) -> str:
    width, height = drawing.width + 2 * MARGIN, drawing.height + 2 * MARGIN
    return (
        f'<svg class="graph" role="group" aria-label="{escape(label)}" '
        f'width="{width:.0f}" height="{height:.0f}" style="min-width:{width * 0.62:.0f}px" '
        f'viewBox="{-MARGIN:.0f} {-MARGIN:.0f} {width:.1f} {height:.1f}">'
    )


def _open(kind: str, mark: Mark, spoken: str) -> str:
    anchor = f' data-tip="{escape(mark.anchor)}"' if mark.anchor else ""
    return (
        f'<g class="{kind} s-{mark.state}" tabindex="0" role="img"{anchor}{_named(mark)} '
        f'aria-label="{escape(spoken)}: {MEANINGS[mark.state]}">'
        f"<title>{escape(mark.title)}</title>"
    )


def _named(mark: Mark) -> str:
    return f' data-fact="{escape(mark.fact)}"' if mark.fact else ""


def _icon(state: Shown, x: float, y: float) -> str:
    return f'<use href="#i-{state}" x="{x:.1f}" y="{y:.1f}" width="{ICON}" height="{ICON}"/>'


def _line(wire: Wire, mark: Mark) -> str:
    (x, y), *rest = wire.points
    path = [f"M{x:.1f} {y:.1f}"]
    for i, (to_x, to_y) in enumerate(rest):
        if i == len(rest) - 1:
            # The line ends inside the arrow's head, so that its tip stays sharp.
            to_y -= 6.0 if to_y > y else -6.0
        middle = (y + to_y) / 2
        if abs(to_x - x) < 0.05:
            path.append(f"L{to_x:.1f} {to_y:.1f}")
        else:
            path.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    tip_x, tip_y = wire.points[-1]
    back = -8.0 if tip_y > wire.points[-2][1] else 8.0
    head = (
        f"M{tip_x:.1f} {tip_y:.1f}L{tip_x - 4.5:.1f} {tip_y + back:.1f}"
        f"L{tip_x + 4.5:.1f} {tip_y + back:.1f}Z"
    )
    return (
        f'<g class="wire s-{mark.state}"{_named(mark)} aria-hidden="true">'
        f'<path class="line" d="{"".join(path)}"/><path class="head" d="{head}"/></g>'
    )


def _node(card: _Card, box: Box) -> str:
    left, top = box.x - box.width / 2, box.y - box.height / 2
    item = card.item
    parts = [
        _open("node", card.mark, item.name),
        f'<rect class="plate" x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="10"/>',
        _icon(card.mark.state, left + PAD, top + PAD + 1.5),
        f'<text class="name" x="{left + PAD + ICON + 7:.1f}" y="{top + PAD + 14:.1f}">'
        f"{escape(shorten(item.name, LIMIT))}</text></g>",
    ]
    for chip in card.chips:
        x, y = left + chip.x, top + chip.y
        parts.append(
            _open("chip", chip.mark, f"{item.name} {chip.text}")
            + f'<rect class="pill" x="{x:.1f}" y="{y:.1f}" width="{chip.width:.1f}" '
            f'height="{CHIP_HEIGHT}" rx="{CHIP_HEIGHT / 2}"/>'
            + _icon(chip.mark.state, x + 3, y + 3)
            + f'<text class="small" x="{x + ICON + 7:.1f}" y="{y + 14.5:.1f}">'
            f"{escape(chip.text)}</text></g>"
        )
    return "".join(parts)


def _label(box: Box, predicate: str, mark: Mark) -> str:
    left, top = box.x - box.width / 2, box.y - box.height / 2
    return (
        _open("edge", mark, predicate)
        + f'<rect class="pill" x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="{box.height / 2}"/>'
        + _icon(mark.state, left + 5, top + 4.5)
        + f'<text class="small" x="{left + ICON + 11:.1f}" y="{top + 16:.1f}">'
        f"{escape(shorten(predicate, LIMIT))}</text></g>"
    )
