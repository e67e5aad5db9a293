"""What the check of composed sentences finds said and lost."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.composer import text_of, triplets
from scenewright.agents.composer_check import lost_facts
from scenewright.formats import load_scene, loads_scene
from scenewright.scene import Attributes, Relation, SceneGraph, SceneObject
from tests.strategies import scenes

BALL = "red ball on blue table; dog left of table"
DRESSED = "person | wearing | hat; person | holding | umbrella"
DOGS = "brown dog left of black dog; cat under table"
CHASE = "dog | chasing | cat; person | sitting on | bench"
CROWD = "person.1 sitting on bench; person.2 sitting on bench"


def lost(scene: str, text: str) -> list[str]:
    return [fact.statement for fact in lost_facts(load_scene(scene, format="triplets"), text)]


@pytest.mark.parametrize(
    ("scene", "text"),
    [
        (BALL, "A red ball lies on a blue table and a dog sits to the left of the table."),
        (BALL, "A table, blue and old, supports a ball that is red. On the left, a dog waits."),
        (BALL, "A red ball on a blue table. To its left sits a dog."),
        (BALL, "Left of a blue table is a dog; atop the table rests a bright-red ball."),
        (BALL, "The blue table stands to the right of a dog, a red ball upon it."),
        (DRESSED, "A man in a hat grips an umbrella."),
        (DRESSED, "A hat is worn by a woman who carries an umbrella."),
        (DRESSED, "A person wears a hat. In her hand she holds an umbrella."),
        (DOGS, "A brown dog stands left of a black dog; under the table hides a cat."),
        (DOGS, "Two dogs, one brown and one black, the brown to the left. Above a cat, a table."),
        (CHASE, "A dog chases a cat while a person sits on a bench."),
        (CHASE, "A cat is chased by a dog; on a bench, a woman is seated."),
        (CHASE, "A cat runs, pursued by a dog. A boy perches on a bench."),
        (CROWD, "Two people sit on a bench."),
        (CROWD, "A woman sits on a bench. Another person sits on it too."),
        ("three | near | box; dog near box", "A three and a dog stand beside a box."),
        ("sports ball near dog", "A ball lies next to a dog."),
        ("gray cat | in | wooden box", "A grey cat in a box made of wood."),
        ("dog.1; dog.2; dog.3", "A pair of dogs, and a third dog."),
        ("wolf.1; wolf.2", "Wolves."),
        ('"glass of water" | on | table', "Glasses of water on tables"),
    ],
)
def test_every_fact_is_found(scene: str, text: str) -> None:
    assert lost(scene, text) == []


@pytest.mark.parametrize(
    ("scene", "text", "missing"),
    [
        (
            BALL,
            "A blue ball lies on a red table and a dog sits to the left of the table.",
            ["ball is red", "table is blue"],
        ),
        (
            BALL,
            "A red ball on a blue table. To the left of a dog stands the table.",
            ["dog left of blue table"],
        ),
        (BALL, "A red ball and a blue table, and a dog.", ["red ball on blue table",
                                                           "dog left of blue table"]),
        (BALL, "A red ball lies on a blue table.", ["dog", "dog left of blue table"]),
        (DRESSED, "A woman with a hat. She holds an umbrella.", ["person wearing hat"]),
        (DRESSED, "An umbrella holds a person wearing a hat", ["person holding umbrella"]),
        (CHASE, "A cat chases a dog and a person sits on a bench.", ["dog chasing cat"]),
        (CHASE, "A dog chases a cat and a person sits beside a bench.",
         ["person sitting on bench"]),
        (CROWD, "A person sits on a bench.",
         ["2 persons (only 1 said)", "person sitting on bench"]),
        (DOGS, "A brown dog. A cat under a table.",
         ["2 dogs (only 1 said)", "dog is black", "brown dog left of black dog"]),
        ("sports ball near ball", "A ball.", ["sports ball", "sports ball near ball"]),
        ("hot dog on table", "A dog on a table.", ["hot dog", "hot dog on table"]),
        ("dog", "A dogged effort.", ["dog"]),
        ("dog", "", ["dog"]),
    ],
)  # fmt: skip
def test_what_is_lost_is_named(scene: str, text: str, missing: list[str]) -> None:
    assert lost(scene, text) == missing


def test_the_example_of_the_paper_loses_what_it_only_hints_at() -> None:
    scene = loads_scene(
        """{"objects": ["cymbal.1", "cymbal.2", "drum.3", "guitar.4", "microphone.5", "person.6"],
        "relationships": [
        {"source": "person.6", "target": "guitar.4", "relation": "playing"},
        {"source": "person.6", "target": "microphone.5", "relation": "using"},
        {"source": "guitar.4", "target": "cymbal.1", "relation": "near"},
        {"source": "guitar.4", "target": "drum.3", "relation": "near"}]}"""
    )
    text = (
        "A musician stands on a stage, the bright lights reflecting off their instruments. They "
        "are playing a guitar, their fingers dancing across the strings. A microphone is "
        "positioned in front of them, capturing their performance. The guitar rests near a pair "
        "of cymbals, and a drum sits nearby, adding to the musical ensemble."
    )
    assert [fact.statement for fact in lost_facts(scene, text)] == ["person using microphone"]


@pytest.mark.parametrize(
    ("relation", "said"),
    [
        ("cat left of dog", True),
        ("dog right of cat", True),
        ("cat above dog", True),
        ("cat right of dog", False),
        ("dog left of cat", False),
        ("cat below dog", False),
        ("cat behind dog", False),
    ],
)
def test_places_in_the_picture_say_one_direction_and_not_its_opposite(
    relation: str, said: bool
) -> None:
    scene = load_scene(relation, format="triplets")
    assert (lost_facts(scene, "A cat at the top left, a dog at the bottom right.") == ()) is said


def test_what_stands_on_one_side_stands_on_no_side_of_each_other() -> None:
    scene = load_scene("cat left of dog", format="triplets")
    assert lost_facts(scene, "A cat at the left, a dog at the left.") != ()
    assert lost_facts(scene, "A cat at the left, a dog at the right.") == ()


NAMES = ("dog", "sports ball", "bus", "umbrella", "box", "person")


@st.composite
def plain_scenes(draw: st.DrawFn) -> SceneGraph:
    """Scenes of different classes with usual words."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=2, max_size=4, unique=True))
    colors = st.sampled_from(("red", "blue", "dark green"))
    objects = tuple(
        SceneObject(id=f"{n}.1", name=n, attributes=Attributes({"color": draw(colors)}))
        for n in names
    )
    predicates = st.sampled_from(("left of", "on", "holding", "near", "looking at", "behind"))
    ends = [item.id for item in objects]
    relations = [
        Relation(source=a, predicate=draw(predicates), target=b)
        for a, b in itertools.pairwise(ends)
    ]
    return SceneGraph(objects=objects, relations=tuple(relations))


