"""The baseline of scene composition: bare triplets (Scene-Bench, Sec. 5.1).

:mod:`.sentences` writes plain English, :mod:`.language` asks a language model, and :mod:`.grid` is
for models that know the miniature world.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scenewright.core.questions import noun_phrase
from scenewright.core.regions import Region
from scenewright.core.scene import SceneGraph


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a description and the object it speaks of."""

    text: str
    """Words, separated by single spaces."""
    object_id: str | None = None
    """The object that the words describe; None for the setting and for joints."""


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
