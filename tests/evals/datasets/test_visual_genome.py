"""Visual Genome: files joined by image, SG2Im's preparation against a plain reference."""

from __future__ import annotations

import json
import random
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from scenewright.evals.datasets import scene_graph_sets
from scenewright.evals.datasets.base import DatasetError, Item
from scenewright.evals.datasets.scene_graph_sets import load_visual_genome, vocabulary_of
from scenewright.evals.datasets.vg_files import dump_vocabulary, load_splits
from tests.evals.datasets.published import check_set, photo, write_json

NAMES = ["man", "men", "tree", "dog", "car", "sky", "rare"]
PREDICATES = ["on", "ON ", "near", "next to", "nearby", "has", "odd", ""]
WORDS = ["red", "brown", "wooden", "rarely"]
FEW: dict[str, Any] = {
    "min_object_instances": 50,
    "min_relationship_instances": 30,
    "min_attribute_instances": 15,
    "max_objects": 6,
    "max_relationships": 5,
}


def publish(folder: Path, images: int = 400, seed: int = 0, shuffled: bool = False) -> Path:
    """A small Visual Genome in the layout of release 1.4, with SG2Im's split and alias files."""
    draw = random.Random(seed)
    objects, links, words, sizes = [], [], [], []
    splits: dict[str, list[int]] = {"train": [], "val": [], "test": []}
    number = 0
    for image in range(1, images + 1):
        rows = []
        for _ in range(draw.randint(1, 8)):
            number += 1
            side = draw.choice([10, 40, 60])
            # The last of the names is too rare for a vocabulary.
            names = draw.sample(NAMES[: 6 + (draw.random() < 0.05)], draw.choice([1, 1, 2]))
            rows.append(
                {
                    **{"object_id": number, "names": names, "synsets": []},
                    **{"x": 5, "y": 6, "w": side, "h": 50},
                    "merged_object_ids": [number + 10_000],
                }
            )
        pairs = [draw.choices(rows, k=2) for _ in range(draw.randint(0, 8))]
        objects.append({"image_id": image, "objects": rows, "image_url": "x"})
        links.append({"image_id": image, "relationships": [link(a, b, draw) for a, b in pairs]})
        said = [
            {"object_id": row["object_id"], "names": row["names"]}
            | ({"attributes": draw.sample(WORDS, 2)} if draw.random() < 0.7 else {})
            for row in rows
        ]
        words.append({"image_id": image, "attributes": said})
        width = draw.choice([150, 300, 500])
        sizes.append({"image_id": image, "width": width, "height": 400, "url": "x"})
        splits[draw.choice(["train", "train", "val", "test"])].append(image)
    if shuffled:
        for entries in (links, words, sizes):
            draw.shuffle(entries)
    for name, data in (
        ("objects", objects),
        ("relationships", links),
        ("attributes", words),
        ("image_data", sizes),
        ("vg_splits", splits),
    ):
        write_json(folder / f"{name}.json", data)
    (folder / "object_alias.txt").write_text("man,men, a man\ntree,trees\n", encoding="utf-8")
    (folder / "relationship_alias.txt").write_text("near,nearby\n", encoding="utf-8")
    return folder


