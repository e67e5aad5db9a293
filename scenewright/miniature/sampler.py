"""Random paintings for training and for held-out tests."""

from __future__ import annotations

import random
from dataclasses import replace

from scenewright.core.layout import COLUMNS, ROWS, Cell
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.miniature.painter import render
from scenewright.miniature.truth import Contact, Painting, Truth
from scenewright.miniature.world import COLORS, CONTACTS, KINDS, SETTINGS, can_hold

_SIZES = (1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 8)
_P_CONTACT = 0.45
_TRIES = 12
_MANY_TRIES = 200


def _contact_cell(predicate: str, host_kind: str, cell: Cell) -> Cell | None:
    """Cell of the second object of a contact whose anchor stands in ``cell``."""
    column, row = cell
    if predicate in ("on", "riding"):
        return (column, row - 1) if row > 0 else None
    if predicate == "under":
        if host_kind == "table":
            return cell
        return (column, row + 1) if row < ROWS - 1 else None
    if predicate == "holding":
        return (column + 1, row) if column < COLUMNS - 1 else None
    return cell


def sample_painting(
    rng: random.Random,
    n_objects: int | None = None,
    n_relations: int | None = None,
    style: str = "flat",
    contacts_first: bool = True,
    p_contact: float = _P_CONTACT,
    even_contacts: bool = False,
) -> Painting:
    """Return a random painting with ``n_objects`` things (by default 1–8).

    Its scene names up to ``n_relations`` (by default 0 to twice the objects) of the
    relations that hold: contacts first, or without ``contacts_first`` whichever chance picks.
    Every object has its colour. ``p_contact`` is how often the next thing touches another,
    where there is room; with ``even_contacts`` rare predicates as often as those that join
    most kinds. The same ``rng`` gives the same painting in every style.
    """
    wanted = n_objects if n_objects is not None else rng.choice(_SIZES)
    if not 1 <= wanted <= COLUMNS * ROWS:
        raise ValueError(f"n_objects is {wanted}: use 1 to {COLUMNS * ROWS}")
    kinds = sorted(KINDS)
    free = [(x, y) for x in range(COLUMNS) for y in range(ROWS)]
    rng.shuffle(free)
    placed: list[tuple[str, Cell]] = []
    contacts: list[tuple[int, str, int]] = []
    while len(placed) < wanted:
        cell = free.pop()
        if len(placed) + 2 <= wanted and rng.random() < p_contact:
            pair = _sample_contact(rng, kinds, cell, free, even_contacts)
            if pair is not None:
                (anchor, other, predicate, other_cell, anchor_is_source) = pair
                if other_cell != cell:
                    free.remove(other_cell)
                at = len(placed)
                placed += [(anchor, cell), (other, other_cell)]
                ends = (at, at + 1) if anchor_is_source else (at + 1, at)
                contacts.append((ends[0], predicate, ends[1]))
                continue
        placed.append((rng.choice(kinds), cell))
    order = list(range(len(placed)))
    rng.shuffle(order)
    counts: dict[str, int] = {}
    ids: dict[int, str] = {}
    objects: list[SceneObject] = []
    for index in order:
        kind = placed[index][0]
        counts[kind] = counts.get(kind, 0) + 1
        ids[index] = f"{kind}.{counts[kind]}"
        colour = rng.choice(sorted(COLORS))
        objects.append(
            SceneObject(id=ids[index], name=kind, attributes=Attributes({"color": colour}))
        )
    drawn: frozenset[Contact] = frozenset((ids[s], p, ids[t]) for s, p, t in contacts)
    painting = render(
        SceneGraph(objects=tuple(objects)),
        {ids[index]: cell for index, (_, cell) in enumerate(placed)},
        drawn,
        rng.choice(sorted(SETTINGS)),
        rng,
        style,
    )
    relations = _sample_relations(rng, painting.truth, n_relations, contacts_first)
    scene = SceneGraph(objects=tuple(objects), relations=relations)
    return Painting(painting.image, replace(painting.truth, scene=scene))


def _sample_contact(
    rng: random.Random, kinds: list[str], cell: Cell, free: list[Cell], even: bool
) -> tuple[str, str, str, Cell, bool] | None:
    """(anchor kind, other kind, predicate, other's cell, whether the anchor is the source)."""
    wanted = rng.choice(CONTACTS) if even else None
    for _ in range(_TRIES if wanted is None else _MANY_TRIES):
        predicate = wanted or rng.choice(CONTACTS)
        source, target = rng.choice(kinds), rng.choice(kinds)
        if not can_hold(source, predicate, target):
            continue
        anchor_is_source = predicate in ("holding", "wearing")
        anchor, other = (source, target) if anchor_is_source else (target, source)
        other_cell = _contact_cell(predicate, target, cell)
        if other_cell is None or (other_cell != cell and other_cell not in free):
            continue
        return anchor, other, predicate, other_cell, anchor_is_source
    return None


def _sample_relations(
    rng: random.Random, truth: Truth, n_relations: int | None, contacts_first: bool
) -> tuple[Relation, ...]:
    contacts = [Relation(source=s, predicate=p, target=t) for s, p, t in sorted(truth.contacts)]
    loose: list[Relation] = []
    ids = [item.id for item in truth.scene.objects]
    for a in ids:
        for b in ids:
            if a == b or truth.is_ambiguous(a, b):
                continue
            found = sorted(truth.relations_between(a, b) - set(CONTACTS))
            if found:
                loose.append(Relation(source=a, predicate=rng.choice(found), target=b))
    rng.shuffle(contacts)
    rng.shuffle(loose)
    seen: set[frozenset[str]] = set()
    kept: list[Relation] = []
    for relation in loose:
        pair = frozenset((relation.source, relation.target))
        if pair not in seen:
            seen.add(pair)
            kept.append(relation)
    limit = rng.randint(0, 2 * len(ids)) if n_relations is None else n_relations
    holding = contacts + kept
    if not contacts_first:
        rng.shuffle(holding)
    chosen = holding[:limit]
    rng.shuffle(chosen)
    return tuple(chosen)
