"""What REAL costs a picture and how far its answers are right: in the paper's way, and in ours.

``python -m benchmarks.real_cost [--quick]``. Painted scenes are asked about with a schema of their
own (existence, then a part and a colour for each object). The paintings lack up to two of the parts
and paint up to two of the others in another colour than the schema says, so every question has a
right answer that is known, and colours can be wrong. The judge answers behind the mock, which holds
each request for 200 ms, in OpenAI's wire format; tokens are counted and priced as gpt-4o's (tiles
of 128-pixel pictures).

- ``sequential``: one question a call, one call after the other, one picture after the other, and
  what is missing is not asked further: the way of REAL, which quotes 0.03 USD and 10 s a picture;
- ``waves``: existence and all parts in one call, the visible parts' matches in a second one;
  sixteen pictures side by side;
- ``together``: all in one call; what hangs on something missing is void afterwards.

``usd_per_image.WAY`` and ``latency.WAY`` (seconds of one picture) have intervals over pictures,
``seconds_per_image.WAY`` (wall time of all pictures divided by their number) over rounds; without
``.WAY`` they are those of ``waves``, the default. ``usd_over_paper`` and ``seconds_over_paper``
divide them by the paper's; ``questions`` is how many there are a picture.

Whether several questions in one call are answered as well as single ones:

- ``right.WAY``: share of the answered questions of a picture whose answer is right,
  ``right.colors.WAY`` of those about colours; ``right.colors.majority`` and ``.random`` are those
  of the more frequent answer to all of them, and of a coin;
- ``changed.WAY``: share of the questions answered in both ways whose answer is another than with
  single questions;
- ``s_att.WAY`` is weighted by probabilities, ``s_att_hard.WAY`` the paper's; ``s_att.exact`` is R /
  C of what was painted, ``s_att_error.WAY`` and ``s_att_hard_error.WAY`` the distances from it.

The mock's model answers each question by itself: with it batching can lose nothing but what the
wire format loses. A language model may answer otherwise, which the same figures would show.
"""

from __future__ import annotations

import asyncio
import random
import time
from argparse import Namespace
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

from PIL import Image

from benchmarks._harness import Option, Progress, benchmark, interval
from benchmarks._mock import MockServer
from scenewright.agents.judges.remote import remote_judge
from scenewright.agents.panel.panel import Panel
from scenewright.config.options import Asking
from scenewright.core.facts import Fact, State
from scenewright.core.images import hash_of_image
from scenewright.core.scene import Attributes, SceneGraph
from scenewright.evals.runner.judging import JudgePanel, judge_picture
from scenewright.evals.studies.real.real_scorer import RealScorer
from scenewright.evals.studies.real.schema import AttributeSchema, ClassSchema
from scenewright.evals.studies.real.scoring import questions_of
from scenewright.miniature.painter import paint
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.world import COLORS
from scenewright.mock_providers.settings import MockSettings
from scenewright.providers import AnswerStore
from scenewright.providers.caller import Caller, Limits

Way = Literal["sequential", "waves", "together"]
WAYS: tuple[Way, ...] = ("sequential", "waves", "together")
PAPER = {"usd": 0.03, "seconds": 10.0}
"""REAL, for a picture."""
LATENCY = 0.2
AT_ONCE = 16
MODEL = "gpt-4o"
PICTURES, QUICK = 40, 6
ROUNDS = 3
OBJECTS = 5
SEED = 23


@dataclass(frozen=True, slots=True)
class Case:
    """A painting and the schema of its class."""

    image: Image.Image
    """The painting."""
    digest: str
    """Its content hash."""
    schema: ClassSchema
    """What is asked."""
    there: frozenset[str]
    """Names of the things that are painted."""
    wrong: frozenset[str]
    """Those of them that have another colour than the schema says."""

    @property
    def exact(self) -> float:
        """S_att of what was painted."""
        return 1 - len(self.wrong) / len(self.there)

    def right(self, fact: Fact) -> State:
        """Return the right answer to a question."""
        seen = fact.subject in self.there
        if fact.kind == "attribute":
            if not seen:
                return "void"
            return "no" if fact.subject in self.wrong else "yes"
        # Existence has the scene's name for its subject; the first thing is always painted.
        return "yes" if seen or fact.id.startswith("exists:") else "no"

    def load(self) -> Image.Image:
        """Return the painting."""
        return self.image


