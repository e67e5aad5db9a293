"""COCO's files as lists of things: annotations of instances, panoptic segments, results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from scenewright.core.ports.detector import DetectionError
from scenewright.tools.vision.detection.labels import plain

T = TypeVar("T")
Make = Callable[[str, Any, float, Any, bool, str], T]
"""(name, [x, y, width, height] or none, score, mask or none, stuff, place) → a thing."""


def is_coco(whole: Any) -> bool:
    """Whether a JSON document has COCO's form: lists of images, annotations and categories."""
    return isinstance(whole, dict) and all(
        isinstance(whole.get(key), list) for key in ("images", "annotations", "categories")
    )


def coco_entries(whole: dict[str, Any], place: str, make: Make[T]) -> Iterator[tuple[str, list[T]]]:
    """(file name, its things) of every image, crowds left out.

    Annotations are instances (with ``bbox``, ``segmentation`` and, of results, ``score``) or
    panoptic (with ``segments_info``; their masks lie in files of their own and are not read).
    Raises ``DetectionError`` with the entry's place.
    """
    files = _table(whole["images"], "file_name", f"{place}, images")
    names = _table(whole["categories"], "name", f"{place}, categories")
    things = {
        entry["id"]: entry.get("isthing", 1) != 0 for entry in whole["categories"] if "id" in entry
    }
    found: dict[Any, list[T]] = {number: [] for number in files}
    for at, annotation in enumerate(whole["annotations"]):
        here = f"{place}, annotations[{at}]"
        if not isinstance(annotation, dict) or annotation.get("image_id") not in files:
            raise DetectionError(f"{here}: image_id must be the id of one of the images")
        parts = annotation.get("segments_info", [annotation])
        if not isinstance(parts, list):
            raise DetectionError(f"{here}: segments_info must be a list of segments")
        for part in parts:
            category = part.get("category_id") if isinstance(part, dict) else None
            if category not in names:
                raise DetectionError(f"{here}: there is no category {category!r:.40}")
            if part.get("iscrowd"):
                continue
            mask = part.get("segmentation") or None
            thing = make(
                plain(names[category]),
                part.get("bbox"),
                part.get("score", 1.0),
                mask,
                not things.get(category, True),
                f"{here}, {files[annotation['image_id']]}",
            )
            found[annotation["image_id"]].append(thing)
    for number, listed in found.items():
        yield files[number], listed


def _table(rows: list[Any], key: str, place: str) -> dict[Any, str]:
    table = {}
    for at, row in enumerate(rows):
        number = row.get("id") if isinstance(row, dict) else None
        if not isinstance(number, int | str) or not isinstance(row.get(key), str):
            raise DetectionError(f'{place}[{at}] must have an "id" and a text "{key}"')
        table[number] = row[key]
    return table
