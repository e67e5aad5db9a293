"""A person's sentence through edits of its graph: what changed is re-worded, the rest stays."""

from __future__ import annotations

import asyncio

import pytest

from scenewright.agents.composers.sentences import SentenceComposer, edited_sentence, sentences
from scenewright.agents.parsers.rules import parse_caption
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject

DINER = "An old sailor in a blue cap is reading a map at a table. Oil painting, wide shot."


def changed(scene: SceneGraph, id_: str, name: str = "", **values: str | None) -> SceneGraph:
    """The scene with another label or other values of an object; None takes a value out."""

    def edited(item: SceneObject) -> SceneObject:
        if item.id != id_:
            return item
        said = {k: v for k, v in {**item.attributes, **values}.items() if v is not None}
        return item.model_copy(update={"name": name or item.name, "attributes": Attributes(said)})

    return scene.model_copy(update={"objects": tuple(map(edited, scene.objects))})


def added(scene: SceneGraph, name: str, predicate: str, target: str) -> SceneGraph:
    new = SceneObject(id=f"{name}.1", name=name)
    relation = Relation(source=new.id, predicate=predicate, target=target)
    return scene.model_copy(
        update={"objects": (*scene.objects, new), "relations": (*scene.relations, relation)}
    )


def test_a_value_is_replaced_where_it_stands_with_the_article_that_fits() -> None:
    read = parse_caption(DINER)
    assert edited_sentence(changed(read, "cap.1", color="orange")) == DINER.replace(
        "a blue cap", "an orange cap"
    )
    assert edited_sentence(changed(read, "cap.1", color=None)) == DINER.replace("blue ", "")


def test_a_new_value_stands_before_its_noun_or_behind_it() -> None:
    read = parse_caption(DINER)
    assert edited_sentence(changed(read, "map.1", state="open")) == DINER.replace(
        "a map", "an open map"
    )


def test_another_label_takes_the_place_of_the_old_one() -> None:
    read = parse_caption(DINER)
    assert edited_sentence(changed(read, "map.1", name="atlas")) == DINER.replace(
        "a map", "an atlas"
    )


def test_what_is_new_is_told_behind_and_options_stay_at_the_end() -> None:
    read = parse_caption("a red kite over a lake --ar 16:9")
    assert edited_sentence(added(read, "dog", "near", "lake.1")) == (
        "a red kite over a lake. A dog is near the lake. --ar 16:9"
    )


def test_a_phrase_goes_with_the_thing_that_it_names() -> None:
    read = parse_caption("a goat eating a shoe in a meadow")
    assert edited_sentence(read.subgraph(["goat.1", "shoe.1"])) == "a goat eating a shoe"


def test_several_changes_at_once_are_all_said() -> None:
    read = parse_caption("a green bottle next to a small clock")
    edited = added(changed(read, "bottle.1", color="yellow"), "owl", "behind", "clock.1")
    assert edited_sentence(edited) == (
        "a yellow bottle next to a small clock. An owl is behind the clock."
    )


@pytest.mark.parametrize(
    "edit",
    [
        # Without its subject nothing of the sentence is left.
        lambda scene: scene.subgraph([o.id for o in scene.objects if o.name != "sailor"]),
        # A relation that the sentence says is gone.
        lambda scene: scene.model_copy(update={"relations": scene.relations[1:]}),
        # "Rice" and "a map" differ in their article.
        lambda scene: changed(scene, "map.1", name="rice"),
    ],
)
def test_what_cannot_be_said_so_is_composed_anew(edit: object) -> None:
    edited = edit(parse_caption(DINER))  # type: ignore[operator]
    assert edited_sentence(edited) == ""
    prompt = asyncio.run(SentenceComposer(verbatim=True).compose(edited, 0))
    assert prompt == sentences(edited)


def test_each_kept_sentence_reads_as_the_edited_graph() -> None:
    """Nothing is lost or invented: the rules read in it what the graph holds."""
    for text in ("a boy with a red balloon and a kite", "two cats under a wooden bed at night"):
        read = parse_caption(text)
        for item in read.objects:
            edited = changed(read, item.id, size="tiny")
            prompt = edited_sentence(edited)
            if not prompt:
                continue
            again = parse_caption(prompt)
            assert {(o.name, o.attributes) for o in again.objects} == {
                (o.name, o.attributes) for o in edited.objects
            }
            assert again.intent.globals == read.intent.globals


def test_a_profile_that_keeps_sentences_keeps_them_through_edits() -> None:
    edited = changed(parse_caption(DINER), "cap.1", color="white")
    kept = SentenceComposer(verbatim=True)
    assert asyncio.run(kept.compose(edited, 0)) == DINER.replace("blue", "white")
    assert asyncio.run(SentenceComposer().compose(edited, 0)) == sentences(edited)
    # A part of a scene is no edit of it.
    assert asyncio.run(kept.compose(edited, 0, added(edited, "dog", "near", "map.1"))) == (
        sentences(edited)
    )