def cases_of(count: int) -> list[Case]:
    """Return ``count`` scenes of :data:`OBJECTS` different coloured things, each as a class.

    With a painting of it that lacks 0, 1 or 2 of all things but the first, and has 0, 1 or 2 of the
    rest in a wrong colour.
    """
    rng = random.Random(SEED)
    found: list[Case] = []
    while len(found) < count:
        scene = sample_painting(rng, OBJECTS).scene
        if len({item.name for item in scene.objects}) < OBJECTS:
            continue
        first, *rest = [item.id for item in scene.objects]
        kept = [first, *rng.sample(rest, len(rest) - len(found) % 3)]
        wrong = rng.sample(kept, len(found) // 3 % 3)
        shown = scene.subgraph(set(kept), [])
        image = paint(recolored(shown, wrong, rng), seed=len(found)).image
        names = {item.id: item.name for item in scene.objects}
        schema, _ = AttributeSchema.of_scene(scene, f"scene {len(found)}")
        assert schema is not None
        existence = f"Is there a {scene.object(first).name} in the image?"
        schema = schema.model_copy(update={"existence": existence})
        found.append(
            Case(
                image,
                hash_of_image(image),
                ClassSchema(schema.name, schema),
                frozenset(names[id_] for id_ in kept),
                frozenset(names[id_] for id_ in wrong),
            )
        )
    return found


def recolored(scene: SceneGraph, wrong: Collection[str], rng: random.Random) -> SceneGraph:
    """Return ``scene`` with the objects of the ids ``wrong`` in other colours."""
    objects = []
    for item in scene.objects:
        if item.id in wrong:
            color = rng.choice(sorted(COLORS.keys() - {item.attributes["color"]}))
            item = item.model_copy(
                update={"attributes": Attributes({**item.attributes, "color": color})}
            )
        objects.append(item)
    return SceneGraph(objects=tuple(objects), relations=scene.relations)


@dataclass(frozen=True, slots=True)
class Look:
    """What was found in a picture."""

    row: Mapping[str, Any]
    """Columns of its row of scores."""
    states: Mapping[str, State]
    """Id of a question → how it was answered."""
    answers: int


async def looked_at(
    cases: Sequence[Case], way: Way, url: str, key: str
) -> tuple[list[Look], float]:
    """Return what was found in each picture, and the wall time of all.

    ``key``: of the account. Each round has its own: the mock replays what one key asks twice.
    """
    alone = way == "sequential"
    caller = Caller("openai", Limits(concurrent=1 if alone else AT_ONCE))
    judge = remote_judge(
        "openai",
        MODEL,
        caller,
        api_key=key,
        base_url=f"{url}/v1",
        overrides={"facts_per_call": 1 if alone else 64},
    )
    rows: list[Mapping[str, Any]] = [{}] * len(cases)
    waiting = iter(enumerate(cases))
    with closing(AnswerStore(None)) as store:
        asking: Asking = "together" if way == "together" else "waves"
        scorer = RealScorer([judge], store, wording="plain", asking=asking)

        async def work() -> None:
            for at, case in waiting:
                rows[at], _ = await scorer.look(case.digest, case.load, case.schema)

        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(1 if alone else AT_ONCE):
                group.create_task(work())
        seconds = time.perf_counter() - started
        panel, looks = JudgePanel("real", (judge,), Panel()), []
        for case, row in zip(cases, rows, strict=True):
            # All answers are in the store by now.
            told = await judge_picture(
                panel, case.digest, case.load, facts_of(case), store=store, asking=asking
            )
            states = {verdict.fact_id: verdict.state for verdict in told.card.verdicts}
            looks.append(Look(row, states, sum(map(len, told.answers.values()))))
    await judge.aclose()
    await caller.aclose()
    if lost := sum(one.row["unscored"] for one in looks):
        raise RuntimeError(f"{lost} unscored answers in a benchmark without faults")
    return looks, seconds


async def measure(cases: Sequence[Case], rounds: int) -> dict[str, Any]:
    """Return all figures of ``cases``.

    ``rounds`` of the ways that look at several pictures at once.
    """
    figures: dict[str, Any] = {"paper.usd": PAPER["usd"], "paper.seconds": PAPER["seconds"]}
    found: dict[Way, Sequence[Look]] = {}
    shown = Progress(1 + 2 * rounds)
    with MockServer(MockSettings(latency=LATENCY)) as lab:
        # The mock server's model is loaded by its first request, which is not measured.
        await looked_at(cases[:1], "together", lab.url, "warm")
        for way in WAYS:
            walls: list[float] = []
            looks: list[Look] = []
            for number in range(1 if way == "sequential" else rounds):
                looks, wall = await looked_at(cases, way, lab.url, f"{way}-{number}")
                walls.append(wall / len(cases))
                shown.step()
            each = [one.row["seconds"] for one in looks]
            figures[f"usd_per_image.{way}"] = interval([one.row["usd"] for one in looks])
            figures[f"tokens.{way}"] = interval([one.row["tokens"] for one in looks])
            figures[f"latency.{way}"] = interval(each)
            figures[f"seconds_per_image.{way}"] = interval(each if way == "sequential" else walls)
            found[way] = looks
            if way == "together":
                figures["questions"] = interval([one.answers for one in looks])
    figures |= accuracy_figures(cases, found)
    for name in ("usd_per_image", "seconds_per_image"):
        figures[name] = figures[f"{name}.waves"]
        for way in WAYS:
            kind = name.removesuffix("_per_image")
            figures[f"{kind}_over_paper.{way}"] = figures[f"{name}.{way}"]["mean"] / PAPER[kind]
    return figures


def accuracy_figures(cases: Sequence[Case], found: Mapping[Way, Sequence[Look]]) -> dict[str, Any]:
    """Return ``right.*``, ``changed.*`` and ``s_att*``; intervals over pictures."""
    figures: dict[str, Any] = {"s_att.exact": interval([case.exact for case in cases])}
    every = [
        case.right(fact) == "yes"
        for case in cases
        for fact in facts_of(case)
        if fact.kind == "attribute" and case.right(fact) != "void"
    ]
    share = sum(every) / len(every)
    figures |= {"right.colors.majority": max(share, 1 - share), "right.colors.random": 0.5}
    single = [one.states for one in found["sequential"]]
    for way, looks in found.items():
        states = [one.states for one in looks]
        for name in ("s_att", "s_att_hard"):
            known = [
                (case.exact, value)
                for case, one in zip(cases, looks, strict=True)
                if (value := one.row.get(name)) is not None
            ]
            figures[f"{name}.{way}"] = interval([value for _, value in known])
            figures[f"{name}_error.{way}"] = interval([abs(a - b) for a, b in known])
        for name, kinds in (("right", None), ("right.colors", ("attribute",))):
            figures[f"{name}.{way}"] = interval(
                _shares(
                    [said[fact.id] == case.right(fact) for fact in _answered(case, said, kinds)]
                    for case, said in zip(cases, states, strict=True)
                )
            )
        if way != "sequential":
            figures[f"changed.{way}"] = interval(
                _shares(
                    [
                        said[id_] != before[id_]
                        for id_ in said
                        if "void" not in (said[id_], before[id_])
                    ]
                    for said, before in zip(states, single, strict=True)
                )
            )
    return figures


def facts_of(case: Case) -> Sequence[Fact]:
    """Return the questions of a case."""
    return questions_of(case.schema.attributes, None, "plain").facts


def _answered(case: Case, said: Mapping[str, State], kinds: Collection[str] | None) -> list[Fact]:
    """Return the questions that have a right answer and got one."""
    return [
        fact
        for fact in facts_of(case)
        if (kinds is None or fact.kind in kinds) and "void" not in (said[fact.id], case.right(fact))
    ]


def _shares(rows: Iterable[Sequence[bool]]) -> list[float]:
    return [sum(row) / len(row) for row in rows if row]


@benchmark("few pictures", pictures=Option(PICTURES, "pictures", least=2))
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure all ways of asking."""
    cases = cases_of(QUICK if options.quick else options.pictures)
    return len(cases), asyncio.run(measure(cases, 2 if options.quick else ROUNDS))


if __name__ == "__main__":
    main()
