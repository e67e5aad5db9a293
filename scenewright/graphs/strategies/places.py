"""Places of a picture that are repaired by themselves, and the facts that each can change.

A fact that failed asks for objects to be drawn anew: an absent object, one with a wrong attribute,
both ends of a relation that is not there, though of one whose end is absent that end alone. Objects
of one fact, and objects whose places overlap, belong together. A place can lose every fact that
holds about its objects, about others of their classes, which are counted together, and about
objects whose own places it touches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple

from scenewright.core.facts import Fact, assign_verdicts
from scenewright.core.layout import Region, canonical_predicate
from scenewright.core.vocabulary import converse
from scenewright.graphs.events import Place
from scenewright.graphs.strategies.base import Attempt, RoundContext, planned_regions_by_object

APART = 0.15
"""Regions that share less of the smaller one than this lie apart."""
WIDER = 0.12
"""Margin on every side of a place that was tried in vain, in shares of the picture."""
LEAST_SIDE = 0.2
"""Shortest side of a place beside an object, in shares of the picture."""
WHOLE_AFTER = 2
"""Vain tries after which the whole picture is drawn anew."""


def places_of(round_context: RoundContext, strategy: str) -> tuple[Place, ...]:
    """Return the places of what failed, those with the most missing facts first.

    One that ``strategy`` tried in vain is wider; after :data:`WHOLE_AFTER` times, and where an
    object to draw has no known place, it is left for the last: where there are no others, the whole
    picture is the place of all.
    """
    facts = [fact for fact in round_context.facts if fact.of_graph]
    states = states_of(round_context, facts)
    failed = [fact for fact in facts if states[fact.id] in ("no", "void")]
    held = [fact for fact in facts if states[fact.id] == "yes"]
    absent = {f.subject for f in failed if f.kind == "object"}
    redrawn = {fact.id: _redrawn(fact, absent) for fact in failed}
    known = regions_by_object(round_context, absent)
    places = []
    for group in _groups(failed, redrawn, known):
        missing = tuple(fact.id for fact in group)
        objects = tuple(dict.fromkeys(name for fact in group for name in redrawn[fact.id]))
        tries = _tries(missing, round_context.tried, strategy)
        regions = [region for name in objects for region in known.get(name, ())]
        if tries:
            regions = [wider(region, tries * WIDER) for region in regions]
        if tries >= WHOLE_AFTER or any(name not in known for name in objects):
            regions = []
        places.append(
            Place(
                objects=objects,
                regions=tuple(astuple(region) for region in regions),
                missing=missing,
                watched=_watched(held, objects, regions, known, round_context),
                tries=tries,
            )
        )
    placed = [place for place in places if place.regions]
    if not placed:
        return (_joined(places, held),)
    return tuple(sorted(placed, key=lambda place: -len(place.missing)))


def states_of(round_context: RoundContext, facts: Sequence[Fact]) -> dict[str, str]:
    """Return the state of every fact in the best picture, those of instances as assigned."""
    verdicts = {v.fact_id: v for v in round_context.card.verdicts}
    tells = assign_verdicts(facts, verdicts)
    return {fact.id: verdicts[tells.get(fact.id, fact.id)].state for fact in facts}


def regions_by_object(
    round_context: RoundContext, absent: Collection[str]
) -> dict[str, tuple[Region, ...]]:
    """Return where each object is to stand, and where it was seen unless it is absent, by id.

    An absent object that no place is planned for goes where its relations to objects that were seen
    put it.
    """
    places = planned_regions_by_object(round_context).items()
    found: dict[str, tuple[Region, ...]] = {name: (region,) for name, region in places}
    for name, region in round_context.seen.items():
        if name in absent:
            continue
        have = found.get(name, ())
        if not any(overlap(region, other) > 0.5 for other in have):
            found[name] = (*have, region)
    for relation in round_context.scene.relations:
        source, target = relation.source, relation.target
        for name, other, words in (
            (source, target, relation.predicate),
            (target, source, converse(relation.predicate) or ""),
        ):
            if name in absent and name not in found and other not in absent and other in found:
                free = beside(words, found[other][0])
                found |= {} if free is None else {name: (free,)}
    return found


def beside(predicate: str, other: Region) -> Region | None:
    """Return where something stands that is ``predicate`` an object at ``other``.

    What touches it in no known direction stands around it. None if there is no room.
    """
    wide = max(other.right - other.left, LEAST_SIDE)
    high = max(other.bottom - other.top, LEAST_SIDE)
    left, top, right, bottom = other.left, other.top, other.right, other.bottom
    match canonical_predicate(predicate) if predicate else "":
        case "left of":
            left, right = left - wide, left
        case "right of":
            left, right = right, right + wide
        case "above" | "on" | "riding":
            top, bottom = top - high, top
        case "below" | "under":
            top, bottom = bottom, bottom + high
        case _:
            return wider(other, LEAST_SIDE / 2)
    found = (max(0.0, left), max(0.0, top), min(1.0, right), min(1.0, bottom))
    if min(found[2] - found[0], found[3] - found[1]) < LEAST_SIDE / 2:
        return None
    return Region(*found)


def wider(region: Region, by: float) -> Region:
    """Return ``region`` wider by the share ``by`` of the picture on every side."""
    return Region(
        max(0.0, region.left - by),
        max(0.0, region.top - by),
        min(1.0, region.right + by),
        min(1.0, region.bottom + by),
    )


def overlap(one: Region, other: Region) -> float:
    """Return the share of the smaller of two regions that lies in the other."""
    across = min(one.right, other.right) - max(one.left, other.left)
    down = min(one.bottom, other.bottom) - max(one.top, other.top)
    if across <= 0 or down <= 0:
        return 0.0
    return across * down / min(_area(one), _area(other))


def _area(region: Region) -> float:
    return (region.right - region.left) * (region.bottom - region.top)


def _redrawn(fact: Fact, absent: set[str]) -> tuple[str, ...]:
    ends = [fact.subject] if fact.target is None else [fact.subject, fact.target]
    gone = [name for name in ends if name in absent]
    return tuple(gone or ends)


def _groups(
    failed: Sequence[Fact],
    redrawn: Mapping[str, tuple[str, ...]],
    known: Mapping[str, Sequence[Region]],
) -> list[list[Fact]]:
    groups: list[list[Fact]] = []
    for fact in failed:
        joined = [fact]
        apart = []
        for group in groups:
            mine = [name for one in group for name in redrawn[one.id]]
            if _together(redrawn[fact.id], mine, known):
                joined = [*group, *joined]
            else:
                apart.append(group)
        groups = [*apart, joined]
    order = {fact.id: at for at, fact in enumerate(failed)}
    return [sorted(group, key=lambda fact: order[fact.id]) for group in groups]


def _together(
    some: Iterable[str], others: Sequence[str], known: Mapping[str, Sequence[Region]]
) -> bool:
    return any(
        name == other
        or any(overlap(a, b) > APART for a in known.get(name, ()) for b in known.get(other, ()))
        for name in some
        for other in others
    )


def _watched(
    held: Sequence[Fact],
    objects: Sequence[str],
    regions: Sequence[Region],
    known: Mapping[str, Sequence[Region]],
    round_context: RoundContext,
) -> tuple[str, ...]:
    names = {item.id: item.name for item in round_context.scene.objects}
    classes = {names[name] for name in objects}
    changed = touched(names, regions, known) | {n for n in names if names[n] in classes}
    return tuple(f.id for f in held if f.subject in changed or f.target in changed)


def touched(
    objects: Iterable[str], regions: Sequence[Region], known: Mapping[str, Sequence[Region]]
) -> set[str]:
    """Return those of ``objects`` that may stand in ``regions``; all of them without regions.

    ``known`` says where objects stand; one that it does not hold may stand anywhere.
    """
    return {
        name
        for name in objects
        if not regions
        or name not in known
        or any(overlap(mine, region) > 0 for mine in known[name] for region in regions)
    }


def _joined(places: Sequence[Place], held: Sequence[Fact]) -> Place:
    """Return the whole picture as one place of all that failed."""
    return Place(
        objects=tuple(dict.fromkeys(name for place in places for name in place.objects)),
        missing=tuple(name for place in places for name in place.missing),
        watched=tuple(fact.id for fact in held),
        tries=max(place.tries for place in places),
    )


def _tries(missing: Sequence[str], tried: Sequence[Attempt], strategy: str) -> int:
    """Return the attempts at these facts since one of them was gained, or all was drawn anew."""
    count, mine = 0, set(missing)
    for attempt in tried:
        gained = mine & attempt.fixed or (attempt.whole and attempt.better)
        if attempt.strategy != strategy or not mine <= attempt.target or gained:
            count = 0
        else:
            count += 1
    return count
