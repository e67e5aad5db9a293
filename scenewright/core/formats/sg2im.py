"""SG2Im scene graphs: ``{"objects": ["sky", "grass"], "relationships": [[0, "above", 1]]}``.

A file is a list of them. Objects are counted from 0. Attributes, which SG2Im lacks, are in an
optional ``"attributes": {"0": {"color": "blue"}}`` keyed by that number, and what was said beside
the graph in ``"intent"``, with ids ``sky.1``, ``sky.2``, … The published files repeat triples
(dropped) and relate an object to itself (left out with a warning).
"""

from __future__ import annotations

from typing import Any

from scenewright.core.formats.base import (
    JsonValue,
    build,
    intent_entry,
    numbered,
    quote,
    renamed,
    with_intent,
)
from scenewright.core.scene import SceneGraph

EXAMPLE = '{"objects": ["sky", "grass"], "relationships": [[0, "above", 1]]}'


def _index(given: JsonValue, count: int) -> int:
    value = given.value
    if isinstance(value, bool) or not isinstance(value, int):
        raise given.fail(f"expected the number of an object, from 0, found {quote(value)}")
    if not 0 <= value < count:
        raise given.fail(
            f"there is no object {value}: objects has {count}, counted 0 to {count - 1}"
        )
    return value


def read(entry: Any, where: str) -> SceneGraph:
    """Return the graph of one entry; objects become ``name.1``, ``name.2``, … in order."""
    data = JsonValue(entry, where, is_entry=True).object(EXAMPLE)
    listed = data.field("objects", EXAMPLE).items('["sky", "grass"]')
    names = [" ".join(item.text('"sky"').split()) for item in listed]
    ids = numbered(names)
    relations: list[tuple[str, str, str, str]] = []
    for row in data.get("relationships", []).items('[[0, "above", 1]]'):
        parts = row.items('[0, "above", 1]')
        if len(parts) != 3:
            raise row.fail(
                f'expected three parts such as [0, "above", 1], found {quote(row.value)}'
            )
        source, target = (_index(part, len(ids)) for part in (parts[0], parts[2]))
        relations.append((ids[source], parts[1].text('"above"'), ids[target], row.place))
    extra = data.get("attributes", {}).object('{"0": {"color": "blue"}}')
    for key in extra.value:
        if key not in map(str, range(len(ids))):
            raise extra.fail(f"{quote(key)} is not the number of an object, from 0")
    objects = [
        (id_, name, extra.get(str(index), {}).attributes())
        for index, (id_, name) in enumerate(zip(ids, names, strict=True))
    ]
    scene = build(objects, relations, where, self_relations="drop")
    return with_intent(scene, entry, where)


def write(scene: SceneGraph) -> dict[str, Any]:
    """Return the entry of ``scene``; ids are lost, the graph stays isomorphic."""
    position = {item.id: index for index, item in enumerate(scene.objects)}
    entry: dict[str, Any] = {
        "objects": [item.name for item in scene.objects],
        "relationships": [
            [position[r.source], r.predicate, position[r.target]] for r in scene.relations
        ],
    }
    attributes = {
        str(position[item.id]): dict(item.attributes) for item in scene.objects if item.attributes
    }
    if attributes:
        entry["attributes"] = attributes
    ids = numbered(item.name for item in scene.objects)
    return entry | intent_entry(renamed(scene, dict(zip(position, ids, strict=True))))
