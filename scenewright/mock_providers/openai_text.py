"""OpenAI's formats of text: ``POST /v1/chat/completions`` and ``POST /v1/responses``.

All formats of OpenAI share errors, headers and the price of images.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolCall

from scenewright.agents.judges import pictures
from scenewright.mock_providers.accounts import Left
from scenewright.mock_providers.pictures import from_data_url
from scenewright.mock_providers.problems import Problem, language, whole_seconds
from scenewright.mock_providers.refusals import Place
from scenewright.mock_providers.streams import Event, chat_events, named_events, response_events
from scenewright.mock_providers.turns import Block, PartReaders, Reading, text_part, tool_schema
from scenewright.mock_providers.wire import (
    MAX_ALTERNATIVES,
    Format,
    ModelReply,
    ModelRequest,
    Token,
    TokenCounts,
    Wire,
    as_count,
    as_object,
    objects,
)
from scenewright.providers.clients.base import Tools

LEAST_LOGPROB = -9999.0
"""Log-probability in place of that of 0."""


class OpenAIFormat(Format):
    """Base of all formats of OpenAI."""

    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """Tokens of an image for gpt-4o; in low detail 85 whatever its size."""
        return 85 if low_detail else pictures.image_tokens("tiles-85-170", *size)

    def problem(self, problem: Problem, id: str) -> dict[str, Any]:
        """Return the envelope of an error."""
        told = language("openai").tell(problem)
        error = {"message": told.message, "type": told.type, "param": problem.param}
        return {"error": {**error, "code": told.code}}

    def headers(
        self, id: str, problem: Problem | None = None, limits: Sequence[Left] = ()
    ) -> dict[str, str]:
        """``x-request-id``, what is left of the limits, and when to come again."""
        found = {"x-request-id": f"req_{id}", "openai-version": "2020-10-01"}
        for name, limit, left in limits:
            found[f"x-ratelimit-limit-{name}"] = str(limit)
            found[f"x-ratelimit-remaining-{name}"] = str(left)
        if problem is not None and problem.kind == "rate_limited":
            found["retry-after"] = str(whole_seconds(problem.retry_after))
            found["retry-after-ms"] = str(1000 * whole_seconds(problem.retry_after))
        return found


def usage(spent: TokenCounts) -> dict[str, Any]:
    """Return the tokens of a reply, as responses and decisions tell them."""
    return {
        "input_tokens": spent.tokens_in,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": spent.tokens_out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": spent.tokens_in + spent.tokens_out,
    }


def logprob(probability: float) -> float:
    """Natural logarithm, bounded below."""
    return math.log(probability) if probability > 0 else LEAST_LOGPROB


def logprobs(said: Sequence[Token], alternatives: int) -> list[dict[str, Any]]:
    """Tokens as OpenAI lists them."""

    def entry(text: str, probability: float) -> dict[str, Any]:
        encoded = list(text.encode("utf-8", "replace"))
        return {"token": text, "logprob": logprob(probability), "bytes": encoded}

    return [
        {
            **entry(*token.chances[0]),
            "top_logprobs": [entry(*chance) for chance in token.chances[:alternatives]],
        }
        for token in said
    ]


def _image(reading: Reading, part: Mapping[str, Any], where: str) -> Block:
    """Return an image, whose address stands in an object or beside the type."""
    image, param = part.get("image_url"), f"{where}.image_url"
    whole = image if isinstance(image, dict) else {**part, "url": image}
    data = from_data_url(whole.get("url"), param)
    return reading.picture(data, param, low_detail=whole.get("detail") == "low")


_PARTS: PartReaders = {
    **dict.fromkeys(("text", "input_text", "output_text"), text_part),
    **dict.fromkeys(("image_url", "input_image"), _image),
    "refusal": lambda reading, part, where: reading.words(part.get("refusal"), f"{where}.refusal"),
}


def _tools(body: dict[str, Any], field: str | None) -> Tools:
    """Return the tools of a request; ``field``: where a tool and a choice hold the function."""

    def function_of(entry: dict[str, Any], where: str) -> dict[str, Any]:
        return as_object(entry.get(field), f"{where}.{field}") if field else entry

    schemas = []
    for where, tool in objects(body.get("tools") or [], "tools"):
        if tool.get("type", "function") != "function":
            raise Problem.invalid("the mock server knows tools of type function only", "tools")
        function = function_of(tool, where)
        schemas.append(tool_schema(function, function.get("parameters"), where))
    choice, parallel = body.get("tool_choice"), body.get("parallel_tool_calls")
    wanted = {"required": "any", "none": "none"}.get(str(choice), "auto")
    if isinstance(choice, dict):
        wanted = f"={function_of(choice, 'tool_choice').get('name')}"
    return Tools(tuple(schemas), wanted, parallel if isinstance(parallel, bool) else None)


class OpenAIChat(OpenAIFormat, Wire):
    """Chat completions."""

    place: Place = "chat"

    def read(self, body: dict[str, Any], model: str) -> ModelRequest:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        reading = Reading(_PARTS)
        for place, message in objects(body.get("messages"), "messages"):
            blocks = reading.blocks(message.get("content"), f"{place}.content")
            match message.get("role"):
                case "system" | "developer":
                    reading.system(blocks)
                case "user":
                    reading.user(blocks)
                case "tool":
                    if any(block["type"] != "text" for block in blocks):
                        raise Problem.invalid("tools answer in text only", f"{place}.content")
                    id = message.get("tool_call_id")
                    reading.answer(id, blocks, f"{place}.tool_call_id")
                case "assistant":
                    calls = []
                    listed = objects(message.get("tool_calls") or [], f"{place}.tool_calls")
                    for where, call in listed:
                        function = as_object(call.get("function"), f"{where}.function")
                        name, arguments = function.get("name"), function.get("arguments")
                        calls.append(reading.call(call.get("id"), name, arguments, where))
                    reading.model(blocks, calls)
                case role:
                    raise Problem.invalid(f"{place}.role: unknown role {role!r}", f"{place}.role")
        tools, wish = _tools(body, "function"), body.get("response_format")
        form = as_object(wish or {}, "response_format")
        schema: dict[str, Any] = {}
        if form.get("type") == "json_schema":
            schema = as_object(form.get("json_schema"), "response_format.json_schema")
        as_text = bool(schema) and not tools.schemas
        if as_text:
            found = tool_schema(schema, schema.get("schema"), "response_format.json_schema")
            tools = Tools((found,), f"={schema['name']}")
        top = as_count(body.get("top_logprobs"), "top_logprobs", 0, MAX_ALTERNATIVES)
        wanted = body.get("logprobs") is True
        if top is not None and not wanted:
            raise Problem.invalid(
                "'top_logprobs' is only allowed when 'logprobs' is true", "top_logprobs"
            )
        limit = body.get("max_completion_tokens", body.get("max_tokens"))
        return reading.request(
            body.get("model"),
            tools,
            images_in="messages",
            as_json=form.get("type") in ("json_schema", "json_object"),
            schema=schema.get("schema"),
            tool_as_text=as_text,
            counted=(body.get("tools"), wish),
            alternatives=(top or 0) if wanted else None,
            max_tokens=as_count(limit, "max_tokens", 1),
        )

    def reply(
        self, asked: ModelRequest, said: ModelReply, spent: TokenCounts, id: str
    ) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        calls, refused = said.named_calls(id), said.finish == "refusal"
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if refused else said.text or None,
            "refusal": said.text if refused else None,
        }
        if calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{own_id}",
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.text},
                }
                for own_id, call in calls
            ]
        finish = "length" if said.finish == "length" else "stop"
        # A call that the request names ends with "stop", one that the model chose does not.
        if calls and finish == "stop" and not asked.forced:
            finish = "tool_calls"
        listed = None
        if said.tokens is not None:
            content = logprobs(said.tokens, asked.alternatives or 0)
            listed = {"content": content, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": listed, "finish_reason": finish}
        return {
            "id": f"chatcmpl-{id}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": asked.model,
            "choices": [choice],
            "usage": {
                "prompt_tokens": spent.tokens_in,
                "completion_tokens": spent.tokens_out,
                "total_tokens": spent.tokens_in + spent.tokens_out,
                "prompt_tokens_details": {"cached_tokens": 0},
            },
            "service_tier": "default",
            "system_fingerprint": "fp_scenewright_lab",
        }

    def streams(self, body: Mapping[str, Any]) -> bool:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        wanted = super().streams(body)
        if body.get("stream_options") and not wanted:
            raise Problem.invalid(
                "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
                "stream_options",
            )
        return wanted

    def events(self, reply: dict[str, Any], body: Mapping[str, Any]) -> tuple[Event, ...]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        options = as_object(body.get("stream_options") or {}, "stream_options")
        return chat_events(reply, usage=options.get("include_usage") is True)


_WITH_LOGPROBS = "message.output_text.logprobs"


class OpenAIResponses(OpenAIFormat, Wire):
    """Responses."""

    place: Place = "responses"

    def read(self, body: dict[str, Any], model: str) -> ModelRequest:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        reading = Reading(_PARTS)
        if isinstance(body.get("instructions"), str):
            reading.system([reading.words(body["instructions"], "instructions")])
        _read_items(reading, body.get("input"))
        text = as_object(body.get("text") or {}, "text")
        form = as_object(text.get("format") or {}, "text.format")
        top = as_count(body.get("top_logprobs"), "top_logprobs", 0, MAX_ALTERNATIVES)
        include = body.get("include")
        wanted = top or (isinstance(include, list) and _WITH_LOGPROBS in include)
        return reading.request(
            body.get("model"),
            _tools(body, None),
            images_in="input",
            as_json=form.get("type") in ("json_schema", "json_object"),
            schema=form.get("schema"),
            counted=(body.get("tools"), text),
            alternatives=(top or 0) if wanted else None,
            max_tokens=as_count(body.get("max_output_tokens"), "max_output_tokens", 1),
        )

    def reply(
        self, asked: ModelRequest, said: ModelReply, spent: TokenCounts, id: str
    ) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        cut = said.finish == "length"
        return {
            "id": f"resp_{id}",
            "object": "response",
            "created_at": int(time.time()),
            "status": "incomplete" if cut else "completed",
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "instructions": None,
            "metadata": {},
            "model": asked.model,
            "output": _output(asked, said, id),
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "usage": usage(spent),
        }

    def events(self, reply: dict[str, Any], body: Mapping[str, Any]) -> tuple[Event, ...]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        numbered = enumerate(response_events(reply))
        return named_events({**event, "sequence_number": number} for number, event in numbered)

    def error_event(self, problem: Problem, id: str) -> Event:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        told = self.problem(problem, id)["error"]
        fields = {name: told[name] for name in ("code", "message", "param")}
        return "error", {"type": "error", "sequence_number": 0, **fields}


def _read_items(reading: Reading, given: object) -> None:
    """Read messages, calls and their results; calls belong to the text before them."""
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    texts, calls = list[Block](), list[ToolCall]()

    def close() -> None:
        if texts or calls:
            reading.model(texts, calls)
            texts.clear()
            calls.clear()

    for place, item in objects(items, "input"):
        role, kind = item.get("role"), item.get("type")
        if kind == "function_call":
            name, arguments = item.get("name"), item.get("arguments")
            calls.append(reading.call(item.get("call_id"), name, arguments, place))
            continue
        if role != "assistant" or calls:
            close()
        if kind == "function_call_output":
            blocks = reading.blocks(item.get("output"), f"{place}.output")
            reading.answer(item.get("call_id"), blocks, f"{place}.call_id")
            continue
        if role is None and kind == "reasoning":
            continue
        blocks = reading.blocks(item.get("content"), f"{place}.content")
        match role:
            case "assistant":
                texts += blocks
            case "system" | "developer":
                reading.system(blocks)
            case "user":
                reading.user(blocks)
            case _:
                raise Problem.invalid(f"{place}: unknown item", place)
    close()


def _output(asked: ModelRequest, said: ModelReply, id: str) -> list[dict[str, Any]]:
    if said.finish == "empty":
        return []
    status = "incomplete" if said.finish == "length" else "completed"
    calls: list[dict[str, Any]] = [
        {
            "type": "function_call",
            "id": f"fc_{own_id}",
            "call_id": f"call_{own_id}",
            "name": call.name,
            "arguments": call.text,
            "status": status,
        }
        for own_id, call in said.named_calls(id)
    ]
    if calls and not said.text:
        return calls
    content: dict[str, Any] = {"type": "refusal", "refusal": said.text}
    if said.finish != "refusal":
        listed = logprobs(said.tokens or (), asked.alternatives or 0)
        content = {
            "type": "output_text", "text": said.text, "annotations": [], "logprobs": listed
        }  # fmt: skip
    message = {"type": "message", "id": f"msg_{id}", "role": "assistant", "status": status}
    return [{**message, "content": [content]}, *calls]
