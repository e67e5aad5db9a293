"""Protocol of composers: from a scene graph to the prompt of a text-to-image model.

Scene composition (Scene-Bench, Sec. 4) turns a graph into one description that introduces every
object and expresses the relations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from scenewright.core.errors import ScenewrightError
from scenewright.core.facts import FactKind
from scenewright.core.layout import Region
from scenewright.core.scene import SceneGraph


@runtime_checkable
class Composer(Protocol):
    """Writer of prompts.

    Equal arguments must give equal places, and equal prompts where no language model is involved.
    """

    @property
    def id(self) -> str:
        """Name in profiles and logs."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digest that changes whenever the same scene could get another prompt."""
        ...

    async def compose(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> str:
        """Return the prompt of ``scene``; ``seed`` chooses among equally good placements.

        ``within``, if given, is the scene of which ``scene`` is a part (a missing graph): with the
        same seed, objects in both prompts have the same places. Raises ``ComposerError`` if no
        prompt can be written.
        """
        ...

    def places(self, scene: SceneGraph, seed: int) -> Mapping[str, Region]:
        """Return the places that :meth:`compose` with this seed gives to objects, by object id.

        Empty for composers that give no places.
        """
        ...


@dataclass(frozen=True, slots=True)
class PromptBudget:
    """Token budget of an image model, for composers that keep to it."""

    budget: int
    """Most tokens that the model reads."""
    tokens: Callable[[str], int]
    """Returns the number of tokens of a text."""

    def holds(self, text: str) -> bool:
        """Return whether ``text`` fits the budget."""
        return self.tokens(text) <= self.budget


class ComposerError(ScenewrightError, RuntimeError):
    """No prompt was written; names the composer, the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class LostFact:
    """A fact of the scene that a text does not state."""

    kind: FactKind
    statement: str
    """The fact in words: ``red ball on blue table``."""


@dataclass(frozen=True, slots=True)
class Wording:
    """A prompt and its origin."""

    prompt: str
    """The text."""
    author: str
    """Id of the composer; of a language model ``model`` or ``model again`` (its second text), or
    the id of its fallback composer.
    """
    model: str = ""
    """Language model that wrote it, if any."""
    lost: tuple[LostFact, ...] = ()
    """Facts missing in the model's first text."""
    problem: str = ""
    """Why the model's text was not used, if so."""
    unsaid: tuple[tuple[str, ...], ...] = ()
    """Facts left out because the image model reads no longer prompt: an object's id, its id and an
    attribute's key, or source, predicate and target.
    """


@runtime_checkable
class ReportingComposer(Composer, Protocol):
    """A composer that reports the origin of a prompt, and gives no places unless it says so."""

    async def compose(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> str:
        """Return the prompt of :meth:`word` alone."""
        return (await self.word(scene, seed, within)).prompt

    def places(self, scene: SceneGraph, seed: int) -> Mapping[str, Region]:
        """Return none."""
        return {}

    async def word(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> Wording:
        """Return the prompt of ``scene`` with its origin; arguments as of :meth:`compose`."""
        ...


@runtime_checkable
class PlacingComposer(Composer, Protocol):
    """A composer that says where objects are, also at places that it did not plan."""

    async def compose_at(
        self, scene: SceneGraph, places: Mapping[str, Region], within: SceneGraph
    ) -> str:
        """Return the prompt of ``scene`` with objects at ``places`` of the picture that is drawn.

        ``places`` maps object ids to shares of that picture, which may be a crop; an object without
        one is described without a place. ``within`` is the scene of which ``scene`` is a part: both
        get one setting.
        """
        ...


async def compose_with_origin(
    composer: Composer,
    scene: SceneGraph,
    seed: int,
    within: SceneGraph | None = None,
    places: Mapping[str, Region] | None = None,
) -> Wording:
    """Return the prompt of ``scene`` by ``composer`` with its origin.

    ``places`` says where its objects are in the picture that is drawn; composers that say no places
    do without. Raises as the composer.
    """
    if places is not None and isinstance(composer, PlacingComposer):
        return Wording(await composer.compose_at(scene, places, within or scene), composer.id)
    if isinstance(composer, ReportingComposer):
        return await composer.word(scene, seed, within)
    return Wording(await composer.compose(scene, seed, within), composer.id)
