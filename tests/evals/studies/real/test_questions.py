"""REAL's questions: the paper's forms, who depends on whom, and the forms for few words."""

from __future__ import annotations

import pytest

from scenewright.agents.panel.panel import next_wave, void_verdicts
from scenewright.core.facts import Verdict
from scenewright.core.questions import NO_RELATION
from scenewright.evals.studies.real.schema import (
    EXISTENCE,
    AttributeSchema,
    RelationSchema,
    SchemaAttribute,
    SchemaRelation,
)
from scenewright.evals.studies.real.scoring import questions_of

BIRD = AttributeSchema(
    name="owl",
    attributes=(
        SchemaAttribute(part="bill", description="hooked"),
        SchemaAttribute(part="legs", description="red"),
        SchemaAttribute(part="bill", description="yellow"),
    ),
)
BED = RelationSchema(
    name="person carrying bed",
    entities=("person", "owl"),
    relations=(SchemaRelation(subject="person", predicate="carrying", object="owl"),),
)


def test_the_published_forms() -> None:
    asked = questions_of(BIRD, BED)
    assert [fact.question for fact in asked.facts] == [
        EXISTENCE,
        "Can you see the bill?",
        "Can you see the legs?",
        "Can you see a person?",
        "Can you see an owl?",
        "Is the bill hooked?",
        "Are the legs red?",
        "Is the bill yellow?",
        "Is the person realistic and natural?",
        "Is the owl realistic and natural?",
        "Can you see the person carrying owl?",
    ]
    assert len({fact.id for fact in asked.facts}) == len(asked.facts)


def test_the_plain_forms() -> None:
    asked = questions_of(BIRD, BED, "plain")
    texts = [fact.question for fact in asked.facts]
    assert texts[:3] == [
        "Is there an owl in the image?",
        "Is there a bill in the image?",
        "Are there legs in the image?",
    ]
    (relation,) = asked.relations
    assert relation.question == (
        "What is the relationship between the person and the owl in the image?"
    )
    assert relation.expected == "carrying"
    assert relation.options[-1] == NO_RELATION
    assert not any("natural" in text for text in texts)


def test_a_question_of_ones_own_stays() -> None:
    own = BIRD.model_copy(update={"existence": "Is it a bird?"})
    for wording in ("published", "plain"):
        found = questions_of(own, wording=wording).existence
        assert found is not None
        assert found.question == "Is it a bird?"
    none = questions_of(BIRD.model_copy(update={"existence": None}))
    assert none.existence is None
    assert none.attributes[0][1].parents == ("part:bill",)


def test_two_waves_and_what_is_missing_is_void() -> None:
    asked = questions_of(BIRD, BED)
    first = next_wave(asked.facts, {})
    assert {fact.kind for fact in first} == {"object"}
    assert len(first) == 5
    no = {"part:legs", "entity:owl"}
    known = {
        fact.id: Verdict(fact_id=fact.id, state="no" if fact.id in no else "yes") for fact in first
    }
    void = {verdict.fact_id for verdict in void_verdicts(asked.facts, known)}
    # One missing entity and no relation is asked, nor whether the other one is natural.
    assert void == {
        "match:legs|red",
        "natural:person",
        "natural:owl",
        "relation:person|carrying|owl",
    }
    second = next_wave(asked.facts, known | {v: known["part:legs"] for v in void})
    assert [fact.id for fact in second] == ["match:bill|hooked", "match:bill|yellow"]


def test_a_class_that_is_not_there_ends_it() -> None:
    asked = questions_of(BIRD)
    known = {fact.id: Verdict(fact_id=fact.id, state="yes") for fact in next_wave(asked.facts, {})}
    known["exists:owl"] = Verdict(fact_id="exists:owl", state="no")
    assert len(void_verdicts(asked.facts, known)) == 3


def test_ids_of_parts_with_separators_differ() -> None:
    odd = AttributeSchema(
        name="x",
        attributes=(
            SchemaAttribute(part="a|b", description="c"),
            SchemaAttribute(part="a", description="b|c"),
        ),
    )
    assert len({fact.id for fact in questions_of(odd).facts}) == 5


def test_unknown_wordings_are_told() -> None:
    with pytest.raises(ValueError, match="published, plain"):
        questions_of(BIRD, wording="terse")  # type: ignore[arg-type]
