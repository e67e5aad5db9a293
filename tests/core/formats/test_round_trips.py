"""What is written is read back: the same graph, up to ids where the format has none of its own."""

from __future__ import annotations

import json
import warnings

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.core.formats import (
    FORMATS,
    dump_scene,
    dump_scenes,
    from_networkx,
    load_scene,
    load_scenes,
    loads_scene,
    loads_scenes,
)
from scenewright.core.formats.base import FormatError, FormatWarning
from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneGraph
from tests.isomorphism import isomorphic
from tests.strategies import PLAIN_NAMES, intended, scenes

KEEPING = tuple(name for name in FORMATS if name != "triplets")
"""Formats that hold more than a graph."""


@pytest.mark.parametrize("name", list(FORMATS))
@given(scene=scenes())
@settings(max_examples=35, deadline=None)
def test_round_trip_is_isomorphic(name: str, scene: SceneGraph) -> None:
    text = dump_scene(scene, name)
    assert isomorphic(loads_scene(text, name), scene)


@pytest.mark.parametrize("name", list(FORMATS))
@given(scene=scenes())
@settings(max_examples=25, deadline=None)
def test_round_trip_without_naming_the_format(name: str, scene: SceneGraph) -> None:
    again = loads_scene(dump_scene(scene, name))
    assert len(again.objects) == len(scene.objects)
    if scene.relations or name in ("json", "triplets", "networkx", "visual-genome"):
        assert isomorphic(again, scene)


@given(scene=scenes())
@settings(max_examples=30, deadline=None)
def test_own_json_and_networkx_come_back_exactly(scene: SceneGraph) -> None:
    again = loads_scene(dump_scene(scene, "json"))
    assert again == scene
    assert again.digest == scene.digest
    assert {o.id: o for o in from_networkx(scene.to_networkx()).objects} == {
        o.id: o for o in scene.objects
    }
    assert set(from_networkx(scene.to_networkx()).relations) == set(scene.relations)


@given(scene=scenes(names=st.sampled_from(PLAIN_NAMES)))
@settings(max_examples=20, deadline=None)
def test_a_second_trip_changes_nothing(scene: SceneGraph) -> None:
    for name in FORMATS:
        once = loads_scene(dump_scene(scene, name), name)
        twice = loads_scene(dump_scene(once, name), name)
        assert isomorphic(twice, once)
        if name in ("megasg", "sg2im", "visual-genome"):
            assert twice == once


@pytest.mark.parametrize("name", list(FORMATS))
@given(many=st.lists(scenes(max_objects=3), min_size=1, max_size=4))
@settings(max_examples=12, deadline=None)
def test_many_scenes_in_one_file(name: str, many: list[SceneGraph]) -> None:
    again = loads_scenes(dump_scenes(many, name), name)
    assert len(again) == len(many)
    assert all(isomorphic(a, b) for a, b in zip(again, many, strict=True))


@pytest.mark.parametrize("name", list(FORMATS))
def test_through_a_file(name: str, tmp_path) -> None:
    scene = load_scene('red ball on "Stra\u00dfe"; two dogs left of red ball')
    path = tmp_path / "scene.dat"
    text = dump_scene(scene, name, path)
    assert path.read_bytes() == text.encode()
    assert isomorphic(load_scene(path), scene)
    assert isomorphic(load_scene(str(path)), scene)
    assert isomorphic(load_scenes(path)[0], scene)


def test_a_byte_order_mark_is_read_over(tmp_path) -> None:
    path = tmp_path / "scene.txt"
    path.write_bytes(b"\xef\xbb\xbfdog on rug\r\ncat near dog\r\n")
    scene = load_scene(path)
    assert [o.id for o in scene.objects] == ["dog.1", "rug.1", "cat.1"]


def test_json_lines(tmp_path) -> None:
    path = tmp_path / "scenes.jsonl"
    lines = [json.dumps(json.loads(dump_scene(load_scene(t)))) for t in ("dog on rug", "cat")]
    path.write_text("\n".join(lines) + "\n")
    assert [len(scene.objects) for scene in load_scenes(path)] == [2, 1]
    path.write_text(lines[0] + "\n" + lines[1][:-5] + "\n")
    with pytest.raises(ValueError, match=r"line 2.*too early"):
        load_scenes(path)


def test_networkx_reads_its_own_node_link_form() -> None:
    scene = load_scene("red ball on table; dog left of table; dog near ball")
    graph = nx.node_link_graph(json.loads(dump_scene(scene, "networkx")), edges="edges")
    assert from_networkx(graph) == from_networkx(scene.to_networkx())


@pytest.mark.parametrize("name", KEEPING)
@given(scene=intended())
@settings(max_examples=30, deadline=None)
def test_what_was_said_beside_the_graph_comes_back(name: str, scene: SceneGraph) -> None:
    again = loads_scene(dump_scene(scene, name))
    assert isomorphic(again, scene)
    place = {item.id: at for at, item in enumerate(scene.objects)}
    places = {item.id: at for at, item in enumerate(again.objects)}
    before, after = scene.intent, again.intent
    same = ("sentence", "globals", "texts", "unread", "doubts")
    assert [getattr(after, one) for one in same] == [getattr(before, one) for one in same]
    assert [
        (one.kind, one.number, [places[id_] for id_ in one.objects]) for one in after.counts
    ] == [(one.kind, one.number, [place[id_] for id_ in one.objects]) for one in before.counts]
    assert [(one.name, one.text, places.get(one.of or "")) for one in after.exclusions] == [
        (one.name, one.text, place.get(one.of or "")) for one in before.exclusions
    ]
    assert again.sentence == scene.sentence
    assert len(facts_of(again)) == len(facts_of(scene))


@given(scene=intended())
@settings(max_examples=15, deadline=None)
def test_own_json_and_networkx_keep_it_exactly(scene: SceneGraph) -> None:
    assert loads_scene(dump_scene(scene, "json")) == scene
    again = from_networkx(scene.to_networkx())
    assert again.sentence == scene.sentence
    assert again.intent.model_copy(update={"read_as": ""}) == scene.intent.model_copy(
        update={"read_as": ""}
    )


@given(many=st.lists(intended(), min_size=2, max_size=3))
@settings(max_examples=15, deadline=None)
def test_triplets_tell_once_what_they_do_not_hold(many: list[SceneGraph]) -> None:
    lost = [
        name
        for name in ("exclusions", "globals", "counts", "texts")
        if any(getattr(scene.intent, name) for scene in many)
    ]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        text = dump_scenes(many, "triplets")
    assert [one.category for one in told] == [FormatWarning] * bool(lost)
    assert all(name in str(told[0].message) for name in lost)
    assert not any(scene.intent for scene in loads_scenes(text, "triplets"))


@pytest.mark.parametrize("name", [name for name in KEEPING if name != "json"])
def test_an_intent_that_cannot_be_is_told_with_its_place(name: str) -> None:
    entry = json.loads(dump_scene(load_scene("dog on rug"), name))
    one = entry[0] if isinstance(entry, list) else entry
    holder = one["graph"] if name == "networkx" else one
    holder["intent"] = {"globals": [{"kind": "smell", "text": "sweet"}]}
    with pytest.raises(FormatError, match=r"intent\.globals\[0\]\.kind"):
        loads_scene(json.dumps(entry))
    holder["intent"] = {"counts": [{"objects": ["cat.9"], "kind": "exact", "number": 1}]}
    with pytest.raises(FormatError, match=r"intent: \"cat\.9\" is not an object"):
        loads_scene(json.dumps(entry))
