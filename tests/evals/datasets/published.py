"""Files in the layouts in which sets are published, made up for tests; and what any set must be."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from scenewright.evals.datasets.base import Dataset, Item


def photo(path: Path, size: tuple[int, int] = (100, 80)) -> Path:
    """A picture of one colour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, "teal").save(path)
    return path


def write_json(path: Path, data: object) -> Path:
    """``data`` as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def write_csv(path: Path, columns: str, rows: Iterable[str]) -> Path:
    """A CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([columns, *rows]) + "\n", encoding="utf-8")
    return path


def check_set(make: Callable[[], Dataset], change: Callable[[], object]) -> list[Item]:
    """What any set must be; ``change`` alters one of its files. Gives its items."""
    found = make()
    assert isinstance(found, Dataset)
    assert found.name
    assert found.source
    first = list(found)
    left_out: Mapping[str, int] = dict(found.left_out)
    assert list(found) == first
    assert dict(found.left_out) == left_out
    assert len({item.id for item in first}) == len(first)
    before = found.fingerprint
    again = make()
    assert again.fingerprint == before
    assert list(again) == first
    assert next(iter(make())) == first[0]
    change()
    assert make().fingerprint != before
    return first


def coco(boxes: Iterable[tuple[Any, int, list[float]]], **more: object) -> dict[str, Any]:
    """A COCO file of one photo, ``a.jpg`` of 100 × 80, with boxes (image, category, box)."""
    return {
        "info": {"year": 2017, "nested": [{"a": [1, 2]}]},
        "images": [{"id": 7, "file_name": "a.jpg", "width": 100, "height": 80}],
        "annotations": [
            {"id": n, "image_id": image, "category_id": category, "bbox": box, "iscrowd": 0}
            for n, (image, category, box) in enumerate(boxes)
        ],
        "categories": [{"id": 1, "name": "person"}, {"id": 3, "name": "Sports Ball"}],
        **more,
    }
