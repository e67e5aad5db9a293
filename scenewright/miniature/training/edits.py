"""Lessons of the editor: a picture that lacks something, one of what it lacks, and the whole.

They are made as the strategy ``compose-edit`` makes them: the order is that of the loop
(:func:`~scenewright.graphs.strategies.base.edit_instruction`), image 2 shows the missing graph
where something is absent, and what held in image 1 is to stay.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, replace

from scenewright.agents.composers.rules import describe, text_of
from scenewright.core.facts import Fact
from scenewright.core.layout import COLUMNS, ROWS, Cell
from scenewright.core.questions import facts_of
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.graphs.strategies.base import edit_instruction
from scenewright.miniature.painter import Box, Painting, Truth, compose, lay_out, layers_of
from scenewright.miniature.world import COLORS, KINDS, SETTINGS

_MOST_WRONG = 3
_P_GONE, _P_RECOLOURED = 0.5, 0.25
_P_STRANGER = 0.25
_P_SAME_BOXES = 0.5
_P_ELSEWHERE = 0.1
_P_UNSEEN = 0.15
_P_DESCRIBED = 0.12


@dataclass(frozen=True, slots=True)
class Edit:
    """What the editor sees, is told, and is to draw."""

    kept: Painting
    """Image 1: the scene without some of its facts."""
    shown: Painting | None
    """Image 2: what is missing; None where nothing is absent, or by lot."""
    wanted: Truth
    """The whole scene."""
    order: str
    """The instruction, or now and then the description of the whole scene."""
    changed: tuple[Box, ...]
    """Where the wanted picture differs from image 1."""


def draw(truth: Truth) -> Painting:
    """Return the painting of ``truth``."""
    return Painting(compose(truth, layers_of(truth)), truth)


def failed_in(kept: Truth, scene: SceneGraph) -> tuple[list[Fact], set[str]]:
    """Return the facts of ``scene`` that ``kept`` was found not to hold, and the missing objects.

    Void facts are left out of the first; the second are the objects of the missing graph.
    """
    facts = facts_of(scene)
    holds = {fact.id: kept.holds(fact, scene) for fact in facts if fact.kind != "realism"}
    failed, missing = [], set()
    for fact in facts:
        if fact.id not in holds or holds[fact.id]:
            continue
        missing |= {end for end in (fact.subject, fact.target) if end is not None}
        if all(holds.get(parent, True) for parent in fact.parents):
            failed.append(fact)
    return failed, missing


def make_edit(truth: Truth, rng: random.Random) -> Edit | None:
    """Return a lesson whose whole picture is ``truth``; None if nothing of it went wrong."""
    ids = [item.id for item in truth.scene.objects]
    wrong = set(rng.sample(ids, rng.randint(1, min(_MOST_WRONG, len(ids)))))
    kept, changed = _spoilt(truth, wrong, rng)
    failed, missing = failed_in(kept, truth.scene)
    if not failed:
        return None
    absent = any(fact.kind == "object" for fact in failed)
    shown = None
    wanted = truth
    if absent and rng.random() >= _P_UNSEEN:
        shown = _shown(truth, missing, rng)
    order = edit_instruction(truth.scene, failed, shown is not None)
    if rng.random() < _P_DESCRIBED:
        order = text_of(describe(truth.scene, truth.cells, SETTINGS[truth.setting]))
    changed += [truth.boxes[key] for key in sorted(wrong)]
    return Edit(draw(kept), shown, wanted, order, tuple(changed))


def _spoilt(truth: Truth, wrong: Collection[str], rng: random.Random) -> tuple[Truth, list[Box]]:
    """Return what is left of ``truth`` when ``wrong`` objects went wrong, and where new things are.

    They are gone, sometimes with another thing in their place, of another colour, or elsewhere.
    """
    related = {end for r in truth.scene.relations for end in (r.source, r.target)}
    taken = set(truth.cells.values())
    free = [(x, y) for x in range(COLUMNS) for y in range(ROWS) if (x, y) not in taken]
    rng.shuffle(free)
    objects: list[SceneObject] = []
    boxes, cells = dict(truth.boxes), dict(truth.cells)
    loose: set[str] = set()
    news: list[Box] = []
    for item in truth.scene.objects:
        lot = rng.random()
        if item.id not in wrong:
            objects.append(item)
        elif lot < _P_RECOLOURED:
            objects.append(_coloured(item, rng))
        elif lot >= _P_RECOLOURED + _P_GONE and item.id in related and free:
            cell = free.pop()
            loose.add(item.id)
            objects.append(item)
            cells[item.id], boxes[item.id] = cell, _box_in(item, cell, rng)
            news.append(boxes[item.id])
        else:
            loose.add(item.id)
            if rng.random() < _P_STRANGER:
                other = item.model_copy(update={"name": rng.choice(sorted(KINDS))})
                objects.append(_coloured(other, rng))
                boxes[item.id] = _box_in(other, cells[item.id], rng)
                news.append(boxes[item.id])
    there = {item.id for item in objects}
    contacts = frozenset(
        (s, p, t) for s, p, t in truth.contacts if {s, t} <= there and not loose & {s, t}
    )
    scene = SceneGraph(objects=tuple(objects)) if objects else None
    if scene is None:
        # An empty ground is a picture too, but no scene: one thing stays.
        first = truth.scene.objects[0]
        scene = SceneGraph(objects=(_coloured(first, rng),))
        boxes[first.id] = truth.boxes[first.id]
        contacts = frozenset()
    there = {item.id for item in scene.objects}
    return (
        replace(
            truth,
            scene=scene,
            boxes={key: box for key, box in boxes.items() if key in there},
            cells={key: cell for key, cell in cells.items() if key in there},
            contacts=contacts,
        ),
        news,
    )


def _coloured(item: SceneObject, rng: random.Random) -> SceneObject:
    others = sorted(set(COLORS) - {item.attributes["color"]})
    return item.model_copy(update={"attributes": Attributes({"color": rng.choice(others)})})


def _box_in(item: SceneObject, cell: Cell, rng: random.Random) -> Box:
    return lay_out(SceneGraph(objects=(item,)), {item.id: cell}, (), rng)[item.id]


def _shown(truth: Truth, missing: Collection[str], rng: random.Random) -> Painting:
    """Return the picture of the missing graph, with the drawn relations between its objects.

    Mostly in the places of the whole, as the loop asks for it.
    """
    scene = truth.scene.subgraph(missing)
    contacts = frozenset(c for c in truth.contacts if {c[0], c[2]} <= set(missing))
    cells = {key: truth.cells[key] for key in missing}
    lot = rng.random()
    if lot < _P_SAME_BOXES:
        boxes = {key: truth.boxes[key] for key in missing}
    else:
        if lot > 1 - _P_ELSEWHERE:
            places = [(x, y) for x in range(COLUMNS) for y in range(ROWS)]
            cells = dict(zip(cells, rng.sample(places, len(cells)), strict=True))
            contacts = frozenset()
        boxes = lay_out(scene, cells, contacts, rng)
    part = replace(
        truth,
        scene=_unrelated(scene),
        boxes=boxes,
        cells=cells,
        contacts=contacts,
        ground=rng.randrange(1 << 16),
    )
    return draw(part)


def _unrelated(scene: SceneGraph) -> SceneGraph:
    return SceneGraph(objects=scene.objects, relations=tuple[Relation, ...]())
