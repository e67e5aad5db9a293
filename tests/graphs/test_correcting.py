"""A missing graph as a person sees it: what its differences from the run's own say."""

from __future__ import annotations

import pytest

from scenewright.core.facts import State
from scenewright.core.formats import load_scene
from scenewright.core.questions import facts_of
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.graphs.correcting import apply_missing_graph
from scenewright.graphs.errors import EditError
from tests.graphs.editing import BALL, DOG, GRAPH, LEFT, ON, RED, TABLE, part

NOTHING = SceneGraph()
ALL_YES: dict[str, State] = {fact.id: "yes" for fact in facts_of(GRAPH)}


def states(**changes: State) -> dict[str, State]:
    """Verdicts of a picture that holds everything but these."""
    ids = {"ball": f"o:{BALL}", "dog": f"o:{DOG}", "red": RED, "on": ON, "left": LEFT}
    return {**ALL_YES, **{ids[name]: state for name, state in changes.items()}}


def test_the_same_graph_says_nothing() -> None:
    own = part(BALL, TABLE, relations=[0])
    assert apply_missing_graph(own, own, GRAPH, states(on="no")) == (GRAPH, {})


def test_an_added_object_is_not_there() -> None:
    scene, said = apply_missing_graph(NOTHING, part(DOG), GRAPH, ALL_YES)
    assert scene == GRAPH
    assert said == {f"o:{DOG}": "no"}


def test_the_ends_of_an_added_relation_are_only_its_ends() -> None:
    _, said = apply_missing_graph(NOTHING, part(DOG, TABLE, relations=[1]), GRAPH, ALL_YES)
    assert said == {LEFT: "no"}


def test_an_object_that_was_taken_out_is_there_with_its_attributes() -> None:
    verdicts = states(ball="no", red="void", on="void")
    own = part(BALL, TABLE, relations=[0])
    _, said = apply_missing_graph(own, NOTHING, GRAPH, verdicts)
    assert said == {f"o:{BALL}": "yes", RED: "yes", ON: "yes"}


def test_what_nobody_could_judge_is_left_to_the_judges() -> None:
    _, said = apply_missing_graph(part(BALL), NOTHING, GRAPH, states(ball="no", red="unscored"))
    assert said == {f"o:{BALL}": "yes"}


def test_an_attribute_that_was_taken_out_holds() -> None:
    bare = SceneGraph(objects=(SceneObject(id=BALL, name="ball"),))
    _, said = apply_missing_graph(part(BALL), bare, GRAPH, states(red="no"))
    assert said == {RED: "yes"}


def test_what_the_scene_lacks_is_added_to_it() -> None:
    ball = GRAPH.objects[0].model_copy(
        update={"attributes": {**GRAPH.objects[0].attributes, "size": "large"}}
    )
    seen = SceneGraph.model_validate(
        {
            "objects": [ball.model_dump(), {"id": "hat.1", "name": "hat"}, part(DOG).objects[0]],
            "relations": [{"source": "hat.1", "predicate": "on", "target": DOG}],
        }
    )
    scene, said = apply_missing_graph(part(BALL), seen, GRAPH, states(red="no"))
    assert {str(relation) for relation in scene.relations} == {
        f"{BALL} on {TABLE}",
        f"{DOG} left of {TABLE}",
        f"hat.1 on {DOG}",
    }
    assert scene.objects[0].attributes == {"color": "red", "size": "large"}
    assert said == {
        f"a:{BALL}:size": "no",
        "o:hat.1": "no",
        f"r:hat.1|on|{DOG}": "no",
    }


def test_what_an_edit_takes_out_of_the_scene_is_no_difference() -> None:
    smaller = load_scene("dog left of table")
    own = part(BALL, TABLE, relations=[0])
    assert apply_missing_graph(own, own, smaller, states(on="no")) == (smaller, {})
    assert apply_missing_graph(own, NOTHING, smaller, states(on="no")) == (smaller, {})


@pytest.mark.parametrize(
    ("own", "seen", "verdicts", "remedy"),
    [
        (
            part(BALL),
            SceneGraph(objects=(SceneObject(id=BALL, name="ball"),)),
            states(ball="no", red="void"),
            "take 'ball.1' out of it as well",
        ),
        (
            part(BALL, TABLE, relations=[0]),
            part(BALL, TABLE),
            states(ball="no", on="void"),
            "without 'ball.1'",
        ),
        (
            NOTHING,
            SceneGraph(
                objects=(
                    SceneObject(id=BALL, name="ball", attributes={"color": "blue"}),  # type: ignore[arg-type]
                )
            ),
            ALL_YES,
            "'blue', the scene 'red'",
        ),
        (
            NOTHING,
            SceneGraph(objects=(SceneObject(id=DOG, name="cat"),)),
            ALL_YES,
            "a cat in the missing graph and a dog in the scene",
        ),
    ],
)
def test_contradictions_say_what_to_do(
    own: SceneGraph, seen: SceneGraph, verdicts: dict[str, State], remedy: str
) -> None:
    with pytest.raises(EditError, match=remedy):
        apply_missing_graph(own, seen, GRAPH, verdicts)


def test_a_relation_needs_its_ends_in_the_scene() -> None:
    smaller = load_scene("dog left of table")
    own = part(BALL)
    seen = SceneGraph(
        objects=(*own.objects, *part(DOG).objects),
        relations=(Relation(source=DOG, predicate="near", target=BALL),),
    )
    with pytest.raises(EditError, match=f"the scene has no '{BALL}'"):
        apply_missing_graph(own, seen, smaller, ALL_YES)
