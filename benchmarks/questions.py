"""Whether relation questions need the picture: what they give away without it.

``python -m benchmarks.questions [--quick] [--data FOLDER] [--show]``. All relations of DSG-1k, of
the SG2Im scenes, of GenEval and of prompts drawn here are put into questions of the house protocol;
nobody is asked. A choice is *open* where wrong options are as plausible for its two classes as the
right one, and *guessable* where the data knows none that cannot be true at once with it.

- ``open``: share of the choices that are open.
- ``blind.frequency``: RelationRecall of the most frequent predicate of the two classes in held-out
  scenes (ten folds; backed off to their categories and the whole set). ``blind.open`` and
  ``blind.guessable``: of these choices. ``blind.chance``: of a guess among all options; one of the
  predicates is right, so that ⅓ cannot be avoided.
- ``blind.constant``: of one answer to all: the predicate that is right most often.
- ``blind.rarest``: of who picks the least frequent option of the open ones: far above ⅓, frequency
  would give the answer away from the other side.
- ``blind.typed``: share of right ones among answers given by hand to 200 open questions of which
  only classes and options were seen (``questions_typed.toml``); ``ambiguous``: share of which more
  than one option may be true of one picture, by the same hand. ``--show`` prints the questions;
  answers to others than these are refused.
- ``blind.model`` needs a language model and is not measured here: the metric ``blind`` of an
  evaluation does.
- ``duplicates``: questions that repeat that of another fact of their scene word for word. What a
  scene says twice of the same two things is one fact.
- ``compatible_options``: wrong options of open questions that may be true at once with what is
  asked or stated (:func:`scenewright.core.vocabulary.contrasts`).
- ``mirror_offered``: share of questions about left, right, above, below, in front of and behind
  that offer the opposite; of all choices.
- ``SET.…``: the same of one set. ``painted.…``: of painted scenes, whose judges were taught a fixed
  table of options, in no other figure.
"""

from __future__ import annotations

import hashlib
import json
import random
import tomllib
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._harness import (
    DATA,
    BenchmarkError,
    Option,
    Skipped,
    benchmark,
    figure,
    folder,
    prefixed,
)
from scenewright.core.facts import Fact
from scenewright.core.formats import load_scenes
from scenewright.core.predicate_statistics import PredicateStatistics, load_predicates
from scenewright.core.questions import NO_RELATION, facts_of
from scenewright.core.scene import SceneGraph
from scenewright.core.vocabulary import canonical, contrasts, converse, opposite, synonymous
from scenewright.evals.datasets.dsg import load as load_dsg
from scenewright.evals.datasets.miniature_scenes import load as load_painted
from scenewright.evals.datasets.prompt_sets import load_geneval
from scenewright.evals.datasets.psg_prompts.rows import load as load_drawn
from scenewright.evals.reporting.blind import (
    Guess,
    SceneQuestions,
    choices_of,
    constant_guesses,
    frequency_guesses,
    other_folds,
)
from scenewright.evals.statistics.figures import Bootstrap

PAINTED = 200
DRAWN = 1000
QUICK = 120
SEED = 41
TYPED = 200
TYPED_FILE = Path(__file__).with_name("questions_typed.toml")
DIRECTIONS = frozenset({"left of", "right of", "above", "below", "in front of", "behind"})


def scenes_of(data: Path, drawn: int, painted: int) -> dict[str, list[SceneGraph]]:
    """Set → its scenes with relations."""
    found: dict[str, list[SceneGraph | None]] = {
        "dsg": [item.scene for item in load_dsg(data / "dsg")],
        "sg2im": [
            *(s for path in sorted((data / "sg2im").glob("*.json")) for s in load_scenes(path))
        ],
        "geneval": [item.scene for item in load_geneval(data / "geneval")],
        "drawn": [item.scene for item in load_drawn(n=drawn, seed=SEED)],
        "painted": [item.scene for item in load_painted(n=painted)],
    }
    return {
        name: [scene for scene in scenes if scene is not None and scene.relations]
        for name, scenes in found.items()
    }


