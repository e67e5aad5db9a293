"""Layout of the boxes and arrows of a small scene graph.

A layered drawing after Sugiyama, Tagawa and Toda (1981): cycles are opened, objects
get layers, relation labels get layers of their own between them, and every layer is
ordered by barycentres. Because a label is a box of its layer like any other, no box
overlaps another. Positions minimise the squared distance to the neighbours under
the separation constraints, layer by layer (isotonic regression). The result
depends on the input alone.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import networkx as nx
from scipy.optimize import isotonic_regression

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
    """Box of the predicate; the line passes through its centre."""

    @property
    def line(self) -> str:
        """Path of the line, which bends between rows."""
        (x, y), *rest = self.points
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

    @property
    def head(self) -> str:
        """Path of the arrow's head at the end of the line."""
        x, y = self.points[-1]
        back = -8.0 if y > self.points[-2][1] else 8.0
        return f"M{x:.1f} {y:.1f}L{x - 4.5:.1f} {y + back:.1f}L{x + 4.5:.1f} {y + back:.1f}Z"


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
    graph = _digraph(sizes, edges)
    components = nx.weakly_connected_components(graph)
    parts = [[name for name in graph if name in component] for component in components]
    parts.sort(key=len, reverse=True)
    pieces = [_place(part, sizes, edges, labels, max_row) for part in parts]
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


def _layers(part: list[str], arrows: Sequence[tuple[str, str]], max_row: int) -> dict[str, int]:
    """Return object → layer: below all its predecessors, at most ``max_row`` objects a layer."""
    graph = _digraph(part, arrows)
    order = {name: at for at, name in enumerate(part)}
    layer: dict[str, int] = {}
    filled: Counter[int] = Counter()
    for name in nx.lexicographical_topological_sort(graph, key=order.__getitem__):
        level = max((layer[before] + 1 for before in graph.predecessors(name)), default=0)
        while filled[level] >= max_row:
            level += 1
        layer[name] = level
        filled[level] += 1
    # A source with one consumer further down stands right above it.
    for name in sorted(part, key=lambda n: -layer[n]):
        if graph.in_degree(name) or not graph.out_degree(name):
            continue
        level = min(layer[target] for target in graph.successors(name)) - 1
        if level > layer[name] and filled[level] < max_row:
            filled[layer[name]] -= 1
            filled[level] += 1
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
    # An edge to a node that depth-first search leaves later leads back to where it came from.
    left = nx.dfs_postorder_nodes(_digraph(part, own.values()))
    order = {name: at for at, name in enumerate(left)}
    flipped = {index: order[target] > order[source] for index, (source, target) in own.items()}
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
            level = isotonic_regression([w - o for w, o in zip(wanted, offsets, strict=True)]).x
            for at, value, offset in zip(row, level, offsets, strict=True):
                slots[at].x = float(value) + offset
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
