"""REAL's questions and its scores S_att and S_rel (REAL, Sec. 3.1 and 3.2).

Questions are facts with parents, asked in two waves: whether the class exists and what can be seen,
then what the visible parts look like and how the entities are related. Existence and visibility go
together because a picture costs more tokens than the names of its parts; a match is void without
the two.

A question without an answer is not 0. A score with such gaps is that of the questions that were
answered, with their number beside it; where the answer decides whether there is anything to score
at all (existence, the visibility of an entity), there is no score without it.

The paper counts a yes as 1. Judges say yes too easily, and counts of a few parts tie: of twenty
pictures of one class half may have the same R / C. So S_att weighs each answer by its probability
(:data:`Weighting`); the answers themselves decide what is asked and what is void in either case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

from scenewright.core.english import article
from scenewright.core.facts import Fact, State
from scenewright.core.inflection import is_plural
from scenewright.core.predicate_statistics import PredicateStatistics, load_predicates
from scenewright.core.questions import relation_options
from scenewright.core.referring import option_text
from scenewright.evals.studies.real.schema import (
    EXISTENCE,
    AttributeSchema,
    RelationSchema,
    SchemaRelation,
)

Wording = Literal["published", "plain"]
"""``published``: as the paper asks. ``plain``: in the forms of :mod:`scenewright.core.questions`,
which judges with few words know; a relation is then a choice, and naturalness is not asked."""
WORDINGS: tuple[Wording, ...] = get_args(Wording)
_SEPARATOR = re.compile(r"([|:\\])")
_ESCAPED = r"\\\1"


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions about one picture."""

    existence: Fact | None
    """Whether the class is there; none if the schema does not ask."""
    attributes: tuple[tuple[Fact, Fact], ...]
    """Visibility and match of each attribute; attributes of one part share the first."""
    entities: tuple[tuple[Fact, Fact | None], ...]
    """Visibility and naturalness of each entity."""
    relations: tuple[Fact, ...]
    """One a relation."""

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All of them, each once, parents before children."""
        first = [] if self.existence is None else [self.existence]
        first += [seen for seen, _ in (*self.attributes, *self.entities)]
        second = [match for _, match in self.attributes]
        second += [natural for _, natural in self.entities if natural is not None]
        every = {fact.id: fact for fact in (*first, *second, *self.relations)}
        return tuple(every.values())


def questions_of(
    attributes: AttributeSchema | None = None,
    relations: RelationSchema | None = None,
    wording: Wording = "published",
    seed: int = 0,
) -> Questions:
    """Return the questions of a class (REAL, Sec. 3.1 and 3.2).

    Of the published forms verbs and articles agree with their nouns ("Are the legs red?", "Can you
    see an owl?"). ``seed`` orders the options of plain relations. Raises ``ValueError`` for an
    unknown wording.
    """
    if wording not in WORDINGS:
        raise ValueError(f"unknown wording {wording!r}: use one of {', '.join(WORDINGS)}")
    published = wording == "published"
    existence = None
    pairs: list[tuple[Fact, Fact]] = []
    if attributes is not None:
        if attributes.existence is not None:
            usual = attributes.existence == EXISTENCE and not published
            question = "" if usual else attributes.existence
            existence = _seen("exists", attributes.name, question, "is there")
        parts: dict[str, Fact] = {}
        for attribute in attributes.attributes:
            part, description = attribute.part, attribute.description
            question = f"Can you see the {part}?" if published else ""
            seen = parts.setdefault(part.casefold(), _seen("part", part, question))
            parents = (seen,) if existence is None else (existence, seen)
            id_ = _id("match", part, description)
            pairs.append((seen, _attribute(id_, part, part, description, parents)))
    entities: list[tuple[Fact, Fact | None]] = []
    related: list[Fact] = []
    if relations is not None:
        there = {
            name: _seen("entity", name, f"Can you see {_with_article(name)}?" if published else "")
            for name in relations.entities
        }
        # An entity that is missing makes the score 0, so nothing more is asked then.
        above = tuple(there.values())
        for name, seen in there.items():
            says = "realistic and natural"
            natural = _attribute(_id("natural", name), name, "naturalness", says, above)
            entities.append((seen, natural if published else None))
        related = [_relation(r, relations, above, wording, seed) for r in relations.relations]
    return Questions(existence, tuple(pairs), tuple(entities), tuple(related))


def _seen(kind: str, what: str, question: str = "", says: str = "can be seen") -> Fact:
    """Return a fact of what is seen; by default its question is that of ``plain``."""
    return Fact(
        id=_id(kind, what),
        kind="object",
        subject=what,
        statement=f"{what} {says}",
        question=question or f"{_there(what)} in the image?",
    )


def _attribute(id: str, what: str, key: str, value: str, above: tuple[Fact, ...]) -> Fact:
    verb = "Are" if is_plural(what) else "Is"
    return Fact(
        id=id,
        kind="attribute",
        subject=what,
        key=key,
        value=value,
        parents=tuple(fact.id for fact in above),
        statement=f"{what} {verb.lower()} {value}",
        question=f"{verb} the {what} {value}?",
    )


@cache
def _plain_predicates() -> PredicateStatistics:
    """Return the options that the judges of plain questions were taught.

    Other predicates have the general options.
    """
    return load_predicates("miniature") + load_predicates()


def _relation(
    relation: SchemaRelation,
    schema: RelationSchema,
    above: tuple[Fact, ...],
    wording: Wording,
    seed: int,
) -> Fact:
    ends = (relation.subject, relation.object)
    asked: dict[str, object] = {"question": f"Can you see the {relation.statement}?"}
    if wording == "plain":
        also = [r.predicate for r in schema.relations if (r.subject, r.object) == ends]
        asked = {
            "question": f"What is the relationship between the {ends[0]} and the {ends[1]} "
            "in the image?",
            "options": relation_options(
                relation.predicate,
                (seed, *ends),
                ends,
                [predicate for predicate in also if predicate != relation.predicate],
                _plain_predicates(),
            ).offered,
            "expected": option_text(relation.predicate),
        }
    return Fact.model_validate(
        {
            "id": _id("relation", ends[0], relation.predicate, ends[1]),
            "kind": "relation",
            "subject": ends[0],
            "target": ends[1],
            "predicate": relation.predicate,
            "parents": tuple(fact.id for fact in above),
            "statement": relation.statement,
            **asked,
        }
    )


def _with_article(phrase: str) -> str:
    return phrase if is_plural(phrase) else f"{article(phrase)} {phrase}"


def _there(phrase: str) -> str:
    return f"Are there {phrase}" if is_plural(phrase) else f"Is there {_with_article(phrase)}"


def _id(kind: str, *parts: str) -> str:
    """Return ``match:bill|curved``; separators within a part have a backslash before them."""
    return f"{kind}:{'|'.join(_SEPARATOR.sub(_ESCAPED, part) for part in parts)}"


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
    """Questions among those asked without an answer."""


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
    """Questions among those asked without an answer."""


def attribute_score(
    existence: State | None,
    attributes: Sequence[tuple[State, State]],
    there: float = 1.0,
    likely: Sequence[tuple[float, float]] | None = None,
) -> AttributeScore:
    """Return S_att by the states of existence (None: not asked) and (visibility, match) pairs.

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
    """Return S_rel by the states of (visibility, naturalness) pairs and of relations.

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
        """Questions without an answer."""
        parts = (self.attributes, self.relations)
        return sum(part.unscored for part in parts if part is not None)


def score_of(
    questions: Questions, states: Mapping[str, State], likely: Likely | None = None
) -> RealScore:
    """Return the scores of a picture whose questions have the ``states`` by fact id.

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
