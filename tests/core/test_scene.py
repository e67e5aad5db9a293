"""Scene graphs: validation, complexity, parts, equality and the content's name."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from scenewright.core.intent import Choice, Count, Doubt, Exclusion, Intent, Passage
from scenewright.core.scene import (
    COMPOSED,
    Attributes,
    Relation,
    SceneError,
    SceneGraph,
    SceneObject,
    clean_name,
)
from tests.isomorphism import isomorphic
from tests.strategies import PLAIN_NAMES, scenes


def thing(id_: str, **attributes: str) -> SceneObject:
    return SceneObject(id=id_, name=id_.split(".")[0], attributes=Attributes(attributes))


def rel(source: str, predicate: str, target: str) -> Relation:
    return Relation(source=source, predicate=predicate, target=target)


ROOT = Path(__file__).resolve().parents[2]
DOGS = SceneGraph(
    objects=(thing("dog.1", color="red"), thing("dog.2"), thing("ball.1", size="big")),
    relations=(rel("dog.1", "left of", "ball.1"), rel("dog.2", "near", "dog.1")),
)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: SceneGraph(objects=(thing("a"), thing("a"))), "objects\\[1\\].*used twice"),
        (lambda: SceneGraph(relations=(rel("a", "on", "b"),)), "source 'a' is not an object"),
        (
            lambda: SceneGraph(objects=(thing("a"),), relations=(rel("a", "on", "b"),)),
            "target 'b' is not an object",
        ),
        (
            lambda: SceneGraph(objects=(thing("a"),), relations=(rel("a", "on", "a"),)),
            "related to itself",
        ),
        (
            lambda: SceneGraph(
                objects=(thing("a"), thing("b")),
                relations=(rel("a", "on", "b"), rel("a", " on ", "b")),
            ),
            "listed twice",
        ),
        (lambda: SceneGraph(objects=tuple(thing(f"a.{n}") for n in range(513))), "limit is 512"),
        (lambda: SceneObject(id="a", name=" \t"), "is empty"),
        (lambda: SceneObject(id="a", name="x" * 201), "201 characters, the limit is 200"),
        (lambda: SceneObject(id="a", name="a\x07b"), "control characters"),
        (lambda: SceneObject(id="a", name="a\u202eb"), "control characters"),
        (lambda: rel("a", "", "b"), "a predicate is empty"),
        (lambda: thing("a", color=""), "value of attribute 'color' is empty"),
        (lambda: Attributes({"a": 1}), "must be text on both sides"),
        (lambda: Attributes({"a": "x", " a": "y"}), "given twice"),
        (lambda: SceneGraph(objects=(thing("a"),), color="red"), "Extra inputs"),
    ],
)
def test_what_cannot_be_is_refused(build, says: str) -> None:
    with pytest.raises((SceneError, ValidationError), match=says):
        build()


def test_names_that_look_equal_are_equal() -> None:
    assert clean_name("  sports \n ball ", "x") == "sports ball"
    assert clean_name("cafe\u0301", "x") == "caf\u00e9"
    assert clean_name("क\u200dष", "x") == "क\u200dष"
    with pytest.raises(SceneError, match="control"):
        clean_name("dog\u200d", "x")
    scene = SceneGraph(
        objects=(SceneObject(id="a  1", name="a"), thing("b")),
        relations=(rel("a \n1", "on", "b"),),
    )
    assert scene.relations[0].source == scene.objects[0].id == "a 1"


def test_a_name_of_full_length_can_be_numbered() -> None:
    assert SceneObject(id="x" * 200 + ".12", name="x" * 200).name


@given(scene=scenes())
@settings(max_examples=40, deadline=None)
def test_values_are_frozen_hashable_and_survive_copies(scene: SceneGraph) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        scene.objects = ()  # type: ignore[misc]
    assert SceneGraph.model_validate_json(scene.model_dump_json()) == scene
    for other in (copy.deepcopy(scene), pickle.loads(pickle.dumps(scene))):
        assert other == scene
        assert hash(other) == hash(scene)
        assert other.digest == scene.digest


@pytest.mark.parametrize(
    ("edges", "level"),
    [(0, "simple"), (1, "simple"), (3, "simple"), (4, "medium"), (7, "medium"), (8, "hard")],
)
def test_levels_of_the_paper(edges: int, level: str) -> None:
    scene = SceneGraph(
        objects=(thing("a"), thing("b")),
        relations=tuple(rel("a", f"p{n}", "b") for n in range(edges)),
    )
    assert scene.complexity() == edges
    assert scene.level() == level


def test_complexity_weighs_objects_and_relations() -> None:
    assert DOGS.complexity(0.0) == 2
    assert DOGS.complexity(1.0) == 3
    assert DOGS.complexity(0.25) == pytest.approx(0.25 * 3 + 0.75 * 2)
    seven = SceneGraph(objects=tuple(thing(f"a.{n}") for n in range(7)))
    assert seven.level(0.5) == "medium"
    assert seven.level(1.0) == "medium"
    for gamma in (-0.1, 1.1, float("nan")):
        with pytest.raises(SceneError, match="gamma"):
            DOGS.complexity(gamma)


@given(scene=scenes(), gamma=st.floats(0, 1))
@settings(max_examples=50, deadline=None)
def test_complexity_lies_between_its_ends(scene: SceneGraph, gamma: float) -> None:
    ends = sorted([scene.complexity(0), scene.complexity(1)])
    assert ends[0] - 1e-9 <= scene.complexity(gamma) <= ends[1] + 1e-9


def test_lookup() -> None:
    assert "dog.1" in DOGS
    assert "cat.1" not in DOGS
    assert DOGS.object("ball.1").attributes["size"] == "big"
    with pytest.raises(SceneError, match=r"no object 'cat.1'.*dog\.1"):
        DOGS.object("cat.1")
    assert DOGS
    assert not SceneGraph()


def test_subgraph_keeps_order_and_inner_relations() -> None:
    part = DOGS.subgraph(["ball.1", "dog.1"])
    assert [item.id for item in part.objects] == ["dog.1", "ball.1"]
    assert part.relations == (DOGS.relations[0],)
    assert DOGS.subgraph(["dog.1", "ball.1"], []).relations == ()
    assert DOGS.subgraph([]) == SceneGraph()


@pytest.mark.parametrize(
    ("ids", "relations", "says"),
    [
        (["cat.1"], None, "no such objects.*cat.1"),
        (
            ["dog.1", "dog.2"],
            [rel("dog.1", "near", "dog.2")],
            "no such relations.*dog.1 near dog.2",
        ),
        (["dog.1"], [DOGS.relations[0]], "needs both its ends"),
    ],
)
def test_subgraph_errors(ids, relations, says: str) -> None:
    with pytest.raises(SceneError, match=says):
        DOGS.subgraph(ids, relations)


@given(scene=scenes(), data=st.data())
@settings(max_examples=40, deadline=None)
def test_subgraph_of_any_part(scene: SceneGraph, data: st.DataObject) -> None:
    ids = [item.id for item in scene.objects]
    kept = data.draw(st.sets(st.sampled_from(ids)))
    part = scene.subgraph(kept)
    assert {item.id for item in part.objects} == kept
    assert set(part.relations) == {
        r for r in scene.relations if r.source in kept and r.target in kept
    }
    assert scene.subgraph(ids) == scene


@given(scene=scenes(), data=st.data())
@settings(max_examples=40, deadline=None)
def test_isomorphic_up_to_ids_and_order(scene: SceneGraph, data: st.DataObject) -> None:
    order = data.draw(st.permutations(scene.objects))
    new = {item.id: f"n{at}" for at, item in enumerate(order)}
    other = SceneGraph(
        objects=tuple(item.model_copy(update={"id": new[item.id]}) for item in order),
        relations=tuple(
            rel(new[r.source], r.predicate, new[r.target])
            for r in data.draw(st.permutations(scene.relations))
        ),
    )
    assert isomorphic(scene, other)
    assert isomorphic(other, scene)


@given(scene=scenes(names=st.sampled_from(PLAIN_NAMES), min_objects=2), data=st.data())
@settings(max_examples=40, deadline=None)
def test_one_change_breaks_isomorphism(scene: SceneGraph, data: st.DataObject) -> None:
    first, *rest = scene.objects
    changed = [
        SceneGraph(
            objects=(first.model_copy(update={"name": "zebra"}), *rest), relations=scene.relations
        ),
        SceneGraph(
            objects=(
                first.model_copy(
                    update={"attributes": Attributes({**first.attributes, "new": "one"})}
                ),
                *rest,
            ),
            relations=scene.relations,
        ),
        SceneGraph(objects=(*scene.objects, thing("zebra~1")), relations=scene.relations),
    ]
    if scene.relations:
        edge, *others = scene.relations
        changed.append(SceneGraph(objects=scene.objects, relations=tuple(others)))
        other = rel(edge.source, "unlike any", edge.target)
        changed.append(SceneGraph(objects=scene.objects, relations=(other, *others)))
    assert not any(isomorphic(scene, other) for other in changed)


def ring(*sizes: int) -> SceneGraph:
    relations = []
    start = 0
    for size in sizes:
        relations += [(start + n, start + (n + 1) % size) for n in range(size)]
        start += size
    return SceneGraph(
        objects=tuple(thing(f"dog.{n}") for n in range(start)),
        relations=tuple(rel(f"dog.{a}", "near", f"dog.{b}") for a, b in relations),
    )


def test_isomorphism_needs_more_than_counting() -> None:
    assert not isomorphic(ring(12), ring(6, 6))
    assert isomorphic(ring(6, 6), ring(6, 6))
    flipped = SceneGraph(objects=DOGS.objects[:2], relations=(rel("dog.1", "near", "dog.2"),))
    straight = SceneGraph(objects=DOGS.objects[:2], relations=(rel("dog.2", "near", "dog.1"),))
    assert not isomorphic(flipped, straight)


def test_many_twins_are_compared_at_once() -> None:
    def herd(last: str) -> SceneGraph:
        sheep = [thing(f"sheep.{n}") for n in range(200)]
        edges = [rel(f"sheep.{n}", "near", "dog") for n in range(199)]
        return SceneGraph(
            objects=(*sheep, thing("dog")), relations=(*edges, rel("sheep.199", last, "dog"))
        )

    assert isomorphic(herd("near"), herd("near"))
    assert not isomorphic(herd("near"), herd("on"))


def test_digest_names_the_content_in_every_process() -> None:
    assert DOGS.digest == SceneGraph.model_validate(DOGS.model_dump()).digest
    code = (
        "from scenewright.core.formats import load_scene;"
        "print(load_scene('red ball on table; dog left of table').digest)"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert digests == {"889e78255f3fc902539107631d9550b24a988386d88cc146c20a972661cd3f3d\n"}


@given(a=scenes(max_objects=3), b=scenes(max_objects=3))
@settings(max_examples=40, deadline=None)
def test_equal_digest_means_equal_content(a: SceneGraph, b: SceneGraph) -> None:
    assert (a.digest == b.digest) == (a == b)


def test_attributes_are_an_ordered_immutable_mapping() -> None:
    first = Attributes({"size": "big", "color": "red"})
    second = Attributes([("color", "red"), ("size", "big")])
    assert first == second == {"color": "red", "size": "big"}
    assert hash(first) == hash(second)
    assert list(first) == ["color", "size"]
    assert first != Attributes({"color": "red"})
    assert first != "red"
    with pytest.raises(KeyError):
        first["mood"]
    with pytest.raises(TypeError):
        first["color"] = "blue"  # type: ignore[index]


SAID = Intent(
    sentence="two dogs and a ball, furtively",
    unread=(Passage(start=21, end=30, text="furtively", reason="not understood"),),
    doubts=(
        Doubt(
            kind="count",
            start=0,
            end=8,
            text="two dogs",
            question="two in all, or more?",
            choices=(Choice(label="two", sentence="exactly two dogs and a ball"),),
        ),
    ),
)


def test_what_its_sentence_leaves_open_is_told_until_the_graph_is_changed() -> None:
    unread = "not checked: 'furtively' (characters 21 to 30: not understood)"
    read = DOGS.said_as(SAID)
    assert read.warnings == (
        unread,
        "not sure: 'two dogs': two in all, or more? (read as: two)",
    )
    assert (read.title, read.doubts) == (SAID.sentence, SAID.doubts)
    edited = read.subgraph(["dog.1", "ball.1"])
    assert (edited.title, edited.doubts, edited.warnings) == ("", (), (unread, COMPOSED))
    # A list of triplets names a run and says no prompt.
    listed = DOGS.model_copy(update={"intent": Intent(sentence="dog; ball")})
    assert (listed.title, listed.sentence) == ("dog; ball", "")
    assert DOGS.warnings == ()


@pytest.mark.parametrize(
    "intent",
    [
        Intent(exclusions=(Exclusion(name="hat", text="without a hat", of="cat.1"),)),
        Intent(counts=(Count(objects=("dog.1", "cat.1"), kind="exact", number=2),)),
    ],
)
def test_an_intent_names_objects_of_its_scene(intent: Intent) -> None:
    data = DOGS.model_dump(mode="json") | {"intent": intent.model_dump(mode="json")}
    with pytest.raises(ValidationError, match=r"'cat\.1' is not an object of the scene"):
        SceneGraph.model_validate(data)
