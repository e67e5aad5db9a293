"""Our own JSON: the fields of :class:`~scenewright.core.scene.SceneGraph` and a format marker."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from scenewright.core.formats.base import as_object, checked, explain, fail, prefix, shown
from scenewright.core.scene import SceneGraph

MARKER = "scenewright/1"
EXAMPLE = '{"objects": [{"id": "dog.1", "name": "dog"}], "relations": []}'


def read(entry: Any, where: str) -> SceneGraph:
    """The graph of one JSON entry; unknown keys, repeated relations and ids are errors."""
    data = dict(as_object(entry, where, EXAMPLE))
    marker = data.pop("format", MARKER)
    if marker != MARKER:
        raise fail(
            f"{prefix(where)}format",
            f"{shown(marker)} is not known: write {shown(MARKER)} or leave it out",
        )
    try:
        return checked(SceneGraph.model_validate(data), where)
    except ValidationError as error:
        raise explain(error, where) from None


def write(scene: SceneGraph) -> dict[str, Any]:
    """The JSON entry of ``scene``, read back exactly equal."""
    return {"format": MARKER, **scene.model_dump(mode="json")}
