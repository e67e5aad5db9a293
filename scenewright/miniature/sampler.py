"""Random paintings for training and for held-out tests.

:func:`sample_painting` gives every thing a cell of the grid or two touching things one or two.
:func:`sample_crowd` stacks more things than there are cells, and :func:`sample_contrast` paints
what models confuse. The scenes of the last two hold together on the planner's 3×3 grid, so that
the frozen generator is asked in the words that it knows.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from scenewright.core.layout import COLUMNS, ROWS, Cell, fits_grid, is_allowed
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.miniature.painter import layers_of, render, silhouettes
from scenewright.miniature.truth import Contact, Painting, Truth
from scenewright.miniature.world import (
    COLORS,
    CONTACTS,
    HIDING,
    KINDS,
    LARGE,
    MOST_COUNTED,
    SETTINGS,
    SUBJECTS,
    UNDER_TABLE,
    UNUSUAL,
    can_hold,
)

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
    painting, _ = _drawn(rng, placed, contacts, style)
    return _related(painting, _sample_relations(rng, painting.truth, n_relations, contacts_first))


def _drawn(
    rng: random.Random,
    placed: Sequence[tuple[str, Cell]],
    contacts: Sequence[tuple[int, str, int]],
    style: str,
    colours: Sequence[str] = (),
) -> tuple[Painting, list[str]]:
    """Return the painting of what is ``placed``, without relations, and the id of each thing.

    Without ``colours`` every thing gets one by chance.
    """
    order = list(range(len(placed)))
    rng.shuffle(order)
    counts: dict[str, int] = {}
    ids: dict[int, str] = {}
    objects: list[SceneObject] = []
    for index in order:
        kind = placed[index][0]
        counts[kind] = counts.get(kind, 0) + 1
        ids[index] = f"{kind}.{counts[kind]}"
        colour = colours[index] if colours else rng.choice(sorted(COLORS))
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
    return painting, [ids[index] for index in range(len(placed))]


def _related(painting: Painting, relations: tuple[Relation, ...]) -> Painting:
    """Return ``painting`` whose scene names ``relations``."""
    scene = SceneGraph(objects=painting.scene.objects, relations=relations)
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
    contacts, loose = _holding(rng, truth)
    rng.shuffle(contacts)
    rng.shuffle(loose)
    kept = _one_a_pair(loose)
    limit = rng.randint(0, 2 * len(truth.scene.objects)) if n_relations is None else n_relations
    holding = contacts + kept
    if not contacts_first:
        rng.shuffle(holding)
    chosen = holding[:limit]
    rng.shuffle(chosen)
    return tuple(chosen)


def _holding(rng: random.Random, truth: Truth) -> tuple[list[Relation], list[Relation]]:
    """Return the drawn contacts, and of every other pair that is clear one relation by chance."""
    contacts = [
        Relation(source=s, predicate=p, target=t)
        for s, p, t in sorted(truth.contacts)
        if p != HIDING
    ]
    loose: list[Relation] = []
    ids = [item.id for item in truth.scene.objects]
    for a in ids:
        for b in ids:
            if a != b and (found := _plain(truth, a, b)):
                loose.append(Relation(source=a, predicate=rng.choice(found), target=b))
    return contacts, loose


def _plain(truth: Truth, source: str, target: str) -> list[str]:
    """Return what a scene may state of two things: a direction on the larger axis alone, and near.

    Nothing where they stand diagonally, or one peeps out from behind the other.
    """
    (x0, y0), (x1, y1) = truth.boxes[source].center, truth.boxes[target].center
    across, down = abs(x1 - x0), abs(y1 - y0)
    hidden = any(p == HIDING and {s, t} == {source, target} for s, p, t in truth.contacts)
    longer = max(across, down)
    if hidden or longer < _PLAIN_STEP or min(across, down) > _PLAIN_SHARE * longer:
        return []
    vague = {"above", "below"} if across >= down else {"left of", "right of"}
    return sorted(truth.relations_between(source, target) - {*CONTACTS, *vague})


def _one_a_pair(relations: Sequence[Relation]) -> list[Relation]:
    """Return the first relation of every pair of things."""
    kept: dict[frozenset[str], Relation] = {}
    for relation in relations:
        kept.setdefault(frozenset((relation.source, relation.target)), relation)
    return list(kept.values())


def _planned(relations: Sequence[Relation], truth: Truth) -> list[Relation]:
    """Return those that the planner, too, sees in the cells of the painting."""
    cells = truth.cells
    return [r for r in relations if is_allowed(r.predicate, cells[r.source], cells[r.target])]


_PLAIN_STEP = 20.0
"""Fewest pixels between two centres of which a direction is stated."""
_PLAIN_SHARE = 0.7
"""Most of the larger axis that the other one may measure."""
CROWD = (10, 16)
"""Fewest and most things of a crowd."""
CROWD_RELATIONS = (12, 20)
"""Fewest and most relations of a crowd's scene."""
MOST_ALIKE = 4
"""Things of a kind in a crowd, at most; they differ in colour."""
LEAST_SEEN = 0.5
"""Share of a thing in a crowd that nothing covers, at least."""
_WEARERS = tuple(sorted(SUBJECTS["wearing"] or ()))
_CROWD_TRIES = 2000


