"""Which attributes a thing is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.core.ports.vision import ExtractionError
from scenewright.tools.vision.detection.labels import COCO_STUFF, normalized_label
from scenewright.tools.vision.extraction.meta_classes import (
    MetaClass,
    MetaClasses,
    built_in,
    load_meta_classes,
)

DEFAULT = ("primary color", "material type")


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_the_table_is_that_of_the_paper() -> None:
    classes = built_in().classes
    assert len(classes) == 30
    categories = [label for one in classes for label in one.categories]
    assert len(categories) == len(set(categories)) == 133
    assert set(categories) >= COCO_STUFF


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("dog", "animal"),
        ("Dogs", "animal"),
        ("dining table", "furniture"),
        ("table-merged", "work surfaces"),
        ("table", "work surfaces"),
        ("sky", "natural environment"),
        ("Sky-Other-Merged", "natural environment"),
        ("wall brick", "room surfaces"),
        ("cell_phone", "screen devices"),
        ("skis", "sports equipment"),
        ("scissors", "indoor objects"),
        ("knives", "utensils"),
        ("bus", "vehicle"),
        ("sofa", "furniture"),
        ("women", "person"),
    ],
)
def test_labels_are_found_however_they_are_written(label: str, name: str) -> None:
    found = built_in().of(label)
    assert found is not None
    assert found.name == name
    assert built_in().keys_of(label) == found.keys


def test_every_category_is_found() -> None:
    for one in built_in().classes:
        for label in (*one.categories, *one.synonyms):
            assert built_in().of(label) is one
            assert built_in().of(normalized_label(label)) is one


def test_whoever_is_a_person_is_asked_for_what_a_person_is() -> None:
    person = built_in().of("person")
    assert person is not None
    for label in ("man", "women", "pilot", "old fisherman"):
        assert built_in().of(label) is person
    # What a table of one's own says of them goes first.
    astronauts = MetaClass(name="astronauts", categories=("astronaut",), keys=("helmet",))
    mine = MetaClasses(classes=(*built_in().classes, astronauts), default_keys=DEFAULT)
    assert mine.keys_of("astronaut") == ("helmet",)
    assert MetaClasses(classes=(astronauts,), default_keys=DEFAULT).of("pilot") is None


def test_other_labels_have_the_default_keys() -> None:
    for label in ("spaceship", "", "tables of contents"):
        assert built_in().of(label) is None
        assert built_in().keys_of(label) == DEFAULT


def test_a_table_of_ones_own_extends_the_built_in(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '[boats]\ncategories = ["Boats", "canoe"]\nkeys = ["sail"]\n'
        '[animal]\ncategories = ["dog"]\nkeys = ["breed"]\n',
    )
    mine = load_meta_classes(path)
    assert mine.keys_of("boat") == ("sail",)
    assert mine.keys_of("canoe") == ("sail",)
    assert mine.keys_of("car") == built_in().keys_of("car")
    assert mine.keys_of("dog") == ("breed",)
    # The built-in class of this name is gone, with what else it listed.
    assert mine.keys_of("cat") == DEFAULT
    assert mine.fingerprint != built_in().fingerprint
    assert load_meta_classes() is built_in()


def test_a_table_of_ones_own_can_stand_alone(tmp_path: Path) -> None:
    text = 'replace = true\n[default]\nkeys = ["color"]\n[x]\ncategories = ["dog"]\nkeys = ["a"]\n'
    mine = load_meta_classes(written(tmp_path, text))
    assert mine.keys_of("dog") == ("a",)
    assert mine.keys_of("car") == ("color",)
    assert len(mine.classes) == 1
    assert MetaClasses(default_keys=("color",)).keys_of("dog") == ("color",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "is not valid TOML"),
        ("x = 3", r"\[x\] must be a table"),
        ('[x]\ncategories = ["a"]', r"\[x\]: keys"),
        ('[x]\ncategories = []\nkeys = ["a"]', r"\[x\]: categories"),
        ('[x]\ncategories = ["a"]\nkeys = ["a"]\ncolour = 1', "colour"),
        ('[x]\ncategories = ["a"]\nkeys = ["a", "a"]', "twice"),
        (
            '[x]\ncategories = ["a"]\nkeys = ["k"]\n[y]\ncategories = ["A"]\nkeys = ["k"]',
            "two meta",
        ),
        ("[default]\nkeys = []", r"\[default\]"),
        ("replace = true", r"\[default\]"),
        ('replace = "yes"', "true or false"),
    ],
)
def test_broken_tables_name_the_place(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ExtractionError, match=said) as told:
        load_meta_classes(written(tmp_path, text))
    assert "mine.toml" in str(told.value)


def test_a_table_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ExtractionError, match="cannot be read"):
        load_meta_classes(tmp_path / "none.toml")
