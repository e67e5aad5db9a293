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

from scenewright.agents.panel.panel import Panel, next_wave, void_verdicts
from scenewright.config import OnModelChange
from scenewright.config.settings import Asking
from scenewright.core.facts import Answer, Fact, ScoreCard, Verdict
from scenewright.core.ports.judge import Judge, JudgeCaps, JudgeError
from scenewright.core.questions import Protocol
from scenewright.providers import Answers, ask
from scenewright.providers.judge_calls import with_costs
from scenewright.providers.sdk_clients import identified
from scenewright.providers.usage import ExpectedUsage
from scenewright.providers.versions import served_version, versions_of

_LOOKS = 4
"""Looks at a picture until all answers of a judge are of one served version."""


@dataclass(frozen=True, slots=True)
class ToolCallSource:
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
class PanelJudgement:
    """What a panel found in a picture."""

    card: ScoreCard
    """Verdicts and scores."""
    answers: dict[str, list[Answer]]
    """Judge id → its answers, in the order of the facts."""


async def judge_picture(
    judge_panel: ToolCallSource,
    image: str,
    load: Callable[[], Image.Image],
    facts: Sequence[Fact],
    *,
    store: Answers,
    alpha: float = 0.5,
    asking: Asking = "waves",
    limit: float | None = None,
    origin: str = "",
    on_model_change: OnModelChange = "accept",
) -> PanelJudgement:
    """Ask every judge of ``judge_panel`` the ``facts`` of the picture with content hash ``image``.

    ``load`` gives its pixels, and is called in a thread. A fact whose parent is absent is void and
    not asked; ``together`` asks all at once. Answers come from ``store`` where they are there, and
    ``origin`` pays for the others. ``limit``: seconds of one call of a judge.

    Unless ``on_model_change`` accepts it, the answers of a judge are of one served version: where
    the version changes between two calls, the picture is looked at again. Raises ``ImageError`` and
    ``StoreError``, and ``JudgeError`` for a judge whose version changes from call to call; what a
    judge does wrong otherwise is an unscored answer.
    """
    looks: list[dict[str, list[Answer]]] = []
    while True:
        found = await _look(
            judge_panel, image, load, facts, store, alpha, asking=asking, limit=limit, origin=origin
        )
        served = {judge: versions_of(given) for judge, given in found.answers.items()}
        mixed = {judge: versions for judge, versions in served.items() if len(versions) > 1}
        if not mixed or on_model_change == "accept":
            return _with_lost(found, looks, bool(origin))
        looks.append(found.answers)
        if len(looks) == _LOOKS:
            said = "; ".join(f"{judge} as {' and '.join(by)}" for judge, by in mixed.items())
            raise JudgeError(
                f"a judge is served by several models in turns ({said}), so that no picture is "
                "judged by one: name one version in the judge's id, or set "
                "on_model_change = 'accept'"
            )


def _with_lost(
    found: PanelJudgement, looks: Sequence[dict[str, list[Answer]]], paid: bool
) -> PanelJudgement:
    """``found`` with the costs of those answers of earlier ``looks`` that are not in it; ``paid``:
    answers from the store carry what this look paid for them."""
    answers = dict(found.answers)
    for judge, given in answers.items():
        versions = versions_of(given)
        lost = [
            answer
            for look in looks
            for answer in look[judge]
            if not paid or served_version(answer) not in versions
        ]
        if lost and given:
            answers[judge] = with_costs(given, lost)
    return replace(found, answers=answers)


async def _look(
    judge_panel: ToolCallSource,
    image: str,
    load: Callable[[], Image.Image],
    facts: Sequence[Fact],
    store: Answers,
    alpha: float,
    *,
    asking: Asking,
    limit: float | None,
    origin: str,
) -> PanelJudgement:
    """:func:`judge_picture`, once."""
    answers: dict[str, list[Answer]] = {judge.id: [] for judge in judge_panel.judges}
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
        later: list[Fact] = []
        if pixels is None:
            pixels = await asyncio.to_thread(load)
            now = {fact.id for fact in asked}
            later = [fact for fact in facts if fact.id not in known and fact.id not in now]
        for judge, given in zip(
            judge_panel.judges,
            await asyncio.gather(
                *(
                    _ask(judge, image, pixels, asked, store, limit, origin, later)
                    for judge in judge_panel.judges
                )
            ),
            strict=True,
        ):
            answers[judge.id] += given
        for verdict in judge_panel.panel.verdicts(asked, answers, known):
            known[verdict.fact_id] = verdict
    order = {fact.id: at for at, fact in enumerate(facts)}
    for said in answers.values():
        said.sort(key=lambda answer: order[answer.fact_id])
    return PanelJudgement(ScoreCard.of(facts, known.values(), alpha), answers)


def expected_of(
    judge: Any, size: tuple[int, int], facts: Sequence[Fact], asking: Asking
) -> ExpectedUsage:
    """What asking a judge the ``facts`` of a picture of ``size`` pixels takes at most; nothing of a
    judge that does not say.

    Asked in waves, the picture is sent again for what depends on its objects, unless the judge is
    asked all at once.
    """
    expected = getattr(judge, "expected", None)
    total = ExpectedUsage()
    if expected is None or not facts:
        return total
    waves = [[f for f in facts if not f.parents], [f for f in facts if f.parents]]
    caps: JudgeCaps | None = getattr(judge, "caps", None)
    whole = asking == "together" or (caps is not None and caps.at_once)
    for wave in [list(facts)] if whole else waves:
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
    ahead: Sequence[Fact],
) -> tuple[Answer, ...]:
    with identified(f"{origin}:{judge.id}" if origin else ""):
        asked = await ask(
            judge, image, pixels, facts, store=store, limit=limit, origin=origin, ahead=ahead
        )
    return asked.answers
