"""Whether relation questions test anything: what they give away without the picture.

``python -m benchmarks.questions [--quick] [--data FOLDER]``. All relations of DSG-1k, of the SG2Im
scenes and of painted scenes are put into questions; nobody is asked.

- ``blind.frequency``: RelationRecall of the most frequent predicate of the two classes in held-out
  scenes (ten folds), backed off to one class and the whole set. Chance is ``blind.chance``.
- ``blind.pair``: likewise by the counts of the very pair alone; pairs never seen count at chance.
- ``blind.rarest``: of who picks the least frequent option: far above chance, frequency would give
  the answer away from the other side.
- ``blind.uniform``: ``blind.frequency`` if wrong options are drawn evenly from the same vocabulary
  (the peer); ``blind.modal``: how often the most frequent predicate of all is right, a floor that
  no choice of options can beat.
- ``blind.without_has``: ``blind.frequency`` without the parts that DSG states as *has*.
- ``synonym_options``: wrong options that mean, follow from or entail what is asked or stated.
- ``mirror_offered``: share of questions about left, right, above, below, in front of and behind
  that offer the opposite.
- ``rivals_from_data``: share of the other wrong options that the data holds for the pair or one of
  its classes; ``rivals_from_data.pair`` for the pair.
- ``SET.…``: the same of one set.
"""

from __future__ import annotations

import random
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._harness import DATA, Skipped, benchmark, figure, folder
from scenewright.core.facts import Fact
from scenewright.core.formats import load_scenes
from scenewright.core.predicate_statistics import (
    PredicateStatistics,
    class_of,
    load_predicates,
    triples_of,
)
from scenewright.core.questions import NO_RELATION, facts_of
from scenewright.core.scene import SceneGraph
from scenewright.core.vocabulary import (
    canonical,
    converse,
    entails,
    is_weak,
    is_wording,
    opposite,
    synonymous,
)
from scenewright.evals.datasets.dsg import load as load_dsg
from scenewright.evals.datasets.miniature_scenes import load as load_painted
from scenewright.evals.reporting.blind import FOLDS, Guess, SceneQuestions, frequency_guesses
from scenewright.evals.statistics.figures import Bootstrap

PAINTED = 200
QUICK = 120
DIRECTIONS = frozenset({"left of", "right of", "above", "below", "in front of", "behind"})


def scenes_of(data: Path, painted: int) -> dict[str, tuple[list[SceneGraph], str]]:
    """Set → its scenes with relations, and where its wrong options come from."""
    dsg = [item.scene for item in load_dsg(data / "dsg") if item.scene is not None]
    sg2im = [
        scene for path in sorted((data / "sg2im").glob("*.json")) for scene in load_scenes(path)
    ]
    own = [item.scene for item in load_painted(n=painted) if item.scene is not None]
    found = {"dsg": (dsg, "general"), "sg2im": (sg2im, "general"), "painted": (own, "miniature")}
    return {
        name: ([scene for scene in scenes if scene.relations], kind)
        for name, (scenes, kind) in found.items()
    }


def asked_of(scenes: Sequence[SceneGraph], predicates: PredicateStatistics) -> list[SceneQuestions]:
    """Return the relation questions of scenes, by the paper's protocol."""
    return [
        SceneQuestions(
            scene,
            tuple(
                fact
                for fact in facts_of(scene, "scene-bench", predicates=predicates)
                if fact.kind == "relation"
            ),
        )
        for scene in scenes
    ]


def wrong_options(fact: Fact) -> list[str]:
    """Return its wrong predicates."""
    return [option for option in fact.options if option not in (fact.expected, NO_RELATION)]


