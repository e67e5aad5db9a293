"""Composers by rules: bare triplets, the miniature world's grid, and counted sentences.

Triplets are the baseline of Scene-Bench (Sec. 5.1). The grid composer gives every object a place on
a 3×3 grid in fixed words: the painted world's text encoder learnt these words, so they belong to
profiles of that model alone. :func:`word` words a scene as PSG-Bench's prompts are worded: equal
objects are counted, and every object, attribute and relation is stated. Words are data in
``wording.toml``.

:mod:`.sentences` writes plain English for real models, and :mod:`.language` asks a language model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scenewright.core.english import article, listed
from scenewright.core.inflection import plural, read_data
from scenewright.core.layout import (
    Cell,
    Region,
    canonical_predicate,
    cell_at,
    is_allowed,
    place_what_fits,
    region_of_cell,
)
from scenewright.core.ports.composer import Wording
from scenewright.core.referring import noun_phrase
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a description and its object."""

    text: str
    """Words, separated by single spaces."""
    object_id: str | None = None
    """Id of the described object; None for the setting and connecting words."""


def triplets(scene: SceneGraph) -> list[Piece]:
    """Return ``{subject} {predicate} {object}`` for every relation, then the unrelated objects.

    Source: Scene-Bench, Sec. 5.1 and Appendix B.1.
    """
    items = {item.id: item for item in scene.objects}
    pieces: list[Piece] = []
    related: set[str] = set()
    for relation in scene.relations:
        source, target = items[relation.source], items[relation.target]
        related |= {source.id, target.id}
        pieces += [
            Piece(noun_phrase(source), source.id),
            Piece(relation.predicate),
            Piece(noun_phrase(target), target.id),
            Piece(","),
        ]
    for item in scene.objects:
        if item.id not in related:
            pieces += [Piece(noun_phrase(item), item.id), Piece(",")]
    return pieces[:-1]


def text_of(pieces: list[Piece]) -> str:
    """Return the pieces as one prompt."""
    return " ".join(piece.text for piece in pieces).replace(" ,", ",").replace(" :", ":")


