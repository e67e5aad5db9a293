"""The blind baseline: what relation questions give away without the picture.

A multiple-choice question whose right option can be guessed tests the guesser. So beside every
RelationRecall stands the recall of who never sees the picture: chance is one in the number of
options (25 % with the paper's four), and a share far above it says that the questions give
themselves away.

:func:`frequency_guesses` answers each question with the offered predicate that joins its two
classes most often in held-out scenes, backed off to one class and to the whole set
(:meth:`~scenewright.core.predicate_statistics.PredicateStatistics.likelihood`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from scenewright.core.facts import Fact
from scenewright.core.predicate_statistics import PredicateStatistics
from scenewright.core.questions import NO_RELATION
from scenewright.core.scene import SceneGraph
from scenewright.core.vocabulary import canonical
from scenewright.evals.statistics.figures import Bootstrap, Figure
from scenewright.evals.store.results import Results

FOLDS = 10
"""Parts of a set; a scene is answered from the counts of the other parts."""


@dataclass(frozen=True, slots=True)
class SceneQuestions:
    """A scene and its questions."""

    scene: SceneGraph
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Guess:
    """Guess at a question about a relation without the picture."""

    scene: int
    """Index of its scene."""
    fact: Fact
    """The question."""
    right: float
    """Chance that the guess is right: 0 or 1, between them where options tie."""
    seen: bool
    """Whether a held-out scene joins the two classes."""

    @property
    def chance(self) -> float:
        """Return the chance of a random guess."""
        return 1.0 / len(self.fact.options)


@dataclass(frozen=True, slots=True)
class BlindRecall:
    """RelationRecall without the picture."""

    recall: Figure
    """Share of relation questions answered right, with its interval over scenes."""
    constant: float
    """Share that the predicate gets that is right most often, said to all of them."""
    open_recall: float | None
    """:attr:`recall` of the questions that the classes do not give away; None without any."""
    open_share: float
    """Share of these questions."""
    chance: float
    """Share that random guessing gets."""
    pairs_seen: float
    """Share of questions whose two classes a held-out scene joins."""
    above: Mapping[tuple[str, str], Figure] = field(default_factory=dict)
    """(Arm, panel) → mean over scenes of its RelationRecall less the blind one."""

    @property
    def sentence(self) -> str:
        """Return a sentence on the baseline for readers of a RelationRecall."""
        found = self.recall
        between = (
            ""
            if found.low is None or found.high is None
            else (f" [{100 * found.low:.1f}, {100 * found.high:.1f}]")
        )
        return (
            f"Blind baseline: {100 * (found.value or 0.0):.1f} %{between} of the {found.n} "
            "relation questions are answered right without the picture, by the predicate that "
            "joins the two classes most often in the set's other scenes; chance is "
            f"{100 * self.chance:.0f} %, one answer to all gets {100 * self.constant:.1f} %. "
            f"Where the two classes do not give it away ({100 * self.open_share:.0f} % of them): "
            f"{'–' if self.open_recall is None else f'{100 * self.open_recall:.1f} %'}."
            f"{self._above_sentence()}"
        )

    def _above_sentence(self) -> str:
        told = [
            f"{arm}{f' ({panel})' if panel else ''} {figure.value:+.3f}"
            + ("" if figure.low is None else f" [{figure.low:+.3f}, {figure.high:+.3f}]")
            for (arm, panel), figure in self.above.items()
            if figure.value is not None
        ]
        return f" RelationRecall above the baseline: {', '.join(told)}." if told else ""

    def as_json(self) -> dict[str, Any]:
        """Return its numbers by name."""
        found = self.recall
        return {
            "relation_recall": found.value,
            "low": found.low,
            "high": found.high,
            "n": found.n,
            "constant": self.constant,
            "open_recall": self.open_recall,
            "open_share": self.open_share,
            "chance": self.chance,
            "pairs_seen": self.pairs_seen,
            "above": [
                {"arm": arm, "panel": panel, **figure.model_dump()}
                for (arm, panel), figure in self.above.items()
            ],
        }


def other_folds(asked: Sequence[SceneQuestions], folds: int = FOLDS) -> list[PredicateStatistics]:
    """Return for each scene the counts of the scenes in other folds.

    Scene i is in fold i mod ``folds``.
    """
    parts = min(folds, len(asked))
    counts = [
        PredicateStatistics.of(one.scene for at, one in enumerate(asked) if at % parts != fold)
        for fold in range(parts)
    ]
    return [counts[at % parts] for at in range(len(asked))]


def frequency_guesses(asked: Sequence[SceneQuestions], folds: int = FOLDS) -> list[Guess]:
    """Return how every choice of ``asked`` is guessed from the other folds.

    The offered predicate that is likeliest between the two classes is the guess.
    """
    return [
        _guess(at, fact, {o: known.likelihood(*_ends(fact, o)) for o in _predicates(fact)}, known)
        for at, (one, known) in enumerate(zip(asked, other_folds(asked, folds), strict=True))
        for fact in choices_of(one.facts)
    ]


def constant_guesses(asked: Sequence[SceneQuestions]) -> list[Guess]:
    """Return how every choice of ``asked`` is guessed by who always says the same.

    It is the predicate that is right most often; where it is not offered, any one.
    """
    every = [(at, fact) for at, one in enumerate(asked) for fact in choices_of(one.facts)]
    often = Counter(canonical(fact.expected) for _, fact in every)
    said = max(often, key=lambda name: (often[name], name), default="")
    return [
        _guess(at, fact, {o: float(canonical(o) == said) for o in _predicates(fact)})
        for at, fact in every
    ]


def choices_of(facts: Iterable[Fact]) -> list[Fact]:
    """Return the choices between relations among ``facts``."""
    return [f for f in facts if f.kind == "relation" and not f.is_binary and len(f.classes) == 2]


def _predicates(fact: Fact) -> list[str]:
    return [option for option in fact.options if option != NO_RELATION]


def _ends(fact: Fact, option: str) -> tuple[str, str, str]:
    return fact.classes[0], option, fact.classes[1]


def _guess(
    at: int, fact: Fact, scores: Mapping[str, float], known: PredicateStatistics | None = None
) -> Guess:
    best = max(scores.values())
    tied = [option for option in scores if scores[option] == best]
    seen = known is not None and known.pair_counts(*fact.classes).total() > 0
    return Guess(at, fact, (fact.expected in tied) / len(tied), seen)


def blind_recall(asked: Sequence[SceneQuestions], seed: int = 0) -> BlindRecall | None:
    """Return the blind RelationRecall of ``asked``.

    None if no relation is asked for, or if there are too few scenes to hold some out.
    """
    return _recall_of(asked, frequency_guesses(asked), seed)


def _recall_of(
    asked: Sequence[SceneQuestions], guesses: Sequence[Guess], seed: int = 0
) -> BlindRecall | None:
    if len(asked) < 2 or not guesses:
        return None
    places = np.array([guess.scene for guess in guesses])
    right = np.array([guess.right for guess in guesses])
    undecided = [guess.right for guess in guesses if not guess.fact.guessable]
    return BlindRecall(
        constant=float(np.mean([guess.right for guess in constant_guesses(asked)])),
        open_recall=float(np.mean(undecided)) if undecided else None,
        open_share=len(undecided) / len(guesses),
        recall=Bootstrap(len(asked), seed).share(places, right),
        chance=float(np.mean([guess.chance for guess in guesses])),
        pairs_seen=float(np.mean([guess.seen for guess in guesses])),
    )


def blind_of(results: Results) -> BlindRecall | None:
    """Return the blind RelationRecall of an evaluation, by the questions that it asked.

    None where no scene relates two things. Raises ``EvalError`` for tables that cannot be read.
    """
    items: list[str] = []
    asked: list[SceneQuestions] = []
    for row in results.rows("items", ["item", "scene", "facts"]):
        if row["scene"] and row["facts"]:
            facts = _FACTS.validate_json(row["facts"])
            scene = SceneGraph.model_validate_json(row["scene"])
            items.append(row["item"])
            asked.append(SceneQuestions(scene, tuple(facts)))
    guesses = frequency_guesses(asked)
    found = _recall_of(asked, guesses)
    return None if found is None else replace(found, above=_above(results, items, guesses))


def _above(
    results: Results, items: Sequence[str], guesses: Sequence[Guess]
) -> dict[tuple[str, str], Figure]:
    """Return by arm and panel how far the RelationRecall of scenes is above the blind one."""
    blind: dict[int, list[float]] = defaultdict(list)
    for guess in guesses:
        blind[guess.scene].append(guess.right)
    places = {item: at for at, item in enumerate(items)}
    rows: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for row in results.rows("scores", ["item", "arm", "panel", "metric", "part", "value"]):
        at = places.get(row["item"], -1)
        if (row["metric"], row["part"]) == _RECALL and row["value"] is not None and blind.get(at):
            less = sum(blind[at]) / len(blind[at])
            rows[row["arm"], row["panel"]].append((at, row["value"] - less))
    bootstrap = Bootstrap(len(items))
    return {
        way: bootstrap.share([at for at, _ in found], [above for _, above in found])
        for way, found in rows.items()
    }


_RECALL = ("sgscore", "relations")
"""Metric and part that are a scene's RelationRecall."""
_FACTS = TypeAdapter(list[Fact])
