"""The words of the supplement, the templates, and what is drawn from them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.agents.composers.check import lost_facts
from scenewright.agents.composers.rules import word
from scenewright.agents.parsers.classes import CHALLENGES
from scenewright.core.layout import place_objects
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.datasets.psg_prompts import rows
from scenewright.evals.datasets.psg_prompts.templates import (
    DATA,
    NAMES,
    TEMPLATES,
    Draw,
    DrawSpec,
    PsgError,
    draw,
    spoken,
    vocabulary,
)
from scenewright.miniature.world import COLORS, CONTACTS, KINDS, can_hold

SUPPLEMENT = Path(__file__).resolve().parents[5] / "shared" / "seeds" / "psg-bench-supplement.txt"
MIRRORED = frozenset(DATA["spatial"]["contrastive"])


def test_the_lists_are_the_supplements() -> None:
    if not SUPPLEMENT.is_file():
        pytest.skip("the supplement is not on this machine")
    text = " ".join(SUPPLEMENT.read_text(encoding="utf-8").split())
    coco = DATA["coco"]
    assert f"Things (80): {', '.join(coco['things'])}. Stuff" in text
    assert f"Stuff (53): {', '.join(coco['stuff'])}. Object Names" in text
    assert f"{', '.join(DATA['ade20k']['names'])}. Spatial" in text
    # It announces 53 regions and prints 52.
    assert (len(coco["things"]), len(coco["stuff"]), len(DATA["ade20k"]["names"])) == (80, 52, 150)
    # The relation broken by a page of the text is the last of them.
    for phrase in [*DATA["spatial"]["contrastive"][:3], *DATA["spatial"]["other"]]:
        assert f"“{phrase}”" in text
    for row in DATA["verbs"]:
        assert f"“{row['verb']}”" in text
    for kind in ("persons", "animals", "objects"):
        assert ", ".join(DATA["nouns"][kind]) in text


def test_of_synonyms_the_first_is_the_name() -> None:
    nouns = {noun.name: noun for noun in vocabulary("ade20k").nouns}
    assert nouns["road"].synonyms == ("route",)
    assert "road/route" not in nouns
    assert spoken("wall-brick") == "brick wall"
    assert spoken("sign-board") == "sign-board"


def test_every_verb_has_subjects_and_objects_in_every_list() -> None:
    for name in ("coco", "ade20k", "both"):
        said = {verb.predicate for verb in vocabulary(name).verbs}
        assert said == {row["predicate"] for row in DATA["verbs"]}
    wearing = {
        (one.kind, other.name)
        for verb in vocabulary("both").verbs
        if verb.predicate == "wearing"
        for one, other in verb.pairs
    }
    assert ("person", "tie") in wearing
    assert not any(kind != "person" for kind, _ in wearing)


def names_of(scene: SceneGraph) -> list[str]:
    return sorted({item.name for item in scene.objects})


@pytest.mark.parametrize("names", NAMES)
def test_every_template_and_challenge_is_drawn_and_nothing_twice(names: str) -> None:
    found = draw(DrawSpec(names=names), 180)
    assert len(found) == 180
    assert {one.template for one in found} == set(TEMPLATES)
    assert {one.challenge for one in found} == set(CHALLENGES)
    texts = [rows.by_rules(one).text for one in found]
    assert len(set(texts)) == len(texts)
    assert [one.id for one in found] == sorted({one.id for one in found})


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(NAMES))
def test_the_rules_lose_no_fact(seed: int, names: str) -> None:
    for one in draw(DrawSpec(names=names, seed=seed), 30):
        text = rows.by_rules(one).text
        assert lost_facts(one.scene, text) == (), text
        assert text.endswith(".")
        assert one.said in text


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(NAMES))
def test_pairs_mirror_each_other(seed: int, names: str) -> None:
    words = vocabulary(names)
    found = draw(DrawSpec(names=names, templates=("position",), seed=seed), 24)
    pairs: dict[str, list[Draw]] = {}
    for one in found:
        predicate = one.scene.relations[0].predicate
        assert bool(one.pair) is (predicate in words.contrastive)
        if one.pair:
            pairs.setdefault(one.pair, []).append(one)
    assert all(len(pair) == 2 for pair in pairs.values())
    for first, second in pairs.values():
        assert (first.challenge, first.said) == (second.challenge, second.said)
        told, turned = (
            Counter(
                (r.predicate, r.source, r.target)
                for r in one.scene.relations
                if r.predicate in words.contrastive
            )
            for one in (first, second)
        )
        assert turned == Counter((p, target, source) for p, source, target in told)
        assert Counter(first.scene.objects) == Counter(second.scene.objects)


def test_pairs_can_be_left_out() -> None:
    spec = DrawSpec(templates=("position",), contrastive=False)
    assert not any(one.pair for one in draw(spec, 40))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 60), st.integers(0, 5))
def test_more_prompts_begin_with_the_same(n: int, seed: int) -> None:
    few, many = draw(DrawSpec(seed=seed), n), draw(DrawSpec(seed=seed), n + 20)
    # The last place goes to the next prompt that stands alone where a pair has no room.
    assert few[: n - 1] == many[: n - 1]
    assert few[-1] in many or few[-1].id > many[n - 1].id


def test_templates_have_the_form_that_they_say() -> None:
    for one in draw(DrawSpec(names="coco", challenges=("NONE",)), 80):
        objects, relations = one.scene.objects, one.scene.relations
        colors = [item.attributes.get("color") for item in objects]
        match one.template:
            case "single_object":
                assert (len(objects), relations, colors) == (1, (), [None])
            case "two_object":
                assert (len(names_of(one.scene)), relations) == (2, ())
            case "counting":
                assert 2 <= len(objects) <= 4
                assert len(names_of(one.scene)) == 1
            case "colors":
                assert len(objects) == 1
                assert colors[0] in DATA["colors"]["values"]
            case "position":
                assert len(relations) == 1
                assert relations[0].predicate in MIRRORED | set(DATA["spatial"]["other"])
            case "color_attr":
                assert len(set(colors)) == len(objects) == 2
            case "action":
                said = {row["predicate"] for row in DATA["verbs"]}
                assert relations[0].predicate in said
            case "attribute":
                assert len(objects[0].attributes) == 1


def test_quantity_and_complex_change_the_graph() -> None:
    several = draw(DrawSpec(challenges=("QUANTITY",), templates=("action", "colors")), 30)
    counts = [max(Counter(o.name for o in one.scene.objects).values()) for one in several]
    assert sum(count > 1 for count in counts) > 20
    for one in draw(DrawSpec(challenges=("COMPLEX",)), 30):
        assert len(names_of(one.scene)) >= 3 or one.template in ("two_object", "color_attr")
        assert one.scene.relations


def test_what_is_drawn_of_the_miniature_can_be_painted() -> None:
    for one in draw(DrawSpec(names="miniature"), 200):
        names = {item.id: item.name for item in one.scene.objects}
        assert set(names.values()) <= set(KINDS)
        assert {o.attributes.get("color") for o in one.scene.objects} <= {None, *COLORS}
        for relation in one.scene.relations:
            if relation.predicate in CONTACTS:
                assert can_hold(names[relation.source], relation.predicate, names[relation.target])
        place_objects(one.scene)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"names": "imagenet"}, "no names 'imagenet'"),
        ({"templates": ("poem",)}, "no template 'poem'"),
        ({"templates": ()}, "no templates are named"),
        ({"challenges": ("HARD",)}, "no challenge 'HARD'"),
    ],
)
def test_words_that_there_are_not_are_refused(options: dict[str, object], told: str) -> None:
    with pytest.raises(PsgError, match=told):
        DrawSpec(**options)  # type: ignore[arg-type]


def test_a_draw_ends_where_the_words_do() -> None:
    spec = DrawSpec(names="miniature", templates=("single_object",), challenges=("NONE",))
    assert len(draw(spec, 12)) == 12
    with pytest.raises(PsgError, match="only 12 different prompts"):
        draw(spec, 13)


def test_alike_things_are_counted_and_named_again_by_the() -> None:
    def thing(id_: str, **attributes: str) -> SceneObject:
        return SceneObject(id=id_, name=id_.split(".")[0], attributes=Attributes(attributes))

    scene = SceneGraph(
        objects=(
            *(thing("dog.1"), thing("dog.2"), thing("house.1"), thing("sand.1")),
            thing("car.1", color="red", size="small", material="metal"),
        ),
        relations=(
            Relation(source="dog.1", predicate="next to", target="car.1"),
            Relation(source="dog.2", predicate="next to", target="car.1"),
            Relation(source="car.1", predicate="near", target="house.1"),
        ),
    )
    assert word(scene, "in a dream", 1) == (
        "A photo of sand in a dream. Two dogs are next to a small red metal car. "
        "The car is near a house."
    )
    with pytest.raises(ValueError, match="no objects"):
        word(SceneGraph())
