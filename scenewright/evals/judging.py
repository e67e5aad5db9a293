"""A panel looks at one picture: the facts go out in waves, the answers become a score card.

The same rules as in :mod:`scenewright.graphs.verify`, for any facts (a dataset's own questions
too) and without a run's log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from PIL import Image

from scenewright.agents.judges.base import Judge
from scenewright.agents.panel import Panel, next_wave, void_verdicts
from scenewright.calls import Answers, ask
from scenewright.calls.idempotency import identified
from scenewright.calls.usage import Expected
from scenewright.facts import Answer, Fact, ScoreCard, Verdict
from scenewright.questions import Protocol
from scenewright.settings import Asking


@dataclass(frozen=True, slots=True)
class Seat:
    """A panel with its judges."""

    name: str
    """How the configuration calls it."""
    judges: tuple[Judge, ...]
    """Who answers."""
    panel: Panel
    """How answers become verdicts."""
    protocol: Protocol | None = None
    """How it asks about scenes, where that is not the evaluation's own protocol."""

    @property
    def configured(self) -> str:
        """The panel of the configuration that it is."""
        return self.name if self.protocol is None else self.name.removesuffix(f":{self.protocol}")

    def beside(self, protocol: Protocol) -> Self:
        """The same panel asking by another protocol, as ``NAME:PROTOCOL``."""
        return replace(self, name=f"{self.name}:{protocol}", protocol=protocol)


@dataclass(frozen=True, slots=True)
class Judged:
    """What a panel found in a picture."""

    card: ScoreCard
    """Verdicts and scores."""
    answers: dict[str, list[Answer]]
    """Judge id → its answers, in the order of the facts."""


async def judge_picture(
    seat: Seat,
    image: str,
    load: Callable[[], Image.Image],
    facts: Sequence[Fact],
    *,
    store: Answers,
    alpha: float = 0.5,
    asking: Asking = "waves",
    limit: float | None = None,
    origin: str = "",
) -> Judged:
    """Ask every judge of ``seat`` the ``facts`` of the picture with content hash ``image``.

    ``load`` gives its pixels, and is called in a thread. A fact whose parent is absent is void and
    not asked; ``together`` asks all at once. Answers come from ``store`` where they are there, and
    ``origin`` pays for the others. ``limit``: seconds of one call of a judge. Raises
    ``ImageError`` and ``StoreError``; what a judge does wrong is an unscored answer.
    """
    answers: dict[str, list[Answer]] = {judge.id: [] for judge in seat.judges}
    known: dict[str, Verdict] = {}
    pixels: Image.Image | None = None
    while True:
        for verdict in void_verdicts(facts, known):
            known[verdict.fact_id] = verdict
        asked = (
            tuple(fact for fact in facts if fact.id not in known)
            if asking == "together"
            else next_wave(facts, known)
        )
        if not asked:
            break
        if pixels is None:
            pixels = await asyncio.to_thread(load)
        for judge, given in zip(
            seat.judges,
            await asyncio.gather(
                *(_ask(judge, image, pixels, asked, store, limit, origin) for judge in seat.judges)
            ),
            strict=True,
        ):
            answers[judge.id] += given
        for verdict in seat.panel.verdicts(asked, answers, known):
            known[verdict.fact_id] = verdict
    order = {fact.id: at for at, fact in enumerate(facts)}
    for said in answers.values():
        said.sort(key=lambda answer: order[answer.fact_id])
    return Judged(ScoreCard.of(facts, known.values(), alpha), answers)


def expected_of(
    judge: Any, size: tuple[int, int], facts: Sequence[Fact], asking: Asking
) -> Expected:
    """What asking a judge the ``facts`` of a picture of ``size`` pixels takes at most; nothing of a
    judge that does not say.

    Asked in waves, the picture is sent again for what depends on its objects.
    """
    expected = getattr(judge, "expected", None)
    total = Expected()
    if expected is None or not facts:
        return total
    waves = [[f for f in facts if not f.parents], [f for f in facts if f.parents]]
    for wave in [list(facts)] if asking == "together" else waves:
        if wave:
            total = total + expected(size, wave)
    return total


async def _ask(
    judge: Judge,
    image: str,
    pixels: Image.Image,
    facts: Sequence[Fact],
    store: Answers,
    limit: float | None,
    origin: str,
) -> tuple[Answer, ...]:
    with identified(f"{origin}:{judge.id}" if origin else ""):
        asked = await ask(judge, image, pixels, facts, store=store, limit=limit, origin=origin)
    return asked.answers
