"""Bounds of the schemas that models are asked with, and what providers take of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator
from langchain_core.utils.function_calling import convert_to_openai_tool

from scenewright.agents.judges.sheet import REASONS, sheet_of, sheet_schema
from scenewright.core.facts import Fact
from scenewright.prompts import load_prompt
from scenewright.providers.clients.base import Dialect, schema_for
from scenewright.tools import director
from scenewright.tools.director import Arguments

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)


def unbounded_parts(schema: Any, path: str = "") -> list[str]:
    """Return the paths of the strings, lists and objects that ``schema`` leaves unbounded."""
    found: list[str] = []
    kinds = schema.get("type", ())
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    if not {"enum", "const", "$ref"} & schema.keys():
        if "string" in kinds and not {"maxLength", "pattern"} & schema.keys():
            found.append(f"{path or '.'}: a string without maxLength")
        if "array" in kinds and "maxItems" not in schema:
            found.append(f"{path or '.'}: a list without maxItems")
        if "object" in kinds and schema.get("additionalProperties") is not False:
            found.append(f"{path or '.'}: an object of any keys")
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            for name, inner in value.items():
                found += unbounded_parts(inner, f"{path}.{name}")
        elif key in ("items", "not") and isinstance(value, Mapping):
            found += unbounded_parts(value, f"{path}[]")
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            for at, inner in enumerate(value):
                found += unbounded_parts(inner, f"{path}({at})")
    return found


def tools() -> Iterator[type[Arguments]]:
    """The director's tools; those of the MCP server are for agents of others."""
    for one in vars(director).values():
        if isinstance(one, type) and issubclass(one, Arguments) and one is not Arguments:
            yield one


def sent() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Name and schema of everything that the package sends to models."""
    for file in sorted(files("scenewright.prompts").iterdir(), key=lambda one: one.name):
        if file.name.endswith(".md"):
            output = load_prompt(Path(file.name).stem).output
            if output is not None:
                yield file.name, output
    for reasons in REASONS:
        yield f"a sheet with reasons: {reasons}", sheet_schema(reasons)
    for tool in tools():
        yield tool.__name__, convert_to_openai_tool(tool)["function"]["parameters"]


SENT = dict(sent())


@pytest.mark.parametrize("name", SENT)
def test_no_answer_can_go_on_for_ever(name: str) -> None:
    Draft202012Validator.check_schema(SENT[name])
    assert unbounded_parts(SENT[name]) == []


def test_the_walk_finds_what_is_unbounded() -> None:
    assert len(SENT) > 30
    assert unbounded_parts({"type": "string"}) != []
    assert unbounded_parts({"type": "array", "maxItems": 3, "items": {"type": "string"}}) != []
    either = {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "integer"}}]}
    closed = {"type": "object", "additionalProperties": False, "properties": {"a": either}}
    assert unbounded_parts(closed) == [".a(1): a list without maxItems"]
    assert unbounded_parts({"type": ["object", "null"]}) != []


def test_a_sheet_has_room_for_its_answers_alone() -> None:
    facts = [
        Fact(id=f"f{at}", kind="object", subject="a", statement="s", question=f"Is it {at}?",
             options=("yes", "no"), expected="yes")
        for at in range(3)
    ]  # fmt: skip
    schema = sheet_of(facts).schema
    answers = [{"n": at, "a": "yes", "p": 1} for at in (1, 2, 3)]
    takes = Draft202012Validator(schema).is_valid
    assert takes({"answers": answers, "why": ["1: no"]})
    assert not takes({"answers": [*answers, answers[0]], "why": []})
    assert not takes({"answers": answers, "why": ["1: no"] * 4})
    assert sheet_schema()["properties"]["answers"]["maxItems"] > 3


REFUSED = {
    "openai": {"maxLength", "minLength", "uniqueItems"},
    "azure": {"maxLength", "minLength", "maxItems", "minItems", "minimum", "maximum", "pattern"},
    "anthropic": {"maxLength", "minLength", "maxItems", "minimum", "maximum", "exclusiveMinimum"},
    "gemini": {"maxLength", "minLength"},
    "compatible": set[str](),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", SENT)
def test_no_provider_gets_what_it_refuses(name: str, dialect: Dialect) -> None:
    whole = SENT[name]
    before = json.dumps(whole)
    fitted = schema_for(dialect, whole)
    assert json.dumps(whole) == before
    assert keywords(fitted).isdisjoint(REFUSED[dialect])
    # Only keywords go: shapes, names and words of people stay.
    assert stripped(fitted) == stripped(whole)


def keywords(schema: Any) -> set[str]:
    found = set(schema)
    for key, value in schema.items():
        inner = value.values() if key in ("properties", "$defs") else [value]
        for one in inner:
            for item in one if isinstance(one, list) else [one]:
                if isinstance(item, Mapping):
                    found |= keywords(item)
    return found


def stripped(value: Any) -> Any:
    bounds = set().union(*REFUSED.values()) | {"exclusiveMaximum", "format"}
    if isinstance(value, Mapping):
        return {key: stripped(inner) for key, inner in value.items() if key not in bounds}
    return [stripped(item) for item in value] if isinstance(value, list) else value


def test_a_property_may_have_the_name_of_a_keyword() -> None:
    schema = {"type": "object", "properties": {"maxLength": {"type": "string", "maxLength": 3}}}
    assert schema_for("openai", schema)["properties"] == {"maxLength": {"type": "string"}}


def test_grammars_of_own_servers_stay_below_their_limit() -> None:
    # ggml-org/llama.cpp#27087: 2000 repetitions are refused, and with them the request.
    schema = {"type": "array", "maxItems": 2000, "items": {"type": "string", "maxLength": 1999}}
    assert schema_for("compatible", schema) == {
        "type": "array", "items": {"type": "string", "maxLength": 1999}
    }  # fmt: skip
