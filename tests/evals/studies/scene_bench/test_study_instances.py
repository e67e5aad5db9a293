"""Single objects with attributes: the built-in ones, and files of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.core.questions import facts_of
from scenewright.evals.datasets.base import Dataset
from scenewright.evals.studies.scene_bench.attributes import (
    EACH,
    WITH,
    Objects,
    known_objects,
    objects_of,
    painted_objects,
)
from scenewright.evals.studies.study import StudyError
from scenewright.miniature.world import COLORS, KINDS


@pytest.mark.parametrize(("objects", "classes"), [(painted_objects(), 12), (known_objects(), 80)])
def test_every_class_stands_bare_and_three_times_with_an_attribute(
    objects: Objects, classes: int
) -> None:
    items = list(objects)
    assert isinstance(objects, Dataset)
    assert len(items) == classes * (1 + EACH)
    assert len({item.id for item in items}) == len(items)
    assert [item.id for item in items] == [item.id for item in objects]
    for item in items:
        assert item.scene is not None
        kinds = [fact.kind for fact in facts_of(item.scene, "scene-bench")]
        assert kinds == (["object", "attribute"] if item.group == WITH else ["object"])


def test_painted_objects_are_of_the_painted_world() -> None:
    found = painted_objects()
    assert set(found.instances) == set(KINDS)
    for pairs in found.instances.values():
        assert {key for key, _ in pairs} == {"color"}
        assert {value for _, value in pairs} <= set(COLORS)


def test_first_takes_whole_classes_and_changes_the_fingerprint() -> None:
    found = painted_objects()
    assert len(list(found.first(2))) == 2 * (1 + EACH)
    assert found.first(2).fingerprint != found.fingerprint
    assert found.first(None) is found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("own.json", '{"apple": ["red apple", "very ripe apple"]}'),
        ("own.toml", 'apple = ["red apple", "very ripe apple"]'),
    ],
)
def test_files_of_the_form_of_table_8(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    found = objects_of(file)
    assert [item.id for item in found] == ["apple", "red apple", "very ripe apple"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "names no classes"),
        ("{", "is not valid JSON"),
        ('{"apple": "red apple"}', "no list of instances"),
        ('{"apple": []}', "no list of instances"),
        ('{"apple": ["red pear"]}', "is not 'ATTRIBUTE apple'"),
        ('{"apple": ["apple"]}', "is not 'ATTRIBUTE apple'"),
        ('{"apple": [3]}', "is not 'ATTRIBUTE apple'"),
        ('{"apple": ["red apple", "red  apple "]}', "an instance twice"),
    ],
)
def test_a_bad_file_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "own.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(StudyError, match=said) as error:
        objects_of(file)
    assert "own.json" in str(error.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="cannot be read: No such file"):
        objects_of(tmp_path / "none.toml")
