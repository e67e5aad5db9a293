"""The grid planner: what it places holds, and what it refuses cannot hold."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.layout import (
    COLUMNS,
    ROWS,
    PlacementError,
    fits_grid,
    place_objects,
    place_what_fits,
)
from scenewright.core.scene import Relation, SceneGraph, SceneObject

DIRECTIONS = ("left of", "right of", "above", "below", "near")


def scene_of(count: int, *relations: tuple[int, str, int]) -> SceneGraph:
    return SceneGraph(
        objects=tuple(SceneObject(id=f"ball.{i}", name="ball") for i in range(count)),
        relations=tuple(
            Relation(source=f"ball.{s}", predicate=p, target=f"ball.{t}") for s, p, t in relations
        ),
    )


def holds(predicate: str, source: tuple[int, int], target: tuple[int, int]) -> bool:
    dx, dy = target[0] - source[0], target[1] - source[1]
    return {
        "left of": dx > 0,
        "right of": dx < 0,
        "above": dy > 0,
        "below": dy < 0,
        "near": abs(dx) + abs(dy) == 1,
    }[predicate]


@st.composite
def directed_scenes(draw: st.DrawFn) -> SceneGraph:
    count = draw(st.integers(1, 4))
    pairs = list(itertools.permutations(range(count), 2))
    chosen = draw(
        st.lists(
            st.tuples(st.sampled_from(pairs), st.sampled_from(DIRECTIONS)),
            max_size=4,
            unique=True,
        )
        if pairs
        else st.just([])
    )
    return scene_of(count, *((s, p, t) for (s, t), p in chosen))


@given(directed_scenes(), st.integers(0, 99))
def test_agrees_with_trying_every_layout(scene: SceneGraph, seed: int) -> None:
    ids = [item.id for item in scene.objects]
    every = itertools.permutations(itertools.product(range(COLUMNS), range(ROWS)), len(ids))
    possible = any(
        all(holds(r.predicate, at[r.source], at[r.target]) for r in scene.relations)
        for at in (dict(zip(ids, cells, strict=True)) for cells in every)
    )
    try:
        cells = place_objects(scene, seed)
    except PlacementError:
        assert not possible
    else:
        assert len(set(cells.values())) == len(ids)
        assert all(holds(r.predicate, cells[r.source], cells[r.target]) for r in scene.relations)
        assert cells == place_objects(scene, seed)


def test_a_direction_is_the_larger_axis_where_that_can_be() -> None:
    clear = scene_of(3, (0, "left of", 1), (1, "above", 2))
    cells = place_objects(clear)
    (x0, y0), (x1, y1), (x2, y2) = (cells[item.id] for item in clear.objects)
    assert x1 - x0 > abs(y1 - y0)
    assert y2 - y1 > abs(x2 - x1)
    assert fits_grid(clear)
    # Left of and above the same thing: neither axis can be the larger one for both.
    diagonal = scene_of(2, (0, "left of", 1), (0, "above", 1))
    assert not fits_grid(diagonal)
    (x0, y0), (x1, y1) = (place_objects(diagonal)[item.id] for item in diagonal.objects)
    assert x0 < x1
    assert y0 < y1


def test_names_a_smallest_clash() -> None:
    scene = scene_of(4, (0, "left of", 1), (1, "left of", 0), (2, "above", 3))
    with pytest.raises(PlacementError, match=r"ball\.0 left of ball\.1; ball\.1 left of ball\.0:"):
        place_objects(scene)


def test_more_objects_than_cells() -> None:
    with pytest.raises(PlacementError, match="10 objects do not fit"):
        place_objects(scene_of(10))
    assert place_what_fits(scene_of(10)) == {}


def test_what_fits_lets_go_of_the_last_relations() -> None:
    cells = place_what_fits(scene_of(2, (0, "left of", 1), (1, "left of", 0)))
    assert holds("left of", cells["ball.0"], cells["ball.1"])


@pytest.mark.parametrize(
    ("predicate", "name", "offset"),
    [
        ("on", "car", (0, -1)),
        ("standing on", "car", (0, -1)),
        ("riding", "boat", (0, -1)),
        ("under", "umbrella", (0, 1)),
        ("under", "table", (0, 0)),
        ("inside", "house", (0, 0)),
    ],
)
def test_contacts_have_their_places(predicate: str, name: str, offset: tuple[int, int]) -> None:
    scene = SceneGraph(
        objects=(SceneObject(id="a", name="cat"), SceneObject(id="b", name=name)),
        relations=(Relation(source="a", predicate=predicate, target="b"),),
    )
    for seed in range(5):
        cells = place_objects(scene, seed)
        assert (cells["a"][0] - cells["b"][0], cells["a"][1] - cells["b"][1]) == offset


def test_two_things_cannot_fill_one_cell() -> None:
    with pytest.raises(PlacementError):
        place_objects(scene_of(3, (0, "on", 2), (1, "on", 2)))


def test_unknown_predicates_put_no_constraint() -> None:
    assert set(place_objects(scene_of(2, (0, "admiring", 1)))) == {"ball.0", "ball.1"}


def test_of_many_relations_the_first_ones_that_fit_are_kept() -> None:
    objects = tuple(SceneObject(id=f"o{at}", name="ball") for at in range(9))
    # A row of three, said by a hundred names of one direction, and then the contrary.
    said = [
        Relation(source=a, predicate=predicate, target=b)
        for a, b in (("o0", "o1"), ("o1", "o2"))
        for predicate in ("left of", *(f"frobbing {at}" for at in range(50)))
    ]
    wrong = [Relation(source="o1", predicate="left of", target="o0")]
    more = [Relation(source="o0", predicate=f"zapping {at}", target="o1") for at in range(50)]
    scene = SceneGraph(objects=objects, relations=(*said, *wrong, *more))
    cells = place_what_fits(scene, 3)
    assert cells["o0"][0] < cells["o1"][0] < cells["o2"][0]
    assert len(cells) == 9


def test_hundreds_of_objects_have_no_places() -> None:
    objects = tuple(SceneObject(id=f"o{at}", name="hat") for at in range(512))
    worn = tuple(
        Relation(source=f"o{at}", predicate="wearing", target=f"o{at + 1}") for at in range(511)
    )
    assert place_what_fits(SceneGraph(objects=objects, relations=worn)) == {}