def link(a: dict[str, Any], b: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    ends = [{"object_id": end["object_id"], "name": end["names"][0]} for end in (a, b)]
    predicate = draw.choice(PREDICATES)
    return {"relationship_id": 1, "predicate": predicate, "subject": ends[0], "object": ends[1]}


def reference(folder: Path, split: str) -> dict[str, tuple[list[str], list[tuple[str, str, str]]]]:
    """Image → (classes, triples of classes), by SG2Im's rules written plainly."""

    def read(name: str) -> Any:
        return json.loads((folder / f"{name}.json").read_text())

    sizes = {i["image_id"]: min(i["width"], i["height"]) for i in read("image_data")}
    splits = {s: [i for i in ids if sizes[i] >= 200] for s, ids in read("vg_splits").items()}
    alias = {"men": "man", "a man": "man", "trees": "tree"}
    objects = {i["image_id"]: i["objects"] for i in read("objects")}
    links = {i["image_id"]: i["relationships"] for i in read("relationships")}
    counts = Counter(
        name
        for i in splits["train"]
        for o in objects[i]
        for name in {alias.get(n, n) for n in o["names"]}
    )
    kept: dict[int, str] = {}
    for rows in objects.values():
        for o in rows:
            names = [alias.get(n, n) for n in o["names"]]
            fits = [n for n in names if counts[n] >= FEW["min_object_instances"]]
            if fits and min(o["w"], o["h"]) >= 32:
                kept[o["object_id"]] = fits[0]

    def normal(text: str) -> str:
        return {"nearby": "near"}.get(text.lower().strip(), text.lower().strip())

    def between(i: int) -> list[tuple[int, str, int]]:
        triples = [
            (r["subject"]["object_id"], r["predicate"], r["object"]["object_id"]) for r in links[i]
        ]
        return [t for t in triples if t[0] in kept and t[2] in kept]

    said = Counter(normal(p) for i in splits["train"] for _, p, _ in between(i))
    found = {}
    for i in splits[split]:
        classes = [kept[o["object_id"]] for o in objects[i] if o["object_id"] in kept]
        triples = [(a, normal(p) if split == "train" else p, b) for a, p, b in between(i)]
        triples = [t for t in triples if said[t[1]] >= FEW["min_relationship_instances"]]
        if 3 <= len(classes) <= FEW["max_objects"] and 1 <= len(triples) <= 5:
            # What a scene graph cannot hold: itself, twice, and without a word.
            real = dict.fromkeys(t for t in triples if t[0] != t[2] and t[1])
            found[str(i)] = classes, sorted((kept[a], p, kept[b]) for a, p, b in real)
    return found


def graphs(items: list[Item]) -> dict[str, tuple[list[str], list[tuple[str, str, str]]]]:
    found = {}
    for item in items:
        assert item.scene is not None
        names = {o.id: o.name for o in item.scene.objects}
        triples = [(names[r.source], r.predicate, names[r.target]) for r in item.scene.relations]
        found[item.id] = list(names.values()), sorted(triples)
    return found


@pytest.mark.parametrize("split", ["train", "val", "test"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_the_preparation_is_that_of_sg2im(tmp_path: Path, split: str, shuffled: bool) -> None:
    folder = publish(tmp_path, seed=7, shuffled=shuffled)
    want = reference(folder, split)
    assert len(want) > 5
    assert graphs(list(load_visual_genome(folder, split=split, **FEW))) == want
    assert not any("rare" in classes for classes, _ in want.values())


def test_predicates_may_be_normalised_in_every_split(tmp_path: Path) -> None:
    folder = publish(tmp_path, seed=7)
    published = graphs(list(load_visual_genome(folder, **FEW)))
    normalised = graphs(list(load_visual_genome(folder, predicates="normalised", **FEW)))
    words = {p for _, triples in published.values() for _, p, _ in triples}
    assert words <= {"on", "near", "next to", "has", "odd"}
    count = sum(len(triples) for _, triples in published.values())
    assert sum(len(triples) for _, triples in normalised.values()) > count


def test_it_is_a_set(tmp_path: Path) -> None:
    folder = publish(tmp_path, seed=7)
    file = folder / "relationship_alias.txt"
    picture = photo(folder / "VG_100K_2" / "5.jpg")
    items = check_set(
        lambda: load_visual_genome(folder, **FEW), lambda: file.write_text("near,nearby,by\n")
    )
    assert all(item.detections and item.meta["split"] == "test" for item in items)
    assert {item.image for item in items} <= {None, str(picture)}
    before = load_visual_genome(folder, **FEW).fingerprint
    assert load_visual_genome(folder, split="val", **FEW).fingerprint != before
    assert load_visual_genome(folder, **FEW | {"min_objects": 2}).fingerprint != before
    found = load_visual_genome(folder, images=str(folder), split="train", **FEW)
    ids = {item.id for item in found if item.image == str(picture)}
    assert ids == ({"5"} & set(reference(folder, "train")))
    assert sum(found.left_out.values()) > 0


def test_a_vocabulary_that_was_written_gives_the_same_set(tmp_path: Path) -> None:
    folder = publish(tmp_path, seed=7)
    limits = {key: value for key, value in FEW.items() if key.endswith("instances")}
    found = vocabulary_of(folder, **limits)
    assert "man" in found.objects
    assert "men" not in found.objects
    assert set(found.attributes) <= set(WORDS)
    file = folder / "vocab.json"
    file.write_text(dump_vocabulary(found), encoding="utf-8")
    again = load_visual_genome(folder, vocabulary=str(file), **FEW)
    assert list(again) == list(load_visual_genome(folder, **FEW))
    file.write_text('{"object_idx_to_name": ["man"]}', encoding="utf-8")
    with pytest.raises(DatasetError, match='"pred_idx_to_name" must be a list of names'):
        list(again)


def test_attributes_and_orphans_are_asked_for(tmp_path: Path) -> None:
    folder = publish(tmp_path, seed=7)
    plain = list(load_visual_genome(folder, **FEW))
    assert not any(o.attributes for i in plain if i.scene for o in i.scene.objects)
    rich = list(load_visual_genome(folder, attributes=True, **FEW))
    assert graphs(rich) == graphs(plain)
    keys = {k for i in rich if i.scene for o in i.scene.objects for k in o.attributes}
    assert keys <= {"color", "color 2", "material", "attribute"}
    assert "color" in keys
    for item in load_visual_genome(folder, orphans=False, **FEW):
        assert item.scene is not None
        ends = {end for r in item.scene.relations for end in (r.source, r.target)}
        assert ends == {o.id for o in item.scene.objects}


def test_raw_keeps_what_annotators_wrote(tmp_path: Path) -> None:
    folder = publish(tmp_path, images=30, seed=3)
    found = load_visual_genome(folder, raw=True)
    items = list(found)
    assert [item.id for item in items] == [str(n) for n in range(1, 31)]
    assert scene_graph_sets.NO_WORDS in found.left_out
    assert scene_graph_sets.WITH_ITSELF in found.left_out
    predicates = {r.predicate for i in items if i.scene for r in i.scene.relations}
    assert "ON" in predicates
    wanted = {str(n) for n in load_splits(folder / "vg_splits.json")["val"]}
    assert {item.id for item in load_visual_genome(folder, raw=True, split="val")} == wanted


def test_merged_numbers_stand_for_their_object(tmp_path: Path) -> None:
    sides = {"x": 1, "y": 1, "w": 40, "h": 40}
    rows = [
        {"object_id": 1, "names": ["dog"], "merged_object_ids": [5], **sides},
        {"object_id": 2, "names": ["bowl"], **sides},
        {"object_id": 3, "names": [" "], **sides},
    ]
    ends = [(5, 2), (9, 2)]
    links = [
        {"predicate": "by", "subject": {"object_id": a}, "object": {"object_id": b}}
        for a, b in ends
    ]
    write_json(tmp_path / "objects.json", [{"image_id": 4, "objects": rows}])
    write_json(tmp_path / "relationships.json", [{"image_id": 4, "relationships": links}])
    found = load_visual_genome(tmp_path, raw=True)
    (item,) = found
    assert item.scene is not None
    assert [str(r) for r in item.scene.relations] == ["dog.1 by bowl.1"]
    assert found.left_out == {scene_graph_sets.NO_NAME: 1, scene_graph_sets.NO_END: 1}
    assert len(item.detections) == 2


def test_scene_graphs_in_one_file_are_the_same_set(tmp_path: Path) -> None:
    folder = publish(tmp_path / "four", seed=7)
    want = list(load_visual_genome(folder, attributes=True, **FEW))

    def read(name: str) -> Any:
        return json.loads((folder / f"{name}.json").read_text())

    one = []
    for entry, links, words in zip(
        read("objects"), read("relationships"), read("attributes"), strict=True
    ):
        said = {row["object_id"]: row.get("attributes", []) for row in words["attributes"]}
        relations = [
            {
                "predicate": row["predicate"],
                "subject_id": row["subject"]["object_id"],
                "object_id": row["object"]["object_id"],
            }
            for row in links["relationships"]
        ]
        objects = [row | {"attributes": said[row["object_id"]]} for row in entry["objects"]]
        image = entry["image_id"]
        one.append({"image_id": image, "objects": objects, "relationships": relations})
    other = tmp_path / "one"
    other.mkdir()
    with zipfile.ZipFile(other / "scene_graphs.json.zip", "w") as archive:
        archive.writestr("scene_graphs.json", json.dumps(one))
    for name in ("image_data.json", "vg_splits.json", "object_alias.txt", "relationship_alias.txt"):
        (other / name).write_bytes((folder / name).read_bytes())
    assert list(load_visual_genome(other, attributes=True, **FEW)) == want


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"has no objects\.json and no scene_graphs\.json"):
        load_visual_genome(tmp_path)
    folder = publish(tmp_path, images=3)
    for name, message in [
        ("vg_splits.json", "option splits"),
        ("object_alias.txt", "option aliases"),
        ("image_data.json", "min_image_size = 0"),
    ]:
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        with pytest.raises(DatasetError, match=message):
            load_visual_genome(folder)
        (folder / name).write_bytes(content)
    (folder / "attributes.json").unlink()
    assert list(load_visual_genome(folder, aliases="none", **FEW)) == []
    with pytest.raises(DatasetError, match=r"there is no attributes\.json"):
        list(load_visual_genome(folder, attributes=True))
    with pytest.raises(DatasetError, match="has no option 'least'; its rules are min_image_size"):
        load_visual_genome(folder, least=3)
    with pytest.raises(DatasetError, match="option min_objects: Input should be a valid integer"):
        load_visual_genome(folder, min_objects="3")
    with pytest.raises(DatasetError, match="raw filters nothing: leave the option min_objects out"):
        load_visual_genome(folder, raw=True, min_objects=3)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("objects", [{"objects": []}], 'entry 0: "image_id" must be a number'),
        ("objects", [{"image_id": 1, "objects": {}}], "image 1: objects: must be a list, found {}"),
        (
            "objects",
            [{"image_id": 1, "objects": [{}]}],
            r"image 1: objects\.0\.object_id: is required",
        ),
        (
            "objects",
            [{"image_id": 1, "objects": [{"object_id": 1, "names": ["a"], "x": "?"}]}],
            r"image 1: objects\.0\.x: must be a number, found '\?'",
        ),
        (
            "relationships",
            [{"image_id": 1, "relationships": [{"predicate": "on", "subject": {}}]}],
            r"image 1: relationships\.0\.subject\.object_id: is required",
        ),
        ("vg_splits", {"train": [1], "val": [1], "test": []}, "image 1 is in train and in val"),
        ("vg_splits", {"train": [1]}, 'has no "val"'),
        ("vg_splits", {"train": ["1"], "val": [], "test": []}, r"train\[0\]: expected the number"),
    ],
)
def test_a_file_in_another_form_is_told_with_its_place(
    tmp_path: Path, name: str, data: object, message: str
) -> None:
    folder = publish(tmp_path, images=1)
    write_json(folder / f"{name}.json", data)
    with pytest.raises(DatasetError, match=message):
        list(load_visual_genome(folder))


def test_two_entries_of_an_image_are_told(tmp_path: Path) -> None:
    folder = publish(tmp_path, images=3)
    links = json.loads((folder / "relationships.json").read_text())
    write_json(folder / "relationships.json", [links[1], links[0], links[0], links[2]])
    with pytest.raises(DatasetError, match="image 1 has 2 entries in one file"):
        list(load_visual_genome(folder, raw=True))
