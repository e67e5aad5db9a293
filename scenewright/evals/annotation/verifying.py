"""Relations that models name, put to a panel of judges: the second way to a consensus.

A model that draws up a graph names what comes to mind; a judge who is asked about one relation,
with wrong ones beside it, has to look. The questions are those of the benchmark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from PIL import Image

from scenewright.agents.panel.panel import Panel
from scenewright.core.ports.judge import Judge
from scenewright.core.questions import NO_RELATION, facts_of
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.evals.annotation.votes import Claim
from scenewright.evals.runner.judging import ToolCallSource, judge_picture
from scenewright.evals.store.ledger import Photo
from scenewright.providers import Answers

Chances = dict[int, tuple[float | None, str]]
"""Number of a claim → the judges' probability that it holds, or none with the reason."""

Spending = Callable[[str, int, int, float, int], None]
"""Is told judge, tokens in, tokens out, dollars and unscored answers."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A photo and what models say of it."""

    photo: Photo
    """The photo."""
    claims: tuple[Claim, ...]
    """All relations that are named."""

    @property
    def id(self) -> str:
        """The photo's."""
        return self.photo.id


@dataclass(frozen=True, slots=True)
class Verified:
    """What judges said of one photo's claims."""

    chances: Chances
    """Claim by claim."""
    spent: tuple[tuple[str, int, int, float, int], ...]
    """(judge, tokens in, tokens out, dollars, unscored answers) of each."""


Verify = Callable[[Iterator[Claimed], Callable[[Claimed, Verified], None]], Awaitable[None]]
"""Puts claims to judges; tells of each photo as it is done."""


def scene_of(photo: Photo, claims: Sequence[Claim]) -> SceneGraph:
    """The photo's objects, and the relations of ``claims``."""
    return SceneGraph(
        objects=tuple(SceneObject(id=id_, name=name) for id_, name, _ in photo.objects),
        relations=tuple(
            Relation(source=s, predicate=p, target=t) for s, p, t in (c.triple for c in claims)
        ),
    )


async def verify(
    claimed: Claimed,
    judges: Sequence[Judge],
    store: Answers,
    load: Callable[[], Image.Image],
) -> Verified:
    """What ``judges`` say of each claim, all of them asked at once; answers are kept in ``store``.

    Detections are taken as given: only relations are asked. ``load`` gives the photo, and is called
    in a thread. Raises ``ImageError`` and ``StoreError``.
    """
    photo, claims = claimed.photo, claimed.claims
    asked = [at for at, claim in enumerate(claims) if claim.triple[1] != NO_RELATION]
    if not asked:
        return Verified({}, ())
    facts = [
        fact.model_copy(update={"parents": ()})
        for fact in facts_of(scene_of(photo, [claims[at] for at in asked]))
        if fact.kind == "relation"
    ]

    judge_panel = ToolCallSource("annotation", tuple(judges), Panel())
    found = await judge_picture(
        judge_panel, photo.digest, load, facts, store=store, asking="together", origin="annotate"
    )
    spent = tuple(
        (
            judge,
            sum(answer.tokens_in for answer in answers),
            sum(answer.tokens_out for answer in answers),
            sum(answer.usd for answer in answers),
            sum(answer.state == "unscored" for answer in answers),
        )
        for judge, answers in found.answers.items()
    )
    verdicts = {verdict.fact_id: verdict for verdict in found.card.verdicts}
    chances: Chances = {}
    for at, fact in zip(asked, facts, strict=True):
        verdict = verdicts[fact.id]
        chance = None if verdict.state == "unscored" else verdict.probability
        chances[at] = (chance, verdict.reason)
    return Verified(chances, spent)


async def fingerprints(judges: Sequence[Judge]) -> Mapping[str, str]:
    """Judge id → fingerprint."""

    def read() -> dict[str, str]:
        return {judge.id: judge.fingerprint for judge in judges}

    return await asyncio.to_thread(read)
