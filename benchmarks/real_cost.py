"""What REAL costs a picture: in the paper's way, and in ours.

``python -m benchmarks.real_cost [--quick]``. Painted scenes are asked about with a schema of their
own (existence, then a part and a colour for each object), and the paintings lack up to two of the
parts. The judge answers behind the lab, which holds each request for 200 ms, in OpenAI's wire
format; tokens are counted and priced as gpt-4o's (tiles of 128-pixel pictures).

- ``sequential``: one question a call, one call after the other, one picture after the other, and
  what is missing is not asked further: the way of REAL, which quotes 0.03 USD and 10 s a picture;
- ``waves``: existence and all parts in one call, the visible parts' matches in a second one;
  sixteen pictures side by side;
- ``together``: all in one call; what hangs on something missing is void afterwards.

``usd_per_image.WAY`` and ``latency.WAY`` (seconds of one picture) have intervals over pictures,
``seconds_per_image.WAY`` (wall time of all pictures divided by their number) over rounds; without
``.WAY`` they are those of ``waves``, the default. ``usd_over_paper`` and ``seconds_over_paper``
divide them by the paper's. ``s_att.WAY`` tells that the ways agree, ``questions`` how many there
are a picture.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

from PIL import Image

from benchmarks._lab_process import lab_process
from benchmarks._pool import Progress
from benchmarks._report import interval, report
from scenewright.agents.judges.remote import remote_judge
from scenewright.calls import AnswerStore
from scenewright.calls.caller import Caller, Limits
from scenewright.evals.real.asking import Looked, RealScorer
from scenewright.evals.real.schema import AttributeSchema
from scenewright.evals.real.schema_files import ClassSchema
from scenewright.images import hash_of_image
from scenewright.lab.settings import LabSettings
from scenewright.miniature.painter import paint
from scenewright.miniature.sampler import sample_painting
from scenewright.settings import Asking

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

    def load(self) -> Image.Image:
        """The painting."""
        return self.image


def cases_of(count: int) -> list[Case]:
    """``count`` scenes of :data:`OBJECTS` different coloured things, each as a class, with a
    painting of it that lacks 0, 1 or 2 of all things but the first."""
    rng = random.Random(SEED)
    found: list[Case] = []
    while len(found) < count:
        scene = sample_painting(rng, OBJECTS).scene
        if len({item.name for item in scene.objects}) < OBJECTS:
            continue
        first, *rest = [item.id for item in scene.objects]
        kept = {first, *rng.sample(rest, len(rest) - len(found) % 3)}
        image = paint(scene.subgraph(kept, []), seed=len(found)).image
        schema, _ = AttributeSchema.of_scene(scene, f"scene {len(found)}")
        assert schema is not None
        existence = f"Is there a {scene.object(first).name} in the image?"
        schema = schema.model_copy(update={"existence": existence})
        found.append(Case(image, hash_of_image(image), ClassSchema(schema.name, schema)))
    return found


async def looked_at(
    cases: Sequence[Case], way: Way, url: str, key: str
) -> tuple[list[Looked], float]:
    """What was found in each picture, and the wall time of all.

    ``key``: of the account. Each round has its own: the lab replays what one key asks twice.
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
    found: list[Looked | None] = [None] * len(cases)
    waiting = iter(enumerate(cases))
    with closing(AnswerStore(None)) as store:
        asking: Asking = "together" if way == "together" else "waves"
        scorer = RealScorer([judge], store, wording="plain", asking=asking)

        async def work() -> None:
            for at, case in waiting:
                found[at] = await scorer.look(case.digest, case.load, case.schema)

        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(1 if alone else AT_ONCE):
                group.create_task(work())
        seconds = time.perf_counter() - started
    await judge.aclose()
    await caller.aclose()
    done = [one for one in found if one is not None]
    if lost := sum(one.score.unscored for one in done):
        raise RuntimeError(f"{lost} unscored answers in a benchmark without faults")
    return done, seconds


async def measure(cases: Sequence[Case], rounds: int) -> dict[str, Any]:
    """All figures of ``cases``; ``rounds`` of the ways that look at several pictures at once."""
    figures: dict[str, Any] = {"paper.usd": PAPER["usd"], "paper.seconds": PAPER["seconds"]}
    progress = Progress(1 + 2 * rounds, sys.stderr)
    with lab_process(LabSettings(latency=LATENCY)) as lab:
        # The lab's model is loaded by its first request, which is not measured.
        await looked_at(cases[:1], "together", lab.url, "warm")
        for way in WAYS:
            walls: list[float] = []
            looks: list[Looked] = []
            for number in range(1 if way == "sequential" else rounds):
                looks, wall = await looked_at(cases, way, lab.url, f"{way}-{number}")
                walls.append(wall / len(cases))
                progress.step()
            each = [one.seconds for one in looks]
            figures[f"usd_per_image.{way}"] = interval([one.usd for one in looks])
            figures[f"tokens.{way}"] = interval([one.tokens_in + one.tokens_out for one in looks])
            figures[f"latency.{way}"] = interval(each)
            figures[f"seconds_per_image.{way}"] = interval(each if way == "sequential" else walls)
            figures[f"s_att.{way}"] = interval(
                [one.score.attributes.value or 0.0 for one in looks if one.score.attributes]
            )
            if way == "together":
                asked = [sum(map(len, one.judged.answers.values())) for one in looks]
                figures["questions"] = interval(asked)
    for name in ("usd_per_image", "seconds_per_image"):
        figures[name] = figures[f"{name}.waves"]
        for way in WAYS:
            kind = name.removesuffix("_per_image")
            figures[f"{kind}_over_paper.{way}"] = figures[f"{name}.{way}"]["mean"] / PAPER[kind]
    return figures


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few pictures, writes nothing")
    parser.add_argument("--pictures", type=int, default=PICTURES, help="default: %(default)s")
    given = parser.parse_args()
    if given.pictures < 2:
        parser.error("--pictures must be 2 or more: one has no spread")
    count = QUICK if given.quick else given.pictures
    cases = cases_of(count)
    figures = asyncio.run(measure(cases, 2 if given.quick else ROUNDS))
    report("real_cost", len(cases), figures, given.quick)


if __name__ == "__main__":
    main()
