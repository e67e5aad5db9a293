"""The published schemas refuse what the validation refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel, ValidationError

from scenewright.config.options import MAX_TEXT
from scenewright.core.scene import MAX_ID_LENGTH, MAX_NAME_LENGTH, MAX_OBJECTS, MAX_RELATIONS
from scenewright.service.api.common import Extension
from scenewright.service.core.schemas import EditRequest, ParseRequest, RefinementRequest

SCENE: dict[str, Any] = {"objects": [{"id": "a", "name": "ball"}, {"id": "b", "name": "table"}]}
TEXT = {"text": "a ball"}


def scene(**changes: Any) -> dict[str, Any]:
    return {"scene": {**SCENE, **changes}}


def named(**changes: Any) -> dict[str, Any]:
    return scene(objects=[{"id": "a", "name": "ball", **changes}])


def objects(count: int) -> list[dict[str, Any]]:
    return [{"id": f"o{at}", "name": "ball"} for at in range(count)]


def relations(count: int) -> list[dict[str, Any]]:
    return [{"source": "a", "predicate": f"p{at}", "target": "b"} for at in range(count)]


GOOD: list[dict[str, Any]] = [
    TEXT,
    scene(),
    scene(objects=objects(MAX_OBJECTS)),
    scene(relations=relations(MAX_RELATIONS)),
    named(name="x" * MAX_NAME_LENGTH, id="y" * MAX_ID_LENGTH),
    named(attributes={"k" * MAX_NAME_LENGTH: "v" * MAX_NAME_LENGTH}),
    {"triplets": "x" * MAX_TEXT},
    {**TEXT, "scene": None, "triplets": None},
    {**TEXT, "rounds": 100, "patience": 1, "seed": 2**63 - 1, "steps": 1000, "guidance": 0},
    {**TEXT, "width": 512, "height": 8, "start": "0" * 64, "mask": "f" * 64},
    {**TEXT, "judges": ["a"] * 16, "report_judges": [], "idempotency_key": "k"},
    {**TEXT, "budget": {"images": 1, "usd": 0.01, "seconds": 1, "tokens": 1}},
]
BAD: list[dict[str, Any]] = [
    {},
    {**TEXT, "triplets": "a on b"},
    {"scene": None},
    {"text": "x" * (MAX_TEXT + 1)},
    {"text": 5},
    scene(objects=objects(MAX_OBJECTS + 1)),
    scene(relations=relations(MAX_RELATIONS + 1)),
    scene(relations=relations(1) * 2),
    scene(surprise=1),
    named(name="x" * (MAX_NAME_LENGTH + 1)),
    named(name=""),
    named(id="y" * (MAX_ID_LENGTH + 1)),
    named(attributes={"k" * (MAX_NAME_LENGTH + 1): "v"}),
    named(attributes={"k": "v" * (MAX_NAME_LENGTH + 1)}),
    named(attributes={"": "v"}),
    named(attributes={"k": 5}),
    {**TEXT, "rounds": 0},
    {**TEXT, "rounds": 101},
    {**TEXT, "patience": 0},
    {**TEXT, "seed": -1},
    {**TEXT, "seed": 2**63},
    {**TEXT, "steps": 1001},
    {**TEXT, "guidance": 101},
    {**TEXT, "width": 64},
    {**TEXT, "width": 9, "height": 8},
    {**TEXT, "width": 4104, "height": 8},
    {**TEXT, "mask": "f" * 64},
    {**TEXT, "start": "zz"},
    {**TEXT, "judges": []},
    {**TEXT, "judges": ["a"] * 17},
    {**TEXT, "judges": ["a" * 201]},
    {**TEXT, "profile": "a" * 201},
    {**TEXT, "negative_prompt": "x" * (MAX_TEXT + 1)},
    {**TEXT, "idempotency_key": "a\nb"},
    {**TEXT, "budget": {"images": 0}},
    {**TEXT, "budget": {"images": 10**9}},
    {**TEXT, "budget": {"usd": 0}},
    {**TEXT, "surprise": 1},
]


def unique(
    validator: object, wanted: bool, instance: list[object], schema: object
) -> Iterator[jsonschema.ValidationError]:
    """Refuse equal items; ``jsonschema`` compares each of 4096 relations with all others."""
    kinds = {json.dumps(item, sort_keys=True) for item in instance}
    if wanted and len(kinds) < len(instance):
        yield jsonschema.ValidationError("equal items")


Validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"uniqueItems": unique})


@cache
def published(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of ``model``: building it takes longer than anything that is tried on it."""
    return model.model_json_schema()


def verdicts(model: type[BaseModel], data: dict[str, Any]) -> tuple[bool, bool]:
    """Whether the published schema takes ``data``, and whether the validation does."""
    schema = Validator(published(model))
    try:
        model.model_validate(data)
    except ValidationError:
        return schema.is_valid(data), False
    return schema.is_valid(data), True


@pytest.mark.parametrize("data", GOOD, ids=lambda data: ",".join(data))
def test_both_take_what_is_sound(data: dict[str, Any]) -> None:
    assert verdicts(RefinementRequest, data) == (True, True)


@pytest.mark.parametrize("data", BAD, ids=lambda data: ",".join(data))
def test_both_refuse_what_is_wrong(data: dict[str, Any]) -> None:
    assert verdicts(RefinementRequest, data) == (False, False)


@pytest.mark.parametrize("name", ["rounds", "patience", "judges", "strategy", "profile", "budget"])
def test_the_field_of_other_doors_has_the_limits_of_a_request(name: str) -> None:
    def limits(model: type[BaseModel]) -> dict[str, Any]:
        found = published(model)["properties"][name]
        return {key: found[key] for key in found if key not in ("description", "title")}

    assert limits(Extension) == limits(RefinementRequest)


def test_edits_and_scenes_to_read_have_the_same_limits() -> None:
    for data in ({"rounds": 0}, {"rounds": 101}, {"add": "x" * (MAX_TEXT + 1)}, named(name="")):
        assert verdicts(EditRequest, data) == (False, False)
    for data in ({}, {"text": "x" * (MAX_TEXT + 1)}, {**TEXT, "drawn_by": "x" * 201}):
        assert verdicts(ParseRequest, data) == (False, False)
    assert verdicts(ParseRequest, TEXT) == verdicts(EditRequest, {}) == (True, True)