@given(plain_scenes(), st.data())
def test_triplets_say_all_and_fewer_of_them_do_not(scene: SceneGraph, data: st.DataObject) -> None:
    whole = text_of(triplets(scene)).replace(", ", ". ")
    assert lost_facts(scene, whole) == ()
    gone = data.draw(st.sampled_from(scene.relations))
    fewer = scene.model_copy(update={"relations": tuple(r for r in scene.relations if r != gone)})
    found = lost_facts(scene, text_of(triplets(fewer)).replace(", ", ". "))
    assert [fact.kind for fact in found] == ["relation"]


@given(scenes(), st.text(max_size=200))
def test_any_text_can_be_checked(scene: SceneGraph, text: str) -> None:
    assert lost_facts(scene, text) == lost_facts(scene, text)
    if not text.strip():
        assert len(lost_facts(scene, text)) >= len({o.name.casefold() for o in scene.objects})


def test_real_language_passes_for_its_own_facts_and_fails_for_exchanged_ones() -> None:
    """The wordings that people use: light verbs, parts, passives, lists, places in the picture."""
    text = (
        "Three men in blue shirts are riding horses. Their horses stand on grass. "
        "In the background there is a wooden fence."
    )
    own = "man | wearing | blue shirt; man | riding | horse; horse | on | grass; wooden fence"
    assert lost(own, text) == []
    for exchanged, missing in (
        ("dog | riding | horse", "dog"),
        ("man | pushing | horse", "man pushing horse"),
        ("red fence", "fence is red"),
        ("grass | on | horse", "grass on horse"),
    ):
        assert missing in lost(exchanged, text)