@dataclass(frozen=True)
class TripletComposer:
    """The baseline: bare triplets."""

    id = "triplets"
    fingerprint = "triplets@1"
    """Version of the form."""

    async def compose(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> str:
        """List the relations as triplets; the seed and the whole scene have no effect."""
        return text_of(triplets(scene))

    def places(self, scene: SceneGraph, seed: int) -> Mapping[str, Region]:
        """Return none."""
        return {}


_ROWS = ("top", "middle", "bottom")
_COLUMNS = ("left", "center", "right")
_SAID_BY_PLACE = frozenset({"left of", "right of", "above", "below", "near"})
_SETTING_OF = {
    **dict.fromkeys(("table", "lamp", "chair", "bed"), "in a room"),
    **dict.fromkeys(("boat", "umbrella"), "on a beach"),
}
_DEFAULT_SETTING = "in a meadow"


def setting_of(scene: SceneGraph) -> str:
    """Return a background for the scene: that of the first object with one."""
    found = (_SETTING_OF[item.name] for item in scene.objects if item.name in _SETTING_OF)
    return next(found, _DEFAULT_SETTING)


def describe(scene: SceneGraph, cells: Mapping[str, Cell], setting: str) -> list[Piece]:
    """Return the description of a placed scene in pieces; joined by spaces they are the prompt.

    Each object is named once with its attributes and its place. Directions are said by
    the places; other relations stand behind their subject.
    """
    items = {item.id: item for item in scene.objects}
    leaving: dict[str, list[Relation]] = {}
    for relation in scene.relations:
        leaving.setdefault(relation.source, []).append(relation)
    pieces = [Piece(f"{setting} :")]
    for at, item in enumerate(scene.objects):
        if at:
            pieces.append(Piece(","))
        phrase = noun_phrase(item)
        column, row = cells.get(item.id, (0, 0))
        place = f" at the {_ROWS[row]} {_COLUMNS[column]}" if item.id in cells else ""
        pieces.append(Piece(f"{article(phrase)} {phrase}{place}", item.id))
        for relation in leaving.get(item.id, ()):
            placed = relation.source in cells and relation.target in cells
            if placed and canonical_predicate(relation.predicate) in _SAID_BY_PLACE:
                continue
            target = items[relation.target]
            pieces.append(Piece(relation.predicate, item.id))
            pieces.append(Piece(f"the {noun_phrase(target)}", target.id))
    return pieces


@dataclass(frozen=True)
class GridComposer:
    """Composition by planning places on the grid and a fixed grammar.

    A relation that no plan can hold with the others is told as unsaid.
    """

    defaults: Mapping[str, Mapping[str, str]] | None = None
    """Attributes added to a class where the scene has none, for example ``{"tree": {"color":
    "green"}}``: a model draws best what is fully described.
    """

    id = "grid"

    @property
    def fingerprint(self) -> str:
        """Grammar version and defaults."""
        text = json.dumps(self.defaults, sort_keys=True, default=dict)
        return f"grid@1#{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def _full(self, scene: SceneGraph) -> SceneGraph:
        objects = []
        for item in scene.objects:
            said = {**(self.defaults or {}).get(item.name, {}), **item.attributes}
            objects.append(item.model_copy(update={"attributes": Attributes(said)}))
        return SceneGraph(objects=tuple(objects), relations=scene.relations)

    async def compose(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> str:
        """Plan places for the objects of the whole scene, then describe ``scene``."""
        return (await self.word(scene, seed, within)).prompt

    async def word(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> Wording:
        """Return :meth:`compose` with the relations that the places do not show."""
        full = self._full(scene)
        whole = full if within is None else within
        cells = place_what_fits(whole, seed)
        prompt = text_of(describe(full, cells, setting_of(whole)))
        return Wording(prompt, self.id, unsaid=tuple(_against(scene, cells)))

    async def compose_at(
        self, scene: SceneGraph, places: Mapping[str, Region], within: SceneGraph
    ) -> str:
        """Describe ``scene`` with its objects at ``places``, in the setting of ``within``."""
        cells = {key: cell_at(region) for key, region in places.items()}
        return text_of(describe(self._full(scene), cells, setting_of(within)))

    def places(self, scene: SceneGraph, seed: int) -> Mapping[str, Region]:
        """Return a cell of the 3×3 grid for each object; empty if the scene does not fit on it."""
        return {key: region_of_cell(cell) for key, cell in place_what_fits(scene, seed).items()}


def _against(scene: SceneGraph, cells: Mapping[str, Cell]) -> Iterator[tuple[str, str, str]]:
    """Yield the relations that are said by places, and by these are not."""
    for relation in scene.relations:
        said, ends = canonical_predicate(relation.predicate), (relation.source, relation.target)
        if said not in _SAID_BY_PLACE or not all(end in cells for end in ends):
            continue
        if not is_allowed(said, *(cells[end] for end in ends)):
            yield relation.source, relation.predicate, relation.target


WORDING_VERSION = 1
"""Version of the rules."""
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_DATA = read_data("scenewright.agents.composers", "wording.toml")
BARE = frozenset(_DATA["bare"])
"""Nouns without "a"."""
SAID: dict[str, list[str]] = _DATA["said"]
"""Challenge of PSG-Bench → text that may be added to the scene graph."""
_ORDER = ("size", "age", "state", "shape", "color", "pattern", "material")
_OPENINGS = ("", "a photo of ", "a picture of ")


@dataclass(frozen=True, slots=True)
class _Group:
    """Equal objects, mentioned together."""

    name: str
    values: tuple[str, ...]
    ids: tuple[str, ...]

    def phrase(self) -> str:
        """Return ``three small dogs``, ``an old wooden chair``, ``sand``."""
        described = " ".join([*self.values, self.name])
        if len(self.ids) > 1:
            count = len(self.ids)
            number = NUMBERS[count] if count < len(NUMBERS) else str(count)
            return f"{number} {plural(described)}"
        if self.name in BARE:
            return described
        return f"{article(described)} {described}"

    def again(self) -> str:
        """Return a later mention: ``the chair``."""
        return f"the {plural(self.name) if len(self.ids) > 1 else self.name}"

    @property
    def verb(self) -> str:
        """``is`` or ``are``."""
        many = self.name.endswith("s") and self.name in BARE
        return "are" if len(self.ids) > 1 or many else "is"


def word(scene: SceneGraph, said: str = "", turn: int = 0) -> str:
    """Return ``scene`` in words, then ``said``; ``turn`` picks one of the openings.

    Objects that are alike are counted; what has no relation is listed in the first sentence, and
    each relation between two groups is a sentence of its own. Raises ``ValueError`` for a scene
    without objects.
    """
    if not scene.objects:
        raise ValueError("the scene has no objects: there is nothing to describe")
    groups = _groups(scene)
    of = {id_: group for group in groups for id_ in group.ids}
    links = list(dict.fromkeys((of[r.source], r.predicate, of[r.target]) for r in scene.relations))
    joined = {group for source, _, target in links for group in (source, target)}
    sentences: list[str] = []
    alone = [group.phrase() for group in groups if group not in joined]
    tail = f" {said}" if said else ""
    if alone:
        opening = _OPENINGS[turn % len(_OPENINGS)]
        sentences.append(f"{opening}{listed(alone)}{tail}")
        tail = ""
    named: set[_Group] = set()
    for source, predicate, target in links:
        first = source.again() if source in named else source.phrase()
        second = target.again() if target in {source, *named} else target.phrase()
        named |= {source, target}
        sentences.append(f"{first} {source.verb} {predicate} {second}{tail}")
        tail = ""
    return " ".join(f"{one[0].upper()}{one[1:]}." for one in sentences)


def _groups(scene: SceneGraph) -> list[_Group]:
    """Group objects of one class with equal attributes and equal relations to other classes."""
    names = {item.id: item.name for item in scene.objects}
    found: dict[tuple[object, ...], list[SceneObject]] = {}
    for item in scene.objects:
        role = frozenset(
            (r.source == item.id, r.predicate, r.target if r.source == item.id else r.source)
            for r in scene.relations
            if item.id in (r.source, r.target) and names[r.source] != names[r.target]
        )
        inner = any(
            names[r.source] == names[r.target] and item.id in (r.source, r.target)
            for r in scene.relations
        )
        key = (item.name, item.attributes, role, item.id if inner else "")
        found.setdefault(key, []).append(item)
    # Values in English order.
    rank = {key: at for at, key in enumerate(_ORDER)}
    groups: list[_Group] = []
    for item, *others in found.values():
        keys = sorted(item.attributes, key=lambda key: (rank.get(key, len(rank)), key))
        values = tuple(item.attributes[key] for key in keys)
        groups.append(_Group(item.name, values, (item.id, *(one.id for one in others))))
    return groups
