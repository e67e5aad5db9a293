"""The layout of scene graphs: deterministic, without overlaps, arrows from source to target."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.runs.report.graph import draw_graph
from scenewright.runs.report.layout import MOST_EDGES, Drawing, TooLarge, lay_out


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, tuple[float, float]], list[tuple[str, str]]]:
    n = draw(st.integers(1, 12))
    sizes = {
        f"n{i}": (draw(st.floats(60, 220)), draw(st.sampled_from([40.0, 68.0, 94.0])))
        for i in range(n)
    }
    names = list(sizes)
    pairs = st.tuples(st.sampled_from(names), st.sampled_from(names)).filter(lambda p: p[0] != p[1])
    edges = draw(st.lists(pairs, max_size=16)) if n > 1 else []
    return sizes, edges


def _draw(sizes: dict[str, tuple[float, float]], edges: list[tuple[str, str]]) -> Drawing:
    return lay_out(sizes, edges, [(60.0 + 7 * (i % 5), 24.0) for i in range(len(edges))])


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_nothing_overlaps_and_all_lies_inside(
    graph: tuple[dict[str, tuple[float, float]], list[tuple[str, str]]],
) -> None:
    sizes, edges = graph
    drawing = _draw(sizes, edges)
    assert set(drawing.boxes) == set(sizes)
    assert len(drawing.wires) == len(edges)
    placed = [*drawing.boxes.values(), *(wire.label for wire in drawing.wires)]
    for one, other in itertools.combinations(placed, 2):
        apart = (
            abs(one.x - other.x) * 2 - one.width - other.width,
            abs(one.y - other.y) * 2 - one.height - other.height,
        )
        assert max(apart) >= -1e-6
    for box in placed:
        assert box.x - box.width / 2 >= -1e-6
        assert box.x + box.width / 2 <= drawing.width + 1e-6
        assert box.y - box.height / 2 >= -1e-6
        assert box.y + box.height / 2 <= drawing.height + 1e-6


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_lines_run_from_source_to_target_and_cross_no_box(
    graph: tuple[dict[str, tuple[float, float]], list[tuple[str, str]]],
) -> None:
    sizes, edges = graph
    drawing = _draw(sizes, edges)
    for (source, target), wire in zip(edges, drawing.wires, strict=True):
        for name, (x, y) in ((source, wire.points[0]), (target, wire.points[-1])):
            box = drawing.boxes[name]
            assert abs(x - box.x) <= box.width / 2
            assert abs(y - box.y) == pytest.approx(box.height / 2)
        # A bend lies between the rows, so the points of a line meet no other object's box.
        for x, y in wire.points[1:-1]:
            for name, box in drawing.boxes.items():
                inside = abs(x - box.x) < box.width / 2 - 1e-6
                assert not (inside and abs(y - box.y) < box.height / 2 - 1e-6), name


@settings(max_examples=30, deadline=None)
@given(graphs())
def test_the_same_graph_gives_the_same_drawing(
    graph: tuple[dict[str, tuple[float, float]], list[tuple[str, str]]],
) -> None:
    assert _draw(*graph) == _draw(*graph)


def test_an_arrow_of_a_cycle_still_ends_at_its_target() -> None:
    drawing = lay_out(
        {"a": (80.0, 40.0), "b": (80.0, 40.0)}, [("a", "b"), ("b", "a")], [(50.0, 24.0)] * 2
    )
    back = drawing.wires[1]
    assert back.points[0][1] == pytest.approx(drawing.boxes["b"].y - 20.0)
    assert back.points[-1][1] == pytest.approx(drawing.boxes["a"].y + 20.0)


def test_separate_parts_wrap_into_rows() -> None:
    drawing = lay_out({f"n{i}": (200.0, 40.0) for i in range(8)}, [], [])
    assert drawing.width <= 760
    assert len({box.y for box in drawing.boxes.values()}) == 3


def test_one_graph_is_laid_out_once() -> None:
    sizes, edges = {"a": (80.0, 40.0), "b": (90.0, 40.0)}, [("a", "b")]
    assert _draw(sizes, edges) is _draw(dict(sizes), list(edges))
    assert _draw(sizes, []) is not _draw(sizes, edges)


def scene_of(pairs: list[tuple[int, int]], count: int) -> SceneGraph:
    return SceneGraph(
        objects=tuple(SceneObject(id=f"o{at}", name="ball") for at in range(count)),
        relations=tuple(
            Relation(source=f"o{a}", predicate="near", target=f"o{b}") for a, b in pairs
        ),
    )


@pytest.mark.parametrize(
    ("pairs", "count"),
    [
        (list(itertools.permutations(range(20), 2))[: MOST_EDGES + 1], 20),
        # Few lines that pass hundreds of layers.
        ([*((at, at + 1) for at in range(150)), *((at, 150) for at in range(0, 149))], 151),
    ],
)
def test_of_a_scene_that_is_too_large_the_objects_are_drawn(
    pairs: list[tuple[int, int]], count: int
) -> None:
    with pytest.raises(TooLarge):
        _draw(
            {f"n{at}": (60.0, 40.0) for at in range(count)}, [(f"n{a}", f"n{b}") for a, b in pairs]
        )
    svg = draw_graph(scene_of(pairs, count), (), {}, "Scene graph")
    assert svg.count('class="node ') == count
    assert 'class="edge ' not in svg
    assert f"{len(pairs)} relations are too many to draw" in svg
    assert "too many" not in draw_graph(scene_of(pairs[:5], 151), (), {}, "Scene graph")
