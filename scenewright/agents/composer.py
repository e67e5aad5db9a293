"""Who words the scene: from a scene graph to the prompt of a text-to-image model.

Scene composition (Scene-Bench, Sec. 4) turns a graph into one description that sets
the scene, places every object and expresses the relations. :class:`RuleComposer`
does so without a language model: it plans where things may stand and says it.
:class:`TripletComposer` is the paper's baseline.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from scenewright.placement import Cell, canonical_predicate, place_what_fits
from scenewright.questions import article, noun_phrase
from scenewright.regions import Region, region_of_cell
from scenewright.scene import Attributes, SceneGraph, SceneObject

_ROWS = ("top", "middle", "bottom")
_COLUMNS = ("left", "center", "right")
_SAID_BY_PLACE = frozenset({"left of", "right of", "above", "below", "near"})
_SETTING_OF: dict[str, str] = {
    "table": "in a room",
    "lamp": "in a room",
    "chair": "in a room",
    "bed": "in a room",
    "boat": "on a beach",
    "umbrella": "on a beach",
}
_DEFAULT_SETTING = "in a meadow"


@runtime_checkable
class Composer(Protocol):
    """Writes prompts."""

    @property
    def id(self) -> str:
        """Its name in profiles and logs."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever the same scene could get another prompt."""
        ...

    async def compose(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> str:
        """The prompt of ``scene``; ``seed`` picks among equally good placements.

        ``within``, if given, is the scene of which ``scene`` is a part (a missing graph):
        with the same seed, what both prompts name stands in the same places.
        """
        ...

    def places(self, scene: SceneGraph, seed: int) -> Mapping[str, Region]:
        """Where :meth:`compose` with this seed says that objects stand, by object id.

        Empty for composers that say no places.
        """
        ...


class Worded(Protocol):
    """A prompt, and how it came about."""

    @property
    def prompt(self) -> str:
        """The text."""
        ...

    @property
    def author(self) -> str:
        """Who wrote it, where a composer has several ways."""
        ...

    @property
    def problem(self) -> str:
        """Why it was not written in the first way; empty if it was."""
        ...


@runtime_checkable
class TellingComposer(Composer, Protocol):
    """A composer that tells how a prompt came about."""

    async def word(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> Worded:
        """As :meth:`compose`, with what there is to tell of it."""
        ...


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a description and the object it speaks of."""

    text: str
    """Words, separated by single spaces."""
    object_id: str | None = None
    """The object that the words describe; None for the setting and for joints."""


def setting_of(scene: SceneGraph) -> str:
    """A background that suits the scene's objects: that of the first one that has one."""
    for item in scene.objects:
        if item.name in _SETTING_OF:
            return _SETTING_OF[item.name]
    return _DEFAULT_SETTING


def place_name(cell: Cell) -> str:
    """A cell of the 3×3 grid in words: ``top left`` … ``middle center`` … ``bottom right``."""
    column, row = cell
    return f"{_ROWS[row]} {_COLUMNS[column]}"


def describe(scene: SceneGraph, cells: Mapping[str, Cell], setting: str) -> list[Piece]:
    """The description of a placed scene in pieces; joined by spaces they are the prompt.

    Each object is named once with its attributes and its place. Directions are said by
    the places; other relations stand behind their subject.
    """
    items = {item.id: item for item in scene.objects}
    pieces = [Piece(f"{setting} :")]
    for at, item in enumerate(scene.objects):
        if at:
            pieces.append(Piece(","))
        phrase = noun_phrase(item)
        place = f" at the {place_name(cells[item.id])}" if item.id in cells else ""
        pieces.append(Piece(f"{article(phrase)} {phrase}{place}", item.id))
        for relation in scene.relations:
            if relation.source != item.id:
                continue
            placed = relation.source in cells and relation.target in cells
            if placed and canonical_predicate(relation.predicate) in _SAID_BY_PLACE:
                continue
            target = items[relation.target]
            pieces.append(Piece(relation.predicate, item.id))
            pieces.append(Piece(f"the {noun_phrase(target)}", target.id))
    return pieces


def triplets(scene: SceneGraph) -> list[Piece]:
    """``{subject} {predicate} {object}`` for every relation, then the unrelated objects.

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
    """The pieces as one prompt."""
    return " ".join(piece.text for piece in pieces).replace(" ,", ",").replace(" :", ":")


@dataclass(frozen=True)
class RuleComposer:
    """Composition by planning and a fixed grammar; needs no language model."""

    defaults: Mapping[str, Mapping[str, str]] | None = None
    """Attributes to say of a class where the scene gives none, for example
    ``{"tree": {"color": "green"}}``: a model draws best what is said in full."""

    @property
    def id(self) -> str:
        """``rules``."""
        return "rules"

    @property
    def fingerprint(self) -> str:
        """Grammar version and defaults."""
        text = json.dumps(self.defaults, sort_keys=True, default=dict)
        return f"rules@1#{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def _in_full(self, item: SceneObject) -> SceneObject:
        said = {**(self.defaults or {}).get(item.name, {}), **item.attributes}
        return item.model_copy(update={"attributes": Attributes(said)})

    async def compose(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> str:
        """Plan places for the objects of the whole scene, then describe ``scene``."""
        full = SceneGraph(
            objects=tuple(self._in_full(item) for item in scene.objects), relations=scene.relations
        )
        whole = full if within is None else within
        return text_of(describe(full, place_what_fits(whole, seed), setting_of(whole)))

    def places(self, scene: SceneGraph, seed: int) -> Mapping[str, Region]:
        """A cell of the 3×3 grid for each object; empty if the scene does not fit on it."""
        return {key: region_of_cell(cell) for key, cell in place_what_fits(scene, seed).items()}


@dataclass(frozen=True)
class TripletComposer:
    """The baseline: bare triplets."""

    @property
    def id(self) -> str:
        """``triplets``."""
        return "triplets"

    @property
    def fingerprint(self) -> str:
        """Form version."""
        return "triplets@1"

    async def compose(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> str:
        """List the relations as triplets; the seed and the whole scene have no effect."""
        return text_of(triplets(scene))

    def places(self, scene: SceneGraph, seed: int) -> Mapping[str, Region]:
        """None are said."""
        return {}
