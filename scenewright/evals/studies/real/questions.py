"""REAL's questions as facts with parents, so that a panel asks no more of them than it must.

Two waves: whether the class exists and what can be seen, then what the visible parts look like and
how the entities are related. Existence and visibility go together because a picture costs more
tokens than the names of its parts; a match is void without the two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

from scenewright.core.facts import Fact
from scenewright.core.inflection import is_plural
from scenewright.core.predicate_statistics import PredicateStatistics, load_predicates
from scenewright.core.questions import article, option_text, relation_options
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
    """The questions of a class (REAL, Sec. 3.1 and 3.2).

    Of the published forms verbs and articles agree with their nouns ("Are the legs red?", "Can you
    see an owl?"). ``seed`` orders the options of plain relations. Raises ``ValueError`` for an
    unknown wording.
    """
    if wording not in WORDINGS:
        raise ValueError(f"unknown wording {wording!r}: use one of {', '.join(WORDINGS)}")
    existence = None
    pairs: list[tuple[Fact, Fact]] = []
    if attributes is not None:
        existence = _existence(attributes, wording)
        parts: dict[str, Fact] = {}
        for attribute in attributes.attributes:
            part = attribute.part
            seen = parts.setdefault(part.casefold(), _part_seen(part, wording))
            parents = [seen] if existence is None else [existence, seen]
            pairs.append((seen, _match(part, attribute.description, tuple(parents))))
    entities: list[tuple[Fact, Fact | None]] = []
    related: list[Fact] = []
    if relations is not None:
        there = {name: _entity_seen(name, wording) for name in relations.entities}
        # An entity that is missing makes the score 0, so nothing more is asked then.
        above = tuple(there.values())
        for name, seen in there.items():
            natural = _natural(name, above) if wording == "published" else None
            entities.append((seen, natural))
        related = [_relation(r, relations, above, wording, seed) for r in relations.relations]
    return Questions(existence, tuple(pairs), tuple(entities), tuple(related))


def _existence(schema: AttributeSchema, wording: Wording) -> Fact | None:
    if schema.existence is None:
        return None
    question = schema.existence
    if wording == "plain" and question == EXISTENCE:
        question = f"{_there(schema.name)} in the image?"
    return Fact(
        id=_id("exists", schema.name),
        kind="object",
        subject=schema.name,
        statement=f"{schema.name} is there",
        question=question,
    )


def _part_seen(part: str, wording: Wording) -> Fact:
    return Fact(
        id=_id("part", part),
        kind="object",
        subject=part,
        statement=f"{part} can be seen",
        question=f"{_there(part)} in the image?"
        if wording == "plain"
        else f"Can you see the {part}?",
    )


def _match(part: str, description: str, above: tuple[Fact, ...]) -> Fact:
    verb = "Are" if is_plural(part) else "Is"
    return Fact(
        id=_id("match", part, description),
        kind="attribute",
        subject=part,
        key=part,
        value=description,
        parents=tuple(fact.id for fact in above),
        statement=f"{part} {verb.lower()} {description}",
        question=f"{verb} the {part} {description}?",
    )


def _entity_seen(entity: str, wording: Wording) -> Fact:
    question = f"Can you see {_with_article(entity)}?"
    return Fact(
        id=_id("entity", entity),
        kind="object",
        subject=entity,
        statement=f"{entity} can be seen",
        question=f"{_there(entity)} in the image?" if wording == "plain" else question,
    )


def _natural(entity: str, above: tuple[Fact, ...]) -> Fact:
    verb = "Are" if is_plural(entity) else "Is"
    return Fact(
        id=_id("natural", entity),
        kind="attribute",
        subject=entity,
        key="naturalness",
        value="realistic and natural",
        parents=tuple(fact.id for fact in above),
        statement=f"{entity} {verb.lower()} realistic and natural",
        question=f"{verb} the {entity} realistic and natural?",
    )


@cache
def _plain_predicates() -> PredicateStatistics:
    """The options that the judges of plain questions were taught; of other predicates the
    general ones."""
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
            ),
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
    """``match:bill|curved``; separators within a part have a backslash before them."""
    return f"{kind}:{'|'.join(_SEPARATOR.sub(_ESCAPED, part) for part in parts)}"
