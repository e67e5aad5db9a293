"""What the two formats of OpenAI share: images, errors, headers, log probabilities.

Conversations in OpenAI's two formats.

OpenAI's chat completions: ``POST /v1/chat/completions``.

OpenAI's responses: ``POST /v1/responses``.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any

from langchain_core.messages import BaseMessage, ToolCall

from scenewright.agents.chat.model import Tools
from scenewright.agents.judges import pictures
from scenewright.mock_providers import turns
from scenewright.mock_providers.pictures import from_data_url
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.turns import Turns, turns_of
from scenewright.mock_providers.wire import (
    MAX_ALTERNATIVES,
    Form,
    Limits,
    ModelReply,
    ModelRequest,
    Spent,
    Token,
    as_count,
    as_list,
    as_object,
    as_text,
    call_id,
    fields_of,
    no_streams,
    pick_tool,
    size_of,
    whole_seconds,
)

_CODES = {
    "image": "invalid_image_format",
    "unknown_model": "model_not_found",
    "rate_limited": "rate_limit_exceeded",
}
_LIMIT_NAMES = {
    "requests": "requests per min (RPM)",
    "tokens": "tokens per min (TPM)",
    "concurrent": "concurrent requests",
}
LEAST_LOGPROB = -9999.0
"""What stands for a probability of 0."""


def image_tokens(size: tuple[int, int], low_detail: bool) -> int:
    """Tokens of an image for gpt-4o; in low detail 85 whatever its size."""
    return 85 if low_detail else pictures.image_tokens("tiles-85-170", *size)


def usage(spent: Spent) -> dict[str, Any]:
    """Return the tokens of a reply, as responses and decisions tell them."""
    return {
        "input_tokens": spent.tokens_in,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": spent.tokens_out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": spent.tokens_in + spent.tokens_out,
    }


def error_body(problem: Problem) -> dict[str, Any]:
    """Return the envelope of an error."""
    message, kind = problem.message, "invalid_request_error"
    if problem.kind == "unknown_model":
        message = f"The model does not exist or you do not have access to it: {message}"
    elif problem.kind == "rate_limited":
        kind = "tokens" if problem.limit == "tokens" else "requests"
        limit = f": Limit {problem.allowed}" if problem.allowed is not None else ""
        message = (
            f"Rate limit reached on {_LIMIT_NAMES[problem.limit]}{limit}. Please try again in "
            f"{whole_seconds(problem.retry_after)}s."
        )
    elif problem.kind in ("server", "overloaded"):
        kind = "server_error"
    return {
        "error": {
            "message": message,
            "type": kind,
            "param": problem.param,
            "code": _CODES.get(problem.kind),
        }
    }


def headers(id: str, problem: Problem | None, limits: Limits) -> dict[str, str]:
    """``x-request-id``, what is left of the limits, and when to come again."""
    found = {"x-request-id": f"req_{id}", "openai-version": "2020-10-01"}
    for name, limit, left in (
        ("requests", limits.requests, limits.requests_left),
        ("tokens", limits.tokens, limits.tokens_left),
    ):
        if limit is not None:
            found[f"x-ratelimit-limit-{name}"] = str(limit)
            found[f"x-ratelimit-remaining-{name}"] = str(left)
    if problem is not None and problem.kind == "rate_limited":
        found["retry-after"] = str(whole_seconds(problem.retry_after))
        found["retry-after-ms"] = str(1000 * whole_seconds(problem.retry_after))
    return found


def logprob(probability: float) -> float:
    """Natural logarithm, bounded below."""
    return math.log(probability) if probability > 0 else LEAST_LOGPROB


def logprobs(said: tuple[Token, ...], alternatives: int) -> list[dict[str, Any]]:
    """Tokens as OpenAI lists them."""

    def entry(text: str, probability: float) -> dict[str, Any]:
        return {
            "token": text,
            "logprob": logprob(probability),
            "bytes": list(text.encode("utf-8", "replace")),
        }

    return [
        {
            **entry(*token.chances[0]),
            "top_logprobs": [entry(*chance) for chance in token.chances[:alternatives]],
        }
        for token in said
    ]


_SYSTEM = ("system", "developer")


def chat_turns(body: dict[str, Any]) -> Turns:
    """Return the conversation of a chat completion; raises ``Problem``."""
    said: list[BaseMessage] = []
    for at, given in enumerate(as_list(body.get("messages"), "messages")):
        place = f"messages[{at}]"
        message = as_object(given, place)
        blocks = _blocks(message.get("content"), f"{place}.content")
        role = message.get("role")
        if role in _SYSTEM:
            said.append(turns.system(_text(blocks)))
        elif role == "user":
            said.append(turns.user(blocks))
        elif role == "tool":
            id = as_text(message.get("tool_call_id"), f"{place}.tool_call_id")
            if any(block["type"] != "text" for block in blocks):
                raise Problem.invalid("tools answer in text only", f"{place}.content")
            said.append(turns.answer(id, blocks))
        elif role == "assistant":
            calls = []
            for n, entry in enumerate(as_list(message.get("tool_calls") or [], place)):
                where = f"{place}.tool_calls[{n}]"
                calls.append(_called(as_object(entry, where), where))
            said.append(turns.model(_text(blocks), calls))
        else:
            raise Problem.invalid(f"{place}.role: unknown role {role!r}", f"{place}.role")
    schemas = []
    for at, entry in enumerate(as_list(body.get("tools") or [], "tools")):
        where = f"tools[{at}].function"
        function = as_object(as_object(entry, where).get("function"), where)
        schemas.append(_schema(function, where))
    wish = body.get("response_format")
    wanted = wish.get("json_schema") if isinstance(wish, dict) else None
    if not schemas and isinstance(wanted, dict):
        name = as_text(wanted.get("name"), "response_format.json_schema.name")
        schema = turns.schema_of(name, wanted.get("description"), wanted.get("schema"))
        return turns_of(said, Tools((schema,), f"={name}"), as_text=True)
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        choice = as_object(choice.get("function"), "tool_choice.function")
    return turns_of(said, _tools(body, schemas, choice))


def responses_turns(body: dict[str, Any]) -> Turns:
    """Return the conversation of a response; raises ``Problem``."""
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    said: list[BaseMessage] = []
    if isinstance(body.get("instructions"), str):
        said.append(turns.system(body["instructions"]))
    text, calls = "", list[ToolCall]()

    def close() -> None:
        nonlocal text
        if text or calls:
            said.append(turns.model(text, calls))
            text = ""
            calls.clear()

    for at, entry in enumerate(as_list(items, "input")):
        place = f"input[{at}]"
        item = as_object(entry, place)
        if item.get("type") == "function_call":
            id = as_text(item.get("call_id"), f"{place}.call_id")
            name = as_text(item.get("name"), f"{place}.name")
            calls.append(turns.call(id, name, item.get("arguments"), f"{place}.arguments"))
            continue
        role = item.get("role")
        if role == "assistant":
            if calls:
                close()
            told = _text(_blocks(item.get("content"), f"{place}.content"))
            text = f"{text}\n{told}" if text else told
            continue
        close()
        if item.get("type") == "function_call_output":
            id = as_text(item.get("call_id"), f"{place}.call_id")
            said.append(turns.answer(id, _blocks(item.get("output"), f"{place}.output")))
        elif role in _SYSTEM:
            said.append(turns.system(_text(_blocks(item.get("content"), place))))
        elif role == "user":
            said.append(turns.user(_blocks(item.get("content"), f"{place}.content")))
        elif item.get("type") != "reasoning":
            raise Problem.invalid(f"{place}: unknown item", place)
    close()
    schemas = []
    for at, entry in enumerate(as_list(body.get("tools") or [], "tools")):
        schemas.append(_schema(as_object(entry, f"tools[{at}]"), f"tools[{at}]"))
    return turns_of(said, _tools(body, schemas, body.get("tool_choice")))


def _called(entry: dict[str, Any], place: str) -> ToolCall:
    function = as_object(entry.get("function"), f"{place}.function")
    id = as_text(entry.get("id"), f"{place}.id")
    name = as_text(function.get("name"), f"{place}.function.name")
    return turns.call(id, name, function.get("arguments"), f"{place}.function.arguments")


def _schema(function: dict[str, Any], place: str) -> dict[str, Any]:
    name = as_text(function.get("name"), f"{place}.name")
    return turns.schema_of(name, function.get("description"), function.get("parameters"))


def _tools(body: dict[str, Any], schemas: list[dict[str, Any]], choice: object) -> Tools:
    parallel = body.get("parallel_tool_calls")
    wanted = "auto"
    if isinstance(choice, dict):
        wanted = f"={as_text(choice.get('name'), 'tool_choice')}"
    elif choice == "required":
        wanted = "any"
    elif choice == "none":
        wanted = "none"
    return Tools(tuple(schemas), wanted, parallel if isinstance(parallel, bool) else None)


def _blocks(content: object, place: str) -> list[dict[str, Any]]:
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [turns.words(content)]
    found = []
    for at, entry in enumerate(as_list(content, place)):
        where = f"{place}[{at}]"
        part = as_object(entry, where)
        match part.get("type"):
            case "text" | "input_text" | "output_text":
                found.append(turns.words(as_text(part.get("text"), f"{where}.text")))
            case "refusal":
                found.append(turns.words(as_text(part.get("refusal"), f"{where}.refusal")))
            case "image_url" | "input_image":
                image = part.get("image_url")
                url = image.get("url") if isinstance(image, dict) else image
                found.append(turns.picture(from_data_url(url, f"{where}.image_url")))
            case kind:
                raise Problem.invalid(f"{where}.type: the mock server knows no {kind!r}", where)
    return found


def _text(blocks: list[dict[str, Any]]) -> str:
    return "\n".join(block["text"] for block in blocks if block["type"] == "text")


class OpenAIChat:
    """Implements :class:`~scenewright.mock_providers.wire.Wire`."""

    name = "openai"

    def read(self, body: dict[str, Any], model: str) -> ModelRequest:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        no_streams(body)
        text, characters, low = "", 0, False
        images: list[bytes] = []
        param: str | None = None
        for at, given in enumerate(as_list(body.get("messages"), "messages")):
            message = as_object(given, f"messages[{at}]")
            content = message.get("content")
            texts = [content] if isinstance(content, str) else []
            for n, piece in enumerate(content if isinstance(content, list) else []):
                place = f"messages[{at}].content[{n}]"
                part = as_object(piece, place)
                if part.get("type") == "text":
                    texts.append(as_text(part.get("text"), f"{place}.text"))
                elif part.get("type") == "image_url":
                    image = part.get("image_url")
                    image = {"url": image} if isinstance(image, str) else image
                    param = f"{place}.image_url"
                    found = as_object(image, param)
                    images.append(from_data_url(found.get("url"), param))
                    low = low or found.get("detail") == "low"
            characters += sum(map(len, texts)) + size_of(message.get("tool_calls"))
            if message.get("role") == "user" and texts:
                text = "\n".join(texts)
        form, tool, forced, schema = self._form(body)
        return ModelRequest(
            model=as_text(body.get("model"), "model"),
            text=text,
            images=tuple(images),
            image_param=param or "messages",
            characters=characters + size_of(body.get("tools"), body.get("response_format")),
            low_detail=low,
            form=form,
            tool=tool,
            forced=forced,
            fields=fields_of(schema),
            alternatives=self._alternatives(body),
            max_tokens=as_count(
                body.get("max_completion_tokens", body.get("max_tokens")), "max_tokens", 1
            ),
            turns=partial(chat_turns, body),
        )

    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """See :func:`~scenewright.mock_providers.openai_text.image_tokens`."""
        return image_tokens(size, low_detail)

    def reply(self, asked: ModelRequest, said: ModelReply, spent: Spent, id: str) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        message: dict[str, Any] = {
            "role": "assistant",
            "content": said.text,
            "refusal": None,
            "annotations": [],
        }
        finish = "length" if said.finish == "length" else "stop"
        if said.finish == "refusal":
            message |= {"content": None, "refusal": said.text}
        elif said.calls is not None:
            message["content"] = said.text or None
            if said.calls:
                message["tool_calls"] = [
                    _chat_call(call_id(id, at), call.name, call.text)
                    for at, call in enumerate(said.calls)
                ]
                finish = finish if asked.forced or finish == "length" else "tool_calls"
        elif asked.form == "tool" and said.finish != "empty":
            message["content"] = None
            message["tool_calls"] = [_chat_call(id, asked.tool, said.text)]
            # A call that the request names ends with "stop", one that the model chose does not.
            if finish == "stop" and not asked.forced:
                finish = "tool_calls"
        listed = None
        if said.tokens is not None:
            listed = {
                "content": logprobs(said.tokens, asked.alternatives or 0),
                "refusal": None,
            }
        return {
            "id": f"chatcmpl-{id}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": asked.model,
            "choices": [
                {"index": 0, "message": message, "logprobs": listed, "finish_reason": finish}
            ],
            "usage": {
                "prompt_tokens": spent.tokens_in,
                "completion_tokens": spent.tokens_out,
                "total_tokens": spent.tokens_in + spent.tokens_out,
                "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
                "completion_tokens_details": {
                    "reasoning_tokens": 0,
                    "audio_tokens": 0,
                    "accepted_prediction_tokens": 0,
                    "rejected_prediction_tokens": 0,
                },
            },
            "service_tier": "default",
            "system_fingerprint": "fp_scenewright_lab",
        }

    def problem(self, problem: Problem, id: str) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        return error_body(problem)

    def headers(self, id: str, problem: Problem | None, account: Limits) -> dict[str, str]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        return headers(id, problem, account)

    def _form(self, body: dict[str, Any]) -> tuple[Form, str, bool, object]:
        choice = body.get("tool_choice")
        if body.get("tools") and choice != "none":
            named = []
            for at, given in enumerate(as_list(body["tools"], "tools")):
                function = as_object(
                    as_object(given, f"tools[{at}]").get("function"), f"tools[{at}].function"
                )
                name = as_text(function.get("name"), f"tools[{at}].function.name")
                named.append((name, function.get("parameters")))
            wanted = None
            if isinstance(choice, dict):
                function = as_object(choice.get("function"), "tool_choice.function")
                wanted = as_text(function.get("name"), "tool_choice.function.name")
            tool, schema = pick_tool(named, wanted)
            return "tool", tool, wanted is not None, schema
        wish = body.get("response_format")
        kind = wish.get("type") if isinstance(wish, dict) else None
        if isinstance(wish, dict) and kind == "json_schema":
            outer = as_object(wish.get("json_schema"), "response_format.json_schema")
            return "json", "", False, outer.get("schema")
        return ("json" if kind == "json_object" else "text"), "", False, None

    def _alternatives(self, body: dict[str, Any]) -> int | None:
        top = as_count(body.get("top_logprobs"), "top_logprobs", 0, MAX_ALTERNATIVES)
        if body.get("logprobs") is True:
            return top or 0
        if top is not None:
            raise Problem.invalid(
                "'top_logprobs' is only allowed when 'logprobs' is true", "top_logprobs"
            )
        return None


def _chat_call(id: str, name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": f"call_{id}", "type": "function", "function": function}


_TEXT_PARTS = ("input_text", "output_text")
_WITH_LOGPROBS = "message.output_text.logprobs"


class OpenAIResponses:
    """Implements :class:`~scenewright.mock_providers.wire.Wire`."""

    name = "openai"

    def read(self, body: dict[str, Any], model: str) -> ModelRequest:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        no_streams(body)
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        text, characters, low = "", 0, False
        images: list[bytes] = []
        param: str | None = None
        for at, entry in enumerate(as_list(items, "input")):
            message = as_object(entry, f"input[{at}]")
            content = message.get("content")
            texts = [content] if isinstance(content, str) else []
            told = message.get("output")
            texts += [told] if isinstance(told, str) else []
            shown, field = (told, "output") if isinstance(told, list) else (content, "content")
            for n, piece in enumerate(shown if isinstance(shown, list) else []):
                place = f"input[{at}].{field}[{n}]"
                part = as_object(piece, place)
                if part.get("type") in _TEXT_PARTS:
                    texts.append(as_text(part.get("text"), f"{place}.text"))
                elif part.get("type") == "input_image":
                    param = f"{place}.image_url"
                    images.append(from_data_url(part.get("image_url"), param))
                    low = low or part.get("detail") == "low"
            characters += sum(map(len, texts)) + size_of(message.get("arguments"))
            if message.get("role") == "user" and texts:
                text = "\n".join(texts)
        instructions = body.get("instructions")
        if isinstance(instructions, str):
            characters += len(instructions)
        form, tool, forced, schema = self._form(body)
        return ModelRequest(
            model=as_text(body.get("model"), "model"),
            text=text,
            images=tuple(images),
            image_param=param or "input",
            characters=characters + size_of(body.get("tools"), body.get("text")),
            low_detail=low,
            form=form,
            tool=tool,
            forced=forced,
            fields=fields_of(schema),
            alternatives=self._alternatives(body),
            max_tokens=as_count(body.get("max_output_tokens"), "max_output_tokens", 1),
            echo={
                "instructions": instructions if isinstance(instructions, str) else None,
                "tools": body.get("tools") or [],
                "tool_choice": body.get("tool_choice") or "auto",
                "text": body.get("text") or {"format": {"type": "text"}},
                "max_output_tokens": body.get("max_output_tokens"),
                "metadata": body.get("metadata") or {},
            },
            turns=partial(responses_turns, body),
        )

    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """See :func:`~scenewright.mock_providers.openai_text.image_tokens`."""
        return image_tokens(size, low_detail)

    def reply(self, asked: ModelRequest, said: ModelReply, spent: Spent, id: str) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        cut = said.finish == "length"
        status = "incomplete" if cut else "completed"
        now = int(time.time())
        return {
            "id": f"resp_{id}",
            "object": "response",
            "created_at": now,
            "completed_at": None if cut else now,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "model": asked.model,
            "output": self._output(asked, said, status, id),
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "service_tier": "default",
            "store": False,
            "temperature": 1.0,
            "top_p": 1.0,
            "top_logprobs": asked.alternatives or 0,
            "truncation": "disabled",
            "usage": usage(spent),
            "user": None,
            **(asked.echo or {}),
        }

    def problem(self, problem: Problem, id: str) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        return error_body(problem)

    def headers(self, id: str, problem: Problem | None, account: Limits) -> dict[str, str]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        return headers(id, problem, account)

    def _output(
        self, asked: ModelRequest, said: ModelReply, status: str, id: str
    ) -> list[dict[str, Any]]:
        if said.finish == "empty":
            return []
        if asked.form == "tool" and said.calls is None and said.finish != "refusal":
            return [_response_call(id, asked.tool, said.text, status)]
        calls = [
            _response_call(call_id(id, at), call.name, call.text, status)
            for at, call in enumerate(said.calls or ())
        ]
        if calls and not said.text:
            return calls
        content: dict[str, Any]
        if said.finish == "refusal":
            content = {"type": "refusal", "refusal": said.text}
        else:
            listed = (
                logprobs(said.tokens, asked.alternatives or 0) if said.tokens is not None else []
            )
            content = {
                "type": "output_text",
                "text": said.text,
                "annotations": [],
                "logprobs": listed,
            }
        return [
            {
                "type": "message",
                "id": f"msg_{id}",
                "role": "assistant",
                "status": status,
                "content": [content],
            },
            *calls,
        ]

    def _form(self, body: dict[str, Any]) -> tuple[Form, str, bool, object]:
        choice = body.get("tool_choice")
        if body.get("tools") and choice != "none":
            named = []
            for at, given in enumerate(as_list(body["tools"], "tools")):
                tool = as_object(given, f"tools[{at}]")
                if tool.get("type") != "function":
                    raise Problem.invalid(
                        "the mock server knows tools of type function only", "tools"
                    )
                name = as_text(tool.get("name"), f"tools[{at}].name")
                named.append((name, tool.get("parameters")))
            wanted = None
            if isinstance(choice, dict):
                wanted = as_text(choice.get("name"), "tool_choice.name")
            name, schema = pick_tool(named, wanted)
            return "tool", name, wanted is not None, schema
        text = body.get("text")
        wish = text.get("format") if isinstance(text, dict) else None
        kind = wish.get("type") if isinstance(wish, dict) else None
        if isinstance(wish, dict) and kind == "json_schema":
            return "json", "", False, wish.get("schema")
        return ("json" if kind == "json_object" else "text"), "", False, None

    def _alternatives(self, body: dict[str, Any]) -> int | None:
        top = as_count(body.get("top_logprobs"), "top_logprobs", 0, MAX_ALTERNATIVES)
        include = body.get("include")
        wanted = isinstance(include, list) and _WITH_LOGPROBS in include
        return top or 0 if wanted or top else None


def _response_call(id: str, name: str, arguments: str, status: str) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{id}",
        "call_id": f"call_{id}",
        "name": name,
        "arguments": arguments,
        "status": status,
    }
