"""SG2Im scene graphs: ``{"objects": ["sky", "grass"], "relationships": [[0, "above", 1]]}``.

A file is a list of them. Objects are counted from 0. Attributes, which SG2Im lacks, are in an
optional ``"attributes": {"0": {"color": "blue"}}`` keyed by that number, and what was said beside
the graph in ``"intent"``, with ids ``sky.1``, ``sky.2``, … The published files repeat triples
(dropped) and relate an object to itself (left out with a warning).
"""

from __future__ import annotations

from typing import Any

from scenewright.core.formats.base import (
    as_attributes,
    as_list,
    as_object,
    as_text,
    build,
    fail,
    field,
    intent_entry,
    numbered,
    prefix,
    renamed,
    shown,
    with_intent,
)
from scenewright.core.scene import SceneGraph

EXAMPLE = '{"objects": ["sky", "grass"], "relationships": [[0, "above", 1]]}'


def _index(value: Any, count: int, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise fail(where, f"expected the number of an object, from 0, found {shown(value)}")
    if not 0 <= value < count:
        raise fail(
            where, f"there is no object {value}: objects has {count}, counted 0 to {count - 1}"
        )
    return value


def read(entry: Any, where: str) -> SceneGraph:
    """Return the graph of one entry; objects become ``name.1``, ``name.2``, … in order."""
    data = as_object(entry, where, EXAMPLE)
    at = prefix(where)
    listed = as_list(field(data, "objects", where, EXAMPLE), f"{at}objects", '["sky", "grass"]')
    names = [
        " ".join(as_text(value, f"{at}objects[{index}]", '"sky"').split())
        for index, value in enumerate(listed)
    ]
    ids = numbered(names)
    relations: list[tuple[str, str, str, str]] = []
    rows = as_list(data.get("relationships", []), f"{at}relationships", '[[0, "above", 1]]')
    for index, value in enumerate(rows):
        place = f"{at}relationships[{index}]"
        row = as_list(value, place, '[0, "above", 1]')
        if len(row) != 3:
            raise fail(place, f'expected three parts such as [0, "above", 1], found {shown(row)}')
        source = _index(row[0], len(ids), f"{place}[0]")
        target = _index(row[2], len(ids), f"{place}[2]")
        predicate = as_text(row[1], f"{place}[1]", '"above"')
        relations.append((ids[source], predicate, ids[target], place))
    extra = as_object(data.get("attributes", {}), f"{at}attributes", '{"0": {"color": "blue"}}')
    for key in extra:
        if key not in map(str, range(len(ids))):
            raise fail(f"{at}attributes", f"{shown(key)} is not the number of an object, from 0")
    objects = [
        (id_, name, as_attributes(extra.get(str(index), {}), f"{at}attributes.{index}"))
        for index, (id_, name) in enumerate(zip(ids, names, strict=True))
    ]
    scene = build(objects, relations, where, self_relations="drop")
    return with_intent(scene, data, where)


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