@dataclass
class _Crowd:
    """Things and contacts of a crowd in the making."""

    rng: random.Random
    wanted: int
    free: list[Cell]
    placed: list[tuple[str, Cell]] = field(default_factory=list)
    contacts: list[tuple[int, str, int]] = field(default_factory=list)

    @property
    def room(self) -> int:
        """How many more things are wanted."""
        return self.wanted - len(self.placed)

    def add(self, kind: str, cell: Cell) -> int:
        """Place a thing and return its number."""
        self.placed.append((kind, cell))
        return len(self.placed) - 1

    def add_base(self, cell: Cell, pair: str) -> int:
        """Place one thing, or a ``pair`` that shares the cell: return the one that carries more."""
        small = sorted(UNDER_TABLE)
        if pair == "wearing":
            wearer = self.add(self.rng.choice(_WEARERS), cell)
            self.contacts.append((wearer, pair, self.add("hat", cell)))
            return wearer
        if pair:
            host = self.add({"inside": "house", "under": "table"}[pair], cell)
            kind = self.rng.choice(small if pair == "under" else sorted(SUBJECTS[pair] or ()))
            self.contacts.append((self.add(kind, cell), pair, host))
            return host
        return self.add(self.rng.choice(sorted(KINDS)), cell)

    def add_top(self, host: int, predicates: Sequence[str], hat: bool) -> None:
        """Place something on, astride or behind ``host`` where the cell above is free."""
        kind, (column, row) = self.placed[host]
        above = (column, row - 1)
        if above not in self.free or not self.room:
            return
        predicate = self.rng.choice(predicates)
        if predicate == HIDING:
            able = sorted(UNDER_TABLE) if kind in LARGE else []
        else:
            able = [one for one in sorted(KINDS) if can_hold(one, predicate, kind)]
        if not able:
            return
        if hat and self.room > 1 and predicate != HIDING and set(_WEARERS) & set(able):
            able = [one for one in able if one in _WEARERS]
        else:
            hat = False
        self.free.remove(above)
        top = self.add(self.rng.choice(able), above)
        self.contacts.append((top, predicate, host))
        if hat:
            self.contacts.append((top, "wearing", self.add("hat", above)))

    def add_held(self, holder: int) -> None:
        """Let a person hold something where the cell to the right is free."""
        kind, (column, row) = self.placed[holder]
        beside = (column + 1, row)
        if kind == "person" and beside in self.free and self.room:
            self.free.remove(beside)
            held = [one for one in sorted(KINDS) if can_hold(kind, "holding", one)]
            self.contacts.append((holder, "holding", self.add(self.rng.choice(held), beside)))


