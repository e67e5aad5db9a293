"""Files of others: SG2Im, MegaSG, Visual Genome, NetworkX."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from scenewright.core.formats import (
    FormatError,
    FormatWarning,
    detect_format,
    dump_scene,
    from_networkx,
    load_scene,
    load_scenes,
    loads_scene,
)
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from tests.isomorphism import isomorphic

SG2IM = Path(__file__).resolve().parents[4] / "shared" / "data" / "sg2im"


def loads(data: Any, format: str | None = None) -> SceneGraph:
    return loads_scene(json.dumps(data), format)


def triples(scene: SceneGraph) -> list[str]:
    return [str(relation) for relation in scene.relations]


@pytest.mark.skipif(not SG2IM.is_dir(), reason="the SG2Im files are not beside the repository")
@pytest.mark.filterwarnings("ignore::scenewright.core.formats.FormatWarning")
def test_all_published_sg2im_graphs_load_and_come_back() -> None:
    loaded = 0
    for path in sorted(SG2IM.glob("*.json")):
        raw = json.loads(path.read_text())
        for entry, scene in zip(raw, load_scenes(path), strict=True):
            assert [item.name for item in scene.objects] == entry["objects"]
            wanted = {tuple(r) for r in entry["relationships"] if r[0] != r[2]}
            place = {item.id: at for at, item in enumerate(scene.objects)}
            found = [(place[r.source], r.predicate, place[r.target]) for r in scene.relations]
            assert set(found) == wanted
            assert len(found) == len(wanted)
            for name in ("sg2im", "triplets", "megasg"):
                assert isomorphic(loads_scene(dump_scene(scene, name)), scene)
            loaded += 1
    assert loaded == 30


def test_sg2im_repeats_are_dropped_and_self_relations_are_told() -> None:
    data = {"objects": ["a", "a", "b"], "relationships": [[0, "by", 1], [0, "by", 1], [2, "by", 2]]}
    with pytest.warns(FormatWarning, match=r"relationships\[2\].*'b.1' 'by' itself was left out"):
        scene = loads(data)
    assert triples(scene) == ["a.1 by a.2"]
    data["attributes"] = {"1": {"color": "red"}}
    data["relationships"] = []
    assert loads(data).object("a.2").attributes == {"color": "red"}


def test_megasg_of_the_paper() -> None:
    scene = loads({"relationships": [
        {"source": "person.2", "target": "sports ball.1", "relation": "kicking"},
        {"source": "person.2", "target": "person.3", "relation": "near"},
    ]})  # fmt: skip
    assert [(o.id, o.name) for o in scene.objects] == [
        ("person.2", "person"),
        ("sports ball.1", "sports ball"),
        ("person.3", "person"),
    ]
    assert triples(scene) == ["person.2 kicking sports ball.1", "person.2 near person.3"]
    written = json.loads(dump_scene(scene, "megasg"))
    assert written["objects"] == ["person.2", "sports ball.1", "person.3"]
    assert written["relationships"][0]["relation"] == "kicking"
    assert "attributes" not in written


def test_megasg_boxes_are_dropped_and_attributes_kept() -> None:
    scene = loads({
        "objects": ["sports ball.1:[312, 360, 370, 417]", "person.2:[116, 49, 309, 491]", "sky"],
        "relationships": [
            {"source": "person.2:[116, 49, 309, 491]", "target": "sports ball.1", "relation": "by"}
        ],
        "attributes": {"person.2": {"color": "red"}},
        "image_id": 4,
    })  # fmt: skip
    assert [o.name for o in scene.objects] == ["sports ball", "person", "sky"]
    assert scene.object("person.2").attributes == {"color": "red"}
    assert json.loads(dump_scene(scene, "megasg"))["objects"] == [
        "sports ball.1",
        "person.2",
        "sky.1",
    ]


def test_megasg_numbers_anew_only_where_it_must() -> None:
    scene = SceneGraph(
        objects=(
            SceneObject(id="x", name="dog"),
            SceneObject(id="dog.1", name="dog"),
            SceneObject(id="cat.9", name="cat"),
        ),
        relations=(Relation(source="x", predicate="near", target="cat.9"),),
    )
    again = loads_scene(dump_scene(scene, "megasg"))
    assert [o.id for o in again.objects] == ["dog.1", "dog.2", "cat.9"]
    assert isomorphic(again, scene)


VG = {
    "image_id": 2407890,
    "objects": [
        {"object_id": 1058498, "names": ["dog", "puppy"], "attributes": ["brown", "Small", "wet"],
         "x": 1, "y": 2, "w": 3, "h": 4, "synsets": ["dog.n.01"]},
        {"object_id": 5, "names": ["wall"],
         "attributes": ["brick", "white", "red", "old", "white"]},
        {"object_id": 6, "name": "man"},
    ],
    "relationships": [
        {"predicate": "ON ", "subject_id": 1058498, "object_id": 5, "relationship_id": 1},
        {"predicate": "ON", "subject_id": 1058498, "object_id": 5, "relationship_id": 2},
    ],
}  # fmt: skip


def test_visual_genome() -> None:
    scene = loads([VG])
    assert triples(scene) == ["1058498 ON 5"]
    assert [item.name for item in scene.objects] == ["dog", "wall", "man"]
    assert scene.objects[0].attributes == {"color": "brown", "size": "Small", "attribute": "wet"}
    assert scene.objects[1].attributes == {
        "material": "brick", "color": "white", "color 2": "red", "attribute": "old"
    }  # fmt: skip
    written = json.loads(dump_scene(scene, "visual-genome"))[0]
    assert [item["object_id"] for item in written["objects"]] == [1058498, 5, 6]
    assert loads([written]) == scene


def test_visual_genome_keeps_our_keys() -> None:
    scene = load_scene('red cat [mood=sad] near dog.1 [collar=red, "attribute 7"=red]')
    text = dump_scene(scene, "visual-genome")
    assert json.loads(text)[0]["objects"][1]["attribute_keys"] == ["attribute 7", "collar"]
    assert isomorphic(loads_scene(text), scene)


def test_visual_genome_slips_are_told() -> None:
    data = json.loads(json.dumps(VG))
    data["relationships"] = [{"predicate": "", "subject_id": 5, "object_id": 6}]
    with pytest.warns(FormatWarning, match=r"relationships\[0\]: the predicate is empty"):
        assert loads([data]).relations == ()


def test_networkx_graphs_of_others() -> None:
    graph = nx.DiGraph()
    graph.add_node("dog.2", attributes={"color": "red"})
    graph.add_node(7, label="ball")
    graph.add_edge("dog.2", 7, relation="chasing")
    graph.add_edge(7, "dog.2", label="left of")
    scene = from_networkx(graph)
    assert [(o.id, o.name) for o in scene.objects] == [("dog.2", "dog"), ("7", "ball")]
    assert scene.objects[0].attributes == {"color": "red"}
    assert triples(scene) == ["dog.2 chasing 7", "7 left of dog.2"]
    keyed = nx.MultiDiGraph()
    keyed.add_edge("a", "b", key="on")
    keyed.add_edge("a", "b", key="near")
    assert triples(from_networkx(keyed)) == ["a on b", "a near b"]


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        (nx.Graph([("a", "b")]), "undirected.*MultiDiGraph"),
        (nx.DiGraph([("a", "b")]), "edge 'a' → 'b'.*no predicate"),
        (nx.DiGraph([(1, 2)]), "node 1.*no name"),
        (nx.DiGraph([((1, 2), "b")]), "node .*expected a node of text"),
        (nx.DiGraph(), "empty"),
    ],
)
def test_networkx_errors(graph: nx.Graph, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        from_networkx(graph)


def test_networkx_self_loops_are_errors() -> None:
    graph = nx.DiGraph()
    graph.add_edge("a", "a", predicate="on")
    with pytest.raises(FormatError, match="related to itself"):
        from_networkx(graph)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"objects": [{"id": "a", "name": "a"}], "relations": []}, "json"),
        ({"format": "scenewright/1", "objects": []}, "json"),
        ({"objects": ["person.2"]}, "megasg"),
        ({"relationships": [{"source": "a.1", "target": "b.1", "relation": "on"}]}, "megasg"),
        ({"objects": ["sky"]}, "sg2im"),
        ([{"objects": ["a.1"], "relationships": []},
          {"objects": ["a.1", "b"], "relationships": [[0, "on", 1]]}], "sg2im"),
        ({"objects": ["a.1"], "attributes": {"0": {"color": "red"}}}, "sg2im"),
        ({"objects": ["sky"], "attributes": {"sky": {"color": "red"}}}, "megasg"),
        ([VG], "visual-genome"),
        ({"nodes": [], "links": []}, "networkx"),
    ],
)  # fmt: skip
def test_detection(data: Any, expected: str) -> None:
    assert detect_format(json.dumps(data)) == expected


def test_text_is_triplets() -> None:
    assert detect_format("dog on rug") == "triplets"


DOG = {"object_id": 1, "name": "dog"}
CAR = {"object_id": 2, "names": ["car"]}
PUBLISHED: dict[str, Any] = {
    "GQA": {
        "7": {
            "objects": {
                "a": {
                    "name": "dog",
                    "attributes": ["red"],
                    "relations": [{"object": "b", "name": "on"}],
                },
                "b": {"name": "car", "attributes": [], "relations": []},
            }
        }
    },
    "PSG": {
        "data": [
            {"annotations": [{"category_id": 1}, {"category_id": 2}], "relations": [[0, 1, 1]]}
        ],
        "thing_classes": ["cat", "dog"],
        "stuff_classes": ["car-other-merged"],
        "predicate_classes": ["over", "on"],
    },
    "relationships of Visual Genome": [
        {
            "image_id": 7,
            "relationships": [
                {"predicate": "on", "subject": {"object_id": 1, "names": []}, "object": CAR},
                {"predicate": "near", "subject": CAR, "object": DOG},
            ],
        }
    ],
    "sng_parser": {
        "entities": [
            {
                "head": "dogs",
                "lemma_head": "dog",
                "modifiers": [
                    {"dep": "det", "span": "the"},
                    {"dep": "amod", "span": "red", "lemma_span": "red"},
                ],
            },
            {"head": "car", "modifiers": []},
        ],
        "relations": [{"subject": 0, "relation": "on", "object": 1}],
    },
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_files_as_others_publish_them_are_read(name: str) -> None:
    scene = loads(PUBLISHED[name])
    assert [item.name for item in scene.objects] == ["dog", "car"]
    names = {item.id: item.name for item in scene.objects}
    told = [(names[r.source], r.predicate, names[r.target]) for r in scene.relations]
    assert told[0] == ("dog", "on", "car")
    if name in ("GQA", "sng_parser"):
        assert scene.objects[0].attributes == {"color": "red"}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_damaged_file_of_others_is_an_error(name: str) -> None:
    text = json.dumps(PUBLISHED[name])
    for broken in (text.replace('"on"', "7"), text.replace('"dog', '"'), text[:-1]):
        with pytest.raises(FormatError):
            loads_scene(broken)
