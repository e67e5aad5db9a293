"""The model calls of a run without the run: the same images and questions in a bare loop.

The calls are read from the event log. What a run does side by side (the judges of one wave,
the candidates of the report) is done side by side here too, so that the difference in time
is the engine's alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from scenewright.core.facts import Fact
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import GenerationRequest
from scenewright.core.ports.judge import Judge
from scenewright.graphs.eventlog import read_events
from scenewright.graphs.events import Answered, Event, Generated, RunStarted
from scenewright.providers import fact_digest
from scenewright.runs.folder import EVENTS, IMAGES
from scenewright.runs.model_factory.profiles import RunModels


@dataclass(frozen=True, slots=True)
class Question:
    """One call of a judge."""

    judge: str
    """The judge's id."""
    image: str
    """Content hash."""
    facts: tuple[Fact, ...]
    """What it was asked, each question once."""


Chain = list[list[Question]]
"""Waves, one after the other; the questions of a wave go side by side."""


@dataclass(slots=True)
class Stage:
    """A drawing, or chains of questions that go side by side."""

    request: GenerationRequest | None = None
    """What is drawn."""
    image: str = ""
    """The content hash that it gave."""
    given: dict[str, Image.Image] = field(default_factory=dict)
    """Pictures of the request that no drawing gave: masks, and what the run put together."""
    chains: dict[str, Chain] = field(default_factory=dict)
    """Chains of questions by round and role."""


def calls_of(folder: Path) -> list[Stage]:
    """The model calls of the finished run in ``folder``, in their order.

    Calls that the run was spared, because it had the answer already, are left out. Raises
    ``ValueError`` if a drawing was not made by this run.
    """
    images = ImageStore(folder / IMAGES)
    stages = stages_of(read_events(folder / EVENTS))
    drawn = {stage.image for stage in stages}
    for stage in stages:
        if stage.request is not None:
            names = _named(stage.request) - drawn
            stage.given = {name: images.get(name) for name in sorted(names)}
    return stages


def _named(request: GenerationRequest) -> set[str]:
    """The pictures that drawing ``request`` may load."""
    names = {request.start.image, request.start.mask} if request.start else set()
    names |= {name for shown in request.references for name in (shown.image, shown.mask)}
    return {name for name in names if name is not None}


def stages_of(events: Sequence[Event]) -> list[Stage]:
    """:func:`calls_of` from a run's events."""
    facts: dict[str, Fact] = {}
    stages: list[Stage] = []
    waves: dict[str, list[Question]] = {}
    for event in events:
        if isinstance(event, RunStarted):
            facts = {fact.id: fact for fact in event.facts}
        elif isinstance(event, Generated):
            if event.cached:
                raise ValueError(f"{event.key} was not drawn by this run: replay a fresh one")
            stages.append(Stage(request=event.request, image=event.image))
        elif isinstance(event, Answered) and not event.cached:
            if stages[-1].request is not None:
                stages.append(Stage())
            asked = {fact_digest(facts[a.fact_id]): facts[a.fact_id] for a in event.answers}
            chain = stages[-1].chains.setdefault(f"r{event.round}:{event.role}", [])
            wave = event.key.removesuffix(f":{event.judge_id}:answered")
            if wave not in waves:
                waves[wave] = []
                chain.append(waves[wave])
            waves[wave].append(Question(event.judge_id, event.image, tuple(asked.values())))
    return stages


async def replay(stages: Sequence[Stage], run_models: RunModels) -> None:
    """Make the calls of ``stages`` with the models of ``run_models``; nothing is kept."""
    judges = {judge.id: judge for judge in (*run_models.loop_judges, *run_models.report_judges)}
    images: dict[str, Image.Image] = {}
    for stage in stages:
        images |= stage.given
        if stage.request is not None:
            drawn = await run_models.backend.generate(stage.request, images.__getitem__)
            images[stage.image] = drawn.image
        await asyncio.gather(*(_ask(chain, judges, images) for chain in stage.chains.values()))


async def _ask(
    chain: Chain, judges: Mapping[str, Judge], images: Mapping[str, Image.Image]
) -> None:
    for wave in chain:
        await asyncio.gather(*(judges[q.judge].answer(images[q.image], q.facts) for q in wave))
