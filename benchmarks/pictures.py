"""How well the miniature's judges read pictures into scene graphs, on paintings of known truth.

``python -m benchmarks.pictures [--quick]``. Paintings of two to six things that no training saw,
read by :class:`~scenewright.tools.vision.extraction.judged_parser.JudgedPictureParser` with the
judges that steer a run.

- ``precision.KIND``, ``recall.KIND``, ``f1.KIND``: micro-averaged, of ``things`` (the kind),
  ``attributes`` (kind and colour) and ``relations`` (one a pair of things; left out are pairs so
  diagonal that their direction is a matter of taste, and ``near``).
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
from typing import Any

from benchmarks._harness import RESAMPLES, benchmark
from benchmarks.parser import Count, figure, micro
from scenewright.core.ports.judge import Judge
from scenewright.core.scene import SceneGraph
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.truth import Painting
from scenewright.miniature.world import COLORS, KINDS, PREDICATES, can_hold
from scenewright.runs.model_factory.profiles import judge_of
from scenewright.tools.vision.extraction.judged_parser import JudgedPictureParser, Vocabulary

PAINTINGS = 100
QUICK = 6
JUDGES = ("judge-a", "judge-b")
FACTS = ("things", "attributes", "relations")
WORDS = Vocabulary(
    tuple(KINDS), {"color": tuple(COLORS)}, tuple(p for p in PREDICATES if p != "near"), can_hold
)


def paintings(n: int) -> list[Painting]:
    """Return paintings whose seeds no training uses."""
    made = []
    for at in range(n):
        rng = random.Random(f"held-out/pictures/{at}")
        made.append(sample_painting(rng, n_objects=rng.randint(2, 6)))
    return made


def paired(said: SceneGraph, painting: Painting) -> dict[str, str]:
    """Return id in ``said`` → painted thing of the same kind.

    Of the same colour where there is one.
    """
    pairs: dict[str, str] = {}
    for same_color in (True, False):
        for item in said.objects:
            for thing in painting.scene.objects:
                fits = thing.name == item.name and (
                    not same_color or thing.attributes == item.attributes
                )
                if fits and item.id not in pairs and thing.id not in pairs.values():
                    pairs[item.id] = thing.id
    return pairs


def counted(said: SceneGraph, painting: Painting) -> dict[str, Count]:
    """Return facts that are right, said and true, of each of :data:`FACTS`."""
    truth, scene = painting.truth, painting.scene
    pairs = paired(said, painting)
    colored = sum(
        said.object(own).attributes == scene.object(other).attributes
        for own, other in pairs.items()
    )
    ids = [item.id for item in scene.objects]
    clear = {
        frozenset((a, b))
        for a in ids
        for b in ids
        if a < b
        and not truth.is_ambiguous(a, b)
        and (truth.relations_between(a, b) | truth.relations_between(b, a)) - {"near"}
    }
    right = claimed = 0
    for relation in said.relations:
        source, target = pairs.get(relation.source), pairs.get(relation.target)
        if source is None or target is None:
            claimed += 1
        elif frozenset((source, target)) in clear or not truth.is_ambiguous(source, target):
            claimed += 1
            right += relation.predicate in truth.relations_between(source, target)
    return {
        "things": (len(pairs), len(said.objects), len(ids)),
        "attributes": (colored, sum(bool(o.attributes) for o in said.objects), len(ids)),
        "relations": (right, claimed, len(clear)),
    }


async def read(judges: Sequence[Judge], pictures: Sequence[Painting]) -> list[dict[str, Count]]:
    """Return the counts of each painting."""
    parser = JudgedPictureParser(judges, WORDS)
    return [counted(await parser.parse(one.image), one) for one in pictures]


@benchmark(f"{QUICK} paintings, not {PAINTINGS}")
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure both judges and each alone."""
    pictures = paintings(QUICK if options.quick else PAINTINGS)
    judges = [judge_of(f"local:miniature/{name}") for name in JUDGES]
    # The first call loads the weights.
    asyncio.run(read(judges, pictures[:1]))
    began = time.perf_counter()
    rows = asyncio.run(read(judges, pictures))
    seconds = (time.perf_counter() - began) / len(pictures)
    alone = {
        name: asyncio.run(read([judge], pictures))
        for name, judge in zip(JUDGES, judges, strict=True)
    }
    figures: dict[str, Any] = {}
    for kind in FACTS:
        both = micro([row[kind] for row in rows], RESAMPLES)
        figures |= {f"{name}.{kind}": figure(values) for name, values in both.items()}
        single = {
            name: micro([row[kind] for row in found], RESAMPLES)["f1"]
            for name, found in alone.items()
        }
        figures |= {f"{name}.f1.{kind}": figure(values) for name, values in single.items()}
        best = max(single.values(), key=lambda values: float(values[0]))
        figures[f"gain.f1.{kind}"] = figure(both["f1"] - best)
    return len(pictures), figures | {"seconds": seconds}


if __name__ == "__main__":
    main()