def _crowd(rng: random.Random, wanted: int) -> _Crowd | None:
    """Return ``wanted`` things in nine cells; None if this try does not come out even."""
    free = [(x, y) for x in range(COLUMNS) for y in range(ROWS)]
    rng.shuffle(free)
    crowd = _Crowd(rng, wanted, free)
    # Something is contained and something hides in every crowd.
    first = next(cell for cell in free if cell[1] > 0)
    free.remove(first)
    crowd.add_base(first, rng.choice(("inside", "under")))
    hiding = next((c for c in free if c[1] > 0 and (c[0], c[1] - 1) in free), None)
    if hiding is None:
        return None
    free.remove(hiding)
    crowd.add_top(crowd.add(rng.choice(LARGE), hiding), (HIDING,), False)
    # From below: then there is room for what goes on top.
    free.sort(key=lambda cell: cell[1])
    while free and crowd.room:
        crowding = min(1.0, max(0.15, 1.3 * (crowd.room / len(free) - 1)))
        cell = free.pop()
        dense = crowd.room > 1 and rng.random() < crowding
        host = crowd.add_base(cell, rng.choice(("inside", "under", "wearing")) if dense else "")
        if rng.random() < 0.5:
            crowd.add_top(host, ("on", "on", "riding", HIDING), rng.random() < crowding)
        if rng.random() < 0.5:
            crowd.add_held(host)
    return None if crowd.room else crowd


def _crowd_colours(rng: random.Random, kinds: Sequence[str]) -> list[str] | None:
    """Return a colour a thing: none twice in a kind, and two kinds that share their colours.

    So a red dog and a blue cat stand beside a blue dog and a red cat. None if some kind is too
    frequent or no two kinds are there twice.
    """
    counts = Counter(kinds)
    twice = [kind for kind in sorted(counts) if counts[kind] > 1]
    if len(twice) < 2 or max(counts.values()) > MOST_ALIKE:
        return None
    swapped = rng.sample(twice, 2)
    shared = rng.sample(sorted(COLORS), 2)
    left: dict[str, list[str]] = {}
    for kind in sorted(counts):
        first = rng.sample(shared, 2) if kind in swapped else []
        rest = [colour for colour in sorted(COLORS) if colour not in first]
        left[kind] = [*first, *rng.sample(rest, len(rest))]
    return [left[kind].pop(0) for kind in kinds]


def seen_shares(truth: Truth) -> dict[str, float]:
    """Return by object the share of its drawing that nothing in front covers."""
    layers = layers_of(truth)
    seen = silhouettes(layers)
    return {
        layer.object_id: float(
            seen[layer.object_id].sum() / silhouettes([layer])[layer.object_id].sum()
        )
        if layer.object_id in seen
        else 0.0
        for layer in layers
    }


def sample_crowd(
    rng: random.Random,
    n_objects: int | None = None,
    n_relations: int | None = None,
    style: str = "flat",
) -> Painting:
    """Return a painting of 10–16 things on nine cells, whose scene has 12–20 relations.

    Things share a cell where one is inside, under or worn by the other. In each crowd something is
    contained, a small thing peeps out from behind a large one (in the cell above it), and two kinds
    are there in the same two colours. At most :data:`MOST_ALIKE` are of a kind, all of different
    colours, and of everything at least :data:`LEAST_SEEN` shows. Contacts are named first. Raises
    ``ValueError`` for numbers outside :data:`CROWD` and :data:`CROWD_RELATIONS`.
    """
    n = rng.randint(*CROWD) if n_objects is None else n_objects
    limit = rng.randint(*CROWD_RELATIONS) if n_relations is None else n_relations
    for what, number, (least, most) in (
        ("n_objects", n, CROWD),
        ("n_relations", limit, CROWD_RELATIONS),
    ):
        if not least <= number <= most:
            raise ValueError(f"{what} is {number}: use {least} to {most}")
    for _ in range(_CROWD_TRIES):
        crowd = _crowd(rng, n)
        colours = _crowd_colours(rng, [kind for kind, _ in crowd.placed]) if crowd else None
        if crowd is None or colours is None:
            continue
        painting, _ = _drawn(rng, crowd.placed, crowd.contacts, style, colours)
        if min(seen_shares(painting.truth).values()) < LEAST_SEEN:
            continue
        contacts, loose = _holding(rng, painting.truth)
        rng.shuffle(loose)
        named = [*contacts, *_one_a_pair(_planned(loose, painting.truth))][:limit]
        rng.shuffle(named)
        done = _related(painting, tuple(named))
        if len(named) == limit and fits_grid(done.scene):
            return done
    raise ValueError(f"no crowd of {n} things with {limit} relations in {_CROWD_TRIES} tries")