def predicates_of(name: str, scenes: Sequence[SceneGraph]) -> PredicateStatistics:
    """Return what an evaluation of the set draws wrong options from.

    The general counts are those of the first two sets.
    """
    if name in ("dsg", "sg2im"):
        return load_predicates("general")
    if name == "painted":
        return load_predicates("miniature")
    return load_predicates("general") + PredicateStatistics.of(scenes)


def asked_of(scenes: Sequence[SceneGraph], predicates: PredicateStatistics) -> list[SceneQuestions]:
    """Return the relation questions of scenes, by the house protocol."""
    return [
        SceneQuestions(
            scene,
            tuple(f for f in facts_of(scene, predicates=predicates) if f.kind == "relation"),
        )
        for scene in scenes
    ]


def choices(asked: Sequence[SceneQuestions], guessable: bool | None = None) -> list[SceneQuestions]:
    """Return the choices among the questions: all, the guessable or the open ones."""
    return [
        SceneQuestions(
            one.scene,
            tuple(
                fact
                for fact in choices_of(one.facts)
                if guessable is None or fact.guessable == guessable
            ),
        )
        for one in asked
    ]


def wrong_options(fact: Fact) -> list[str]:
    """Return its wrong predicates."""
    return [option for option in fact.options if option not in (fact.expected, NO_RELATION)]


def stated(scene: SceneGraph, fact: Fact) -> set[str]:
    """Return what the scene says from the one thing to the other."""
    ends = (fact.subject, str(fact.target))
    found: set[str] = set()
    for relation in scene.relations:
        if (relation.source, relation.target) == ends:
            found.add(relation.predicate)
        if (relation.target, relation.source) == ends:
            turned = converse(relation.predicate)
            found |= {turned} if turned is not None else set()
    return found


def may_hold(fact: Fact, scene: SceneGraph) -> list[str]:
    """Return wrong options that may be true at once with what is asked or stated."""
    return [
        option
        for option in wrong_options(fact)
        if not all(contrasts(true, option) for true in stated(scene, fact))
    ]


def repeated(asked: Sequence[SceneQuestions]) -> int:
    """Return how many questions repeat that of another fact of their scene."""
    found = 0
    for one in asked:
        facts = {(f.subject, canonical(str(f.predicate)), f.target): f.question for f in one.facts}
        found += sum(n - 1 for n in Counter(facts.values()).values())
    return found


def share(guesses: Sequence[Guess], scenes: int) -> Any:
    """Return the mean of the chances to be right with its 95 % interval over scenes."""
    at = np.array([guess.scene for guess in guesses])
    return figure(Bootstrap(scenes).share(at, np.array([guess.right for guess in guesses])))


def rarest(asked: Sequence[SceneQuestions]) -> list[float]:
    """Return for each question how likely the least frequent option is the right one."""
    right: list[float] = []
    for one, known in zip(asked, other_folds(asked), strict=True):
        for fact in one.facts:
            options = [fact.expected, *wrong_options(fact)]
            scores = {o: known.likelihood(fact.classes[0], o, fact.classes[1]) for o in options}
            least = [option for option in options if scores[option] == min(scores.values())]
            right.append((fact.expected in least) / len(least))
    return right


def mirrored(asked: Sequence[SceneQuestions]) -> list[bool]:
    """Return for each question about a direction whether it offers the opposite."""
    return [
        any(
            synonymous(option, str(opposite(str(fact.predicate)))) for option in wrong_options(fact)
        )
        for one in asked
        for fact in one.facts
        if canonical(str(fact.predicate)) in DIRECTIONS
    ]


def sampled(sets: Sequence[Sequence[SceneQuestions]]) -> list[Fact]:
    """Return the questions that are answered by hand, drawn evenly from all open ones."""
    every = [fact for asked in sets for one in choices(asked, False) for fact in one.facts]
    return random.Random(SEED).sample(every, min(TYPED, len(every)))


def shown(facts: Sequence[Fact]) -> list[str]:
    """Return the questions as a line each: number, classes and lettered options."""
    return [
        f"{at}. {' … '.join(fact.classes)}: "
        + ", ".join(f"{x}) {o}" for x, o in zip("abc", fact.options[:-1], strict=False))
        for at, fact in enumerate(facts, start=1)
    ]