def stated(scene: SceneGraph, fact: Fact) -> set[str]:
    """Return what the scene says from the one class to the other, by its words alone."""
    names = {item.id: item.name for item in scene.objects}
    ends = (names[fact.subject], names[str(fact.target)])
    found: set[str] = set()
    for relation in scene.relations:
        if (names[relation.source], names[relation.target]) == ends:
            found.add(relation.predicate)
        if (names[relation.target], names[relation.source]) == ends:
            turned = converse(relation.predicate)
            found |= {turned} if turned is not None else set()
    return found


def may_hold(fact: Fact, scene: SceneGraph) -> list[str]:
    """Return wrong options that mean, follow from or entail what is asked or stated.

    A weak predicate follows from nearly all and is asked against what entails it: ``next to``
    against ``riding``.
    """
    return [
        option
        for option in wrong_options(fact)
        if any(
            entails(true, option) or (entails(option, true) and not is_weak(true))
            for true in stated(scene, fact)
        )
    ]


def share(guesses: Sequence[Guess], scenes: int) -> Any:
    """Return the mean of the chances to be right with its 95 % interval over scenes."""
    rows = [guess.right for guess in guesses]
    at = np.array([guess.scene for guess in guesses])
    return figure(Bootstrap(scenes).share(at, np.array(rows)))


def evenly(
    asked: Sequence[SceneQuestions], known: PredicateStatistics, seed: int = 0
) -> list[SceneQuestions]:
    """Return the same questions with wrong options drawn evenly from the vocabulary in use."""
    rng = random.Random(seed)
    pool = sorted(p for p, n in known.totals.items() if n > 1 and is_wording(p))
    found = []
    for one in asked:
        facts = []
        for fact in one.facts:
            allowed = [
                option
                for option in pool
                if not any(
                    synonymous(true, option) or entails(true, option) or entails(option, true)
                    for true in {str(fact.predicate), *stated(one.scene, fact)}
                )
            ]
            options = [fact.expected, *rng.sample(allowed, 2), NO_RELATION]
            facts.append(fact.model_copy(update={"options": tuple(options)}))
        found.append(SceneQuestions(one.scene, tuple(facts)))
    return found


def other_folds(scenes: Sequence[SceneGraph]) -> list[PredicateStatistics]:
    """Return for each scene the predicates of the scenes in other folds."""
    parts = [
        PredicateStatistics.of(scene for at, scene in enumerate(scenes) if at % FOLDS != fold)
        for fold in range(FOLDS)
    ]
    return [parts[at % FOLDS] for at in range(len(scenes))]


def rarest(asked: Sequence[SceneQuestions]) -> float:
    """Return how often the offered predicate that is least frequent is the right one."""
    right: list[float] = []
    for one, known in zip(asked, other_folds([one.scene for one in asked]), strict=True):
        names = {item.id: item.name for item in one.scene.objects}
        for fact in one.facts:
            options = [fact.expected, *wrong_options(fact)]
            ends = (names[fact.subject], names[str(fact.target)])
            scores = {option: known.likelihood(ends[0], option, ends[1]) for option in options}
            least = [option for option in options if scores[option] == min(scores.values())]
            right.append((fact.expected in least) / len(least))
    return float(np.mean(right))


def modal(scenes: Sequence[SceneGraph]) -> float:
    """Return how often the most frequent predicate between the two classes is the right one."""
    right: list[bool] = []
    for scene, known in zip(scenes, other_folds(scenes), strict=True):
        for source, predicate, target in triples_of(scene):
            best = max(known.totals, key=lambda name: known.likelihood(source, name, target))
            right.append(best == predicate)
    return float(np.mean(right))