def sample_alike(rng: random.Random, style: str = "flat") -> Painting:
    """Return a painting of one to six things of one kind, in one colour or several, and others."""
    kind = rng.choice(sorted(KINDS))
    count = rng.choice((1, 2, 3, 4, 4, 5, 5, MOST_COUNTED, MOST_COUNTED))
    others = rng.randint(0, min(3, COLUMNS * ROWS - count))
    rest = [rng.choice(sorted(set(KINDS) - {kind})) for _ in range(others)]
    free = [(x, y) for x in range(COLUMNS) for y in range(ROWS)]
    rng.shuffle(free)
    hues = rng.sample(sorted(COLORS), rng.choice((1, 1, 2, 3)))
    colours = [rng.choice(hues) for _ in range(count)]
    colours += [rng.choice(sorted(COLORS)) for _ in rest]
    placed = list(zip([kind] * count + rest, free, strict=False))
    painting, _ = _drawn(rng, placed, (), style, colours)
    return _related(painting, _sample_relations(rng, painting.truth, None, True))


Ground = Literal["very_hard", "adversarial"]
GROUNDS: tuple[Ground, ...] = get_args(Ground)
"""Levels beyond the paper's: crowds, and what models confuse."""
COUNTED = (3, 5)
"""Fewest and most things of the counted kind of a contrast."""
SHARING = (2, 4)
"""Fewest and most of them that share their cells with a companion."""
COMPANIONS: tuple[tuple[str, str, str], ...] = (
    *((kind, "wearing", "hat") for kind in ("cat", "dog", "person")),
    *((kind, "inside", "house") for kind in ("ball", "cat", "dog", "lamp", "umbrella")),
    *((kind, "under", "table") for kind in ("ball", "cat", "dog", "lamp", "umbrella")),
)
"""Contacts (subject, predicate, host) of counted things and their companions: one of a pair's kinds
is counted."""


def sample_contrast(rng: random.Random, style: str = "flat") -> tuple[Painting, Painting]:
    """Return two paintings of the same things that differ in the places of two of them alone.

    Where the first shows a red car left of a green lamp, the second shows the green lamp left of
    the red car. Beside those two stand two things in a contact that nobody expects, which wear the
    colours of the two, and three to five of one kind in different colours. Two to four of these
    have companions of one kind (:data:`COMPANIONS`) that wear each other's hosts' colours: a red
    dog with a blue hat beside a blue dog with a red hat. Scenes have 9–13 things and 4–8 relations,
    contacts first. Raises ``ValueError`` if no such pair is found.
    """
    for _ in range(_CROWD_TRIES):
        found = _contrast(rng, style)
        if found is not None:
            return found
    raise ValueError(f"no contrast in {_CROWD_TRIES} tries")


def sample_ground(rng: random.Random, ground: Ground) -> Painting:
    """Return a painting of the level ``ground``: of a contrast one of both."""
    return sample_crowd(rng) if ground == "very_hard" else sample_contrast(rng)[rng.randrange(2)]


