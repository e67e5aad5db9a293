"""Relations that models name, put to a panel of judges: the second way to a consensus.

A model that draws up a graph names what comes to mind; a judge who is asked about one relation,
with wrong ones beside it, has to look. The questions are those of the benchmark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from PIL import Image

from scenewright.agents.judges.base import Judge
from scenewright.agents.panel import Panel
from scenewright.calls import AnswerStore
from scenewright.evals.annotation.ledger import Photo
from scenewright.evals.annotation.votes import Claim
from scenewright.evals.judging import Seat, judge_picture
from scenewright.images import load_image
from scenewright.questions import NO_RELATION, facts_of
from scenewright.scene import Relation, SceneGraph, SceneObject

Chances = dict[int, tuple[float | None, str]]
"""Number of a claim → the judges' probability that it holds, or none with the reason."""


def scene_of(photo: Photo, claims: Sequence[Claim]) -> SceneGraph:
    """The photo's objects, and the relations of ``claims``."""
    return SceneGraph(
        objects=tuple(SceneObject(id=id_, name=name) for id_, name, _ in photo.objects),
        relations=tuple(
            Relation(source=s, predicate=p, target=t) for s, p, t in (c.triple for c in claims)
        ),
    )


async def verify(
    photo: Photo,
    claims: Sequence[Claim],
    judges: Sequence[Judge],
    store: AnswerStore,
    *,
    on_answer: Callable[[str, int, int, float, int], None] = lambda *spent: None,
) -> Chances:
    """What ``judges`` say of each of ``claims``, all of them asked at once; answers are kept.

    Detections are taken as given: only relations are asked. ``on_answer`` is told judge, tokens in,
    tokens out, dollars and unscored answers. Raises ``ImageError`` and ``StoreError``.
    """
    asked = [at for at, claim in enumerate(claims) if claim.triple[1] != NO_RELATION]
    if not asked:
        return {}
    facts = [
        fact.model_copy(update={"parents": ()})
        for fact in facts_of(scene_of(photo, [claims[at] for at in asked]))
        if fact.kind == "relation"
    ]

    def load() -> Image.Image:
        return load_image(Path(photo.file))

    seat = Seat("annotation", tuple(judges), Panel())
    found = await judge_picture(
        seat, photo.digest, load, facts, store=store, asking="together", origin="annotate"
    )
    for judge, answers in found.answers.items():
        on_answer(
            judge,
            sum(answer.tokens_in for answer in answers),
            sum(answer.tokens_out for answer in answers),
            sum(answer.usd for answer in answers),
            sum(answer.state == "unscored" for answer in answers),
        )
    verdicts = {verdict.fact_id: verdict for verdict in found.card.verdicts}
    chances: Chances = {}
    for at, fact in zip(asked, facts, strict=True):
        verdict = verdicts[fact.id]
        chance = None if verdict.state == "unscored" else verdict.probability
        chances[at] = (chance, verdict.reason)
    return chances


async def fingerprints(judges: Sequence[Judge]) -> Mapping[str, str]:
    """Judge id → fingerprint."""

    def read() -> dict[str, str]:
        return {judge.id: judge.fingerprint for judge in judges}

    return await asyncio.to_thread(read)
