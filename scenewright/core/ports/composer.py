"""The port of composers: from a scene graph to the prompt of a text-to-image model.

Scene composition (Scene-Bench, Sec. 4) turns a graph into one description that introduces every
object and expresses the relations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from scenewright.core.facts import FactKind
from scenewright.core.regions import Region
from scenewright.core.scene import SceneGraph


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
class LostFact:
    """A fact of the scene that a text does not say."""

    kind: FactKind
    """What it is about."""
    statement: str
    """The fact in words: ``red ball on blue table``."""


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
class ReportingComposer(Composer, Protocol):
    """A composer that tells how a prompt came about."""

    async def word(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> Wording:
        """As :meth:`compose`, with what there is to tell of it."""
        ...


async def worded(
    composer: Composer, scene: SceneGraph, seed: int, within: SceneGraph | None = None
) -> Wording:
    """Return the prompt of ``scene`` by ``composer`` and its author; raises as the composer."""
    if isinstance(composer, ReportingComposer):
        return await composer.word(scene, seed, within)
    return Wording(await composer.compose(scene, seed, within), composer.id)
