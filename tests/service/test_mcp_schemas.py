"""What agents are told of the tools: short, and as strict as the tools themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp.types import CallToolResult

from scenewright.core.scene import MAX_ID_LENGTH, MAX_OBJECTS
from scenewright.service.mcp.schemas import input_schema, output_schema
from scenewright.tools.director import Arguments, Inpaint, Look
from tests.service.mcping import SCENE, Calls, data, held, text
from tests.service.serving import scripted
from tests.service.test_mcp_runs import picture

MOST_BYTES = 34_500
RUN = "run_" + "0" * 32


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Calls]:
    async with held(tmp_path / "data", scripted()) as at:
        yield Calls(at)


async def test_all_tools_together_are_short(client: Calls) -> None:
    tools = await client.list_tools()
    whole = tools.model_dump_json(by_alias=True, exclude_none=True)
    assert len(whole.encode()) <= MOST_BYTES
    for tool in tools.tools:
        for schema in (tool.input_schema, tool.output_schema):
            Draft202012Validator.check_schema(schema)
            # Providers of language models refuse these at the top of a tool's schema.
            assert not {"oneOf", "anyOf", "allOf", "title"} & set(schema)
            assert schema["type"] == "object"


async def test_replies_fit_their_schemas(client: Calls) -> None:
    schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}

    async def asked(tool: str, **given: Any) -> dict[str, Any]:
        found = data(await client.call_tool(tool, given))
        Draft202012Validator(schemas[tool]).validate(found)
        return found

    run = (await asked("refine_scene", triplets=SCENE, rounds=1))["run"]
    await asked("get_run", run=run)
    await asked("edit_run", run=run, rounds=1, missing={"objects": []})
    await asked("list_runs")
    await asked("score_image", triplets=SCENE, image=picture(0))
    await asked("parse_scene", text="A red ball lies on a table.")
    mine = (await asked("open_scene", triplets=SCENE))["run"]
    await asked("generate_image", run=mine)
    over = await asked("accept", run=mine)
    Draft202012Validator(schemas["refine_scene"]).validate(over["result"])


def scene(**more: Any) -> dict[str, Any]:
    return {"scene": {"objects": [{"id": "cat.1", "name": "cat"}], **more}}


@pytest.mark.parametrize(
    ("tool", "given", "fits"),
    [
        ("parse_scene", scene(), True),
        ("parse_scene", {"scene": {"objects": [{"id": "cat.1"}]}}, False),
        ("parse_scene", {"scene": {"objects": [{"id": "", "name": "cat"}]}}, False),
        (
            "parse_scene",
            {"scene": {"objects": [{"id": "c" * (MAX_ID_LENGTH + 1), "name": "cat"}]}},
            False,
        ),
        (
            "parse_scene",
            {"scene": {"objects": [{"id": "c", "name": "cat", "attributes": {"color": ""}}]}},
            False,
        ),
        (
            "parse_scene",
            {
                "scene": {
                    "objects": [{"id": f"c{n}", "name": "cat"} for n in range(MAX_OBJECTS + 1)]
                }
            },
            False,
        ),
        ("parse_scene", scene(colour="red"), False),
        ("parse_scene", {"triplets": "x" * 20_001}, False),
        ("refine_scene", {"triplets": "cat", "rounds": 1, "budget": {"usd": 0}}, False),
        ("refine_scene", {"triplets": "cat", "rounds": 1, "budget": {"euros": 1}}, False),
        ("refine_scene", {"triplets": "cat", "rounds": 101}, False),
        ("refine_scene", {"triplets": "cat", "seed": -1}, False),
        ("refine_scene", {"triplets": "cat", "seed": 2**63}, False),
        ("refine_scene", {"triplets": "cat", "idempotency_key": "a\nb"}, False),
        ("refine_scene", {"triplets": "cat", "rounds": 1, "idempotency_key": "a b"}, True),
        ("refine_scene", {"triplets": "cat", "wait_seconds": 301}, False),
        ("open_scene", {"triplets": "cat", "model": "a\x00b"}, False),
        ("list_runs", {"status": ["lost"]}, False),
        ("list_runs", {"limit": 0}, False),
        ("edit_run", {"run": RUN, "verdicts": {"f": "maybe"}}, False),
        ("score_image", {"triplets": "cat", "image": ""}, False),
    ],
)
async def test_a_schema_refuses_what_the_tool_refuses(
    client: Calls, tool: str, given: dict[str, Any], fits: bool
) -> None:
    (schema,) = [one.input_schema for one in (await client.list_tools()).tools if one.name == tool]
    assert Draft202012Validator(schema).is_valid(given) == fits
    found: CallToolResult = await client.call_tool(tool, given)
    assert found.is_error != fits, text(found)
    if not fits:
        assert "Input should" not in text(found)
        assert "pydantic" not in text(found)


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        (Inpaint, {"box": []}),
        (Inpaint, {"box": [0, 0, 1]}),
        (Inpaint, {"box": [0, 0, 1, 1.5]}),
        (Look, {"box": [-0.1, 0, 1, 1]}),
        (Look, {"options": ["yes", "yes"]}),
        (Look, {"options": ["", "no"]}),
        (Look, {"options": ["x" * 61, "no"]}),
    ],
)
def test_schemas_of_the_director_say_its_rules(
    tool: type[Arguments], given: dict[str, Any]
) -> None:
    schema = Draft202012Validator(input_schema(tool))
    assert schema.is_valid({"box": [0, 0, 0.5, 1], "image": "r1"})
    assert not schema.is_valid(given)


def test_a_brief_schema_has_the_fields_that_are_always_there() -> None:
    from scenewright.service.mcp.replies import RunStatus

    brief, whole = output_schema(RunStatus, brief=True), output_schema(RunStatus)
    assert set(brief["properties"]) == set(brief["required"]) == set(whole["required"])
    assert set(brief["properties"]) < set(whole["properties"])
    for name, one in brief["properties"].items():
        assert one == whole["properties"][name]
