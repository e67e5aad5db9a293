"""Models whose pictures and answers are kept in a folder: what was paid for is not done again.

A benchmark that is cut off goes on from there with the same command. Pictures are named
by request and backend, answers by judge, picture and question, so that changed weights
are never answered from an old folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from scenewright.agents.panel.panel import Panel, next_wave, void_verdicts
from scenewright.config.settings import Profile
from scenewright.core.facts import Answer, Fact, ScoreCard, Verdict
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import GenerationRequest, PromptCount
from scenewright.core.ports.judge import Judge
from scenewright.graphs.drawing import stored_metadata, stored_prompt_count
from scenewright.providers import AnswerStore, ask
from scenewright.runs.model_factory.profiles import RunModels

ROLES = ("report", "loop")
"""The two panels of a profile."""


class KeptTeam:
    """The models of a profile, each answer and picture kept in ``folder``."""

    def __init__(self, profile: Profile, run_models: RunModels, folder: Path) -> None:
        self.profile = profile
        self.run_models = run_models
        self.images = ImageStore(folder / "images")
        self._answers = AnswerStore(folder / "answers.sqlite")
        self._panel = Panel(aggregation=profile.aggregation, quorum=profile.quorum)

    def role_of(self, judge: Judge) -> str:
        """``loop`` or ``report``; ``studies`` for a judge that is in no panel."""
        return next((role for role in ROLES if judge in self.panel(role)), "studies")

    def panel(self, role: str) -> tuple[Judge, ...]:
        """The judges of ``role``, one of :data:`ROLES`."""
        return self.run_models.loop_judges if role == "loop" else self.run_models.report_judges

    async def draw(self, request: GenerationRequest) -> str:
        """The content hash of the picture that ``request`` gives."""
        key = request.key(self.run_models.backend.fingerprint)
        found = self.images.recall(key)
        if found is not None:
            return found[0]
        drawn = await self.run_models.backend.generate(request, self.images.get)
        image = self.images.put(drawn.image)
        self.images.remember(key, image, stored_metadata(drawn) | {"seconds": drawn.seconds})
        return image

    def count(self, request: GenerationRequest) -> PromptCount | None:
        """How the prompt of a picture was read, None if that is not known; ``LookupError`` if it
        was not drawn."""
        found = self.images.recall(request.key(self.run_models.backend.fingerprint))
        if found is None:
            raise LookupError("this request was not drawn: draw it first")
        return stored_prompt_count(found[1])

    async def answers(
        self, judge: Judge, image: Image.Image | str, facts: Sequence[Fact]
    ) -> tuple[Answer, ...]:
        """What ``judge`` says of a picture (itself, or its hash), one answer a fact."""
        name = image if isinstance(image, str) else self.images.put(image)
        picture = self.images.get(name)
        return (await ask(judge, name, picture, facts, store=self._answers)).answers

    async def card(self, image: str, facts: Sequence[Fact], role: str) -> ScoreCard:
        """The score card of a picture by the judges of ``role``, asked in waves as in a run."""
        known: dict[str, Verdict] = {}
        while wave := next_wave(facts, known):
            given = {j.id: await self.answers(j, image, wave) for j in self.panel(role)}
            known |= {v.fact_id: v for v in self._panel.verdicts(wave, given, known)}
            known |= {v.fact_id: v for v in void_verdicts(facts, known)}
        return ScoreCard.of(facts, known.values(), self.profile.alpha)

    def close(self) -> None:
        """Close the store of answers."""
        self._answers.close()


def short(judge: Judge) -> str:
    """A judge's name in figures: ``judge-a`` of ``local:miniature/judge-a``."""
    return judge.id.rpartition("/")[2]
