"""The port of composers: from a scene graph to the prompt of a text-to-image model.

Scene composition (Scene-Bench, Sec. 4) turns a graph into one description that introduces every
object and expresses the relations. :class:`TripletComposer` is the paper's baseline;
:mod:`.sentences` writes plain English, :mod:`.language` asks a language model,
and :mod:`.grid` is for models that know the miniature world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from scenewright.agents.composers.check import LostFact
from scenewright.questions import noun_phrase
from scenewright.regions import Region
from scenewright.scene import SceneGraph


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


@dataclass(frozen=True, slots=True)
class PromptRoom:
    """What an image model reads of a prompt, for composers that keep to it."""

    budget: int
    """Most tokens that are read."""
    tokens: Callable[[str], int]
    """The number of tokens of a text."""

    def holds(self, text: str) -> bool:
        """Whether all of ``text`` is read."""
        return self.tokens(text) <= self.budget


class ComposerError(RuntimeError):
    """No prompt was written: says which composer failed, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Wording:
    """A prompt, and how it came about."""

    prompt: str
    """The text."""
    author: str
    """The composer's id; of a language model ``model`` or ``model again`` (its second text), and
    the id of the composer that wrote in its place."""
    model: str = ""
    """The language model that wrote it; empty if none did."""
    lost: tuple[LostFact, ...] = ()
    """Facts that the model's first text did not say."""
    problem: str = ""
    """Why the model's text was not used; empty if it was."""
    unsaid: tuple[tuple[str, ...], ...] = ()
    """Facts that were left out because the image model reads no longer prompt: an object's id, its
    id and an attribute's key, or source, predicate and target."""


@runtime_checkable
class TellingComposer(Composer, Protocol):
    """A composer that tells how a prompt came about."""

    async def word(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> Wording:
        """As :meth:`compose`, with what there is to tell of it."""
        ...


async def worded(
    composer: Composer, scene: SceneGraph, seed: int, within: SceneGraph | None = None
) -> Wording:
    """Return the prompt of ``scene`` by ``composer`` and its author; raises as the composer."""
    if isinstance(composer, TellingComposer):
        return await composer.word(scene, seed, within)
    return Wording(await composer.compose(scene, seed, within), composer.id)


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
