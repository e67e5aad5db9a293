"""GenEval's rules on boxes: positions, counts, colours, and what scenes demand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.ports.vision import Box, Detection
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.datasets.base import Item
from scenewright.evals.metrics.base import MetricError
from scenewright.evals.studies.peers.geneval_rules import (
    Demand,
    Demands,
    Position,
    Rules,
    clause_facts,
    clauses,
    counted,
    demands_in,
    demands_of,
    demands_of_scene,
    relative_positions,
    to_color,
)

RULES = Rules()


def thing(
    name: str, x: float, y: float = 50.0, score: float = 0.95, side: float = 10.0
) -> Detection:
    """A square around a centre."""
    half = side / 2
    return Detection(name, (x - half, y - half, x + half, y + half), score)


def held(
    demands: Demands, *found: Detection, colors: dict[str, list[str]] | None = None
) -> dict[str, bool]:
    seen = counted(found, demands, RULES)
    return {k: c.holds for k, c in clauses(demands, seen, colors or {}, RULES).items()}


@pytest.mark.parametrize(
    ("centre", "told"),
    [
        # Boxes of side 10: the offset of 20 is lessened by 0.1 · 20 = 2.
        ((30, 50), {"left of"}),
        ((70, 50), {"right of"}),
        ((50, 30), {"above"}),
        ((50, 70), {"below"}),
        # (18, 18) of a length of 28.3 is 0.64 on both axes.
        ((30, 30), {"left of", "above"}),
        # 8 of 22.4 across, 18 of 22.4 down.
        ((40, 70), {"below"}),
        # Nearer than a tenth of the two sizes together.
        ((51.9, 48.1), set()),
        ((50, 50), set()),
    ],
)
def test_positions_are_those_of_the_released_rule(
    centre: tuple[float, float], told: set[str]
) -> None:
    a, b = thing("a", *centre).box, thing("b", 50, 50).box
    assert relative_positions(a, b) == told


boxes = st.tuples(*[st.floats(0, 100) for _ in range(4)]).map(
    lambda v: (min(v[0], v[2]), min(v[1], v[3]), max(v[0], v[2]) + 1, max(v[1], v[3]) + 1)
)


@given(boxes, boxes)
def test_positions_have_their_converses(a: Box, b: Box) -> None:
    turned = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}
    assert {turned[p] for p in relative_positions(a, b)} == relative_positions(b, a)


def test_counts_are_at_least_and_exclusions_below() -> None:
    two = Demands((Demand("bus", 2),), (("bus", 3),))
    assert held(two, thing("bus", 10)) == {"count:0": False, "exclude:0": True}
    assert held(two, thing("bus", 10), thing("bus", 30)) == {"count:0": True, "exclude:0": True}
    three = [thing("bus", x) for x in (10, 30, 50)]
    assert held(two, *three) == {"count:0": True, "exclude:0": False}
    # The counting task wants a confidence above 0.9, the others one above 0.3.
    unsure = [thing("bus", x, score=0.9) for x in (10, 30)]
    assert held(two, *unsure)["count:0"] is False
    assert held(Demands((Demand("bus", 2),)), *unsure)["count:0"] is True


def test_the_most_confident_must_have_the_colour() -> None:
    demands = Demands((Demand("dog", 1, "red"),))
    found = [thing("dog", 10, score=0.5), thing("dog", 60, score=0.8)]
    seen = counted(found, demands, RULES)
    assert to_color(demands, seen) == {"dog": (found[1],)}
    assert held(demands, *found, colors={"dog": ["red"]})["color:0"] is True
    wrong = clauses(demands, seen, {"dog": ["blue"]}, RULES)["color:0"]
    assert (wrong.holds, wrong.reason) == (False, "expected red dog>=1, found blue")
    assert held(demands, colors={})["color:0"] is False


def test_every_pair_of_two_entries_must_lie_as_demanded() -> None:
    placed = (Position("left of", 0),)
    demands = Demands((Demand("cat", 2), Demand("dog", 1, positions=placed)))
    cats = [thing("cat", 60), thing("cat", 90)]
    assert held(demands, thing("dog", 20), *cats)["position:1:0"] is True
    assert held(demands, thing("dog", 75), *cats)["position:1:0"] is False
    some = Demands((Demand("cat", 2), Demand("dog", 1, positions=(Position("left of", 0, True),))))
    assert held(some, thing("dog", 75), *cats)["position:1:0"] is True
    assert held(some, thing("dog", 20), cats[0])["position:1:0"] is False


def test_overlapping_boxes_count_once_if_asked_to() -> None:
    demands = Demands((Demand("dog", 2),))
    twice = [thing("dog", 50), thing("dog", 51)]
    assert len(counted(twice, demands, RULES)["dog"]) == 2
    assert len(counted(twice, demands, Rules(overlap=0.5))["dog"]) == 1
    assert len(counted(twice, demands, Rules(most=1))["dog"]) == 1


def scene() -> SceneGraph:
    def dog(number: int, **attributes: str) -> SceneObject:
        return SceneObject(id=f"dog.{number}", name="dog", attributes=Attributes(attributes))

    return SceneGraph(
        objects=(
            dog(1, color="red", size="small"),
            dog(2, color="red"),
            dog(3, color="blue"),
            SceneObject(id="ball.1", name="ball"),
        ),
        relations=(
            Relation(source="dog.1", predicate="to the left of", target="ball.1"),
            Relation(source="dog.1", predicate="near", target="ball.1"),
        ),
    )


def test_a_scene_demands_what_boxes_can_show() -> None:
    made = demands_of_scene(scene(), exact=True)
    assert made.include == (
        Demand("dog", 2, "red", (Position("left of", 2, True),)),
        Demand("dog", 1, "blue"),
        Demand("ball", 1),
    )
    assert made.exclude == (("dog", 4), ("ball", 2))
    # The size of a dog, and nearness.
    assert made.unasked == 2
    assert demands_in(made.text()) == made
    assert [fact.key for fact in clause_facts(made)] == [
        "count:0", "count:1", "count:2", "color:0", "color:1", "position:0:0", "exclude:0",
        "exclude:1",
    ]  # fmt: skip


def test_entries_of_one_class_share_its_detections() -> None:
    made = demands_of_scene(scene())
    dogs = [thing("dog", x, score=s) for x, s in ((10, 0.9), (30, 0.8), (80, 0.7))]
    colors = {"dog": ["red", "blue", "red"]}
    found = held(made, *dogs, thing("ball", 60), colors=colors)
    # The dog at 80 is red too, but one red dog left of the ball is enough.
    assert all(found.values())
    assert held(made, *dogs[:2], thing("ball", 60), colors=colors)["count:0"] is False


def test_the_demands_of_the_release() -> None:
    said = (
        '{"include": [{"class": "bench", "count": 1}, {"class": "dog", "count": 1, '
        '"color": "red", "position": ["left of", 0]}], "exclude": [{"class": "dog", "count": 2}]}'
    )
    made = demands_of(Item(id="a", prompt="p", meta={"demands": said}))
    assert made.include[1] == Demand("dog", 1, "red", (Position("left of", 0),))
    assert made.exclude == (("dog", 2),)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("{", "is not a demand of GenEval"),
        ('{"include": [{"count": 1}]}', "is not a demand of GenEval"),
        ('{"include": [{"class": "a", "count": 1, "position": ["near", 0]}]}', "use left of"),
        ('{"include": [{"class": "a", "count": 1, "position": ["above", 4]}]}', "number of an"),
    ],
)
def test_demands_that_cannot_be_are_told(said: str, told: str) -> None:
    with pytest.raises(MetricError, match=told):
        demands_of(Item(id="a", prompt="p", meta={"demands": said}))


def test_an_item_without_demands_is_told() -> None:
    with pytest.raises(MetricError, match="neither demands of GenEval nor a scene"):
        demands_of(Item(id="a", prompt="p"))
