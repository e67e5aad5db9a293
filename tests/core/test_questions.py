"""Which facts a scene has and how they are asked, in both protocols."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.core.english import article
from scenewright.core.facts import FACT_KINDS, FactError
from scenewright.core.formats import load_scene
from scenewright.core.inflection import plural
from scenewright.core.intent import Intent
from scenewright.core.predicate_statistics import (
    PredicateError,
    PredicateStatistics,
    as_json,
    load_predicates,
)
from scenewright.core.questions import (
    ALL_WHOLE,
    NO_RELATION,
    PROTOCOLS,
    Protocol,
    QuestionForm,
    attribute_fact_id,
    facts_of,
    nothing_else_question,
    object_fact_id,
    object_in_words,
    realism_facts_of,
    relation_fact_id,
    relation_options,
    soundness_facts_of,
)
from scenewright.core.referring import distinguishing_keys, instance_order, noun_phrase, option_text
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.core.vocabulary import canonical, contrasts, holds_with, opposite
from scenewright.miniature.world import COLORS, KINDS
from scenewright.providers import fact_digest
from tests.strategies import ODD_NAMES, scenes


def questions(text: str, protocol: Protocol) -> list[str]:
    return [fact.question for fact in facts_of(load_scene(text), protocol)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(scene=scenes(), seed=st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_facts_of_any_scene(protocol: Protocol, scene: SceneGraph, seed: int) -> None:
    facts = facts_of(scene, protocol, seed)
    assert facts == facts_of(scene, protocol, seed)
    ids = [fact.id for fact in facts]
    assert len(set(ids)) == len(ids)
    assert len(facts) == len(scene.objects) + len(scene.relations) + sum(
        len(item.attributes) for item in scene.objects
    )
    order = [FACT_KINDS.index(fact.kind) for fact in facts]
    assert order == sorted(order)
    assert [f.subject for f in facts if f.kind == "object"] == [o.id for o in scene.objects]
    assert [(f.subject, f.predicate, f.target) for f in facts if f.kind == "relation"] == [
        (r.source, r.predicate, r.target) for r in scene.relations
    ]
    for at, fact in enumerate(facts):
        assert set(fact.parents) <= set(ids[:at])
        assert fact.question.endswith("?")
        assert fact.options.count(fact.expected) == 1
        if fact.kind == "attribute":
            assert scene.object(fact.subject).attributes[str(fact.key)] == fact.value
        ends = [scene.object(end).name for end in (fact.subject, fact.target) if end is not None]
        if fact.kind == "object" or protocol == "scene-bench":
            assert fact.parents == ()
            continue
        # What is asked of instances depends on as many of their classes as it needs.
        assert [scene.object(parent.removeprefix("o:")).name for parent in fact.parents] == ends
        if fact.kind == "relation":
            counts = [1, 1 + (ends[0] == ends[1])]
            orders = [instance_order(scene, name) for name in ends]
            assert list(fact.parents) == [
                object_fact_id(order[count - 1])
                for order, count in zip(orders, counts, strict=True)
            ]


@given(scene=scenes(min_objects=2), seed=st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_relation_options(scene: SceneGraph, seed: int) -> None:
    for fact in facts_of(scene, seed=seed):
        if fact.kind != "relation":
            assert fact.is_binary
            continue
        if fact.is_binary:
            continue
        assert fact.options[-1] == NO_RELATION
        assert fact.expected == option_text(str(fact.predicate))
        assert len(set(fact.options)) == len(fact.options) <= 4
        wrong = [option for option in fact.options[:-1] if option != fact.expected]
        stated = {
            r.predicate
            for r in scene.relations
            if (r.source, r.target) == (fact.subject, fact.target)
        }
        for option in wrong:
            assert [one for one in stated if holds_with(one, option)] == []


def test_scene_bench_asks_as_the_paper_does() -> None:
    text = "person | kicking | sports ball; person.1 near person.2"
    facts = facts_of(load_scene(text), "scene-bench")
    assert [fact.question for fact in facts] == [
        "Is there a person in the image?",
        "Is there a sports ball in the image?",
        "Is there a person in the image?",
        "What is the relationship between the person and the sports ball in the image?",
        "What is the relationship between the person and the person in the image?",
    ]
    assert facts[0].options == ("yes", "no")
    assert len(facts[3].options) == 4
    assert {"kicking", "no visible relationship"} < set(facts[3].options)
    assert facts == facts_of(load_scene(text), "scene-bench", seed=9)


def test_grounded_tells_instances_apart() -> None:
    text = "red dog.1 near cat; blue dog.2 on rug; two buses; umbrella left of cat"
    assert questions(text, "grounded") == [
        "Is there a dog in the image?",
        "Is there a cat in the image?",
        "Are there at least 2 dogs in the image?",
        "Is there a rug in the image?",
        "Is there a bus in the image?",
        "Are there at least 2 buses in the image?",
        "Is there an umbrella in the image?",
        "Is there a red dog in the image?",
        "Is there a blue dog in the image?",
        "What is the relationship between the red dog and the cat in the image?",
        "What is the relationship between the blue dog and the rug in the image?",
        "What is the relationship between the umbrella and the cat in the image?",
    ]


def test_twins_are_counted_and_named_as_one_of_them() -> None:
    assert questions("two red children on bed", "grounded") == [
        "Is there a child in the image?",
        "Are there at least 2 children in the image?",
        "Is there a bed in the image?",
        "Is there a red child in the image?",
        "Are there at least 2 red children in the image?",
        "Is at least one of the red children on the bed in the image?",
        "Are at least 2 of the red children on the bed in the image?",
    ]


def test_no_two_relations_share_a_question() -> None:
    text = "man holding cup.1; man holding cup.2; boy has hat; boy wearing hat"
    assert questions(text, "grounded")[-4:] == [
        "Is the man holding at least one of the cups in the image?",
        "Is the man holding at least 2 of the cups in the image?",
        "Does the boy have the hat in the image?",
        "Is the boy wearing the hat in the image?",
    ]
    taught = load_predicates("miniature")
    facts = facts_of(load_scene("dog.1 near tree; dog.2 near tree"), predicates=taught)
    assert {fact.is_binary for fact in facts if fact.kind == "relation"} == {False}


def test_instances_are_named_by_what_else_tells_them_apart() -> None:
    text = "dog.1 on rug; dog.2 under bed; dog.1 left of cat; dog.2 left of cat"
    assert questions(text, "grounded")[-2:] == [
        "What is the relationship between the dog on the rug and the cat in the image?",
        "What is the relationship between the dog under the bed and the cat in the image?",
    ]


def test_a_single_instance_is_asked_by_its_label() -> None:
    assert questions("big red dog", "grounded")[1:] == ["Is the dog red?", "Is the dog big?"]


def test_the_seed_shuffles_grounded_options_alone() -> None:
    scene = load_scene("dog left of cat; cat on rug; man holding cup")
    orders = {tuple(f.options for f in facts_of(scene, seed=seed)) for seed in range(12)}
    assert len(orders) > 3
    firsts = {f.options.index(f.expected) for seed in range(12) for f in facts_of(scene, seed=seed)
              if f.kind == "relation"}  # fmt: skip
    assert firsts == {0, 1, 2}
    ids = {tuple(f.id for f in facts_of(scene, seed=seed)) for seed in range(3)}
    assert len(ids) == 1


def test_a_second_true_predicate_is_no_wrong_option() -> None:
    text = "dog.1 on rug; dog.1 left of rug; rug.1 right of dog.1; rug.1 under dog.1"
    for seed in range(20):
        for fact in facts_of(load_scene(text), seed=seed):
            if fact.kind == "relation":
                # What the scene states the other way round counts by its converse.
                true = {"dog.1": {"on", "left of"}, "rug.1": {"right of", "under"}}[fact.subject]
                assert not (true - {fact.expected}) & set(fact.options)


def test_a_one_sided_relation_the_other_way_round_is_no_wrong_option() -> None:
    for seed in range(10):
        facts = facts_of(load_scene("man feeding dog; dog looking at man"), seed=seed)
        assert "looking at" not in facts[2].options


def test_instances_that_cannot_be_told_apart_do_not_rule_each_other_wrong() -> None:
    text = "dog.1 left of ball; dog.2 right of ball"
    for seed in range(20):
        facts = [f for f in facts_of(load_scene(text), seed=seed) if f.kind == "relation"]
        assert "right of" not in facts[0].options
        assert "left of" not in facts[1].options


def wrong_of(predicate: str, source: str = "man", target: str = "bench") -> list[str]:
    """Wrong options of one question, whatever their order."""
    options = relation_options(predicate, (0,), (source, target)).offered
    return [option for option in options[:-1] if option != option_text(predicate)]


@pytest.mark.parametrize(
    ("text", "right", "never"),
    [
        ("car.1 behind car.2", "behind", {"in front of", "holding", "wearing", "riding"}),
        ("man | wear | hat", "wearing", {"has", "with", "dressed in", "inside"}),
        ("man | hold | cup", "holding", {"carrying", "has", "with"}),
        ("man | ride | bike", "riding", {"on", "sitting on"}),
        ("man | carry | bag", "carrying", {"holding", "has", "with"}),
        ("person | playing | guitar", "playing", {"holding", "using", "with"}),
        ("lamp | above | table", "above", {"left of", "to the left of", "over"}),
        ("cup | on | table", "on", {"on top of", "in", "inside"}),
    ],
)
def test_no_wrong_option_may_hold_as_well(text: str, right: str, never: set[str]) -> None:
    for seed in range(10):
        for fact in facts_of(load_scene(text), seed=seed):
            if fact.kind == "relation":
                assert fact.expected == right
                assert len(fact.options) == 4
                assert not never & set(fact.options)


@pytest.mark.parametrize(
    ("predicate", "mirror"),
    [
        ("left of", "right of"),
        ("to the left of", "to the right of"),
        ("on the left of", "on the right of"),
        ("on the right of", "on the left of"),
        ("on the top of", "under"),
        ("on the bottom of", "above"),
        ("above", "below"),
        ("behind", "in front of"),
        ("standing behind", "in front of"),
    ],
)
def test_a_direction_is_asked_against_its_mirror(predicate: str, mirror: str) -> None:
    assert mirror in wrong_of(predicate)
    for source, target in (("dog", "table"), ("zork", "blip"), ("cup", "plate")):
        assert mirror in wrong_of(predicate, source, target)


def test_wrong_options_are_as_plausible_as_the_right_one_and_never_true_at_once() -> None:
    own = PredicateStatistics(
        {
            **{("man", name, "ball"): 6 for name in ("kicking", "throwing", "catching")},
            **{("man", "behind", "ball"): 6, ("sky", "eating", "rug"): 90},
        }
    )
    options = relation_options("kicking", (0,), ("man", "balls"), predicates=own)
    assert set(options.offered[:-1]) == {"kicking", "throwing", "catching"}
    assert not options.guessable
    # What the data knows for these classes is far likelier than all that contrasts with it.
    assert relation_options("eating", (0,), ("sky", "rug"), predicates=own).guessable
    for first, second in itertools.combinations(options.offered[:-1], 2):
        assert contrasts(first, second)


def test_options_are_said_in_one_form() -> None:
    for predicate in ("wear", "wears", "is wearing", "wearing"):
        options = relation_options(predicate, (0,), ("man", "hat")).offered
        assert [one for one in options if one.partition(" ")[0] in ("wear", "wears", "is")] == []
    assert option_text("has") == "has"
    assert option_text("to the left of") == "to the left of"


@given(predicate=st.sampled_from(["on", "Left Of", "zorking", "near", "hold", "in front of"]))
def test_two_wrong_options_differ_from_what_is_asked_and_holds(predicate: str) -> None:
    options = relation_options(predicate, (0,), ("dog", "cat"), ["Behind"]).offered
    wrong = [option for option in options[:-1] if option != option_text(predicate)]
    assert len({canonical(option) for option in wrong}) == 2
    assert not any(holds_with("behind", option) for option in wrong)
    turned = opposite(predicate)
    if turned is not None and not holds_with("behind", turned):
        assert turned in map(canonical, wrong)


def test_options_when_nothing_else_is_known() -> None:
    empty = PredicateStatistics()
    assert relation_options("zork", (0,), ("a", "b"), predicates=empty).offered == (
        "zork",
        NO_RELATION,
    )
    only = PredicateStatistics({("a", "on", "b"): 9})
    assert relation_options("zork", (0,), ("a", "b"), ("sitting on",), only).offered == (
        "zork",
        NO_RELATION,
    )


def test_no_relation_cannot_be_asked_for() -> None:
    with pytest.raises(FactError, match="asks for no relation"):
        facts_of(load_scene("dog | no visible relationship | cat"))


def test_unknown_protocol() -> None:
    with pytest.raises(ValueError, match="use one of scene-bench, grounded"):
        facts_of(load_scene("dog"), "other")  # type: ignore[arg-type]


def test_fact_ids_stay_readable_and_never_collide() -> None:
    assert object_fact_id("dog.1") == "o:dog.1"
    assert attribute_fact_id("dog.1", "color") == "a:dog.1:color"
    relation = Relation(source="dog.1", predicate="left of", target="ball.1")
    assert relation_fact_id(relation) == "r:dog.1|left of|ball.1"
    assert attribute_fact_id("x", "y:z") != attribute_fact_id("x:y", "z")
    parts = ["a", "a|b", "b|a", "|", "a\\", "\\", "a\\|b"]
    triples = list(itertools.product(parts, repeat=3))
    made = {relation_fact_id(Relation(source=s, predicate=p, target=t)) for s, p, t in triples}
    assert len(made) == len(triples)


def oracle(scene: SceneGraph, item: SceneObject) -> int | None:
    """Size of the smallest telling attribute set, by trying every set."""
    sizes = []
    keys = list(item.attributes)
    for mask in range(2 ** len(keys)):
        subset = [key for bit, key in enumerate(keys) if mask >> bit & 1]
        said = {item.attributes[key].casefold() for key in subset}
        fits = [
            o
            for o in scene.objects
            if o.name == item.name and said <= {v.casefold() for v in o.attributes.values()}
        ]
        if fits == [item]:
            sizes.append(len(subset))
    return min(sizes, default=None)


_few = st.sampled_from(["red", "blue", "Red"])
_dogs = st.lists(
    st.dictionaries(st.sampled_from("abc"), _few, max_size=3), min_size=1, max_size=4
).map(
    lambda all_: SceneGraph(
        objects=tuple(
            SceneObject(id=f"dog.{n}", name="dog", attributes=Attributes(a))
            for n, a in enumerate(all_)
        )
    )
)


@given(scene=_dogs)
@settings(deadline=None)
def test_distinguishing_keys_are_the_fewest(scene: SceneGraph) -> None:
    for item in scene.objects:
        keys = distinguishing_keys(scene, item)
        size = oracle(scene, item)
        assert (None if keys is None else len(keys)) == size
        if keys:
            said = {item.attributes[key].casefold() for key in keys}
            rivals = [o for o in scene.objects if o.id != item.id]
            assert not any(
                said <= {value.casefold() for value in o.attributes.values()} for o in rivals
            )


def test_distinguishing_keys_by_hand() -> None:
    scene = load_scene("red big dog.1; red dog.2 [size=small]; cat; blue dog.3 [size=small]")
    keys = [distinguishing_keys(scene, item) for item in scene.objects]
    assert keys == [("size",), ("color", "size"), (), ("color",)]
    swapped = load_scene("dog.1 [coat=red, collar=blue]; dog.2 [coat=blue, collar=red]")
    assert [distinguishing_keys(swapped, item) for item in swapped.objects] == [None, None]


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("dog", "a"),
        ("umbrella", "an"),
        ("Apple", "an"),
        ("unicorn", "a"),
        ("Uniform", "a"),
        ("unimportant box", "an"),
        ("used car", "a"),
        ("hourglass", "an"),
        ("one-way sign", "a"),
        ("orange", "an"),
        ("", "a"),
        ("犬", "a"),
    ],
)
def test_articles(phrase: str, expected: str) -> None:
    assert article(phrase) == expected


def test_noun_phrases_say_nothing_twice() -> None:
    ball = SceneObject(
        id="b", name="red ball", attributes=Attributes({"color": "Red", "a": "big", "b": "big"})
    )
    assert noun_phrase(ball) == "big red ball"
    assert noun_phrase(ball, ()) == "red ball"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_stay_inside_their_question(protocol: Protocol, name: str) -> None:
    objects = tuple(SceneObject(id=str(n), name=name) for n in (1, 2))
    relation = Relation(source="1", predicate=name, target="2")
    facts = facts_of(SceneGraph(objects=objects, relations=(relation,)), protocol)
    said = (f"Is there {article(name)} {name}", f"Is there {name}", f"Are there {name}")
    assert facts[0].question in [f"{one} in the image?" for one in said]
    if protocol == "scene-bench":
        assert facts[0].question == f"{said[0]} in the image?"
    assert facts[0].options == ("yes", "no")
    assert name in facts[2].options


def test_realism_is_asked_of_every_object_and_aspect() -> None:
    scene = SceneGraph(
        objects=(
            SceneObject(id="d", name="dog", attributes=Attributes({"color": "red", "size": "big"})),
            SceneObject(id="e", name="dog", attributes=Attributes({"color": "blue"})),
            SceneObject(id="f", name="ball"),
            SceneObject(id="g", name="ball"),
        )
    )
    facts = realism_facts_of(scene)
    assert [(fact.subject, fact.key, fact.value) for fact in facts] == [
        (subject, aspect, name)
        for subject, name in (("d", "dog"), ("e", "dog"), ("f", "ball"), ("g", "ball"))
        for aspect in ("shape", "texture")
    ]
    assert {fact.parents for fact in facts[:2]} == {("o:d",)}
    assert [object_in_words(fact) for fact in facts[::2]] == [
        "big red dog",
        "blue dog",
        "ball",
        "ball",
    ]
    assert facts[0].question == (
        "Does the red dog have realistic shape and structure, as in a photo?"
    )
    assert facts[7].question == (
        "Does the ball that is number 2 of 2 by size have realistic texture, color and shade, as "
        "in a photo?"
    )


@given(scene=scenes())
@settings(max_examples=40, deadline=None)
def test_no_two_objects_share_a_question_of_realism(scene: SceneGraph) -> None:
    facts = realism_facts_of(scene)
    assert len({fact_digest(fact) for fact in facts}) == len(facts) == 2 * len(scene.objects)
    assert [fact.value for fact in facts[::2]] == [item.name for item in scene.objects]
    assert [object_in_words(fact) for fact in facts[::2]] == list(map(noun_phrase, scene.objects))


def test_the_painted_world_offers_what_its_judges_were_taught() -> None:
    taught = load_predicates("miniature")
    scene = load_scene("dog left of cat; dog near cat; ball on table; person holding umbrella")
    found = {
        str(fact.predicate): set(fact.options[:-1])
        for fact in facts_of(scene, predicates=taught)
        if fact.kind == "relation"
    }
    assert {len(options) for options in found.values()} == {3}
    assert "right of" in found["left of"] <= {"left of", "right of", "on", "under"}
    assert found["near"] <= {"near", "holding", "wearing", "inside"}
    assert "under" in found["on"] <= {"on", "under", "above", "inside"}
    assert found["holding"] <= {"holding", "near", "wearing", "riding"}


def test_counts_of_a_file_are_read_anew_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    with pytest.raises(PredicateError, match="name one of general, miniature, or a file"):
        load_predicates(str(file))
    file.write_text(as_json(PredicateStatistics({("man", "riding", "horse"): 2})))
    first = load_predicates(str(file))
    assert load_predicates(str(file)) is first
    file.write_text(as_json(PredicateStatistics({("man", "feeding", "horse"): 3})))
    os.utime(file, ns=(1, 1))
    assert dict(load_predicates(str(file)).totals) == {"feeding": 3}


def asked(objects: dict[str, dict[str, str]], **intent: object) -> list[str]:
    """Questions of a scene of these objects, by id, with their attributes."""
    scene = SceneGraph(
        objects=tuple(
            SceneObject(id=key, name=key.partition(".")[0], attributes=Attributes(values))
            for key, values in objects.items()
        ),
        intent=Intent.model_validate(intent),
    )
    return [fact.question for fact in QuestionForm().facts(scene)]


@pytest.mark.parametrize(
    ("attributes", "question"),
    [
        ({"state": "work out"}, "Is the chicken working out?"),
        ({"state": "swing"}, "Is the chicken swinging?"),
        ({"state": "dignified and stand"}, "Is the chicken dignified and standing?"),
        ({"state": "parked"}, "Is the chicken parked?"),
        ({"state": "friendly"}, "Is the chicken friendly?"),
        ({"state": "in three different directions"},
         "Is the chicken in three different directions?"),
        ({"place": "in background"}, "Is the chicken in the background?"),
        ({"place": "on top"}, "Is the chicken on top?"),
        ({"age": "baby"}, "Is the chicken a baby?"),
        ({"shape": "heart"}, "Is the chicken heart-shaped?"),
        ({"material": "autumn leaves"}, "Is the chicken made of autumn leaves?"),
        ({"material": "wooden"}, "Is the chicken wooden?"),
        ({"type": "calico"}, "Is the chicken a calico chicken?"),
        ({"text": "KEEP OFF"}, 'Does the chicken say "KEEP OFF"?'),
        ({"striped": "yes"}, "Is the chicken striped?"),
    ],
)  # fmt: skip
def test_attributes_are_asked_in_english(attributes: dict[str, str], question: str) -> None:
    assert asked({"chicken.1": attributes})[1] == question


def test_several_of_a_class_are_told_apart_by_clauses_behind_the_noun() -> None:
    objects = {"dog.1": {"state": "stand"}, "dog.2": {"state": "stand"}, "dog.3": {"text": "Rex"}}
    assert asked(objects)[3:] == [
        "Is there a dog standing in the image?",
        "Are there at least 2 dogs standing in the image?",
        'Is there a dog that says "Rex" in the image?',
    ]


def test_what_all_of_a_class_do_tells_none_apart() -> None:
    objects = {"dog.1": {"state": "stand"}, "dog.2": {"state": "stand"}, "rug.1": {}}
    ends = [("dog.1", "on", "rug.1"), ("dog.1", "next to", "dog.2")]
    relations = [Relation(source=s, predicate=p, target=t) for s, p, t in ends]
    scene = SceneGraph(
        objects=tuple(
            SceneObject(id=key, name=key[:-2], attributes=values) for key, values in objects.items()
        ),
        relations=tuple(relations),
    )
    found = [fact.question for fact in facts_of(scene) if fact.kind == "relation"]
    assert found == [
        "What is the relationship between one of the dogs and the rug in the image?",
        "What is the relationship between the dog on the rug and one of the dogs in the image?",
    ]


def test_a_place_in_the_picture_is_asked_of_the_image() -> None:
    objects = {"tree.1": {"place": "in background"}, "tree.2": {"place": "in the air"}}
    assert asked(objects)[2:] == [
        "Is there a tree in the background of the image?",
        "Is there a tree in the air in the image?",
    ]


def test_the_number_of_those_who_do_something_is_asked_with_a_verb() -> None:
    objects = {f"dog.{n}": Attributes({"state": "sit"}) for n in (1, 2)}
    scene = SceneGraph(
        objects=tuple(SceneObject(id=k, name="dog", attributes=v) for k, v in objects.items())
    )
    found = [fact.counting.question for fact in facts_of(scene) if fact.counting is not None]
    assert list(dict.fromkeys(found)) == [
        "How many dogs are there in the image?",
        "How many dogs are sitting in the image?",
    ]


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("grass", "Is there grass in the image?"),
        ("traffic light", "Is there a traffic light in the image?"),
        ("sunglasses", "Are there sunglasses in the image?"),
        ("people", "Are there people in the image?"),
        ("someone", "Is there someone in the image?"),
        ("sky", "Is the sky in the image?"),
        ("Mona Lisa", "Is Mona Lisa in the image?"),
    ],
)
def test_labels_are_asked_with_the_article_that_they_take(name: str, question: str) -> None:
    assert asked({f"{name}.1": {}}) == [question]
    scene = SceneGraph(objects=(SceneObject(id="x", name=name),))
    (strict,) = facts_of(scene, "scene-bench")
    assert strict.question == f"Is there {article(name)} {name} in the image?"


def test_the_sentence_tells_which_names_take_an_article() -> None:
    said = "the Statue of Liberty beside a Corvette in Paris"
    names = {"Statue of Liberty.1": {}, "Corvette.1": {}, "Paris.1": {}}
    assert asked(names, sentence=said) == [
        "Is the Statue of Liberty in the image?",
        "Is there a Corvette in the image?",
        "Is Paris in the image?",
    ]


@pytest.mark.parametrize(
    ("kind", "text", "question"),
    [
        ("medium", "oil painting", "Is the image an oil painting?"),
        ("medium", "Photo", "Is the image a photo?"),
        ("medium", "in watercolor", "Is the image in watercolor?"),
        ("style", "digital art", "Is the image digital art?"),
        ("style", "cyberpunk", "Is the style of the image cyberpunk?"),
        ("artist", "in the style of Van Gogh", "Is the image in the style of Van Gogh?"),
        ("artist", "art by Janice Sung", "Is the image in the style of Janice Sung?"),
        ("time", "at night", "Is it night in the image?"),
        ("time", "in the morning", "Is it morning in the image?"),
        ("weather", "on a cloudy day", "Is it a cloudy day in the image?"),
        ("weather", "in the rain", "Is there rain in the image?"),
        ("light", "cinematic lighting", "Does the image show cinematic lighting?"),
        ("view", "close-up", "Is the image a close-up?"),
        ("view", "from above", "Is the scene seen from above?"),
        ("mood", "eerie atmosphere", "Does the image have an eerie atmosphere?"),
    ],
)
def test_wishes_are_asked_in_english(kind: str, text: str, question: str) -> None:
    assert asked({"cat.1": {}}, globals=[{"kind": kind, "text": text}])[1:] == [question]


def test_exclusions_are_asked_of_one() -> None:
    excluded = [
        {"name": "person", "text": "no people"},
        {"name": "red car", "text": "no red cars"},
        {"name": "water", "text": "without water"},
        {"name": "hat", "text": "without a hat", "of": "man.1"},
    ]
    assert asked({"man.1": {}}, exclusions=excluded)[1:] == [
        "Is there a person in the image?",
        "Is there a red car in the image?",
        "Is there water in the image?",
        "Does the man have a hat?",
    ]


def test_the_questions_that_the_miniatures_judges_learnt_stay_as_they_are() -> None:
    """Their weights know these wordings of their classes and colours, letter for letter."""
    for kind, color in itertools.product(KINDS, COLORS):
        many = plural(kind)
        objects = {f"{kind}.1": {"color": color}, f"{kind}.2": {"color": color}}
        assert asked({f"{kind}.1": {"color": color}}) == [
            f"Is there {article(kind)} {kind} in the image?",
            f"Is the {kind} {color}?",
        ]
        assert asked(objects) == [
            f"Is there {article(kind)} {kind} in the image?",
            f"Are there at least 2 {many} in the image?",
            f"Is there {article(color)} {color} {kind} in the image?",
            f"Are there at least 2 {color} {many} in the image?",
        ]


@pytest.mark.parametrize(
    ("things", "named"),
    [
        ([("dog", 1), ("cat", 2)], "a dog and 2 cats"),
        ([("umbrella", 1)], "an umbrella"),
        ([("person", 3), ("snow", 1), ("scissors", 1)], "3 persons, snow and scissors"),
    ],
)
def test_what_was_asked_for_is_listed_beside_anything_else(
    things: list[tuple[str, int]], named: str
) -> None:
    assert nothing_else_question(things) == f"Besides {named}, is there anything else in the image?"


def test_soundness_is_asked_of_the_whole_picture_beside_the_facts_of_its_scene() -> None:
    scene = load_scene("red dog left of cat; blue dog on table")
    whole, extra = soundness_facts_of(scene)
    assert (whole.question, whole.expected) == (ALL_WHOLE, "yes")
    # Who does not know the things cannot say whether they are whole.
    assert whole.classes == extra.classes
    assert extra.question == nothing_else_question([("dog", 2), ("cat", 1), ("table", 1)])
    assert (extra.expected, extra.classes) == ("no", ("dog", "cat", "table"))
    assert {fact.id for fact in (whole, extra)}.isdisjoint(f.id for f in facts_of(scene))
    assert not any(fact.of_graph or fact.depends_on for fact in (whole, extra))
    assert QuestionForm().soundness(scene) == (whole, extra)
    assert QuestionForm("scene-bench").soundness(scene) == ()
