"""How well the miniature's judges read pictures into scene graphs, on paintings of known truth.

``python -m benchmarks.pictures [--quick]``. Paintings of two to six things that no training saw,
read by :class:`~scenewright.tools.vision.extraction.judged_parser.JudgedPictureParser` with the
judges that steer a run.

- ``precision.KIND``, ``recall.KIND``, ``f1.KIND``: micro-averaged, of ``things`` (the kind),
  ``attributes`` (kind and colour) and ``relations`` (one a pair of things; left out are pairs
  shifted so little that their direction is a matter of taste, and ``near``).
- ``JUDGE.f1.KIND``: the same by one judge alone.
- ``gain.f1.KIND``: of both judges over the better of them alone, on the same resamples.
- ``seconds``: for a picture, by both judges.

Intervals are 95% percentile intervals of a bootstrap over paintings.
"""

from __future__ import annotations

import asyncio
import random
import time
from argparse import Namespace
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from benchmarks._harness import benchmark, micro, spread
from benchmarks.extraction import aligned, holds
from scenewright.core.ports.judge import Judge
from scenewright.core.predicate_statistics import DEFAULT
from scenewright.core.scene import SceneGraph
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.truth import Painting
from scenewright.runs.model_factory.profiles import build_judge
from scenewright.tools.vision.extraction.judged_parser import JudgedPictureParser
from scenewright.tools.vision.extraction.world import miniature_world

PAINTINGS = 100
QUICK = 6
JUDGES = ("judge-a", "judge-b")
FACTS = ("things", "attributes", "relations")
WORLD = miniature_world().model_copy(update={"options": DEFAULT})


def paintings(n: int) -> list[Painting]:
    """Return paintings whose seeds no training uses."""
    made = []
    for at in range(n):
        rng = random.Random(f"held-out/pictures/{at}")
        made.append(sample_painting(rng, n_objects=rng.randint(2, 6)))
    return made


def counted(said: SceneGraph, painting: Painting) -> tuple[tuple[int, int, int], ...]:
    """Return facts that are right, said and true, of each of :data:`FACTS`."""
    truth, scene = painting.truth, painting.scene
    match = aligned(said, painting)
    colored = sum(
        said.object(own).attributes == scene.object(other).attributes
        for own, other in match.items()
    )
    related = [
        (a.id, b.id)
        for a, b in combinations(scene.objects, 2)
        if not truth.is_ambiguous(a.id, b.id)
        and (truth.relations_between(a.id, b.id) | truth.relations_between(b.id, a.id)) - {"near"}
    ]
    claims = [
        relation
        for relation in said.relations
        if not {relation.source, relation.target} <= match.keys()
        or not truth.is_ambiguous(match[relation.source], match[relation.target])
    ]
    return (
        (len(match), len(said.objects), len(scene.objects)),
        (colored, sum(bool(item.attributes) for item in said.objects), len(scene.objects)),
        (sum(holds(one, match, painting) for one in claims), len(claims), len(related)),
    )


async def read(judges: Sequence[Judge], pictures: Sequence[Painting]) -> list[Any]:
    """Return the counts of each painting."""
    parser = JudgedPictureParser(judges, WORLD)
    return [counted(await parser.parse(one.image), one) for one in pictures]


@benchmark(
    f"{QUICK} paintings, not {PAINTINGS}",
    measures=("scenewright.tools.vision.extraction",),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure both judges and each alone."""
    pictures = paintings(QUICK if options.quick else PAINTINGS)
    judges = [build_judge(f"local:miniature/{name}") for name in JUDGES]
    # The first call loads the weights.
    asyncio.run(read(judges, pictures[:1]))
    began = time.perf_counter()
    rows = asyncio.run(read(judges, pictures))
    seconds = (time.perf_counter() - began) / len(pictures)
    alone = [asyncio.run(read([judge], pictures)) for judge in judges]
    figures: dict[str, Any] = {}
    for at, kind in enumerate(FACTS):
        both, *singles = (micro([row[at] for row in found]) for found in (rows, *alone))
        figures |= {f"{name}.{kind}": spread(values) for name, values in both.items()}
        for name, single in zip(JUDGES, singles, strict=True):
            figures[f"{name}.f1.{kind}"] = spread(single["f1"])
        best = max((single["f1"] for single in singles), key=lambda values: float(values[0]))
        figures[f"gain.f1.{kind}"] = spread(both["f1"] - best)
    return len(pictures), figures | {"seconds": seconds}


if __name__ == "__main__":
    main()
