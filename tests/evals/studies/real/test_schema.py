"""Schemas: what is sound, files of them, from scenes, and every fault by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.studies.real.schema import (
    AttributeSchema,
    RelationSchema,
    SchemaAttribute,
    SchemaError,
    SchemaRelation,
    check_schemas,
    classes_of,
    digest_of,
    read_schemas,
    write_schemas,
)

WORDS = st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=12)
PAIRS = st.lists(
    st.tuples(WORDS, WORDS), min_size=1, max_size=6, unique_by=lambda p: (p[0].casefold(), p[1])
)


def thing(id_: str, name: str, **attributes: str) -> SceneObject:
    return SceneObject(id=id_, name=name, attributes=Attributes(attributes))


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ([], "no attributes"),
        ([{"part": "bill", "description": " "}], "at least 1 character"),
        ([{"part": "Bill", "description": "red"}, {"part": "bill", "description": "Red"}], "twice"),
        ([{"part": "bill", "description": "red", "colour": "x"}], "not permitted"),
    ],
)
def test_bad_attributes_are_told(attributes: list[dict[str, str]], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        AttributeSchema.model_validate({"name": "x", "attributes": attributes})


@pytest.mark.parametrize(
    ("entities", "relation", "said"),
    [
        (["a", "b"], ("a", "on", "c"), "not in entities"),
        (["a", "A"], ("a", "on", "A"), "twice"),
        (["a", "b"], ("a", "on", "a"), "two entities"),
    ],
)
def test_bad_relations_are_told(
    entities: list[str], relation: tuple[str, str, str], said: str
) -> None:
    one = SchemaRelation(subject=relation[0], predicate=relation[1], object=relation[2])
    with pytest.raises(ValidationError, match=said):
        RelationSchema(name="x", entities=tuple(entities), relations=(one,))


@given(PAIRS, st.integers(1, 9))
def test_files_hold_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], version: int
) -> None:
    try:
        made = AttributeSchema(
            name="x",
            version=version,
            attributes=tuple(SchemaAttribute(part=p, description=d) for p, d in pairs),
        )
    except ValidationError:
        # Words that differ by case alone in the description.
        return
    file = tmp_path_factory.mktemp("schemas") / "s.json"
    write_schemas(file, [made])
    assert read_schemas(file)["x"].attributes == made


def test_a_class_may_have_both_kinds_and_toml_is_read(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        '[[classes]]\nname = "owl"\nattributes = [{part = "bill", description = "hooked"}]\n'
        '[[classes]]\nname = "owl"\nentities = ["owl", "rock"]\n'
        'relations = [{subject = "owl", predicate = "on", object = "rock"}]\n'
    )
    found = read_schemas(file)["owl"]
    assert found.attributes is not None
    assert found.relations is not None
    assert digest_of([found]) != digest_of([classes_of([found.attributes])["owl"]])


def test_every_fault_is_named(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    good = {"name": "owl", "attributes": [{"part": "bill", "description": "hooked"}]}
    entries = [good, {"name": "cat", "attributes": []}, {"attributes": [{"part": "x"}]}, good, 3]
    file.write_text(json.dumps({"classes": entries}))
    schemas, faults = check_schemas(file)
    assert [schema.name for schema in schemas] == ["owl"]
    told = "\n".join(faults)
    for said in (
        "classes[1] (cat): it has no attributes",
        "classes[2]: name: Field required",
        "classes[2]: attributes.0.description",
        "classes[3] (owl): attributes of this class stand in classes[0] too",
        "classes[4] is not a table",
    ):
        assert said in told
    with pytest.raises(SchemaError, match="cat"):
        read_schemas(file)


@pytest.mark.parametrize("text", ["{", '{"classes": 3}', '{"classes": [], "extra": 1}', "[]"])
def test_files_that_are_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "s.json"
    file.write_text(text)
    with pytest.raises(SchemaError, match=r"s\.json"):
        read_schemas(file)


def test_the_schema_of_a_scene() -> None:
    scene = SceneGraph(
        objects=(
            thing("dog.1", "dog", color="red", size="small"),
            thing("dog.2", "dog", color="red", size="large"),
            thing("ball.1", "ball", color="blue"),
            thing("hat.1", "hat", color="red"),
            thing("hat.2", "hat", color="green"),
        ),
        relations=(
            Relation(source="dog.1", predicate="left of", target="ball.1"),
            Relation(source="dog.2", predicate="wearing", target="hat.2"),
        ),
    )
    attributes, left_out = AttributeSchema.of_scene(scene, "s")
    assert attributes is not None
    assert attributes.existence is None
    # The hats have nothing but their colour, and neither dog's size can be asked of "red dog".
    assert [a.statement for a in attributes.attributes] == [
        "small dog: red",
        "large dog: red",
        "ball: blue",
    ]
    assert left_out == 4
    relations, lost = RelationSchema.of_scene(scene, "s")
    assert relations is not None
    assert lost == 0
    assert [r.statement for r in relations.relations] == [
        "small dog left of ball",
        "large dog wearing green hat",
    ]
    assert "red hat" in relations.entities


def test_a_scene_without_attributes_or_relations_has_no_schema() -> None:
    scene = SceneGraph(objects=(thing("dog.1", "dog"),))
    assert AttributeSchema.of_scene(scene, "s") == (None, 0)
    assert RelationSchema.of_scene(scene, "s") == (None, 0)
