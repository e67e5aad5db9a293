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
    JsonValue,
    build,
    intent_entry,
    numbered_ids,
    quote,
    renamed,
    split_id,
    with_intent,
)
from scenewright.core.scene import MAX_ID_LENGTH, SceneError, SceneGraph, clean_name

EXAMPLE = '{"source": "person.2", "target": "sports ball.1", "relation": "kicking"}'
_BOXED = re.compile(r"(?P<id>.+\.[0-9]+)\s*:\s*\[[-+0-9.,\s]*\]", re.DOTALL)


def _id(given: JsonValue) -> str:
    text = given.text('"person.2"').strip()
    match = _BOXED.fullmatch(text)
    try:
        return clean_name(match["id"] if match else text, "the id", MAX_ID_LENGTH)
    except SceneError as error:
        raise given.fail(str(error)) from None


def read(entry: Any, where: str) -> SceneGraph:
    """Return the graph of one entry.

    A relation of an object with itself is left out with a warning.
    """
    data = JsonValue(entry, where, is_entry=True)
    data.object('{"objects": ["person.2"], "relationships": []}')
    ids: dict[str, None] = {}
    listed = data.get("objects")
    for item in [] if listed.value is None else listed.items('["person.2"]'):
        id_ = _id(item)
        if id_ in ids:
            name = split_id(id_)[0]
            raise item.fail(
                f"the id {quote(id_)} is used twice: number the instances, for example "
                f'"{name}.1" and "{name}.2"'
            )
        ids[id_] = None
    relations: list[tuple[str, str, str, str]] = []
    for row in data.get("relationships", []).items(f"[{EXAMPLE}]"):
        row.object(EXAMPLE)
        known = None if listed.value is None else ids
        source, target = (
            row.end(key, EXAMPLE, _id, known, "in objects") for key in ("source", "target")
        )
        ids |= {source: None, target: None}
        text = row.field("relation", EXAMPLE).text('"kicking"')
        relations.append((source, text, target, row.place))
    attributes = data.get("attributes", {}).object('{"person.2": {}}')
    for key in attributes.value:
        if key not in ids:
            raise attributes.fail(f"{quote(key)} is not an object: use one of its ids")
    objects = [(id_, split_id(id_)[0], attributes.get(id_, {}).attributes()) for id_ in ids]
    scene = build(objects, relations, where, self_relations="drop")
    return with_intent(scene, entry, where)


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
