"""Prompts that a language model wrote, kept for the whole evaluation.

Arms that begin alike are to draw the same first picture: what a round of feedback gains must not
be what another wording gained. And a prompt that was paid for is not paid for again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.core.layout import Region
from scenewright.core.ports.composer import Composer, ReportingComposer, Wording
from scenewright.core.scene import SceneGraph
from scenewright.evals.runner.arms import digest
from scenewright.evals.store.journal import Unit, Units

PROMPT = "prompt"


@dataclass(frozen=True, slots=True)
class CachedComposer:
    """Asks a composer once for each scene, seed and whole, whatever arm needs it."""

    composer: ReportingComposer
    """Who writes."""
    journal: Units
    """Where prompts are kept."""

    @property
    def id(self) -> str:
        """The composer's."""
        return self.composer.id

    @property
    def fingerprint(self) -> str:
        """The composer's."""
        return self.composer.fingerprint

    async def word(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> Wording:
        """The kept prompt, or a new one; one that the model did not write itself is not kept."""
        whole = None if within is None else within.digest
        key = digest(PROMPT, self.fingerprint, scene.digest, seed, whole)
        unit = self.journal.get(key)
        if unit is not None:
            return Wording(unit.facts["prompt"], unit.facts["author"], unit.facts.get("model", ""))
        found = await self.composer.word(scene, seed, within)
        if not found.problem:
            said = {"prompt": found.prompt, "author": found.author, "model": found.model}
            self.journal.put([Unit(key, PROMPT, facts=said)])
        return found

    async def compose(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> str:
        """The prompt of :meth:`word`."""
        return (await self.word(scene, seed, within)).prompt

    def places(self, scene: SceneGraph, seed: int) -> Mapping[str, Region]:
        """The composer's."""
        return self.composer.places(scene, seed)


def kept(composer: Composer, journal: Units) -> Composer:
    """``composer``, with its prompts kept if they cost something."""
    if not isinstance(composer, ReportingComposer) or isinstance(composer, SentenceComposer):
        return composer
    return CachedComposer(composer, journal)
