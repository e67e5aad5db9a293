"""REAL's scores from verdicts: S_att and S_rel (REAL, Sec. 3.1 and 3.2).

What nobody could answer is not 0. A score with such gaps is that of the questions that were
answered, with their number beside it; where the answer decides whether there is anything to score
at all (existence, the visibility of an entity), there is no score without it.

The paper counts a yes as 1. Judges say yes too easily, and counts of a few parts tie: of twenty
pictures of one class half may have the same R / C. So S_att weighs each answer by its probability
(:data:`Weighting`); what is asked and what is void is decided by the answers themselves in either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from scenewright.core.facts import State
from scenewright.evals.studies.real.questions import Questions

Weighting = Literal["probability", "hard"]
"""``probability``: ``P(existence) · ΣP(V)·P(M) / ΣP(V)`` over the visible attributes. ``hard``: the
paper's R / C. They agree where every probability is 0 or 1."""
WEIGHTINGS: tuple[Weighting, ...] = get_args(Weighting)
Likely = Mapping[str, float]
"""Id of a question → probability of yes."""


@dataclass(frozen=True, slots=True)
class AttributeScore:
    """S_att and what it is made of."""

    value: float | None
    """The score, over the attributes that are known, 0 if none is visible or the class is not
    there; None if it cannot be said."""
    hard: float | None
    """The paper's R / C over the same."""
    visible: int
    """C: attributes whose part can be seen."""
    matched: int
    """R: those of them that are as described."""
    unscored: int
    """Questions among those asked that nobody could answer."""


@dataclass(frozen=True, slots=True)
class RelationScore:
    """S_rel and what it is made of."""

    value: float | None
    """Share of the questions that were answered whose answer is yes, in [0, 1]: the sum divided by
    :attr:`highest`; None if it cannot be said."""
    raw: float | None
    """``Σ(V + M) + ΣR``; 0 if an entity is missing; None where a question was not answered: a sum
    over the others is no smaller for a fault of the picture."""
    highest: int
    """Questions that were answered: 2N + |R| where all were."""
    unscored: int
    """Questions among those asked that nobody could answer."""


def attribute_score(
    existence: State | None,
    attributes: Sequence[tuple[State, State]],
    there: float = 1.0,
    likely: Sequence[tuple[float, float]] | None = None,
) -> AttributeScore:
    """S_att from the states of existence (None: not asked) and of (visibility, match) pairs.

    ``there`` is the probability of existence, ``likely`` those of the pairs; without these the
    score is the hard one.

    No existence is 0, unscored existence is None. An attribute without an answer to either of its
    questions is left out of R / C; if nothing else is visible there is no score. A match of an
    invisible part does not count, whatever its state.
    """
    if existence in ("no", "void"):
        return AttributeScore(0.0, 0.0, 0, 0, 0)
    visible = sum(seen == "yes" for seen, _ in attributes)
    matched = sum(pair == ("yes", "yes") for pair in attributes)
    hidden = sum(seen == "unscored" for seen, _ in attributes)
    open_ = sum(pair == ("yes", "unscored") for pair in attributes)
    lost = hidden + open_ + (existence == "unscored")
    known = visible - open_
    value: float | None
    if existence == "unscored" or (not known and (hidden or open_)):
        value = None
    else:
        value = matched / known if known else 0.0
    weighted = value
    if likely is not None and value is not None and known:
        pairs = [
            chances
            for (seen, match), chances in zip(attributes, likely, strict=True)
            if seen == "yes" and match != "unscored"
        ]
        total = sum(seen for seen, _ in pairs)
        held = sum(seen * match for seen, match in pairs)
        weighted = min(1.0, there * held / total) if total else 0.0
    return AttributeScore(weighted, value, visible, matched, lost)


def relation_score(
    entities: Sequence[tuple[State, State | None]], relations: Sequence[State]
) -> RelationScore:
    """S_rel from the states of (visibility, naturalness) pairs and of relations.

    Naturalness is None where it is not asked; the maximum is then N + |R|. One missing entity
    makes the score 0, whatever else was answered. Without one, an entity whose visibility is
    unscored leaves no score: it might be the one that is missing. Other unscored questions are
    left out of the sum and of its maximum: the value is the mean of the others.
    """
    asked = [natural for _, natural in entities if natural is not None] + list(relations)
    highest = len(entities) + len(asked)
    if any(seen in ("no", "void") for seen, _ in entities):
        return RelationScore(0.0, 0.0, highest, 0)
    hidden = sum(seen == "unscored" for seen, _ in entities)
    open_ = sum(state == "unscored" for state in asked)
    if hidden or not entities:
        return RelationScore(None, None, highest - hidden - open_, hidden + open_)
    raw = float(len(entities) + sum(state == "yes" for state in asked))
    return RelationScore(raw / (highest - open_), None if open_ else raw, highest - open_, open_)


@dataclass(frozen=True, slots=True)
class RealScore:
    """Both scores of a picture, and what was found wrong with it."""

    attributes: AttributeScore | None
    """None without a schema of attributes."""
    relations: RelationScore | None
    """None without a schema of relations."""
    invisible: tuple[str, ...]
    """Parts and entities that cannot be seen; the class itself first if it is not there."""
    wrong: tuple[str, ...]
    """Statements about visible things that do not hold."""

    @property
    def unscored(self) -> int:
        """Questions that nobody could answer."""
        parts = (self.attributes, self.relations)
        return sum(part.unscored for part in parts if part is not None)


def score_of(
    questions: Questions, states: Mapping[str, State], likely: Likely | None = None
) -> RealScore:
    """The scores of a picture whose questions have the ``states`` by fact id.

    ``likely``: probabilities of yes by fact id, which weigh S_att; None: the hard score. Raises
    ``KeyError`` for a question without a state.
    """
    attributes = relations = None
    existence = None if questions.existence is None else states[questions.existence.id]
    if questions.attributes:
        pairs = [(states[seen.id], states[match.id]) for seen, match in questions.attributes]
        chances, there = None, 1.0
        if likely is not None:
            chances = [(likely[seen.id], likely[match.id]) for seen, match in questions.attributes]
            there = 1.0 if questions.existence is None else likely[questions.existence.id]
        attributes = attribute_score(existence, pairs, there, chances)
    if questions.entities:
        ends = [
            (states[seen.id], None if natural is None else states[natural.id])
            for seen, natural in questions.entities
        ]
        relations = relation_score(ends, [states[fact.id] for fact in questions.relations])
    facts = questions.facts
    absent = [fact for fact in facts if fact.kind == "object" and states[fact.id] == "no"]
    wrong = [fact for fact in facts if fact.kind != "object" and states[fact.id] == "no"]
    return RealScore(
        attributes,
        relations,
        tuple(dict.fromkeys(fact.subject for fact in absent)),
        tuple(fact.statement for fact in wrong),
    )
