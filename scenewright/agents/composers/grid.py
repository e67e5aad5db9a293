"""The composer of the miniature world: a place on a 3×3 grid for every object, in fixed words.

The painted world's text encoder learnt these words (a setting, places, colours), so they belong
to profiles of that model alone: a real model would be asked for places that no scene names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from scenewright.agents.composers.triplets import Piece, text_of
from scenewright.core.placement import Cell, canonical_predicate, place_what_fits
from scenewright.core.questions import article, noun_phrase
from scenewright.core.regions import Region, region_of_cell
from scenewright.core.scene import Attributes, SceneGraph, SceneObject

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


@dataclass(frozen=True)
class GridComposer:
    """Composition by planning places on the grid and a fixed grammar."""

    defaults: Mapping[str, Mapping[str, str]] | None = None
    """Attributes to say of a class where the scene gives none, for example
    ``{"tree": {"color": "green"}}``: a model draws best what is said in full."""

    @property
    def id(self) -> str:
        """``grid``."""
        return "grid"

    @property
    def fingerprint(self) -> str:
        """Grammar version and defaults."""
        text = json.dumps(self.defaults, sort_keys=True, default=dict)
        return f"grid@1#{hashlib.sha256(text.encode()).hexdigest()[:12]}"

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
