"""Tokens that an image's facts take, asked in four ways.

``python -m benchmarks.tokens [--quick]``. Objects and relations (what SGScore counts) of the loop
benchmark's scenes are asked about paintings that lack up to two of the objects, so that the
truth of each fact is known:

- ``one_by_one``: each fact with the image in a call of its own;
- ``together``: all facts of the image in one call;
- ``written_out``: the same with every question in full words, where ``together`` writes what
  questions share once;
- ``void_skipping``: the objects in one call, then in a second one the relations whose objects
  are there; what lacks an object is not asked and counts as not satisfied.

A miniature judge answers behind the mock, in Gemini's wire format (the paper's judge is Gemini
1.5 Flash), in OpenAI's (tiles of gpt-4o) and in Anthropic's. ``input`` and ``output`` are tokens an
image, as the mock counts them: text, tools and schemas by chars/4, the image (128 pixels a side) by
the provider's published rule. Keys without a provider are Gemini's. ``accuracy`` is the share of
facts rightly found to hold or not; ``changed`` is the share of answers that differ from those of
``one_by_one``. The judge behind the mock looks at one question at a time and reads it as it was
before it was shortened, so that these must agree; a model that reads them together may answer
otherwise.
"""

from __future__ import annotations

import asyncio
import random
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from PIL import Image

from benchmarks._harness import Option, benchmark, intervals, progress
from benchmarks._scenes import balanced_scenes
from scenewright.agents.judges.remote import remote_judge
from scenewright.agents.panel.panel import Panel, next_wave, void_verdicts
from scenewright.core.facts import Answer, Fact, Verdict
from scenewright.core.ports.judge import Judge
from scenewright.core.questions import QuestionForm
from scenewright.core.scene import SceneGraph
from scenewright.miniature.painter import paint
from scenewright.mock_providers import serving_thread
from scenewright.providers.caller import Caller

Way = Literal["one_by_one", "together", "written_out", "void_skipping"]
WAYS: tuple[Way, ...] = get_args(Way)
PROVIDERS = ("gemini", "openai", "anthropic")
MODEL = "judge-a"
PAPER = {"input": 940, "output": 780}
"""Tokens an image in Scene-Bench (5,000 images, Gemini 1.5 Flash)."""
SCENES = 90
FORM = QuestionForm(predicates="miniature")
"""The protocol that leaves out what hangs on an absent thing."""


@dataclass(frozen=True, slots=True)
class Case:
    """A painting and what is asked of it."""

    image: Image.Image
    """The painting."""
    facts: tuple[Fact, ...]
    """Objects and relations of the asked scene."""
    holds: tuple[bool, ...]
    """Whether each is true of the painting."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What one way took for one image."""

    tokens_in: int
    """Input tokens."""
    tokens_out: int
    """Output tokens."""
    calls: int
    """Calls of the model."""
    right: float
    """Share of facts with the right verdict."""
    answers: dict[str, str]
    """What was chosen, by fact."""

    def changed(self, other: Spent) -> float:
        """Return share of the facts answered here that ``other`` answers otherwise."""
        apart = [other.answers[fact] != choice for fact, choice in self.answers.items()]
        return sum(apart) / len(apart)


def case_of(scene: SceneGraph, at: int) -> Case:
    """Return ``scene`` asked about a painting of it without 0, 1 or 2 of its objects."""
    rng = random.Random(f"tokens/{at}")
    lacking = min(at % 3, len(scene.objects) - 1)
    kept = set(rng.sample([item.id for item in scene.objects], len(scene.objects) - lacking))
    relations = [r for r in scene.relations if r.source in kept and r.target in kept]
    painting = paint(scene.subgraph(kept, relations), seed=at)
    facts = tuple(fact for fact in FORM.facts(scene) if fact.kind != "attribute")
    return Case(painting.image, facts, tuple(painting.truth.holds(f, scene) for f in facts))


async def asked(judge: Judge, case: Case, way: Way) -> Spent:
    """Return the facts of ``case`` put to ``judge`` in one of the ways."""
    answers: list[Answer] = []
    known: dict[str, Verdict] = {}
    calls = 0

    async def call(facts: Sequence[Fact]) -> None:
        nonlocal calls
        calls += 1
        found = await judge.answer(case.image, facts)
        lost = [answer.reason for answer in found if answer.state == "unscored"]
        if lost:
            raise RuntimeError(f"unscored in a benchmark without faults: {lost[0]}")
        answers.extend(found)

    if way == "void_skipping":
        panel = Panel()
        while wave := next_wave(case.facts, known):
            await call(wave)
            for verdict in panel.verdicts(wave, {judge.id: answers}, known):
                known[verdict.fact_id] = verdict
            for verdict in void_verdicts(case.facts, known):
                known[verdict.fact_id] = verdict
        found = {fact_id: verdict.state == "yes" for fact_id, verdict in known.items()}
    else:
        for facts in [(fact,) for fact in case.facts] if way == "one_by_one" else [case.facts]:
            await call(facts)
        found = {answer.fact_id: answer.state == "yes" for answer in answers}
    right = [found[f.id] == holds for f, holds in zip(case.facts, case.holds, strict=True)]
    return Spent(
        tokens_in=sum(answer.tokens_in for answer in answers),
        tokens_out=sum(answer.tokens_out for answer in answers),
        calls=calls,
        right=sum(right) / len(right),
        answers={answer.fact_id: str(answer.choice) for answer in answers},
    )


async def measure(cases: Sequence[Case]) -> dict[str, Any]:
    """Return all figures of ``cases``."""
    figures: dict[str, Any] = {
        "facts_per_image": sum(len(case.facts) for case in cases) / len(cases),
        "paper.input": PAPER["input"],
        "paper.output": PAPER["output"],
    }
    with serving_thread() as lab:
        for provider in PROVIDERS:
            caller = Caller("lab", priced=False)
            url = lab.openai_url if provider == "openai" else lab.url
            judges = {
                stems: remote_judge(
                    provider,
                    MODEL,
                    caller,
                    api_key="bench",
                    base_url=url,
                    overrides={"facts_per_call": 64, "stems": stems},
                )
                for stems in (True, False)
            }
            spent: dict[Way, list[Spent]] = {way: [] for way in WAYS}
            for case in progress(cases, note=provider):
                for way in WAYS:
                    spent[way].append(await asked(judges[way != "written_out"], case, way))
            for judge in judges.values():
                await judge.aclose()
            await caller.aclose()
            for way, rows in spent.items():
                name = way if provider == PROVIDERS[0] else f"{provider}.{way}"
                pairs = zip(rows, spent["one_by_one"], strict=True)
                figures |= intervals(
                    [
                        {
                            "input": row.tokens_in,
                            "output": row.tokens_out,
                            "accuracy": row.right,
                            "calls": row.calls,
                            "changed": row.changed(alone),
                        }
                        for row, alone in pairs
                    ],
                    f"{name}.",
                )
    for part, paper in PAPER.items():
        for way in WAYS:
            figures[f"{way}.{part}_over_paper"] = figures[f"{way}.{part}"]["mean"] / paper
    return figures


@benchmark("six scenes", scenes=Option(SCENES, "scenes", least=3))
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure all ways of asking."""
    count = 6 if options.quick else options.scenes
    cases = [case_of(scene, at) for at, scene in enumerate(balanced_scenes(count))]
    return count, asyncio.run(measure(cases))


if __name__ == "__main__":
    main()
