"""OpenAI's formats of text: ``POST /v1/chat/completions`` and ``POST /v1/responses``.

All formats of OpenAI share errors, headers and the price of images.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolCall

from scenewright.mock_providers.pictures import from_data_url
from scenewright.mock_providers.problems import ABSENT, Problem
from scenewright.mock_providers.streams import Event, chat_events, named_events, response_events
from scenewright.mock_providers.wire import (
    MAX_ALTERNATIVES,
    Block,
    Format,
    ModelReply,
    ModelRequest,
    PartReaders,
    Reading,
    Token,
    TokenCounts,
    Wire,
    as_count,
    as_object,
    objects,
    text_part,
    tool_schema,
)
from scenewright.providers.clients.base import Tools

LEAST_LOGPROB = -9999.0
"""Log-probability in place of that of 0."""


class OpenAIFormat(Format):
    """Base of all formats of OpenAI; images are priced as for gpt-4o."""

    provider = "openai"
    image_rule = "tiles-85-170"
    low_detail_tokens = 85


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

    place = "chat"

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

    def reply(self, asked: ModelRequest, said: ModelReply, spent: TokenCounts, id: str) -> Any:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        refused = said.finish == "refusal"
        calls = [
            self.shaped("call", id=own_id, name=call.name, arguments=call.text)
            for own_id, call in said.named_calls(id)
        ]
        finish = "length" if said.finish == "length" else "stop"
        # A call that the request names ends with "stop", one that the model chose does not.
        if calls and finish == "stop" and not asked.forced:
            finish = "tool_calls"
        listed = None
        if said.tokens is not None:
            content = logprobs(said.tokens, asked.alternatives or 0)
            listed = {"content": content, "refusal": None}
        message = self.shaped(
            "message",
            content=None if refused else said.text or None,
            refusal=said.text if refused else None,
            calls=calls or ABSENT,
        )
        told = {"id": id, "now": int(time.time()), "model": asked.model, "finish": finish}
        return self.shaped("chat", spent, **told, message=message, logprobs=listed)

    def events(self, reply: dict[str, Any], body: Mapping[str, Any]) -> tuple[Event, ...]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        options = as_object(body.get("stream_options") or {}, "stream_options")
        return chat_events(reply, usage=options.get("include_usage") is True)


_WITH_LOGPROBS = "message.output_text.logprobs"


class OpenAIResponses(OpenAIFormat, Wire):
    """Responses."""

    place = "responses"

    def read(self, body: dict[str, Any], model: str) -> ModelRequest:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        reading = Reading(_PARTS)
        if isinstance(body.get("instructions"), str):
            reading.system([reading.words(body["instructions"], "instructions")])
        given = body.get("input")
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

    def reply(self, asked: ModelRequest, said: ModelReply, spent: TokenCounts, id: str) -> Any:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        cut = said.finish == "length"
        status = "incomplete" if cut else "completed"
        output = [
            self.shaped(
                "function_call", id=own_id, name=call.name, arguments=call.text, status=status
            )
            for own_id, call in said.named_calls(id)
        ]
        if said.finish != "empty" and (said.text or not output):
            listed = logprobs(said.tokens or (), asked.alternatives or 0)
            kind = "output_refusal" if said.finish == "refusal" else "output_text"
            content = self.shaped(kind, text=said.text, logprobs=listed)
            output.insert(0, self.shaped("output_message", id=id, status=status, content=content))
        told = {"id": id, "now": int(time.time()), "model": asked.model, "status": status}
        incomplete = {"reason": "max_output_tokens"} if cut else None
        usage = self.shaped("usage", spent)
        return self.shaped("response", **told, incomplete=incomplete, output=output, usage=usage)

    def events(self, reply: dict[str, Any], body: Mapping[str, Any]) -> tuple[Event, ...]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        numbered = enumerate(response_events(reply))
        return named_events({**event, "sequence_number": number} for number, event in numbered)

    def error_event(self, problem: Problem, id: str) -> Event:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        return "error", self.shaped("stream_error", **self.problem(problem, id)["error"])
