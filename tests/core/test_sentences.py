"""Facts, relations and scenes as sentences that people read."""

from __future__ import annotations

import pytest
from hypothesis import given

from scenewright.core.facts import Fact
from scenewright.core.questions import facts_of
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.core.sentences import (
    fact_sentences,
    relation_parts,
    scene_sentences,
    verb_phrase,
    worded_facts,
)
from tests.strategies import scenes

HAT = SceneGraph(
    objects=(
        SceneObject(id="hat.1", name="hat", attributes=Attributes({"color": "red"})),
        SceneObject(id="cat.1", name="cat"),
        SceneObject(id="dog.1", name="dog", attributes=Attributes({"color": "brown"})),
        SceneObject(id="dog.2", name="dog", attributes=Attributes({"color": "brown"})),
        SceneObject(id="glasses.1", name="glasses"),
    ),
    relations=(
        Relation(source="cat.1", predicate="left of", target="hat.1"),
        Relation(source="dog.1", predicate="wears", target="glasses.1"),
        Relation(source="glasses.1", predicate="on", target="dog.2"),
    ),
)


def test_facts_read_as_sentences() -> None:
    assert list(fact_sentences(HAT).values()) == [
        "There is a hat.",
        "There is a cat.",
        "There is a dog.",
        "There are at least two dogs.",
        "There are glasses.",
        "The hat is red.",
        "There is a brown dog.",
        "There are at least two brown dogs.",
        "The cat is left of the hat.",
        "One of the brown dogs wears the glasses.",
        "The glasses are on one of the brown dogs.",
    ]


def test_the_papers_protocol_means_objects_by_their_label() -> None:
    said = fact_sentences(HAT, "scene-bench")
    assert said["o:dog.2"] == "There is a dog."
    assert said["a:dog.2:color"] == "The dog is brown."
    assert said["r:dog.1|wears|glasses.1"] == "The dog wears the glasses."


def test_scenes_read_as_sentences() -> None:
    assert scene_sentences(HAT) == (
        "A cat is left of a red hat.",
        "A brown dog wears glasses.",
        "Glasses are on a brown dog.",
    )
    alone = SceneGraph(objects=(SceneObject(id="o", name="owl"),))
    assert scene_sentences(alone) == ("There is an owl.",)


@pytest.mark.parametrize(
    ("predicate", "said"),
    [
        ("left of", "is left of"),
        ("left", "is left of"),
        ("is wearing", "is wearing"),
        ("wear", "is wearing"),
        ("holds", "holds"),
        ("with", "is with"),
        ("has", "has"),
        ("have", "has"),
        ("parked on", "is parked on"),
        ("belongs to", "belongs to"),
        ("are on", "is on"),
    ],
)
def test_predicates_become_verbs(predicate: str, said: str) -> None:
    assert verb_phrase(predicate) == said


def test_the_parts_of_a_relation_are_apart_for_marking() -> None:
    assert relation_parts(HAT, HAT.relations[0]) == ("the cat", "is left of", "the hat")
    dogs = HAT.model_copy(
        update={"relations": (Relation(source="dog.1", predicate="near", target="dog.2"),)}
    )
    assert relation_parts(dogs, dogs.relations[0]) == ("the dog", "is near", "the other dog")


def test_questions_of_a_set_stand_as_they_are() -> None:
    asked = Fact(id="q1", kind="attribute", subject="x", statement="bike: blue",
                 question="Is the bike blue?")  # fmt: skip
    chosen = Fact(id="q2", kind="attribute", subject="x", statement="bike: blue", expected="blue",
                  question="What colour is the bike?", options=("blue", "red"))  # fmt: skip
    assert [fact.statement for fact in worded_facts((asked, chosen), None)] == [
        "Is the bike blue?",
        "What colour is the bike? – blue",
    ]


@given(scenes())
def test_every_fact_of_a_scene_has_a_sentence(scene: SceneGraph) -> None:
    for protocol in ("grounded", "scene-bench"):
        facts = facts_of(scene, protocol)  # type: ignore[arg-type]
        for fact in worded_facts(facts, scene):
            assert fact.statement[0] == fact.statement[0].upper()
            assert fact.statement.endswith(".")
            assert (fact.id, fact.question) in {(one.id, one.question) for one in facts}


def test_attributes_read_as_clauses() -> None:
    scene = SceneGraph(
        objects=(
            SceneObject(id="a", name="chicken", attributes=Attributes({"state": "work out"})),
            SceneObject(id="b", name="sign", attributes=Attributes({"text": "KEEP OFF"})),
            SceneObject(id="c", name="dog", attributes=Attributes({"state": "sit"})),
            SceneObject(id="d", name="dog", attributes=Attributes({"state": "sit"})),
            SceneObject(id="e", name="Mona Lisa"),
        )
    )
    assert list(fact_sentences(scene).values())[4:] == [
        "There is Mona Lisa.",
        "The chicken is working out.",
        'The sign says "KEEP OFF".',
        "There is a dog that is sitting.",
        "There are at least two dogs that are sitting.",
    ]
