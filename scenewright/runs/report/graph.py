"""A scene graph as inline SVG, every object, attribute and relation marked by its verdict.

Where the boxes and arrows of a small scene graph go.

A layered drawing after Sugiyama, Tagawa and Toda (1981): cycles are opened, objects
get layers, relation labels get layers of their own between them, and every layer is
ordered by barycentres. Because a label is a box of its layer like any other, no box
overlaps another. Positions minimise the squared distance to the neighbours under
the separation constraints, layer by layer (pool adjacent violators). The result
depends on the input alone.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import networkx as nx

from scenewright.core.facts import Fact
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.runs.record import Shown
from scenewright.runs.report import templates
from scenewright.runs.report.words import MEANINGS, shorten, text_width

MAX_ROW = 4
"""Objects side by side in one layer of a component, unless told."""
GAP_X = 22.0
"""Pixels between boxes of a layer."""
GAP_Y = 26.0
"""Pixels between layers."""
MOST_EDGES = 300
"""Relations beyond which a drawing shows objects alone: nobody could follow so many lines."""
MOST_SLOTS = 4000
"""Boxes and bends beyond which it does so too: they decide how long the layout takes."""
WRAP = 760.0
"""Width in pixels beyond which the next component starts a new row, unless told."""


@dataclass(frozen=True, slots=True)
class Box:
    """A placed rectangle, by its centre."""

    x: float
    """Centre, pixels from the left."""
    y: float
    """Centre, pixels from the top."""
    width: float
    """Pixels."""
    height: float
    """Pixels."""


@dataclass(frozen=True, slots=True)
class Wire:
    """One relation: the points its line passes, from source to target, and its label."""

    points: tuple[tuple[float, float], ...]
    """From the source's border to the target's, in pixels."""
    label: Box
    """Where the predicate stands; the line passes through its centre."""

    @property
    def line(self) -> str:
        """Path of the line."""
        return _curve(self.points)

    @property
    def head(self) -> str:
        """Path of the arrow's head."""
        return _arrow(self.points)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A laid out graph."""

    width: float
    """Pixels."""
    height: float
    """Pixels."""
    boxes: dict[str, Box]
    """Object id → its box."""
    wires: tuple[Wire, ...]
    """One a relation, in the order given."""


@dataclass(slots=True)
class _Slot:
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0


@dataclass(slots=True)
class _Chain:
    edge: int
    flipped: bool
    upper: int
    lower: int
    slots: list[int]
    label: int
    label_height: float


@dataclass(slots=True)
class _Piece:
    width: float
    height: float
    slots: list[_Slot]
    nodes: dict[str, int]
    chains: list[_Chain] = field(default_factory=list)


class TooLarge(ValueError):
    """A graph with more lines than a drawing can show."""


def lay_out(
    sizes: Mapping[str, tuple[float, float]],
    edges: Sequence[tuple[str, str]],
    labels: Sequence[tuple[float, float]],
    wrap: float = WRAP,
    max_row: int = MAX_ROW,
) -> Drawing:
    """Place objects of ``sizes`` (width, height) and ``edges`` with their label sizes.

    All in pixels. Every edge joins two different ids of ``sizes``. ``wrap`` is the width
    beyond which the next component starts a new row, ``max_row`` the most objects side by
    side in one layer of a component. Raises :class:`TooLarge` beyond ``MOST_EDGES`` and
    ``MOST_SLOTS``. The same graph is laid out once for many pages and rounds: change no drawing.
    """
    if len(edges) > MOST_EDGES:
        raise TooLarge(f"{len(edges)} relations are more than the {MOST_EDGES} that are drawn")
    return _laid_out(tuple(sizes.items()), tuple(edges), tuple(labels), wrap, max_row)


@lru_cache(maxsize=256)
def _laid_out(
    named: tuple[tuple[str, tuple[float, float]], ...],
    edges: tuple[tuple[str, str], ...],
    labels: tuple[tuple[float, float], ...],
    wrap: float,
    max_row: int,
) -> Drawing:
    sizes = dict(named)
    pieces = [_place(part, sizes, edges, labels, max_row) for part in _components(sizes, edges)]
    boxes: dict[str, Box] = {}
    wires: dict[int, Wire] = {}
    left = top = row_height = full_width = 0.0
    for piece in pieces:
        if left > 0 and left + piece.width > wrap:
            left, top, row_height = 0.0, top + row_height + GAP_Y, 0.0
        for name, at in piece.nodes.items():
            slot = piece.slots[at]
            boxes[name] = Box(slot.x + left, slot.y + top, slot.width, slot.height)
        for index, wire in _wires(piece, left, top):
            wires[index] = wire
        left += piece.width + GAP_X
        row_height = max(row_height, piece.height)
        full_width = max(full_width, left - GAP_X)
    return Drawing(full_width, top + row_height, boxes, tuple(wires[i] for i in range(len(edges))))


def _digraph(names: Iterable[str], edges: Iterable[tuple[str, str]]) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from(edges)
    return graph


def _components(names: Iterable[str], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    graph = _digraph(names, edges)
    parts = [
        [name for name in graph if name in part] for part in nx.weakly_connected_components(graph)
    ]
    return sorted(parts, key=len, reverse=True)


def _acyclic(part: list[str], edges: Mapping[int, tuple[str, str]]) -> dict[int, bool]:
    """Edge index → whether it must be drawn upwards, by depth-first search in scene order."""
    left = nx.dfs_postorder_nodes(_digraph(part, edges.values()))
    order = {name: at for at, name in enumerate(left)}
    # An edge to a node that is left later leads back to where the search came from.
    return {index: order[target] > order[source] for index, (source, target) in edges.items()}


def _layers(part: list[str], arrows: Sequence[tuple[str, str]], max_row: int) -> dict[str, int]:
    """Object → layer: below all its predecessors, at most ``max_row`` objects a layer."""
    before: dict[str, set[str]] = {name: set() for name in part}
    after: dict[str, set[str]] = {name: set() for name in part}
    for source, target in arrows:
        before[target].add(source)
        after[source].add(target)
    layer: dict[str, int] = {}
    filled: dict[int, int] = {}
    waiting = list(part)
    while waiting:
        name = next(n for n in waiting if before[n] <= layer.keys())
        waiting.remove(name)
        level = max((layer[b] + 1 for b in before[name]), default=0)
        while filled.get(level, 0) >= max_row:
            level += 1
        layer[name] = level
        filled[level] = filled.get(level, 0) + 1
    # A source with one consumer further down stands right above it.
    for name in sorted(part, key=lambda n: -layer[n]):
        if before[name] or not after[name]:
            continue
        level = min(layer[t] for t in after[name]) - 1
        if level > layer[name] and filled.get(level, 0) < max_row:
            filled[layer[name]] -= 1
            filled[level] = filled.get(level, 0) + 1
            layer[name] = level
    used = {level: at for at, level in enumerate(sorted(set(layer.values())))}
    return {name: used[level] for name, level in layer.items()}


def _place(
    part: list[str],
    sizes: Mapping[str, tuple[float, float]],
    edges: Sequence[tuple[str, str]],
    labels: Sequence[tuple[float, float]],
    max_row: int,
) -> _Piece:
    inside = set(part)
    own = {i: e for i, e in enumerate(edges) if e[0] in inside}
    flipped = _acyclic(part, own)
    arrows = {i: (b, a) if flipped[i] else (a, b) for i, (a, b) in own.items()}
    layer = _layers(part, list(arrows.values()), max_row)
    bends = sum(2 * (layer[lower] - layer[upper]) - 1 for upper, lower in arrows.values())
    if len(part) + bends > MOST_SLOTS:
        raise TooLarge(f"{len(own)} relations among {len(part)} objects have {bends} bends")
    slots = [_Slot(*sizes[name]) for name in part]
    nodes = {name: at for at, name in enumerate(part)}
    rows: list[list[int]] = [[] for _ in range(2 * max(layer.values()) + 1)]
    for name in part:
        rows[2 * layer[name]].append(nodes[name])
    piece = _Piece(0.0, 0.0, slots, nodes)
    neighbours: dict[int, list[int]] = {at: [] for at in range(len(slots))}
    for index, (upper, lower) in arrows.items():
        first, last = 2 * layer[upper] + 1, 2 * layer[lower] - 1
        # The label stands next to the end with fewer other lines around it.
        label_row = first if len(rows[first]) <= len(rows[last]) else last
        chain, previous = [], nodes[upper]
        label = -1
        for row in range(first, last + 1):
            at = len(slots)
            if row == label_row:
                slots.append(_Slot(*labels[index]))
                label = at
            else:
                slots.append(_Slot(6.0, 0.0))
            rows[row].append(at)
            neighbours[at] = [previous]
            neighbours[previous].append(at)
            chain.append(at)
            previous = at
        neighbours[previous].append(nodes[lower])
        neighbours[nodes[lower]].append(previous)
        piece.chains.append(
            _Chain(
                index, flipped[index], nodes[upper], nodes[lower], chain, label, labels[index][1]
            )
        )
    _order(rows, neighbours)
    _coordinates(piece, rows, neighbours)
    return piece


def _crossings(rows: list[list[int]], neighbours: Mapping[int, list[int]]) -> int:
    total = 0
    for upper, lower in itertools.pairwise(rows):
        place = {at: i for i, at in enumerate(lower)}
        passed: list[int] = []
        for at in upper:
            ends = [place[n] for n in neighbours[at] if n in place]
            # A line crosses those from further left that end further right.
            total += sum(len(passed) - bisect.bisect_right(passed, end) for end in ends)
            for end in ends:
                bisect.insort(passed, end)
    return total


def _order(rows: list[list[int]], neighbours: Mapping[int, list[int]]) -> None:
    best, best_crossings = [list(row) for row in rows], _crossings(rows, neighbours)
    for sweep in range(12):
        if best_crossings == 0:
            break
        down = sweep % 2 == 0
        sequence = range(1, len(rows)) if down else range(len(rows) - 2, -1, -1)
        for at in sequence:
            fixed = {n: i for i, n in enumerate(rows[at - 1 if down else at + 1])}
            weight = {}
            for i, slot in enumerate(rows[at]):
                found = [fixed[n] for n in neighbours[slot] if n in fixed]
                weight[slot] = sum(found) / len(found) if found else float(i)
            rows[at].sort(key=lambda slot: weight[slot])
        crossings = _crossings(rows, neighbours)
        if crossings < best_crossings:
            best, best_crossings = [list(row) for row in rows], crossings
    rows[:] = best


def _coordinates(piece: _Piece, rows: list[list[int]], neighbours: Mapping[int, list[int]]) -> None:
    slots = piece.slots
    for row in rows:
        x = 0.0
        for at in row:
            slots[at].x = x + slots[at].width / 2
            x += slots[at].width + GAP_X
        for at in row:
            slots[at].x -= (x - GAP_X) / 2
    for sweep in range(24):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = []
            for at in row:
                found = [slots[n].x for n in neighbours[at]]
                wanted.append(sum(found) / len(found) if found else slots[at].x)
            offsets = [0.0]
            for a, b in itertools.pairwise(row):
                offsets.append(offsets[-1] + (slots[a].width + slots[b].width) / 2 + GAP_X)
            level = _isotonic([w - o for w, o in zip(wanted, offsets, strict=True)])
            for at, value, offset in zip(row, level, offsets, strict=True):
                slots[at].x = value + offset
    left = min(slot.x - slot.width / 2 for slot in slots)
    y = 0.0
    for row in rows:
        height = max((slots[at].height for at in row), default=0.0)
        for at in row:
            slots[at].x -= left
            slots[at].y = y + height / 2
            # A line goes straight through a row and bends in the gaps only.
            if at >= len(piece.nodes):
                slots[at].height = height
        y += height + GAP_Y
    piece.width = max(slot.x + slot.width / 2 for slot in slots)
    piece.height = y - GAP_Y


def _isotonic(values: Sequence[float]) -> list[float]:
    """Return the non-decreasing sequence closest to ``values`` in least squares.

    Pool adjacent violators.
    """
    blocks: list[tuple[float, int]] = []
    for value in values:
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, n), (b, m) = blocks[-2], blocks[-1]
            blocks[-2:] = [((a * n + b * m) / (n + m), n + m)]
    return [value for value, count in blocks for _ in range(count)]


def _wires(piece: _Piece, left: float, top: float) -> list[tuple[int, Wire]]:
    """Lines with their ends spread over the borders, in the order of the slots they lead to."""
    slots = piece.slots
    ports: dict[tuple[int, bool], list[tuple[float, int]]] = {}
    for order, chain in enumerate(piece.chains):
        ports.setdefault((chain.upper, True), []).append((slots[chain.slots[0]].x, order))
        ports.setdefault((chain.lower, False), []).append((slots[chain.slots[-1]].x, order))
    at: dict[tuple[int, bool], tuple[float, float]] = {}
    for (node, leaving), wanted in ports.items():
        slot = slots[node]
        y = slot.y + (slot.height if leaving else -slot.height) / 2
        reach = slot.width * 0.7
        for place, (_, order) in enumerate(sorted(wanted)):
            share = (place + 0.5) / len(wanted) - 0.5
            at[order, leaving] = (slot.x + share * reach, y)
    found = []
    for order, chain in enumerate(piece.chains):
        inner = [
            (slots[s].x, slots[s].y + side * slots[s].height / 2)
            for s in chain.slots
            for side in (-1, 1)
        ]
        points = [at[order, True], *inner, at[order, False]]
        if chain.flipped:
            points.reverse()
        label, label_height = slots[chain.label], chain.label_height
        found.append(
            (
                chain.edge,
                Wire(
                    tuple((x + left, y + top) for x, y in points),
                    Box(label.x + left, label.y + top, label.width, label_height),
                ),
            )
        )
    return found


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
NOTE_HEIGHT = 30.0
NARROW_WRAP = 290.0
"""Width in pixels of a narrow drawing's rows."""
LIMIT = 26
"""Characters of a name, value or predicate before it is cut (its title keeps all)."""
_SIZES = {"ICON": ICON, "PAD": PAD, "CHIP_HEIGHT": CHIP_HEIGHT, "MARGIN": MARGIN, "LIMIT": LIMIT}


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

    A part of the scene that is not a fact is drawn as pending. ``label`` is read out by
    screen readers; ``narrow`` draws it for a column. Sizes are in pixels; the drawing scales
    with its box. Of a scene that is too large the objects are drawn alone, with a note.
    """
    if not scene:
        return ""
    unknown = Mark("pending", MEANINGS["pending"])
    index = {_key(fact): marks.get(fact.id, unknown) for fact in facts if fact.of_graph}

    def mark(*key: str) -> Mark:
        return index.get(key, unknown)

    cards = {item.id: _card(item, mark) for item in scene.objects}
    wires = [(r, mark("relation", r.source, r.predicate, r.target)) for r in scene.relations]
    labels = [_label_size(r.predicate) for r, _ in wires]
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


def _key(fact: Fact) -> tuple[str, ...]:
    if fact.kind == "object":
        return ("object", fact.subject)
    if fact.kind == "attribute":
        return ("attribute", fact.subject, fact.key or "")
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


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Return the path of a line that bends between rows."""
    (x, y), *rest = points
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
    return "".join(path)


def _arrow(points: Sequence[tuple[float, float]]) -> str:
    """Return the path of the arrow's head at the end of a line."""
    x, y = points[-1]
    back = -8.0 if y > points[-2][1] else 8.0
    return f"M{x:.1f} {y:.1f}L{x - 4.5:.1f} {y + back:.1f}L{x + 4.5:.1f} {y + back:.1f}Z"
