"""OpenAI's wire formats: requests of Chat Completions and of the Responses API, and their replies.

Everything here is pure: :func:`request_body` builds a request,
:func:`add_chat_event` and :func:`add_response_event` collect what comes.

On some servers a JSON schema binds a reply and tools do not. There a tool that must be called is
described in words and requested as the JSON object of its arguments; with several tools the object
names one: ``{"call": {"tool": NAME, "arguments": {...}}}``. Earlier calls and their answers become
text.
"""

from __future__ import annotations

import base64
import json
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.utils.json_schema import dereference_refs

from scenewright.core.validation import mapping_of
from scenewright.prompts import load_prompt
from scenewright.providers.clients.base import (
    TOP_LOGPROBS,
    ClientSettings,
    CompletionRequest,
    Dialect,
    MalformedReply,
    Message,
    OutputSchema,
    Part,
    Picture,
    RequestError,
    Terms,
    Token,
    ToolCall,
    Tools,
    schema_for,
)
from scenewright.providers.clients.reading import (
    RawCall,
    RawCompletion,
    count_of,
    text_of,
)
from scenewright.providers.replies import best_object
from scenewright.providers.usage import Usage

NAME = "call"
"""Name of the schema of a choice among several tools."""
_TOOL, _ARGUMENTS = "tool", "arguments"


def call_schema(tools: Tools) -> tuple[str, dict[str, Any]]:
    """Return name and schema of an object that calls one of ``tools``."""
    functions = _offered(tools)
    if len(functions) == 1:
        return str(functions[0]["name"]), _parameters(functions[0])
    every = [
        {
            "type": "object",
            "properties": {
                _TOOL: {"type": "string", "enum": [function["name"]]},
                _ARGUMENTS: _parameters(function),
            },
            "required": [_TOOL, _ARGUMENTS],
            "additionalProperties": False,
        }
        for function in functions
    ]
    return NAME, {
        "type": "object",
        "properties": {NAME: {"anyOf": every}},
        "required": [NAME],
        "additionalProperties": False,
    }


def tools_as_text(messages: Sequence[Message], tools: Tools) -> list[Message]:
    """Return ``messages`` as text: tools described in the system message, calls as text."""
    # JSON that cannot close its block of the prompt.
    offered = json.dumps(_offered(tools), ensure_ascii=False, indent=1).replace("`", "\\u0060")
    told = load_prompt("chat_by_schema").render(tools=offered)
    first, *rest = messages
    if first.role == "system":
        found = [Message("system", (f"{first.text}\n\n{told}",))]
    else:
        found, rest = [Message("system", (told,))], list(messages)
    for message in rest:
        if message.role == "tool":
            text = f"The tool {message.name or 'called'} answered: {message.text}"
            found.append(Message("user", (text,)))
        elif message.calls:
            calls = [{_TOOL: call.name, _ARGUMENTS: call.arguments} for call in message.calls]
            words = [message.text, *(json.dumps(call, ensure_ascii=False) for call in calls)]
            found.append(replace(message, parts=("\n".join(filter(None, words)),), calls=()))
        else:
            found.append(message)
    return found


def parse_tool_call(text: str, tools: Tools) -> ToolCall | None:
    """Return the call in a JSON object of ``text``; None if there is none."""
    _, schema = call_schema(tools)
    given = best_object(text, schema)
    if given is None:
        return None
    functions = {str(function["name"]): function for function in _offered(tools)}
    if len(functions) == 1:
        ((name, function),) = functions.items()
        return _call(name, given) if _has_required(given, function) else None
    inner = given.get(NAME, given)
    if not isinstance(inner, Mapping):
        return None
    chosen, arguments = str(inner.get(_TOOL)), inner.get(_ARGUMENTS)
    if chosen not in functions or not isinstance(arguments, dict):
        return None
    return _call(chosen, arguments) if _has_required(arguments, functions[chosen]) else None


def _call(name: str, arguments: Mapping[str, Any]) -> ToolCall:
    return ToolCall(f"call_{uuid.uuid4().hex}", name, dict(arguments))


def _has_required(given: Mapping[str, Any], function: Mapping[str, Any]) -> bool:
    """Return whether all required arguments are given."""
    required = _parameters(function).get("required")
    return all(key in given for key in required) if isinstance(required, list) else True


