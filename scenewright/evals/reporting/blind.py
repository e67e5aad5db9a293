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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
    chance: float
    """Share that random guessing gets."""
    pairs_seen: float
    """Share of questions whose two classes a held-out scene joins."""

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
            f"{100 * self.chance:.0f} %."
        )

    def as_json(self) -> dict[str, float | int | None]:
        """Return its numbers by name."""
        found = self.recall
        return {
            "relation_recall": found.value,
            "low": found.low,
            "high": found.high,
            "n": found.n,
            "chance": self.chance,
            "pairs_seen": self.pairs_seen,
        }


def frequency_guesses(
    asked: Sequence[SceneQuestions], folds: int = FOLDS, *, back_off: bool = True
) -> list[Guess]:
    """Return how every relation question of ``asked`` is guessed from the other folds.

    Scene i is in fold i mod ``folds``. Without ``back_off`` only counts of the very pair of classes
    answer; a pair that was never seen is guessed at random.
    """
    parts = min(folds, len(asked))
    held_out = [
        PredicateStatistics.of(one.scene for at, one in enumerate(asked) if at % parts != fold)
        for fold in range(parts)
    ]
    return [
        guess
        for at, one in enumerate(asked)
        for guess in _guesses(at, one, held_out[at % parts], back_off)
    ]


def _guesses(
    at: int, one: SceneQuestions, known: PredicateStatistics, back_off: bool
) -> Iterator[Guess]:
    names = {item.id: item.name for item in one.scene.objects}
    for fact in one.facts:
        source, target = names.get(fact.subject), names.get(fact.target or "")
        if fact.kind != "relation" or source is None or target is None:
            continue
        options = [option for option in fact.options if option != NO_RELATION]
        pair = known.pair_counts(source, target)
        if back_off:
            scores = {o: known.likelihood(source, o, target) for o in options}
        else:
            scores = {o: float(pair[canonical(o)]) for o in options}
        best = max(scores.values())
        tied = [option for option in options if scores[option] == best]
        right = 1.0 / len(fact.options) if best <= 0.0 else (fact.expected in tied) / len(tied)
        yield Guess(at, fact, right, pair.total() > 0)


def blind_recall(asked: Sequence[SceneQuestions], seed: int = 0) -> BlindRecall | None:
    """Return the blind RelationRecall of ``asked``.

    None if no relation is asked for, or if there are too few scenes to hold some out.
    """
    if len(asked) < 2:
        return None
    guesses = frequency_guesses(asked)
    if not guesses:
        return None
    places = np.array([guess.scene for guess in guesses])
    right = np.array([guess.right for guess in guesses])
    return BlindRecall(
        recall=Bootstrap(len(asked), seed).share(places, right),
        chance=float(np.mean([guess.chance for guess in guesses])),
        pairs_seen=float(np.mean([guess.seen for guess in guesses])),
    )


def blind_of(results: Results) -> BlindRecall | None:
    """Return the blind RelationRecall of an evaluation, by the questions that it asked.

    None where no scene relates two things. Raises ``EvalError`` for tables that cannot be read.
    """
    asked = []
    for row in results.rows("items", ["scene", "facts"]):
        if row["scene"] and row["facts"]:
            facts = _FACTS.validate_json(row["facts"])
            asked.append(SceneQuestions(SceneGraph.model_validate_json(row["scene"]), tuple(facts)))
    return blind_recall(asked)


_FACTS = TypeAdapter(list[Fact])
