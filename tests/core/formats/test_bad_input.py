"""Bad input of every kind: an error that names the place and the remedy, and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.core.formats import (
    FORMATS,
    MAX_BYTES,
    FormatError,
    FormatWarning,
    dump_scene,
    dump_scenes,
    load_scene,
    load_scenes,
    loads_scene,
    loads_scenes,
)
from scenewright.core.scene import SceneError, SceneGraph

DOG = {"id": "dog.1", "name": "dog"}
ON = {"source": "dog.1", "predicate": "on", "target": "rug.1"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "too early"),
        ('{"objects": ["dog', "too early"),
        ('{"objects": [}', "line 1, column 14: not JSON"),
        ("{'objects': ['person.1']}", "double quotes"),
        ('{"objects": NaN}', "NaN is not JSON"),
        ('{"objects": [-Infinity]}', "-Infinity is not JSON"),
        ('{"objects": [], "objects": []}', '"objects" is given twice'),
        ("[" * 200_000, "nested too deeply|too early"),
        ('{"a":' * 200_000, "nested too deeply|too early"),
        ('{"objects": [1' + "0" * 5000 + "]}", "digits"),
        ("[]", "list is empty"),
        ("[1]", r"\[0\]: not a scene graph: 1"),
        ("{}", "not a scene graph"),
        ('{"objects": []}', "empty"),
        ('{"objects": [], "relationships": []}', "empty"),
        ("", "nothing in it"),
        ("  \n", "nothing in it"),
        ("dog\x00 on rug", "NUL byte at character 4"),
    ],
)
def test_text_that_is_no_scene(text: str, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        load_scene(text)
    with pytest.raises(FormatError, match=says):
        loads_scenes(text)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"objects": [DOG, DOG], "relations": []}, r"objects\[1\]: the id 'dog.1' is used twice"),
        ({"objects": [DOG], "relations": [ON]}, r"relations\[0\]: target 'rug.1' is not an object"),
        ({"objects": [{"id": "dog.1"}], "relations": []}, r"objects\[0\].name is missing: add it"
         r"|objects\[0\].name: is missing"),
        ({"objects": [{"id": 1, "name": "dog"}], "relations": []}, r"objects\[0\].id: .*found 1"),
        ({"objects": [DOG], "relations": [], "extra": 1}, "extra: is not known"),
        ({"objects": [{**DOG, "attributes": {"color": 3}}], "relations": []},
         r"objects\[0\].attributes.color: .*found 3"),
        ({"objects": [{**DOG, "attributes": ["red"]}], "relations": []},
         r"objects\[0\].attributes"),
        ({"objects": [{**DOG, "name": " "}], "relations": []}, r"objects\[0\].name: .*is empty"),
        ({"format": "scenewright/9", "objects": [DOG]}, "format: .*scenewright/1"),
        ({"objects": "dog", "relations": []}, "objects: .*found"),
        ({"objects": ["a.1", "a.1"], "relationships": [{}]}, r"objects\[1\].*used twice"),
        ({"objects": ["a.1"], "relationships": [{"target": "a.1"}]},
         r'relationships\[0\]: "source" is missing'),
        ({"objects": ["a.1"], "relationships": [{"source": "b.1"}]},
         r'relationships\[0\].source: "b.1" is not in objects'),
        ({"relationships": [{"source": "a.1", "target": "b.1", "relation": None}]},
         r"relationships\[0\].relation: expected text"),
        ({"relationships": [{"source": ["a"], "target": "b.1", "relation": "on"}]},
         r"relationships\[0\].source: expected text"),
        ({"objects": ["a.1"], "attributes": {"b.1": {}}}, 'attributes: "b.1" is not an object'),
        ({"objects": ["a.1"], "attributes": {"a.1": {"x": 1}}}, r"attributes\.a\.1\.x: expected"),
        ({"objects": ["a"], "relationships": [[0, "on", 4]]},
         r"relationships\[0\]\[2\]: .*no object 4"),
        ({"objects": ["a"], "relationships": [[-1, "on", 0]]}, r"relationships\[0\]\[0\]"),
        ({"objects": ["a"], "relationships": [[True, "on", 0]]}, r"relationships\[0\]\[0\]"),
        ({"objects": ["a"], "relationships": [[0, "on"]]}, r"relationships\[0\]: expected three"),
        ({"objects": ["a", "b"], "relationships": [[0, 5, 1]]}, r"relationships\[0\]\[1\]"),
        ({"objects": ["a", 2], "relationships": [[0, "on", 1]]}, r"objects\[1\]: expected text"),
        ({"objects": [{"object_id": 1}]}, r'objects\[0\]: "names" is missing'),
        ({"objects": [{"object_id": 1, "names": []}]}, r"objects\[0\].names: is empty"),
        ({"objects": [{"object_id": 1.5, "names": ["a"]}]}, r"objects\[0\].object_id"),
        ({"objects": [{"object_id": 1, "names": ["a"]}] * 2}, r"objects\[1\].object_id: 1 is used"),
        ({"objects": [{"object_id": 1, "names": ["a"]}],
          "relationships": [{"predicate": "on", "subject_id": 1, "object_id": 3}]},
         r"relationships\[0\].object_id: 3 is not"),
        ({"objects": [{"object_id": 1, "names": ["a"], "attributes": [3]}]}, r"attributes\[0\]"),
        ({"objects": [{"object_id": 1, "names": ["a"], "attributes": ["x"], "attribute_keys": []}]},
         "attribute_keys: needs 1"),
        ({"nodes": [{"name": "a"}]}, r'nodes\[0\]: "id" is missing'),
        ({"nodes": [{"id": "a"}, {"id": "a"}]}, r"nodes\[1\].id: .*used twice"),
        ({"nodes": [{"id": "a"}], "links": [{"source": "a", "target": "z"}]}, r"links\[0\].target"),
        ({"nodes": [{"id": "a"}, {"id": "b"}], "edges": [{"source": "a", "target": "b"}]},
         r"edges\[0\]: the edge has no predicate"),
        ({"directed": False, "nodes": [{"id": "a"}]}, "directed: must be true"),
    ],
)  # fmt: skip
def test_json_that_is_no_scene(data: Any, says: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=says):
        loads_scene(json.dumps(data))
    path = tmp_path / "scenes.json"
    good = dump_scene(load_scene("cat"))
    path.write_text(json.dumps(data))
    with pytest.raises(FormatError, match=r"scenes\.json: "):
        load_scene(path)
    path.write_text(f"[{good}, {json.dumps(data)}]")
    with pytest.raises(FormatError, match=r"scenes\.json: \[[01]\]"):
        load_scenes(path)


@pytest.mark.parametrize("name", ["no.json", "no.JSONL", "no.txt", "dir/no", "./no"])
def test_a_missing_file_is_told_with_the_way_out(name: str, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FormatError, match=r"no such file.*needs quotes"):
        load_scene(name)
    with pytest.raises(FormatError, match="no such file"):
        load_scene(Path(name))


def test_a_directory(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dog").mkdir()
    with pytest.raises(FormatError, match="is a directory"):
        load_scene(tmp_path)
    with pytest.raises(FormatError, match="is a directory"):
        load_scene(str(tmp_path))
    assert load_scene("dog").objects[0].name == "dog"


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "scene.txt"
    path.write_bytes("chien près".encode("latin-1"))
    with pytest.raises(FormatError, match=r"scene.txt is not UTF-8 text \(byte 9\): save"):
        load_scene(path)
    path.write_bytes("dög".encode("utf-16-le"))
    with pytest.raises(FormatError, match="UTF-8"):
        load_scene(path)


def test_a_huge_file(tmp_path: Path) -> None:
    path = tmp_path / "scene.json"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(FormatError, match="larger than 20 MiB"):
        load_scene(path)
    with pytest.raises(FormatError, match="larger than 20 MiB"):
        loads_scene("x" * (MAX_BYTES + 1))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="not a regular file"):
        load_scene(tmp_path / "pipe")


def test_a_file_named_like_text_is_read(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dog on rug").write_text("cat")
    assert load_scene("dog on rug").objects[0].name == "cat"


def test_unknown_format_and_wrong_format() -> None:
    with pytest.raises(FormatError, match="use one of json, megasg"):
        load_scene("dog", format="yaml")
    with pytest.raises(FormatError, match="use one of"):
        dump_scene(load_scene("dog"), "yaml")
    with pytest.raises(FormatError, match="not JSON"):
        load_scene("dog on rug", format="json")


@pytest.mark.parametrize("name", list(FORMATS))
def test_nothing_empty_is_written(name: str) -> None:
    with pytest.raises(FormatError, match="empty"):
        dump_scene(SceneGraph(), name)
    with pytest.raises(FormatError, match="no scene to write"):
        dump_scenes([], name)


def test_writing_where_it_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be written"):
        dump_scene(load_scene("dog"), path=tmp_path / "no" / "scene.json")


def outcome(read: Callable[..., list[SceneGraph]], *args: str) -> tuple[list[SceneGraph], Any]:
    """What ``read`` gives: scenes, or the format error; any other error fails the test."""
    try:
        return read(*args), None
    except FormatError as error:
        return [], error


@given(text=st.text(max_size=60))
@settings(max_examples=80, deadline=None)
@pytest.mark.filterwarnings("ignore::scenewright.core.formats.FormatWarning")
def test_any_text_gives_a_scene_or_a_format_error(text: str) -> None:
    scenes, error = outcome(loads_scenes, text)
    assert (error is None) == bool(scenes)
    assert all(isinstance(scene, SceneGraph) for scene in scenes)


KEYS = (
    *("objects", "relationships", "relations", "nodes", "edges", "attributes", "id", "source"),
    *("target", "relation", "predicate", "name", "names", "object_id"),
)
_json = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-2, 3), st.sampled_from(["a.1", "b", "on", ""])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@given(entry=_json, name=st.sampled_from(sorted(set(FORMATS) - {"triplets"})))
@settings(max_examples=120, deadline=None)
@pytest.mark.filterwarnings("ignore::scenewright.core.formats.FormatWarning")
def test_any_json_gives_a_scene_or_a_format_error(entry: Any, name: str) -> None:
    scenes, error = outcome(FORMATS[name].read, json.dumps(entry), "here")
    assert error is None or str(error).startswith("here")
    assert all(scene.objects for scene in scenes)


def test_one_handler_is_enough() -> None:
    assert issubclass(FormatError, SceneError)
    assert issubclass(FormatError, ValueError)
    assert issubclass(FormatWarning, UserWarning)