def _offered(tools: Tools) -> list[dict[str, Any]]:
    named = tools.named
    return [f for f in tools.functions if named is None or f["name"] == named]


def _parameters(function: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool's arguments, without references."""
    given = function.get("parameters") or {"type": "object", "properties": {}}
    found: dict[str, Any] = dereference_refs(dict(given))
    return {key: value for key, value in found.items() if key != "$defs"}


FILTERED = "declined by the provider's content filter"
_BESIDE = "The picture follows."
_CUT = ("length", "max_tokens", "max_output_tokens")


def request_body(
    model: str,
    request: CompletionRequest,
    settings: ClientSettings,
    terms: Terms,
    dialect: Dialect,
) -> dict[str, Any]:
    """Return the body of a request of the Responses API or of Chat Completions, as ``terms`` says.

    ``dialect``: the server's rules of schemas. Nothing is stored by the provider.
    """
    messages, form = _formed(request, settings, terms, dialect)
    body: dict[str, Any] = {"model": model, **settings.sent_sampling(), **form}
    if terms.responses:
        if request.stop:
            raise RequestError(f"{model} takes no stop words: leave stop out")
        # A server that turned out to have this interface alone may have settings for the other.
        body = {name: value for name, value in body.items() if name not in ("seed", "top_k")}
        body |= {"input": [item for one in messages for item in _items(one)], "store": False}
        if terms.effort:
            body["reasoning"] = {"effort": terms.effort}
        limit = "max_output_tokens"
    else:
        body["messages"] = [_chat_message(message) for message in pictures_apart(messages)]
        if request.stop:
            body["stop"] = list(request.stop)
        if terms.effort:
            body["reasoning_effort"] = terms.effort
        if terms.logprobs:
            body |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
        # OpenAI's name is not known to all servers, and its older one is refused by its own models
        # that reason, behind gateways too.
        names = ("max_completion_tokens", "max_tokens")
        order = names[::-1] if dialect == "compatible" and settings.efforts is None else names
        limit = next((name for name in order if name not in terms.left_out), order[0])
    if settings.max_output_tokens and "output_limit" not in terms.left_out:
        body[limit] = settings.max_output_tokens
    if request.cache_key and settings.prompt_cache:
        body["prompt_cache_key"] = request.cache_key
    if terms.streams:
        body["stream"] = True
        if not terms.responses:
            body["stream_options"] = {"include_usage": True}
    return {name: value for name, value in body.items() if name not in terms.left_out}


def _formed(
    request: CompletionRequest, settings: ClientSettings, terms: Terms, dialect: Dialect
) -> tuple[Sequence[Message], dict[str, Any]]:
    """Return the messages, and the parameters that ask for an object or for tool calls."""
    responses = terms.responses
    messages: Sequence[Message] = request.sent_messages()
    wanted = request.output
    strict = settings.strict and "strict" not in terms.left_out
    if isinstance(wanted, OutputSchema):
        if by_schema(settings, terms):
            schema = schema_for(dialect, wanted.schema)
            return messages, _schema_form(wanted.name, schema, strict, responses)
        wanted = wanted.as_tool(strict=strict)
    if wanted is None or not wanted.schemas:
        return messages, {}
    if wanted.forced and terms.way == "schema":
        name, schema = call_schema(wanted)
        # Arguments of tools are optional, which a strict schema of Responses does not allow.
        asked = _schema_form(name, schema_for(dialect, schema), strict and not responses, responses)
        return tools_as_text(messages, wanted), asked
    form: dict[str, Any] = {"tools": []}
    named_alone = wanted.named is not None and terms.way == "required"
    for function in wanted.functions:
        if named_alone and function["name"] != wanted.named:
            continue
        tool: dict[str, Any] = {"strict": False} if responses else {}
        tool |= {name: function[name] for name in ("name", "description") if name in function}
        if "parameters" in function:
            tool["parameters"] = schema_for(dialect, function["parameters"])
        if wanted.strict is not None:
            tool["strict"] = wanted.strict
        form["tools"].append(_typed("function", tool, responses))
    if named_alone or wanted.choice == "any":
        form["tool_choice"] = "required"
    elif wanted.named:
        form["tool_choice"] = _typed("function", {"name": wanted.named}, responses)
    elif wanted.choice != "auto":
        form["tool_choice"] = wanted.choice
    if wanted.parallel is not None:
        form["parallel_tool_calls"] = wanted.parallel
    return messages, form


def by_schema(settings: ClientSettings, terms: Terms) -> bool:
    """Return whether an object is asked for by a JSON schema, not by a tool."""
    return settings.structured == "schema" or terms.way == "schema"


def _typed(kind: str, inner: Mapping[str, Any], responses: bool) -> dict[str, Any]:
    """Return an entry of a kind: its fields stand beside the type, or in Chat inside an object."""
    return {"type": kind, **inner} if responses else {"type": kind, kind: dict(inner)}


def _schema_form(
    name: str, schema: Mapping[str, Any], strict: bool, responses: bool
) -> dict[str, Any]:
    named = {"name": name, "schema": dict(schema), "strict": strict}
    form = _typed("json_schema", named, responses)
    return {"text": {"format": form}} if responses else {"response_format": form}


def pictures_apart(messages: Sequence[Message]) -> list[Message]:
    """Move pictures in tool answers to a user's message after them.

    For interfaces whose tools answer only in text.
    """
    found: list[Message] = []
    waiting: list[Part] = []

    def show() -> None:
        if waiting:
            found.append(Message("user", tuple(waiting)))
            waiting.clear()

    for message in messages:
        if message.role != "tool":
            show()
            found.append(message)
            continue
        if message.pictures:
            texts = [part for part in message.parts if isinstance(part, str)]
            waiting += [
                f"Shown by the tool {message.name or 'called'} ({message.call_id}):",
                *message.pictures,
            ]
            message = Message(
                "tool", ("\n".join([*texts, _BESIDE]),), call_id=message.call_id,
                name=message.name, failed=message.failed,
            )  # fmt: skip
        found.append(message)
    show()
    return found


def _chat_message(message: Message) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.role == "tool":
        told["tool_call_id"] = message.call_id
    elif message.role == "user" and message.pictures:
        told["content"] = [
            {"type": "text", "text": part}
            if isinstance(part, str)
            else {"type": "image_url", "image_url": {"url": data_url(part)}}
            for part in message.parts
        ]
    elif message.role == "assistant" and message.calls:
        told["content"] = message.text or None
        told["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call.arguments)},
            }
            for call in message.calls
        ]
    return told


