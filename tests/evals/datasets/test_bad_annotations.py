"""Whatever stands in a file of annotations: it is read, or refused with the file's name."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.evals.datasets import detection_sets, scene_graph_sets
from scenewright.evals.datasets.base import Dataset, DatasetError
from tests.evals.datasets.published import coco as made

BOX = {"x": 1, "y": 2, "w": 40, "h": 40}
OBJECTS = [
    {"object_id": 1, "names": ["dog"], "attributes": ["red"], "merged_object_ids": [9], **BOX},
    {"object_id": 2, "names": ["table"], **BOX},
    {"object_id": 3, "names": ["bowl"], **BOX},
]
GRAPHS = [
    {
        "image_id": 1,
        "objects": OBJECTS,
        "relationships": [{"predicate": "on", "subject_id": 1, "object_id": 2}],
    }
]
ENTRIES = [
    {
        "image_id": "a",
        "file_name": "a.jpg",
        "width": 640,
        "objects": ["dog.1:[1, 2, 30, 40]", "table.1"],
        "boxes": {"table.1": [1, 2, 3, 4]},
        "attributes": {"dog.1": {"color": "red"}},
        "relationships": [{"source": "dog.1", "target": "table.1", "relation": "on"}],
        "level 1": "Nature",
    }
]
COCO = made([(7, 1, [1, 2, 3, 4]), (7, 3, [1, 2, 3, 4]), (7, 3, [5, 5, 5, 5])])
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 10**30),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all values in ``data``."""
    if path:
        yield path
    if isinstance(data, dict | list):
        for key in data if isinstance(data, dict) else range(len(data)):
            yield from places(data[key], (*path, key))


def changed(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    data = copy.deepcopy(data)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("name", "data", "load"),
    [
        ("a.json", COCO, lambda path: detection_sets.load_coco(path, scene="objects")),
        ("a.json", ENTRIES, scene_graph_sets.load_megasg),
        (
            "scene_graphs.json",
            GRAPHS,
            lambda path: scene_graph_sets.load_visual_genome(path, raw=True),
        ),
        (
            "scene_graphs.json",
            GRAPHS,
            lambda path: scene_graph_sets.load_visual_genome(path, raw=True, attributes=True),
        ),
    ],
    ids=["coco", "megasg", "visual-genome", "with attributes"],
)
@settings(max_examples=80, deadline=None)
@given(draw=st.data())
def test_any_change_is_read_or_refused(
    name: str, data: Any, load: Callable[[Path], Dataset], draw: Any
) -> None:
    path = draw.draw(st.sampled_from(list(places(data))))
    text = json.dumps(changed(data, path, draw.draw(JUNK)))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        refused, items = "", []
        try:
            items = list(load(file))
        except DatasetError as error:
            refused = str(error)
        # The name of the file, or what it is about where the whole of it is meant.
        about = (str(file), "megasg", "visual-genome", "the number")
        assert not refused or refused.startswith(about)
        assert len({item.id for item in items}) == len(items)
