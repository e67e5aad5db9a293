"""A scene graph as inline SVG, every object, attribute and relation marked by its verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scenewright.core.facts import Fact
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.runs.report import templates
from scenewright.runs.report.layout import MAX_ROW, WRAP, TooLarge, lay_out
from scenewright.runs.report.words import MEANINGS, VerdictMark, shorten, text_width

NAME_SIZE = 14.0
CHIP_SIZE = 12.0
LABEL_SIZE = 12.0
BOLD = 1.12
"""Width of the name's bold weight over the regular one."""
ICON = 15.0
PAD = 11.0
CHIP_HEIGHT = 21.0
CHIP_GAP = 5.0
NAME_ROW = 24.0
MARGIN = 4.0
NOTE_HEIGHT = 30.0
NARROW_WRAP = 290.0
"""Width in pixels of a narrow drawing's rows."""
LIMIT = 26
"""Characters of a name, value or predicate before it is cut (its title keeps all)."""
_SIZES = {"ICON": ICON, "PAD": PAD, "CHIP_HEIGHT": CHIP_HEIGHT, "MARGIN": MARGIN, "LIMIT": LIMIT}


@dataclass(frozen=True, slots=True)
class Mark:
    """Look of one fact."""

    look: VerdictMark
    """State and certainty, which decide colour, line and icon."""
    title: str
    """Everything known of the fact, as plain text."""
    anchor: str = ""
    """Id of the page's tooltip for the fact, if there is one."""
    fact: str = ""
    """Id of the fact, where a script is to find its part of the drawing."""

    @property
    def state(self) -> str:
        """Its state without the grade."""
        return self.look.partition("-")[0]


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

    A part of the scene that is not a fact is drawn as pending. ``label`` is read out by
    screen readers; ``narrow`` draws it for a column. Sizes are in pixels; the drawing scales
    with its box. Of a scene that is too large the objects are drawn alone, with a note.
    """
    if not scene:
        return ""
    unknown = Mark("pending", MEANINGS["pending"])
    index = {}
    for fact in facts:
        if fact.of_graph:
            rest = (fact.key,) if fact.kind == "attribute" else (fact.predicate, fact.target)
            place = (fact.subject, *(rest if fact.kind != "object" else ()))
            index[place] = marks.get(fact.id, unknown)

    def mark(*place: str) -> Mark:
        return index.get(place, unknown)

    cards = {item.id: _card(item, mark) for item in scene.objects}
    wires = [(r, mark(r.source, r.predicate, r.target)) for r in scene.relations]
    labels = [
        (text_width(shorten(r.predicate, LIMIT), LABEL_SIZE) + ICON + 20, 24.0) for r, _ in wires
    ]
    sizes = {name: (card.width, card.height) for name, card in cards.items()}
    edges = [(r.source, r.target) for r, _ in wires]
    wrap, max_row = (NARROW_WRAP, 2) if narrow else (WRAP, MAX_ROW)
    note = ""
    try:
        drawing = lay_out(sizes, edges, labels, wrap, max_row)
    except TooLarge:
        note = f"{len(wires)} relations are too many to draw: they are listed with the facts."
        drawing, wires = lay_out(sizes, [], [], wrap, max_row), []
    return templates.render(
        "graph.svg.j2",
        label=label,
        width=drawing.width + 2 * MARGIN,
        height=drawing.height + 2 * MARGIN + (NOTE_HEIGHT if note else 0.0),
        note=note,
        wires=[
            (wire, relation.predicate, at)
            for wire, (relation, at) in zip(drawing.wires, wires, strict=True)
        ],
        cards=[(cards[name], box) for name, box in drawing.boxes.items()],
        size=_SIZES,
    )


def _card(item: SceneObject, mark: Callable[..., Mark]) -> _Card:
    name_width = text_width(shorten(item.name, LIMIT), NAME_SIZE) * BOLD + ICON + 9
    chips: list[tuple[Mark, str, float]] = []
    for key, value in item.attributes.items():
        text = shorten(value, LIMIT)
        width = text_width(text, CHIP_SIZE) + ICON + 13
        chips.append((mark(item.id, key), text, width))
    row = sum(width for *_, width in chips) + CHIP_GAP * (len(chips) - 1)
    inner = max(name_width, *(w for *_, w in chips), min(150.0, row), 0.0)
    placed: list[_Chip] = []
    x, y = 0.0, NAME_ROW
    for at, text, width in chips:
        if x > 0 and x + width > inner + 0.1:
            x, y = 0.0, y + CHIP_HEIGHT + CHIP_GAP
        placed.append(_Chip(at, text, x + PAD, y + PAD, width))
        x += width + CHIP_GAP
    height = y + CHIP_HEIGHT if chips else NAME_ROW - 6
    return _Card(item, mark(item.id), inner + 2 * PAD, height + 2 * PAD, tuple(placed))
