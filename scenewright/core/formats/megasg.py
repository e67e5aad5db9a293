"""The MegaSG format of Scene-Bench (Sec. 3.2, Algorithm 1, Table 6).

``{"objects": ["person.2", "sports ball.1"], "relationships": [{"source": "person.2",
"target": "sports ball.1", "relation": "kicking"}]}``. A class label is its id without
the number. Without ``objects`` the ids come from the relationships; a box after an id
(``"person.2:[116, 49, 309, 491]"``) is dropped, as are keys about the photo. The
paper's form has no attributes: ours are in ``"attributes": {"person.2": {…}}``, and what was said
beside the graph in ``"intent"``.
"""

from __future__ import annotations

import re
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
    numbered_ids,
    prefix,
    renamed,
    shown,
    split_id,
    with_intent,
)
from scenewright.core.scene import MAX_ID_LENGTH, SceneError, SceneGraph, clean_name

EXAMPLE = '{"source": "person.2", "target": "sports ball.1", "relation": "kicking"}'
_BOXED = re.compile(r"(?P<id>.+\.[0-9]+)\s*:\s*\[[-+0-9.,\s]*\]", re.DOTALL)


def _id(value: Any, where: str) -> str:
    text = as_text(value, where, '"person.2"').strip()
    match = _BOXED.fullmatch(text)
    try:
        return clean_name(match["id"] if match else text, "the id", MAX_ID_LENGTH)
    except SceneError as error:
        raise fail(where, str(error)) from None


def read(entry: Any, where: str) -> SceneGraph:
    """Return the graph of one entry.

    A relation of an object with itself is left out with a warning.
    """
    data = as_object(entry, where, '{"objects": ["person.2"], "relationships": []}')
    at = prefix(where)
    ids: dict[str, str] = {}
    listed = data.get("objects")
    if listed is not None:
        for index, value in enumerate(as_list(listed, f"{at}objects", '["person.2"]')):
            place = f"{at}objects[{index}]"
            id_ = _id(value, place)
            if id_ in ids:
                raise fail(
                    place,
                    f"the id {shown(id_)} is used twice: number the instances, for example "
                    f'"{split_id(id_)[0]}.1" and "{split_id(id_)[0]}.2"',
                )
            ids[id_] = place
    relations: list[tuple[str, str, str, str]] = []
    shape = f"[{EXAMPLE}]"
    rows = as_list(data.get("relationships", []), f"{at}relationships", shape)
    for index, value in enumerate(rows):
        place = f"{at}relationships[{index}]"
        row = as_object(value, place, EXAMPLE)
        ends = []
        for end in ("source", "target"):
            id_ = _id(field(row, end, place, EXAMPLE), f"{place}.{end}")
            if listed is not None and id_ not in ids:
                raise fail(
                    f"{place}.{end}",
                    f"{shown(id_)} is not in objects: add it there, or use one of "
                    f"{shown(list(ids)[:12], 200)}",
                )
            ids.setdefault(id_, f"{place}.{end}")
            ends.append(id_)
        text = as_text(field(row, "relation", place, EXAMPLE), f"{place}.relation", '"kicking"')
        relations.append((ends[0], text, ends[1], place))
    attributes = as_object(data.get("attributes", {}), f"{at}attributes", '{"person.2": {}}')
    for key in attributes:
        if key not in ids:
            raise fail(f"{at}attributes", f"{shown(key)} is not an object: use one of its ids")
    objects = [
        (id_, split_id(id_)[0], as_attributes(attributes.get(id_, {}), f"{at}attributes.{id_}"))
        for id_ in ids
    ]
    scene = build(objects, relations, where, self_relations="drop")
    return with_intent(scene, data, where)


def write(scene: SceneGraph) -> dict[str, Any]:
    """Return the entry of ``scene``. Ids that are not of the form ``name.N`` are renumbered."""
    scene = renamed(scene, numbered_ids(scene))
    entry: dict[str, Any] = {
        "objects": [item.id for item in scene.objects],
        "relationships": [
            {"source": r.source, "target": r.target, "relation": r.predicate}
            for r in scene.relations
        ],
    }
    attributes = {o.id: dict(o.attributes) for o in scene.objects if o.attributes}
    if attributes:
        entry["attributes"] = attributes
    return entry | intent_entry(scene)
