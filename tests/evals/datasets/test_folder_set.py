"""A plain folder: pictures, scenes and captions that lie side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.core.formats import dump_scene, load_scene
from scenewright.evals.datasets import tables
from scenewright.evals.datasets.base import DatasetError
from tests.evals.datasets.published import check_set, photo
from tests.isomorphism import isomorphic

SCENE = load_scene("red ball on table")


def filled(root: Path) -> Path:
    photo(root / "b.jpg")
    (root / "b.json").write_text(dump_scene(SCENE, "megasg"))
    (root / "b.txt").write_text("A red ball\non a table.\n")
    photo(root / "a.png")
    (root / "People" / "Work").mkdir(parents=True)
    (root / "People" / "Work" / "c.txt").write_text("a man")
    (root / ".hidden.txt").write_text("no")
    (root / "notes.md").write_text("no")
    return root


def test_files_of_one_name_are_one_item(tmp_path: Path) -> None:
    root = filled(tmp_path)
    items = check_set(
        lambda: tables.load_folder(root), lambda: (root / "a.txt").write_text("something else")
    )
    assert [item.id for item in items] == ["a", "b", "People/Work/c"]
    a, b, c = items
    assert (a.image, a.scene, a.prompt) == (str(root / "a.png"), None, "")
    assert b.scene is not None
    assert isomorphic(b.scene, SCENE)
    assert b.prompt == "A red ball on a table."
    assert (c.group, c.category, c.prompt) == ("People", "Work", "a man")


def test_captions_can_become_scenes_and_folders_be_passed_over(tmp_path: Path) -> None:
    root = filled(tmp_path)
    parsed = {item.id: item for item in tables.load_folder(root, parse="rules")}
    assert parsed["People/Work/c"].scene is not None
    assert [item.id for item in tables.load_folder(root, recursive=False)] == ["a", "b"]


def test_two_pictures_of_one_name_are_refused(tmp_path: Path) -> None:
    photo(tmp_path / "a.jpg")
    photo(tmp_path / "a.png")
    with pytest.raises(DatasetError, match=r"a.jpg and a.png have one name"):
        list(tables.load_folder(tmp_path))


def test_a_scene_that_cannot_be_read_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"settings": 3}')
    with pytest.raises(DatasetError, match=r"a.json: not a scene graph.*of the picture of its"):
        list(tables.load_folder(tmp_path))


def test_what_is_no_folder_of_items_is_told(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="name it"):
        tables.load_folder(None)
    with pytest.raises(DatasetError, match="is none"):
        tables.load_folder(tmp_path / "gone")
    with pytest.raises(DatasetError, match="holds no pictures, scenes"):
        list(tables.load_folder(tmp_path))
