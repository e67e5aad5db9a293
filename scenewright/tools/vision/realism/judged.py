"""Object realism by judges: the probability of a yes as a place on the scale.

Judges answer yes or no with a probability, and need no chat: local models and remote ones alike
score an object so. :class:`VqaScorer` asks in the form of VQAScore instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property

from PIL import Image

from scenewright.agents.panel.panel import Panel
from scenewright.core.error_text import error_text
from scenewright.core.facts import Answer, Fact
from scenewright.core.images import hash_of_image
from scenewright.core.ports.judge import Judge
from scenewright.core.ports.vision import PROMPTS, Detection, ObjectRealism, RealismError, on_scale
from scenewright.core.questions import realism_facts_of
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.providers import AnswerStore, ask
from scenewright.tools.digests import short_digest
from scenewright.tools.vision.concurrency import map_bounded
from scenewright.tools.vision.detection.labels import plain
from scenewright.tools.vision.realism.object_views import LEAST_SIDE, VIEW_WORDS, View, view_of

ORIGIN = "realism"
"""Origin of the answers in the store."""
_CONCURRENT = 8
"""Objects asked about at once."""
_JOINT = "joint"
_FIGURE = 'Does this figure show "{text}"?'
"""VQAScore's question (Lin et al., 2024); "Please answer yes or no" is what judges are told."""


def object_facts(category: str) -> tuple[Fact, ...]:
    """Return the realism questions of one object.

    Shape and texture, as of a scene with nothing else, and both together. Raises ``SceneError`` for
    a category that is no name.
    """
    scene = SceneGraph(objects=(SceneObject(id="object", name=category),))
    # The object was found: nobody asks whether it is there.
    asked = [fact.model_copy(update={"parents": ()}) for fact in realism_facts_of(scene)]
    joint = Fact(
        id=f"real:object:{_JOINT}",
        kind="realism",
        subject="object",
        key=_JOINT,
        value=category,
        statement=f"{category} is realistic",
        question=(
            f"Does the {category} have realistic shape, structure, texture, color and shade, as "
            "in a photo?"
        ),
    )
    return (*asked, joint)


def figure_facts(category: str) -> tuple[Fact, ...]:
    """Return the paper's three texts for alignment scorers (footnote 7) in VQAScore's question.

    They name no class, since P(yes) is wanted and no place on a scale.
    """
    facts = []
    for aspect, prompt in PROMPTS.items():
        text = prompt.format(category=category)
        facts.append(
            Fact(
                id=f"real:object:{aspect}",
                kind="realism",
                subject="object",
                key=aspect,
                statement=text,
                question=_FIGURE.format(text=text),
            )
        )
    return tuple(facts)


class JudgeScorer:
    """Scorer of realism by the answers of one or more judges.

    Implements :class:`~scenewright.core.ports.vision.RealismScorer`. Each object is shown
    by itself with the questions of ``refine --realism``; the panel's probability of a yes, from 0
    to 1, becomes the score from 1 to 5. Answers are kept in memory, so that nothing is paid for
    twice.
    """

    kind = "judge"
    """Beginning of its id."""
    facts_of = staticmethod(object_facts)
    """From a category to the questions about an object of it."""

    def __init__(self, judges: Sequence[Judge], *, view: View = "crop") -> None:
        """``view``: see :data:`~.marking.View`. Raises ``RealismError`` without judges."""
        if not judges:
            raise RealismError("no judges are given: a scorer of judges needs at least one")
        self._judges = tuple(judges)
        self._view: View = view
        self._panel = Panel()
        self._store = AnswerStore(None)

    @property
    def id(self) -> str:
        """``judge:``, the judges and the view."""
        return f"{self.kind}:{'+'.join(judge.id for judge in self._judges)}:{self._view}"

    @cached_property
    def fingerprint(self) -> str:
        """Of the judges, the panel, the questions and the view."""
        questions = [fact.question for fact in self.facts_of("thing")]
        parts = [
            [judge.fingerprint for judge in self._judges],
            [self._panel.aggregation, self._panel.quorum, self._panel.threshold],
            # Where a calibration would stand: scores that are kept have it in their fingerprint.
            None,
            questions,
            [self._view, LEAST_SIDE, VIEW_WORDS[self._view]],
        ]
        return f"{self.kind} realism@1 {self.id}#{short_digest(*parts)}"

    async def score(self, image: Image.Image, objects: Sequence[Detection]) -> list[ObjectRealism]:
        """As the port says; an object is one call of each judge."""

        async def score_one(item: Detection) -> ObjectRealism:
            try:
                return await self._score_one(image, item)
            except Exception as error:
                # What goes wrong with one object costs the others nothing.
                return ObjectRealism(None, None, reason=error_text(error))

        return await map_bounded(score_one, objects, _CONCURRENT)

    async def aclose(self) -> None:
        """Close the judges."""
        for judge in self._judges:
            await judge.aclose()

    async def _score_one(self, image: Image.Image, item: Detection) -> ObjectRealism:
        facts = self.facts_of(plain(item.name) or item.name)
        view = await asyncio.to_thread(view_of, image, item.box, self._view)
        image_hash = await asyncio.to_thread(hash_of_image, view)

        async def asked(judge: Judge) -> list[Answer]:
            got = await ask(
                *(judge, image_hash, view, facts), store=self._store, origin=ORIGIN, part_of=image
            )
            return list(got.answers)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asked(judge)) for judge in self._judges]
        given = {judge.id: task.result() for judge, task in zip(self._judges, tasks, strict=True)}
        verdicts = self._panel.verdicts(facts, given)
        answers = [answer for said in given.values() for answer in said]
        scores: list[float | None] = []
        missing: list[str] = []
        for fact, verdict in zip(facts, verdicts, strict=True):
            if verdict.state in ("yes", "no") and verdict.probability is not None:
                scores.append(on_scale(verdict.probability))
                continue
            scores.append(None)
            reasons = [one.reason for one in answers if one.fact_id == fact.id and one.reason]
            missing.append(f"{fact.key}: {[*reasons, verdict.reason or 'no probability'][0]}")
        shape, texture, joint = scores
        return ObjectRealism(
            shape,
            texture,
            joint,
            reason="; ".join(missing),
            tokens_in=sum(answer.tokens_in for answer in answers),
            tokens_out=sum(answer.tokens_out for answer in answers),
            usd=sum(answer.usd for answer in answers),
            seconds=sum(answer.seconds for answer in answers),
        )


class VqaScorer(JudgeScorer):
    """VQAScore (Lin et al., 2024) of an object: P(yes) to 'Does this figure show "…"?'.

    The texts are the paper's for alignment scorers; the picture is the object's crop.
    """

    kind = "vqa"
    facts_of = staticmethod(figure_facts)

    def __init__(self, judge: Judge, *, view: View = "crop") -> None:
        """As :class:`JudgeScorer`.

        Raises ``RealismError`` for a judge whose probabilities are neither those of tokens, of
        which VQAScore is made, nor a decision model's.
        """
        if judge.caps.probability not in ("logprob", "decision"):
            raise RealismError(
                f"{judge.id} gives {judge.caps.probability} probabilities: VQAScore takes those of "
                "tokens (logprob), which local models and some of OpenAI's have, or of decision "
                "models"
            )
        super().__init__([judge], view=view)
