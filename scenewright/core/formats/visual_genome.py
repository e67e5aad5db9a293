"""Visual Genome ``scene_graphs.json``: a list of images with objects and relationships.

Attributes there are bare words. A known colour gets the key ``color``, a size ``size``,
a material ``material``, anything else ``attribute``; a second one of a key is
``color 2``, and so on. Our own keys are written beside the words in an optional
``attribute_keys``, and what was said beside the graph in ``intent``. Of an object's
names the first is its class label; boxes and synsets are not part of a scene graph and
are not kept. The published file holds relations of an object with itself and empty
predicates: left out with a warning.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

from scenewright.core.formats.base import (
    FormatWarning,
    as_list,
    as_object,
    as_text,
    build,
    fail,
    field,
    intent_entry,
    prefix,
    renamed,
    shown,
    with_intent,
)
from scenewright.core.formats.phrases import key_of
from scenewright.core.scene import SceneGraph

OBJECT = '{"object_id": 1, "names": ["dog"], "attributes": ["brown"]}'
RELATIONSHIP = '{"predicate": "ON", "subject_id": 1, "object_id": 2}'
_INTEGER = re.compile(r"0|[1-9][0-9]{0,17}")


def keys_for(values: Sequence[str]) -> list[str]:
    """Return the attribute key of each bare word, different for all."""
    count: Counter[str] = Counter()
    keys: list[str] = []
    for value in values:
        key = key_of(value) or "attribute"
        count[key] += 1
        keys.append(key if count[key] == 1 else f"{key} {count[key]}")
    return keys


def _id(value: Any, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise fail(where, f"expected the number of an object, found {shown(value)}")
    return as_text(str(value), where, "1").strip()


def _name(item: dict[str, Any], where: str) -> str:
    if "names" not in item and "name" in item:
        return as_text(item["name"], f"{where}.name", '"dog"')
    names = as_list(field(item, "names", where, OBJECT), f"{where}.names", '["dog"]')
    if not names:
        raise fail(f"{where}.names", 'is empty: give a name, for example ["dog"]')
    return as_text(names[0], f"{where}.names[0]", '"dog"')


def _attributes(item: dict[str, Any], where: str) -> dict[str, str]:
    listed = item.get("attributes")
    if listed is None:
        listed = []
    words = [
        "" if word == "" else as_text(word, f"{where}.attributes[{index}]", '"brown"').strip()
        for index, word in enumerate(as_list(listed, f"{where}.attributes", '["brown"]'))
    ]
    if "attribute_keys" not in item:
        values = [word for word in dict.fromkeys(words) if word]
        return dict(zip(keys_for(values), values, strict=True))
    place = f"{where}.attribute_keys"
    keys = [
        as_text(key, f"{place}[{index}]", '"color"')
        for index, key in enumerate(as_list(item["attribute_keys"], place, '["color"]'))
    ]
    if len(keys) != len(words) or len(set(keys)) != len(keys):
        raise fail(place, f"needs {len(words)} keys, all different: one for each attribute")
    return dict(zip(keys, words, strict=True))


def read(entry: Any, where: str) -> SceneGraph:
    """Return the graph of one image; object ids are kept as text."""
    data = as_object(entry, where, f'{{"objects": [{OBJECT}], "relationships": []}}')
    at = prefix(where)
    objects: dict[str, tuple[str, str, dict[str, str]]] = {}
    rows = as_list(field(data, "objects", where, f"[{OBJECT}]"), f"{at}objects", f"[{OBJECT}]")
    for index, value in enumerate(rows):
        place = f"{at}objects[{index}]"
        item = as_object(value, place, OBJECT)
        id_ = _id(field(item, "object_id", place, OBJECT), f"{place}.object_id")
        if id_ in objects:
            raise fail(f"{place}.object_id", f"{id_} is used twice: give each object its own")
        objects[id_] = (id_, _name(item, place), _attributes(item, place))
    relations: list[tuple[str, str, str, str]] = []
    links = as_list(data.get("relationships", []), f"{at}relationships", f"[{RELATIONSHIP}]")
    for index, value in enumerate(links):
        place = f"{at}relationships[{index}]"
        row = as_object(value, place, RELATIONSHIP)
        ends = []
        for end in ("subject_id", "object_id"):
            id_ = _id(field(row, end, place, RELATIONSHIP), f"{place}.{end}")
            if id_ not in objects:
                raise fail(
                    f"{place}.{end}",
                    f"{id_} is not the object_id of an object: add the object or use one of "
                    f"{shown(list(objects)[:12], 200)}",
                )
            ends.append(id_)
        predicate = field(row, "predicate", place, RELATIONSHIP)
        if isinstance(predicate, str) and not predicate.strip():
            warnings.warn(
                f"{place}: the predicate is empty: the relation was left out",
                FormatWarning,
                stacklevel=2,
            )
            continue
        as_text(predicate, f"{place}.predicate", '"on"')
        relations.append((ends[0], predicate, ends[1], place))
    scene = build(list(objects.values()), relations, where, self_relations="drop")
    return with_intent(scene, data, where)


def write(scene: SceneGraph, image_id: int = 1) -> dict[str, Any]:
    """Return the entry of ``scene``.

    Ids that are whole numbers stay, others are numbered from 1.
    """
    whole = all(_INTEGER.fullmatch(item.id) for item in scene.objects)
    if not whole:
        scene = renamed(scene, {item.id: str(n) for n, item in enumerate(scene.objects, 1)})
    objects: list[dict[str, Any]] = []
    for item in scene.objects:
        row: dict[str, Any] = {"object_id": int(item.id), "names": [item.name]}
        keys, words = list(item.attributes), list(item.attributes.values())
        row["attributes"] = words
        if len(set(words)) != len(words) or keys_for(words) != keys:
            row["attribute_keys"] = keys
        objects.append(row)
    entry = {
        "image_id": image_id,
        "objects": objects,
        "relationships": [
            {
                "relationship_id": number,
                "predicate": relation.predicate,
                "subject_id": int(relation.source),
                "object_id": int(relation.target),
            }
            for number, relation in enumerate(scene.relations, 1)
        ],
    }
    return entry | intent_entry(scene)