def _items(message: Message) -> list[dict[str, Any]]:
    """Return a message as items of the Responses API."""
    content: object = message.text
    if message.role != "assistant" and message.pictures:
        content = [_input_part(part) for part in message.parts]
    if message.role == "tool":
        return [{"type": "function_call_output", "call_id": message.call_id, "output": content}]
    said = message.text or message.role != "assistant"
    items = [{"role": message.role, "content": content}] if said else []
    return items + [
        {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": _arguments(call.arguments),
        }
        for call in message.calls
    ]


def _input_part(part: Part) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    return {"type": "input_image", "image_url": data_url(part)}


def _arguments(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, ensure_ascii=False)


def data_url(picture: Picture) -> str:
    """Return a picture as a data URL."""
    return f"data:{picture.media_type};base64,{base64.b64encode(picture.data).decode('ascii')}"


def add_chat_event(raw: RawCompletion, event: Mapping[str, Any]) -> bool:
    """Add a chunk of a stream, or a whole completion; return whether it said how it ended."""
    raw.model = text_of(event.get("model")) or raw.model
    raw.request_id = raw.request_id or text_of(event.get("id"))
    if isinstance(event.get("usage"), Mapping):
        raw.usage = usage_of(event["usage"])
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices:
        return False
    choice = mapping_of(choices[0])
    part = mapping_of(choice.get("delta") or choice.get("message"))
    if (content := part.get("content")) is not None:
        _add_content(raw, content, raw.parts)
    for name in ("reasoning_content", "reasoning"):
        if text := text_of(part.get(name)):
            raw.grow(raw.thoughts, text)
            break
    if text := text_of(part.get("refusal")):
        raw.refusal = (raw.refusal or "") + text
    calls = part.get("tool_calls")
    for at, one in enumerate(calls if isinstance(calls, list) else ()):
        call, function = mapping_of(one), mapping_of(mapping_of(one).get("function"))
        index = call.get("index")
        kept = raw.calls.setdefault(index if isinstance(index, int) else at, RawCall())
        kept.id = text_of(call.get("id")) or kept.id
        kept.name = text_of(function.get("name")) or kept.name
        arguments = function.get("arguments")
        if isinstance(arguments, Mapping):
            kept.arguments = arguments
        elif text := text_of(arguments):
            kept.text += text
            raw.watch([kept.text], len(text))
    logprobs = mapping_of(choice.get("logprobs")).get("content")
    for one in logprobs or ():
        if isinstance(one, Mapping):
            top = one.get("top_logprobs")
            others = [_chance(other) for other in top or () if isinstance(other, Mapping)]
            raw.tokens.append(Token(*_chance(one), tuple(others)))
    ended = text_of(choice.get("finish_reason"))
    if ended:
        raw.ended, raw.cut = ended, ended in _CUT
        if ended == "content_filter" and raw.refusal is None:
            raw.refusal = FILTERED
    return bool(ended)