@dataclass(frozen=True, slots=True)
class _Sharing:
    """Things of a counted kind, some of which have companions in their cells."""

    counted: str
    companion: str
    predicate: str
    worn: bool
    """Whether the counted thing is the contact's subject."""
    count: int
    companions: int

    @classmethod
    def sampled(cls, rng: random.Random) -> _Sharing:
        """Return a random choice of :data:`COMPANIONS` and numbers."""
        subject, predicate, host = rng.choice(COMPANIONS)
        worn = predicate == "wearing"
        counted, companion = (subject, host) if worn else (host, subject)
        count = rng.randint(*COUNTED)
        return cls(counted, companion, predicate, worn, count, min(count, rng.randint(*SHARING)))

    def colours(self, rng: random.Random) -> list[str]:
        """Return a colour for every counted thing, then one for every companion."""
        own = rng.sample(sorted(COLORS), self.count)
        return [*own, *own[1 : self.companions], own[0]]

    def contacts(self, first: int) -> list[tuple[int, str, int]]:
        """Return the contacts of things numbered from ``first``, counted ones before companions."""
        pairs = [(first + at, first + self.count + at) for at in range(self.companions)]
        ends = pairs if self.worn else [(second, one) for one, second in pairs]
        return [(source, self.predicate, target) for source, target in ends]


def _contrast(rng: random.Random, style: str) -> tuple[Painting, Painting] | None:
    crowd = _Sharing.sampled(rng)
    known = {crowd.counted, crowd.companion}
    subject, predicate, host = rng.choice([c for c in UNUSUAL if not known & {c[0], c[2]}])
    one, other = rng.sample(sorted(set(KINDS) - known - {subject, host}), 2)
    free = [(x, y) for x in range(COLUMNS) for y in range(ROWS)]
    rng.shuffle(free)
    cell = free.pop()
    anchored = predicate in ("holding", "wearing")
    beside = _contact_cell(predicate, host, cell)
    if beside is None:
        return None
    if beside != cell:
        free.remove(beside)
    ends = (cell, beside) if anchored else (beside, cell)
    # In one row or one column, so that it is plain how the two stand.
    pairs = [(a, b) for a in free for b in free if a != b and (a[0] == b[0]) != (a[1] == b[1])]
    if not pairs:
        return None
    first, second = rng.choice(pairs)
    rest = [place for place in free if place not in (first, second)]
    if len(rest) < crowd.count:
        return None
    hues = rng.sample(sorted(COLORS), 2)
    colours = [*hues, hues[1], hues[0], *crowd.colours(rng)]
    contacts = [(2, predicate, 3), *crowd.contacts(4)]
    twins: list[Painting] = []
    seed = rng.getrandbits(64)
    for a, b in ((first, second), (second, first)):
        own = random.Random(seed)
        placed = [
            *((one, a), (other, b), (subject, ends[0]), (host, ends[1])),
            *((crowd.counted, place) for place in rest[: crowd.count]),
            *((crowd.companion, place) for place in rest[: crowd.companions]),
        ]
        painting, ids = _drawn(own, placed, contacts, style, colours)
        pair = set(ids[:2])
        done = _related(painting, _contrast_relations(own, painting.truth, pair))
        if len(done.scene.relations) < 4 or not fits_grid(done.scene):
            return None
        twins.append(done)
    return twins[0], twins[1]


def _contrast_relations(
    rng: random.Random, truth: Truth, pair: Collection[str]
) -> tuple[Relation, ...]:
    """Return the contacts, the relation of ``pair`` and some others; none if the pair has none."""
    contacts, loose = _holding(rng, truth)
    loose = _planned(loose, truth)
    rng.shuffle(loose)
    # One of the pair's directions: "near" holds both ways round and tells the twins not apart.
    loose.sort(key=lambda r: {r.source, r.target} != set(pair) or r.predicate == "near")
    most = max(len(contacts) + 1, rng.randint(4, 8))
    kept = [*contacts, *_one_a_pair(loose)][:most]
    told = [r for r in kept if {r.source, r.target} == set(pair)]
    if not told or told[0].predicate == "near":
        return ()
    rng.shuffle(kept)
    return tuple(kept)
