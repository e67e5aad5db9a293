"""What the check of composed sentences finds said and lost."""

from __future__ import annotations

import asyncio
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.composers.check import lost_facts, unusable_reason
from scenewright.agents.composers.rules import text_of, triplets
from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.core.formats import load_scene, loads_scene
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
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
    ("scene", "text", "said"),
    [
        (BALL, "A red ball.1 lies on a blue table.", "the id 'ball.1': call the object 'ball'"),
        (BALL, "Dog.1 sits left of the blue table.", "the id 'dog.1'"),
        (BALL, "A red ball.<|im_end|>\n<|im_start|>user", "'<|im_end|>'"),
        (BALL, "[INST] A red ball [/INST]", "'[INST]'"),
        (BALL, "<think>A ball is red.</think> A red ball.", "'<think>'"),
        (BALL, "A red ball.\n### Response:\nA dog.", "'### Response:'"),
        (BALL, "A red ball on a blue table" + ", very" * 6, "repeats itself: 'very'"),
        (BALL, "I'm so glad you're here. " * 5, "repeats itself: 'i m so glad you re here'"),
        ("dog.1; dog.2; dog.3; dog.4; dog.5; dog.6", "A dog, " * 8, "repeats itself: 'a dog'"),
    ],
)
def test_what_no_prompt_holds_is_refused(scene: str, text: str, said: str) -> None:
    assert said in unusable_reason(load_scene(scene, format="triplets"), text)


@pytest.mark.parametrize(
    ("scene", "text"),
    [
        (BALL, "A red ball lies on a blue table. A dog sits on the left. It is very, very big."),
        ("dog.1; dog.2; dog.3; dog.4; dog.5; dog.6", "A dog, a dog, a dog, a dog, a dog, a dog."),
        # What the scene itself says is a name like any other.
        ('"<|im_end|>" | on | table', "The <|im_end|> stands on a table."),
        ("dog", "The price is 1.1 and the dog. 1 more."),
        ("dog.1; dog.2", "Two dogs, and version dog.11 of a poster."),
    ],
)
def test_other_words_are_fit(scene: str, text: str) -> None:
    assert unusable_reason(load_scene(scene, format="triplets"), text) == ""


@given(scenes())
def test_what_is_composed_by_rules_is_fit(scene: SceneGraph) -> None:
    text = asyncio.run(SentenceComposer().compose(scene, 0))
    assert unusable_reason(scene, text) == ""


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


@pytest.mark.parametrize(
    ("relation", "text", "said"),
    [
        # "Of" and "with" lead on from what stands before them, and from nothing behind.
        ("corgi | on | sign", "A photo of a corgi with a sign.", False),
        ("sign | has | corgi", "A photo of a corgi with a sign.", False),
        ("corgi | has | sign", "A photo of a corgi with a sign.", True),
        ("stop sign | on | dog", "A photo of a dog and a stop sign.", False),
        # A verb has what follows it, not all that the sentence names.
        ("infant | has | bed", "An infant is sitting on a bed wearing glasses.", False),
        ("infant | has | glasses", "An infant is sitting on a bed wearing glasses.", True),
        ("man | petting | fence", "A man is petting a horse and leaning on a fence.", False),
        ("man | petting | horse", "A man is petting his white horse along the fence.", True),
        ("man | wearing | hat", "The hat that a man wears is red.", True),
        ("woman | wearing | coat", "A woman wearing a hat with a feather and a coat.", True),
        # Parts of a body belong to who is named, and to no part that does not have them.
        ("person | has | elbow", "A person, the elbow bent.", True),
        ("arm | has | elbow", "The arm up, the elbow bent.", True),
        ("elbow | has | face", "The elbow is used to cover the face.", False),
        ("megaphone | has | neck collar", "A megaphone lies on the neck collar.", False),
        # The agent of a passive is not beside what is done.
        ("dog | next to | ball", "A ball is held by a dog.", False),
        ("dog | holding | ball", "A ball is held by a dog.", True),
        ("dog | next to | ball", "A ball lies by a dog.", True),
        ("car | next to | house", "A car is parked by a house.", True),
        ("broccoli | on | plate", "A plate topped with broccoli.", True),
        ("dog | wag | tail", "A dog is wagging the tail of a kite.", True),
        ("chicken | in | gym", "A chicken working out in a gym.", True),
        ("freckles | on | neck", "There are freckles on the person's neck.", True),
    ],
)
def test_words_join_what_they_lead_to(relation: str, text: str, said: bool) -> None:
    scene = loads_scene(_one_relation(relation))
    assert (lost_facts(scene, text) == ()) is said


def _one_relation(relation: str) -> str:
    source, predicate, target = (part.strip() for part in relation.split("|"))
    return json.dumps(
        {
            "objects": [f"{source}.1", f"{target}.2"],
            "relationships": [
                {"source": f"{source}.1", "target": f"{target}.2", "relation": predicate}
            ],
        }
    )