def _add_content(raw: RawCompletion, content: object, to: list[str]) -> None:
    """Add text, parts, or an object that a gateway decoded already."""
    for part in content if isinstance(content, list) else [content]:
        match part:
            case {"type": "thinking" | "reasoning"} if isinstance(part, Mapping):
                thought = part.get("thinking") or part.get("text")
                _add_content(raw, thought, raw.thoughts)
            case str(text) | {"text": str(text) | {"value": str(text)}}:
                raw.grow(to, text)
            case {"type": "refusal", "refusal": str(text)}:
                raw.refusal = (raw.refusal or "") + text
            case Mapping() if part and not isinstance(part.get("type"), str):
                raw.grow(to, json.dumps(part, ensure_ascii=False))


def add_response_event(raw: RawCompletion, event: Mapping[str, Any]) -> bool:
    """Add an event of the Responses API, or a whole response; return whether it was the last."""
    kind = text_of(event.get("type"))
    if kind.endswith(".delta"):
        # The last event repeats everything: what comes before it is only watched.
        raw.grow(raw.parts, text_of(event.get("delta")))
        return False
    whole = mapping_of(event.get("response")) if kind else event
    if kind not in ("", "response.completed", "response.incomplete", "response.failed"):
        return False
    if not isinstance(whole.get("output"), list):
        raise MalformedReply("a response without output")
    raw.model = text_of(whole.get("model"))
    raw.request_id = raw.request_id or text_of(whole.get("id"))
    raw.usage = usage_of(whole.get("usage"))
    raw.parts.clear()
    raw.watching = False
    for at, one in enumerate(whole["output"]):
        item = mapping_of(one)
        if item.get("type") == "function_call":
            arguments = item.get("arguments")
            raw.calls[at] = RawCall(
                text_of(item.get("call_id") or item.get("id")),
                text_of(item.get("name")),
                text_of(arguments),
                arguments if isinstance(arguments, Mapping) else None,
            )
        elif item.get("type") == "message":
            _add_content(raw, item.get("content"), raw.parts)
    reason = text_of(mapping_of(whole.get("incomplete_details")).get("reason"))
    raw.ended = reason or text_of(whole.get("status"))
    raw.cut = raw.ended in _CUT
    if raw.ended == "content_filter" and raw.refusal is None:
        raw.refusal = FILTERED
    return True


def usage_of(given: object) -> Usage:
    """Return the tokens as any of OpenAI's interfaces counts them."""
    found = mapping_of(given)
    details = mapping_of(found.get("prompt_tokens_details") or found.get("input_tokens_details"))
    return Usage(
        count_of(found.get("prompt_tokens")) or count_of(found.get("input_tokens")),
        count_of(found.get("completion_tokens")) or count_of(found.get("output_tokens")),
        count_of(details.get("cached_tokens")),
    )


def _chance(one: Mapping[str, Any]) -> tuple[bytes, float]:
    given = one.get("bytes")
    data = bytes(given) if isinstance(given, list) else text_of(one.get("token")).encode()
    logprob = one.get("logprob")
    known = isinstance(logprob, int | float)
    return data, float(logprob) if known else -math.inf  # type: ignore[arg-type]
