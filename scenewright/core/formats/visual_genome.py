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
    JsonValue,
    build,
    intent_entry,
    quote,
    renamed,
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


def _id(given: JsonValue) -> str:
    value = given.value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise given.fail(f"expected the number of an object, found {quote(value)}")
    return JsonValue(str(value), given.place).text("1").strip()


def _name(item: JsonValue) -> str:
    if "names" not in item.value and "name" in item.value:
        return item.get("name").text('"dog"')
    names = item.field("names", OBJECT)
    listed = names.items('["dog"]')
    if not listed:
        raise names.fail('is empty: give a name, for example ["dog"]')
    return listed[0].text('"dog"')


def _attributes(item: JsonValue) -> dict[str, str]:
    listed = item.get("attributes")
    words = [
        "" if word.value == "" else word.text('"brown"').strip()
        for word in ([] if listed.value is None else listed.items('["brown"]'))
    ]
    if "attribute_keys" not in item.value:
        values = [word for word in dict.fromkeys(words) if word]
        return dict(zip(keys_for(values), values, strict=True))
    given = item.get("attribute_keys")
    keys = [key.text('"color"') for key in given.items('["color"]')]
    if len(keys) != len(words) or len(set(keys)) != len(keys):
        raise given.fail(f"needs {len(words)} keys, all different: one for each attribute")
    return dict(zip(keys, words, strict=True))


def read(entry: Any, where: str) -> SceneGraph:
    """Return the graph of one image; object ids are kept as text."""
    data = JsonValue(entry, where, is_entry=True)
    data.object(f'{{"objects": [{OBJECT}], "relationships": []}}')
    objects: dict[str, tuple[str, str, dict[str, str]]] = {}
    for item in data.field("objects", f"[{OBJECT}]").items(f"[{OBJECT}]"):
        id_ = _id(given := item.object(OBJECT).field("object_id", OBJECT))
        if id_ in objects:
            raise given.fail(f"{id_} is used twice: give each object its own")
        objects[id_] = (id_, _name(item), _attributes(item))
    relations: list[tuple[str, str, str, str]] = []
    for row in data.get("relationships", []).items(f"[{RELATIONSHIP}]"):
        row.object(RELATIONSHIP)
        source, target = (
            row.end(key, RELATIONSHIP, _id, objects, "the object_id of an object")
            for key in ("subject_id", "object_id")
        )
        predicate = row.field("predicate", RELATIONSHIP)
        if isinstance(predicate.value, str) and not predicate.value.strip():
            warnings.warn(
                f"{row.place}: the predicate is empty: the relation was left out",
                FormatWarning,
                stacklevel=2,
            )
            continue
        relations.append((source, predicate.text('"on"'), target, row.place))
    scene = build(list(objects.values()), relations, where, self_relations="drop")
    return with_intent(scene, entry, where)


def write(scene: SceneGraph) -> dict[str, Any]:
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
        "image_id": 1,
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
