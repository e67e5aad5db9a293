"""SGScore by the paper's protocol and by ours, against exact truth, judge by judge.

``python -m benchmarks.protocols [--quick]``. Paintings that no training saw are asked about by
scenes that are near to them: some objects are of another kind or colour, some relations are
others, some instances of a kind are one too many. What is true is known: the largest part of the
scene that the painting holds, its objects put on painted ones of their class so that the most
attributes and relations hold. As in the miniature's other sets at most two things are of a kind,
and these differ in colour: its judges were not taught to count further. Every judge of the
miniature scores each painting twice, ``strict`` (``scene-bench``: every question once, by class
label, the judge's choice decides, no void) and ``house`` (``grounded``: instances told apart and
counted, unsure objects decided by what is found of them, what lacks its object void); what both ask
is asked once. ``unvoided`` is ``house`` with every fact asked, which shows what voiding is worth.

``error.PROTOCOL.JUDGE`` is the mean absolute error of the score, with its 95% interval by
bootstrap over paintings, ``bias.PROTOCOL.JUDGE`` its signed mean and ``gain.JUDGE`` the paired
difference of the errors, above 0 where house is nearer to the truth. Floors: ``error.constant``
says the mean truth of the other paintings of every one, ``error.perfect`` says 1.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks._harness import benchmark, interval, progress
from benchmarks._scenes import held_out
from scenewright.agents.panel.panel import Panel
from scenewright.core.facts import Fact
from scenewright.core.images import hash_of_image
from scenewright.core.layout import canonical_predicate
from scenewright.core.ports.judge import Judge
from scenewright.core.predicate_statistics import load_predicates
from scenewright.core.questions import Protocol, facts_of
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.datasets.miniature_scenes import is_clear
from scenewright.evals.runner.judging import JudgePanel, judge_picture
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.truth import Painting, Truth
from scenewright.miniature.world import COLORS, KINDS, PREDICATES
from scenewright.providers import AnswerStore
from scenewright.runs.model_factory.profiles import build_judge

JUDGES = ("a", "b", "c", "d", "weak", "eager")
ALL = "panel"
"""All judges together, by the mean."""
PROTOCOLS: Mapping[str, Protocol] = {"strict": "scene-bench", "house": "grounded"}
PAINTINGS, FEW = 160, 5
UNVOIDED = "unvoided"
_OTHER_KIND, _OTHER_COLOR, _ONE_MORE, _OTHER_PREDICATE = 0.2, 0.2, 0.15, 0.3
_OBJECTS = (3, 4, 4, 5, 6)
_RELATIONS = (2, 6)


@dataclass(frozen=True, slots=True)
class Case:
    """A painting, and the scene that is asked about it."""

    painting: Painting
    asked: SceneGraph
    truth: float
    """SGScore of the scene in the painting."""


def cases(count: int) -> Iterator[Case]:
    """Yield ``count`` cases; the same every time."""
    for at in range(count):
        rng = held_out("protocols", at)
        asked = None
        while asked is None:
            painting = sample_painting(rng, rng.choice(_OBJECTS), rng.randint(*_RELATIONS))
            asked = near(rng, painting.truth) if is_clear(painting.scene) else None
            if asked is not None and not is_clear(asked):
                asked = None
        yield Case(painting, asked, exact(asked, painting.truth))


def near(rng: random.Random, truth: Truth) -> SceneGraph | None:
    """Return a scene near the painted one.

    None if nothing is related in it, or somebody could argue which way a pair stands.
    """
    named: list[tuple[str, str]] = []
    places: dict[str, int] = {}
    for item in truth.scene.objects:
        kind, color = item.name, item.attributes["color"]
        if rng.random() < _OTHER_KIND:
            kind = rng.choice(sorted(set(KINDS) - {kind}))
        elif rng.random() < _OTHER_COLOR:
            color = rng.choice(sorted(set(COLORS) - {color}))
        places[item.id] = len(named)
        named.append((kind, color))
    extra = None
    if rng.random() < _ONE_MORE:
        kind, _ = rng.choice(named)
        extra = len(named)
        named.append((kind, rng.choice(sorted(COLORS))))
    objects = [
        SceneObject(id=f"{kind}.{at}", name=kind, attributes=Attributes({"color": color}))
        for at, (kind, color) in enumerate(named)
    ]
    relations = []
    for relation in truth.scene.relations:
        if truth.is_ambiguous(relation.source, relation.target):
            return None
        predicate = relation.predicate
        if rng.random() < _OTHER_PREDICATE:
            true = truth.relations_between(relation.source, relation.target)
            others = [p for p in PREDICATES if canonical_predicate(p) not in true]
            predicate = rng.choice(others)
        source, target = places[relation.source], places[relation.target]
        # The one too many is sometimes the one of which something is said.
        alike = extra is not None and objects[extra].name == objects[source].name
        if extra is not None and alike and rng.random() < 0.5:
            source = extra
        relations.append(
            Relation(source=objects[source].id, predicate=predicate, target=objects[target].id)
        )
    if not relations:
        return None
    return SceneGraph(objects=tuple(objects), relations=tuple(dict.fromkeys(relations)))


def exact(asked: SceneGraph, truth: Truth) -> float:
    """SGScore (α = ½) of ``asked`` in the painting.

    Its objects stand for painted ones of their class, as many as there are, so that the most
    attributes and relations hold.
    """
    classes = sorted({item.name for item in asked.objects})
    ways = [list(_standing(asked, truth, name)) for name in classes]
    best = (-1, -1, 0)
    for parts in itertools.product(*ways):
        stands = {mine: painted for part in parts for mine, painted in part.items()}
        looks = sum(
            truth.scene.object(stands[item.id]).attributes.get(key) == value
            for item in asked.objects
            if item.id in stands
            for key, value in item.attributes.items()
        )
        held = sum(_holds(relation, stands, truth) for relation in asked.relations)
        best = max(best, (looks + held, looks, held))
    there = sum(
        min(len([o for o in asked.objects if o.name == name]), len(truth.matching(name, {})))
        for name in classes
    )
    return 0.5 * there / len(asked.objects) + 0.5 * best[2] / len(asked.relations)


def _standing(asked: SceneGraph, truth: Truth, name: str) -> Iterator[dict[str, str]]:
    """Yield every way to put the asked objects of a class on as many painted ones as can be."""
    mine = [item.id for item in asked.objects if item.name == name]
    painted = truth.matching(name, {})
    for some in itertools.combinations(mine, min(len(mine), len(painted))):
        for order in itertools.permutations(painted, len(some)):
            yield dict(zip(some, order, strict=True))


def _holds(relation: Relation, stands: Mapping[str, str], truth: Truth) -> bool:
    if relation.source not in stands or relation.target not in stands:
        return False
    found = truth.relations_between(stands[relation.source], stands[relation.target])
    return canonical_predicate(relation.predicate) in found


def ways(asked: SceneGraph) -> dict[str, tuple[Fact, ...]]:
    """Return the facts of each way of asking about a scene."""
    taught = load_predicates("miniature")
    found = {
        way: facts_of(asked, protocol, predicates=taught) for way, protocol in PROTOCOLS.items()
    }
    bare = [fact.model_copy(update={"parents": ()}) for fact in found["house"]]
    return {**found, UNVOIDED: tuple(bare)}


async def scores(judges: Mapping[str, Judge], asked: Sequence[Case]) -> dict[str, list[float]]:
    """Return ``PROTOCOL.NAME`` → score of each case, for each judge and all together.

    ``questions.PROTOCOL`` → facts put to a judge about each case.
    """
    judge_panels = {name: JudgePanel(name, (judge,), Panel()) for name, judge in judges.items()}
    judge_panels[ALL] = JudgePanel(ALL, tuple(judges.values()), Panel())
    found: dict[str, list[float]] = {}
    for case in progress(asked):
        store = AnswerStore(None)
        image = case.painting.image
        for way, facts in ways(case.asked).items():
            for name, judge_panel in judge_panels.items():
                judged = await judge_picture(
                    judge_panel, hash_of_image(image), case.painting.image.copy, facts, store=store
                )
                score = judged.card.sgscore
                if score is None:
                    raise SystemExit(f"{name} answered nothing usable about {case.asked}")
                found.setdefault(f"{way}.{name}", []).append(score)
            asked_of = sum(map(len, judged.answers.values())) / len(judges)
            found.setdefault(f"questions.{way}", []).append(asked_of)
        store.close()
    return found


def figures_of(asked: Sequence[Case], found: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return all figures."""
    truth = [case.truth for case in asked]
    mean = sum(truth) / len(truth)
    rest = [(sum(truth) - one) / (len(truth) - 1) for one in truth]
    figures: dict[str, Any] = {
        "truth.mean": mean,
        "error.constant": interval([abs(a - b) for a, b in zip(rest, truth, strict=True)]),
        "error.perfect": interval([1.0 - one for one in truth]),
    }
    nearer = 0
    for name in (*JUDGES, ALL):
        errors: dict[str, list[float]] = {}
        for way in (*PROTOCOLS, UNVOIDED):
            off = [a - b for a, b in zip(found[f"{way}.{name}"], truth, strict=True)]
            errors[way] = [abs(one) for one in off]
            figures[f"error.{way}.{name}"] = interval(errors[way])
            figures[f"bias.{way}.{name}"] = interval(off)
        gain = [a - b for a, b in zip(errors["strict"], errors["house"], strict=True)]
        figures[f"gain.{name}"] = interval(gain)
        nearer += figures[f"gain.{name}"]["mean"] > 0.0
    figures["house_nearer"] = f"{nearer} of {len(JUDGES) + 1}"
    for way in PROTOCOLS:
        given = found[f"questions.{way}"]
        figures[f"questions.{way}"] = sum(given) / len(given)
    return figures


def measure(count: int) -> dict[str, Any]:
    """Return all figures of ``count`` paintings."""
    torch.set_num_threads(1)
    judges = {name: build_judge(f"local:miniature/judge-{name}") for name in JUDGES}
    asked = list(cases(count))
    return figures_of(asked, asyncio.run(scores(judges, asked)))


@benchmark(
    "few paintings",
    measures=("scenewright.core.questions",),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure both protocols."""
    count = FEW if options.quick else PAINTINGS
    return count, measure(count)


if __name__ == "__main__":
    main()