def offered(
    asked: Sequence[SceneQuestions], known: PredicateStatistics
) -> Iterator[tuple[str, bool]]:
    """Yield name and truth of each check of the offered options.

    ``mirror``: whether it is offered; ``pair`` and ``class``: whether the data holds the option;
    ``synonym``: one for each.
    """
    ends: dict[tuple[int, str], set[str]] = {}
    for (source, predicate, target), _ in known.counts.items():
        ends.setdefault((0, source), set()).add(predicate)
        ends.setdefault((1, target), set()).add(predicate)
    for one in asked:
        names = {item.id: item.name for item in one.scene.objects}
        for fact in one.facts:
            source, target = names[fact.subject], names[str(fact.target)]
            wrong = wrong_options(fact)
            mirror = opposite(str(fact.predicate))
            if canonical(str(fact.predicate)) in DIRECTIONS:
                yield "mirror", any(synonymous(option, str(mirror)) for option in wrong)
            yield from (("synonym", True) for _ in may_hold(fact, one.scene))
            pair = known.pair_counts(source, target)
            either = ends.get((0, class_of(source)), set()) | ends.get((1, class_of(target)), set())
            for option in map(canonical, wrong):
                if option != mirror:
                    yield "pair", option in pair
                    yield "class", option in either


def measure(data: Path, painted: int) -> tuple[dict[str, Any], int]:
    """Return figures by name, and the number of relations."""
    figures: dict[str, Any] = {}
    everything: list[tuple[str, bool]] = []
    total = 0
    blind: list[tuple[list[Guess], int]] = []
    for name, (scenes, kind) in scenes_of(data, painted).items():
        known = load_predicates(kind)
        asked = asked_of(scenes, known)
        guesses = frequency_guesses(asked)
        total += len(guesses)
        blind.append((guesses, len(asked)))
        checks = list(offered(asked, known))
        everything += checks
        figures[f"{name}.relations"] = len(guesses)
        figures[f"{name}.blind.frequency"] = share(guesses, len(asked))
        figures[f"{name}.blind.pair"] = share(frequency_guesses(asked, back_off=False), len(asked))
        figures[f"{name}.blind.chance"] = float(np.mean([guess.chance for guess in guesses]))
        figures[f"{name}.blind.rarest"] = rarest(asked)
        figures[f"{name}.blind.modal"] = modal(scenes)
        figures[f"{name}.mirror_offered"] = _mean(checks, "mirror")
        if name == "dsg":
            bare = [g for g in guesses if canonical(str(g.fact.predicate)) != "having"]
            figures["dsg.blind.without_has"] = share(bare, len(asked))
            even = frequency_guesses(evenly(asked, known))
            figures["dsg.blind.uniform"] = share(even, len(asked))
            figures["dsg.pairs_seen"] = float(np.mean([guess.seen for guess in guesses]))
    together = [
        Guess(guess.scene + before, guess.fact, guess.right, guess.seen)
        for (guesses, _), before in zip(blind, _starts(blind), strict=True)
        for guess in guesses
    ]
    figures["blind.frequency"] = share(together, sum(n for _, n in blind))
    figures["blind.chance"] = float(np.mean([guess.chance for guess in together]))
    figures["synonym_options"] = sum(kind == "synonym" for kind, _ in everything)
    figures["mirror_offered"] = _mean(everything, "mirror")
    figures["rivals_from_data"] = _mean(everything, "class")
    figures["rivals_from_data.pair"] = _mean(everything, "pair")
    return figures, total


def _starts(blind: Sequence[tuple[list[Guess], int]]) -> list[int]:
    return [sum(n for _, n in blind[:at]) for at in range(len(blind))]


def _mean(checks: Sequence[tuple[str, bool]], kind: str) -> float:
    rows = [value for name, value in checks if name == kind]
    return float(np.mean(rows)) if rows else float("nan")


@benchmark(
    f"{QUICK} painted scenes",
    data=folder("folder of the public releases dsg and sg2im, if not beside the repository"),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Look at all sets."""
    data = options.data or DATA
    if not (data / "dsg").is_dir() or not (data / "sg2im").is_dir():
        raise Skipped(
            "skipped: the DSG and SG2Im releases are not beside the repository; name their\n"
            "folder with --data"
        )
    figures, n = measure(data, QUICK if options.quick else PAINTED)
    return n, figures


if __name__ == "__main__":
    main()
