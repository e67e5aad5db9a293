"""Items as rows of a table, both ways: what ``table`` and ``huggingface`` read, and samples write.

Columns: ``id``, ``prompt``, ``scene``, ``image``, ``group``, ``category``, ``facts``,
``predicates``, ``detections``, ``meta``. A scene is JSON of any format that
:mod:`scenewright.core.formats` reads (text, or nested columns), or triplets; facts, detections and
meta are JSON in the form of :class:`~scenewright.evals.datasets.base.Item`. All may be empty, but
an item has a prompt, a scene or an image; one without an id gets the number of its row.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scenewright.core.formats import FormatWarning, loads_scene
from scenewright.core.formats.base import NATIVE_MARKER
from scenewright.core.scene import SceneError, SceneGraph
from scenewright.evals.datasets.base import DatasetError, Item
from scenewright.evals.datasets.captions import said_of
from scenewright.evals.datasets.reading import parsed
from scenewright.evals.datasets.stream import make_item

COLUMNS = (
    *("id", "prompt", "scene", "image", "group", "category", "facts", "predicates"),
    *("detections", "meta"),
)
_ANY_OF = ("prompt", "scene", "image")


def columns_of(given: object) -> dict[str, str]:
    """Field of an item → name of its column: ``given``, and the field's own name for the others.

    Raises ``DatasetError`` for what is no such mapping.
    """
    if given is None:
        return {name: name for name in COLUMNS}
    if not isinstance(given, Mapping) or not all(isinstance(v, str) and v for v in given.values()):
        raise DatasetError(
            f"option columns is {given!r}: map fields to columns, such as {{prompt = 'caption'}}"
        )
    unknown = sorted(set(given) - set(COLUMNS))
    if unknown:
        raise DatasetError(
            f"option columns names {unknown[0]!r}: the fields are {', '.join(COLUMNS)}"
        )
    return {name: given.get(name, name) for name in COLUMNS}


def check_columns(
    where: str,
    there: Sequence[str],
    columns: Mapping[str, str],
    given: Mapping[str, str] | None,
) -> None:
    """Raises ``DatasetError`` if no column holds prompt, scene or image, or if one that was
    ``given`` as an option is not ``there``."""
    lost = [column for column in (given or {}).values() if column not in there]
    if lost:
        raise DatasetError(f"{where} has no column {lost[0]!r}: it has {', '.join(there)}")
    if not any(columns[name] in there for name in _ANY_OF):
        raise DatasetError(
            f"{where} has no column {', '.join(_ANY_OF)} (it has {', '.join(there)}): name them "
            "with the option columns, such as {prompt = 'caption'}"
        )


def item_of(
    cells: Mapping[str, Any],
    columns: Mapping[str, str],
    place: str,
    number: int,
    base: Path,
    parse: str,
) -> Item:
    """The item of a row; relative images begin at ``base``, ``number`` is that of the row, from 1.

    An image that is not there is left off and noted in ``meta["no_image"]``. Raises
    ``DatasetError`` that begins with ``place``.
    """
    held = {name: cells.get(column) for name, column in columns.items()}
    meta = _json(held["meta"], "meta", place, dict) or {}
    fields: dict[str, Any] = {
        "id": _text(held["id"], "id", place) or f"row-{number:06d}",
        "group": _text(held["group"], "group", place),
        "category": _text(held["category"], "category", place),
        "facts": tuple(_json(held["facts"], "facts", place, list) or ()),
        "detections": tuple(_json(held["detections"], "detections", place, list) or ()),
        "prompt": _text(held["prompt"], "prompt", place),
        "predicates": _text(held["predicates"], "predicates", place),
    }
    image = _text(held["image"], "image", place)
    if image:
        file = base / Path(image).expanduser()
        if file.is_file():
            fields["image"] = str(file)
        else:
            meta = {**meta, "no_image": image}
    fields["meta"] = {str(key): value for key, value in meta.items()}
    scene = _scene(held["scene"], place)
    if scene is None and fields["prompt"] and parse != "none":
        fields |= said_of(fields["prompt"], parse, fields["meta"])
    elif scene is not None:
        fields["scene"] = scene
    if scene is None and not fields["prompt"] and "image" not in fields and image:
        raise DatasetError(f"{place}: there is no image {image}: relative names begin at {base}")
    return make_item(place, **fields)


def row_of(item: Item) -> dict[str, Any]:
    """``item`` as an object of a JSON lines file, read back equal; empty fields are left off.

    The image's name is made absolute, so that the file may lie anywhere.
    """
    row: dict[str, Any] = {"id": item.id}
    if item.prompt:
        row["prompt"] = item.prompt
    if item.scene is not None:
        row["scene"] = {"format": NATIVE_MARKER, **item.scene.model_dump(mode="json")}
    if item.facts:
        row["facts"] = [fact.model_dump(mode="json", exclude_defaults=True) for fact in item.facts]
    if item.image is not None:
        row["image"] = os.path.abspath(item.image)
    if item.detections:
        row["detections"] = [{"name": d.name, "box": list(d.box)} for d in item.detections]
    row |= {
        key: text for key in ("predicates", "group", "category") if (text := getattr(item, key))
    }
    return row | ({"meta": item.meta} if item.meta else {})


def write_items(items: Iterable[Item], path: Path) -> int:
    """Write ``items`` as JSON lines to ``path``; how many there were.

    The file appears when all are written. Raises ``DatasetError`` where it cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}")
    count = 0
    try:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            for item in items:
                file.write(json.dumps(row_of(item), ensure_ascii=True) + "\n")
                count += 1
        part.replace(path)
    except OSError as error:
        raise DatasetError(
            f"{path} cannot be written: {error.strerror or error}: name a writable file"
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return count


def _text(value: Any, name: str, place: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise DatasetError(f"{place}: {name} holds {type(value).__name__}: use text")


def _json(value: Any, name: str, place: str, kind: type) -> Any:
    """``value`` (text is parsed) as a ``kind``; none if it is empty."""
    if isinstance(value, str):
        if not value.strip():
            return None
        value = parsed(value, f"{place}, {name}")
    value = _without_nulls(value)
    if value is None or isinstance(value, kind):
        return value
    shape = "an object" if kind is dict else "a list"
    raise DatasetError(f"{place}: {name} must be {shape}, found {value!r:.60}")


def _without_nulls(value: Any) -> Any:
    """Nested columns hold a null for each key that another row has."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _scene(value: Any, place: str) -> SceneGraph | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if not isinstance(value, str | dict | list):
        raise DatasetError(f"{place}: scene holds {type(value).__name__}: use text or JSON")
    data = _without_nulls(value)
    try:
        if isinstance(data, dict) and data.get("format") == NATIVE_MARKER:
            return SceneGraph.model_validate({k: v for k, v in data.items() if k != "format"})
        text = data if isinstance(data, str) else json.dumps(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FormatWarning)
            return loads_scene(text)
    except (SceneError, ValidationError) as error:
        said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise DatasetError(f"{place}: scene: {said}") from error