def typed(facts: Sequence[Fact]) -> dict[str, Any]:
    """Return the figures of the answers by hand; raises ``BenchmarkError`` for other questions."""
    kept = tomllib.loads(TYPED_FILE.read_text(encoding="utf-8"))
    digest = digest_of(facts)
    if kept["digest"] != digest:
        raise BenchmarkError(
            f"{TYPED_FILE.name} answers other questions (digest {kept['digest']}, now {digest}): "
            "answer those that --show prints before you look at what is right"
        )
    letters = "".join(kept["answers"].split())
    if len(letters) != len(facts):
        raise BenchmarkError(f"{TYPED_FILE.name}: {len(letters)} answers to {len(facts)} questions")
    right = [
        fact.options["abc".index(letter)] == fact.expected
        for letter, fact in zip(letters, facts, strict=True)
    ]
    hits = np.array(right, float)
    return {
        "blind.typed": figure(Bootstrap(len(facts)).share(np.arange(len(facts)), hits)),
        "ambiguous": len(kept["ambiguous"]) / len(facts),
    }


def digest_of(facts: Sequence[Fact]) -> str:
    """Return the digest of the questions as they are shown."""
    return hashlib.sha256(json.dumps(shown(facts)).encode()).hexdigest()[:12]


def measure(asked: Sequence[SceneQuestions]) -> dict[str, Any]:
    """Return the figures of questions by name."""
    every, open_ = choices(asked), choices(asked, False)
    guesses, n = frequency_guesses(every), len(asked)
    undecided = [guess for guess in guesses if not guess.fact.guessable]
    guessable = [guess for guess in guesses if guess.fact.guessable]
    mirror = mirrored(every)
    return {
        "relations": sum(len(one.facts) for one in asked),
        "open": len(undecided) / len(guesses),
        "blind.frequency": share(guesses, n),
        "blind.open": share(undecided, n) if undecided else None,
        "blind.constant": share(constant_guesses(every), n),
        "blind.rarest": float(np.mean(rarest(open_))) if undecided else None,
        "blind.chance": float(np.mean([guess.chance for guess in guesses])),
        "blind.guessable": share(guessable, n) if guessable else None,
        "duplicates": repeated(asked),
        "compatible_options": sum(
            len(may_hold(fact, one.scene)) for one in open_ for fact in one.facts
        ),
        "mirror_offered": float(np.mean(mirror)) if mirror else None,
    }


def main_figures(data: Path, quick: bool, show: bool) -> tuple[int, dict[str, Any]] | None:
    """Return the number of relations and the figures; None if the questions are only printed."""
    sets = scenes_of(data, QUICK if quick else DRAWN, QUICK if quick else PAINTED)
    asked = {name: asked_of(scenes, predicates_of(name, scenes)) for name, scenes in sets.items()}
    house = [questions for name, questions in asked.items() if name != "painted"]
    facts = sampled(house)
    if show:
        print(f"digest {digest_of(facts)}", *shown(facts), sep="\n")
        return None
    figures: dict[str, Any] = {}
    for name, questions in asked.items():
        figures |= prefixed(f"{name}.", measure(questions))
    figures |= measure([one for questions in house for one in questions])
    if not quick:
        figures |= typed(facts)
    return figures["relations"], {key: value for key, value in figures.items() if value is not None}


@benchmark(
    f"{QUICK} drawn and painted scenes, no answers by hand",
    measures=("scenewright.core.questions",),
    data=folder("folder of the releases dsg, sg2im and geneval, if not beside the repository"),
    show=Option(
        False, "print the questions that are answered by hand", more={"action": "store_true"}
    ),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]] | None:
    """Look at all sets."""
    data = options.data or DATA
    if not all((data / name).is_dir() for name in ("dsg", "sg2im", "geneval")):
        raise Skipped(
            "skipped: the DSG, SG2Im and GenEval releases are not beside the repository; name\n"
            "their folder with --data"
        )
    return main_figures(data, options.quick, options.show)


if __name__ == "__main__":
    main()
