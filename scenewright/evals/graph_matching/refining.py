"""Objects of two graphs that stand in the same place of equal structures, by colour refinement.

The first guess of :mod:`scenewright.evals.graph_matching.ties`, for structures that no single swap
can set right (five birds in a row). Weisfeiler and Leman's refinement: objects begin with a colour
for label and attributes, and get new ones by the colours around them until none is split; then one
object of a class and one of the other graph get a colour of their own, and so on.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from scenewright.evals.graph_matching.likeness import Side

_WORK = 200_000
"""Objects times (objects and relations) above which no object is singled out."""

Colours = list[list[int]]
"""One an object of the reference, one an object of the seen graph; equal numbers, equal colours."""


def same_places(reference: Side, seen: Side) -> list[tuple[int, int]]:
    """Places (reference, seen) of objects that alone have their colour in each graph."""
    sides = (reference, seen)
    start: dict[Hashable, int] = {}
    colours = [
        [
            start.setdefault((label, tuple(sorted(attributes.items()))), len(start))
            for label, attributes in zip(side.labels.tolist(), side.attributes, strict=True)
        ]
        for side in sides
    ]
    objects, relations = (max(map(len, of)) for of in zip(*map(_sizes, sides), strict=True))
    single_out = objects * (objects + relations) <= _WORK
    while True:
        colours = _refined(sides, colours)
        classes: dict[int, tuple[list[int], list[int]]] = {}
        for side, given in enumerate(colours):
            for at, colour in enumerate(given):
                classes.setdefault(colour, ([], []))[side].append(at)
        open_ = next(
            (pair for pair in classes.values() if all(pair) and max(map(len, pair)) > 1), None
        )
        if open_ is None or not single_out:
            return [(r[0], s[0]) for r, s in classes.values() if len(r) == len(s) == 1]
        fresh = max(map(max, colours)) + 1
        for given, places in zip(colours, open_, strict=True):
            given[places[0]] = fresh


def _sizes(side: Side) -> tuple[Sequence[object], Sequence[object]]:
    return side.attributes, side.scene.relations


def _refined(sides: tuple[Side, Side], colours: Colours) -> Colours:
    """Split by the colours around until nothing is split any more."""
    count = len({*colours[0], *colours[1]})
    while True:
        names: dict[Hashable, int] = {}
        colours = [
            [names.setdefault(look, len(names)) for look in _looks(side, given)]
            for side, given in zip(sides, colours, strict=True)
        ]
        if len(names) == count:
            return colours
        count = len(names)


def _looks(side: Side, colours: list[int]) -> list[Hashable]:
    """Each object's colour with the relations from and to it and the colours at their ends."""
    texts = side.texts.tolist()
    sources, targets = side.sources.tolist(), side.targets.tolist()
    return [
        (
            colours[at],
            tuple(sorted((texts[edge], colours[targets[edge]]) for edge in leaving)),
            tuple(sorted((texts[edge], colours[sources[edge]]) for edge in entering)),
        )
        for at, (leaving, entering) in enumerate(zip(side.leaving, side.entering, strict=True))
    ]
