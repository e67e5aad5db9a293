"""null and "" mean "not given" at every door: HTTP bodies, image routes, MCP, director's tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.routing import APIRoute
from langchain_core.messages import ToolMessage
from pydantic import BaseModel

import scenewright.service.mcp.arguments as mcp_arguments
from scenewright.core.validation import RequestModel
from scenewright.graphs.director_tools import DirectorTool, langchain_tool
from scenewright.service.app import create_app
from scenewright.service.compat.automatic1111.bodies import Picture, TextToImage
from scenewright.service.compat.openai_images.bodies import EditBody
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.mcp.tools import DIRECTOR_TOOLS, arguments_of
from scenewright.tools.director import Arguments, Look, ToolReply
from tests.service.mcping import SCENE, held
from tests.service.serving import scripted, serving

NOTHING = pytest.mark.parametrize("nothing", [None, ""], ids=["null", "empty"])
RUN = "run_" + "0" * 32
NEEDED: dict[str, Any] = {
    "run": RUN, "image": "aGk=", "box": [0, 0, 1, 1], "prompt": "A red ball", "text": "A red ball"
}  # fmt: skip
"""Values of fields that some model cannot do without."""


def routes_of(router: Any) -> Iterator[APIRoute]:
    for route in router.routes:
        if isinstance(route, APIRoute):
            yield route
        elif hasattr(route, "original_router"):
            yield from routes_of(route.original_router)


def bodies(app: Any) -> set[type[BaseModel]]:
    """Models of the JSON bodies of all routes, and EditBody, which a route reads itself."""
    found: set[type[BaseModel]] = {EditBody}
    for route in routes_of(app):
        kind = route.body_field.field_info.annotation if route.body_field is not None else None
        # FastAPI makes models of forms, which it reads so already.
        is_model = isinstance(kind, type) and issubclass(kind, BaseModel)
        if is_model and not kind.__name__.startswith("Body_"):
            found.add(kind)
    return found


def with_parts(kinds: set[type[BaseModel]]) -> set[type[BaseModel]]:
    """``kinds`` and the models of their fields that callers fill in."""
    found = set(kinds)
    for kind in kinds:
        for field in kind.model_fields.values():
            inner = field.annotation
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                found |= with_parts({inner})
    return found


def doors() -> Iterator[type[BaseModel]]:
    app = create_app(ServiceSettings(data=Path("unused")), models=scripted())
    tools = [
        kind
        for kind in vars(mcp_arguments).values()
        if isinstance(kind, type) and issubclass(kind, Arguments) and kind.__name__[0] != "_"
    ]
    kinds = with_parts({*bodies(app), *tools, *map(arguments_of, DIRECTOR_TOOLS)})
    yield from sorted(kinds - {Arguments}, key=lambda kind: f"{kind.__name__} {kind.__module__}")


DOORS = tuple(doors())


def fields() -> Iterator[Any]:
    for kind in DOORS:
        for name, field in kind.model_fields.items():
            if not field.is_required():
                yield pytest.param(kind, name, id=f"{kind.__name__}.{name}")


def test_every_door_is_tried() -> None:
    assert len(DOORS) > 24
    for kind in DOORS:
        assert issubclass(kind, RequestModel) or kind in (TextToImage, Picture), kind


@NOTHING
@pytest.mark.parametrize(("kind", "name"), list(fields()))
def test_an_optional_argument_may_be_left_out_in_words(
    kind: type[BaseModel], name: str, nothing: Any
) -> None:
    whole = {key: NEEDED[key] for key, field in kind.model_fields.items() if field.is_required()}
    if {"text", "triplets"} <= set(kind.model_fields):
        # One of them has to be given.
        whole |= {"triplets": "ball on table"} if name == "text" else {"text": NEEDED["text"]}
    plain = kind.model_validate(whole)
    given = kind.model_validate({**whole, name: nothing})
    assert given == plain
    assert given.model_fields_set == plain.model_fields_set


@NOTHING
@pytest.mark.parametrize("kind", DOORS)
def test_what_is_needed_is_asked_for(kind: type[BaseModel], nothing: Any) -> None:
    needed = [key for key, field in kind.model_fields.items() if field.is_required()]
    for name in needed:
        whole = {key: NEEDED[key] for key in needed} | {name: nothing}
        if nothing is None or name != "image":
            with pytest.raises(ValueError, match=name):
                kind.model_validate(whole)


def emptied(kind: type[BaseModel], nothing: Any, **given: Any) -> dict[str, Any]:
    """Arguments in which every optional field is there and says nothing."""
    return {name: nothing for name in kind.model_fields} | given


@NOTHING
async def test_routes_take_them(tmp_path: Path, nothing: Any) -> None:
    models = {kind.__name__: kind for kind in DOORS}
    asked = {
        "/v1/parse": emptied(models["ParseRequest"], nothing, text="A red ball"),
        "/v1/refinements": emptied(
            models["RefinementRequest"], nothing, triplets=SCENE, rounds=1,
            budget=emptied(models["Budget"], nothing),
        ),
        "/v1/images/generations": emptied(
            models["GenerationBody"], nothing, prompt="A red ball on a table",
            scenewright=emptied(models["OpenAIExtension"], nothing, rounds=1),
        ),
        "/sdapi/v1/txt2img": emptied(
            models["TextToImage"], nothing, prompt="A red ball on a table", styles=nothing,
            scenewright=emptied(models["Extension"], nothing, rounds=1),
            override_settings={"sd_model_checkpoint": nothing},
        ),
        "/sdapi/v1/options": {"sd_model_checkpoint": nothing},
    }  # fmt: skip
    app = create_app(ServiceSettings(data=tmp_path, drain_seconds=10), models=scripted())
    async with serving(app) as url, httpx2.AsyncClient(base_url=url, timeout=30) as http:
        for path, body in asked.items():
            reply = await http.post(path, json=body)
            assert reply.status_code < 300, (path, reply.text)


@NOTHING
async def test_mcp_tools_take_them(tmp_path: Path, nothing: Any) -> None:
    given: dict[str, dict[str, Any]] = {
        "parse_scene": {"text": "A red ball"},
        "refine_scene": {"triplets": SCENE, "rounds": 1},
        "list_runs": {},
        "open_scene": {"triplets": SCENE},
    }
    async with held(tmp_path / "data", scripted()) as at, at.client() as client:
        schemas = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        for tool, arguments in given.items():
            whole = dict.fromkeys(schemas[tool]["properties"], nothing) | arguments
            reply = await client.call_tool(tool, whole)
            assert not reply.is_error, (tool, reply.content)
            assert reply.structured_content is not None
        run = reply.structured_content["run"]
        for tool in ("generate_image", "verify_facts", "get_run", "accept"):
            whole = dict.fromkeys(schemas[tool]["properties"], nothing) | {"run": run}
            reply = await client.call_tool(tool, whole)
            assert not reply.is_error, (tool, reply.content)


@NOTHING
async def test_a_director_may_send_them(nothing: Any) -> None:
    seen: list[Look] = []

    async def use(given: Look) -> ToolReply:
        seen.append(given)
        return ToolReply({"done": True})

    tool = langchain_tool(DirectorTool("look", "Look.", Look, use))
    call = {"name": "look", "args": dict.fromkeys(Look.model_fields, nothing), "id": "1",
            "type": "tool_call"}  # fmt: skip
    message = await tool.ainvoke(call)
    assert isinstance(message, ToolMessage)
    assert message.status == "success", message.content
    assert seen == [Look()]
