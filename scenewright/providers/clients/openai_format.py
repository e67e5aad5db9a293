"""OpenAI's wire formats: requests of Chat Completions and of the Responses API, and their replies.

Everything here is pure: :func:`request_body` builds a request,
:func:`add_chat_event` and :func:`add_response_event` collect what comes.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from scenewright.core.validation import mapping_of
from scenewright.providers.clients.base import (
    TOP_LOGPROBS,
    ClientSettings,
    CompletionRequest,
    MalformedReply,
    Message,
    OutputSchema,
    Part,
    Picture,
    RequestError,
    Terms,
    Token,
)
from scenewright.providers.clients.reading import (
    RawCall,
    RawCompletion,
    count_of,
    text_of,
)
from scenewright.providers.clients.tools_as_text import call_schema, tools_as_text
from scenewright.providers.schemas import Dialect, schema_for
from scenewright.providers.usage import Usage

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
        form = _schema_form(name, schema_for(dialect, schema), strict and not responses, responses)
        return tools_as_text(messages, wanted), form
    functions = [_function(one, wanted.strict, dialect) for one in wanted.functions]
    choice = wanted.named or {"any": "required"}.get(wanted.choice, wanted.choice)
    if wanted.named and terms.way == "required":
        functions = [one for one in functions if one["name"] == wanted.named]
        choice = "required"
    return messages, _tool_form(functions, choice, wanted.parallel, responses)


def by_schema(settings: ClientSettings, terms: Terms) -> bool:
    """Return whether an object is asked for by a JSON schema, not by a tool."""
    return settings.structured == "schema" or terms.way == "schema"


def _function(function: Mapping[str, Any], strict: bool | None, dialect: Dialect) -> dict[str, Any]:
    found = {name: function[name] for name in ("name", "description") if name in function}
    if "parameters" in function:
        found["parameters"] = schema_for(dialect, function["parameters"])
    return found if strict is None else {**found, "strict": strict}


def _typed(kind: str, inner: Mapping[str, Any], responses: bool) -> dict[str, Any]:
    """Return an entry of a kind: its fields stand beside the type, or in Chat inside an object."""
    return {"type": kind, **inner} if responses else {"type": kind, kind: dict(inner)}


def _schema_form(
    name: str, schema: Mapping[str, Any], strict: bool, responses: bool
) -> dict[str, Any]:
    named = {"name": name, "schema": dict(schema), "strict": strict}
    form = _typed("json_schema", named, responses)
    return {"text": {"format": form}} if responses else {"response_format": form}


def _tool_form(
    functions: Sequence[Mapping[str, Any]], choice: str, parallel: bool | None, responses: bool
) -> dict[str, Any]:
    lax = {"strict": False} if responses else {}
    tools = [_typed("function", {**lax, **one}, responses) for one in functions]
    form: dict[str, Any] = {"tools": tools}
    if choice in ("none", "required"):
        form["tool_choice"] = choice
    elif choice != "auto":
        form["tool_choice"] = _typed("function", {"name": choice}, responses)
    if parallel is not None:
        form["parallel_tool_calls"] = parallel
    return form


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
    match message.role:
        case "tool":
            return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
        case "user" if message.pictures:
            content = [
                {"type": "text", "text": part}
                if isinstance(part, str)
                else {"type": "image_url", "image_url": {"url": data_url(part)}}
                for part in message.parts
            ]
            return {"role": "user", "content": content}
        case "assistant" if message.calls:
            calls = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": _arguments(call.arguments)},
                }
                for call in message.calls
            ]
            return {"role": "assistant", "content": message.text or None, "tool_calls": calls}
        case _:
            return {"role": message.role, "content": message.text}


def _items(message: Message) -> list[dict[str, Any]]:
    """Return a message as items of the Responses API."""
    if message.role == "tool":
        output: object = message.text
        if message.pictures:
            output = [_input_part(part) for part in message.parts]
        return [{"type": "function_call_output", "call_id": message.call_id, "output": output}]
    if message.role == "assistant":
        items: list[dict[str, Any]] = []
        if message.text:
            items.append({"role": "assistant", "content": message.text})
        return items + [
            {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": _arguments(call.arguments),
            }
            for call in message.calls
        ]
    if message.pictures:
        parts = [_input_part(part) for part in message.parts]
        return [{"role": message.role, "content": parts}]
    return [{"role": message.role, "content": message.text}]


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
    _add_content(raw, part.get("content"), raw.parts)
    for name in ("reasoning_content", "reasoning"):
        if text := text_of(part.get(name)):
            raw.grow(raw.thoughts, text)
            break
    if text := text_of(part.get("refusal")):
        raw.refusal = (raw.refusal or "") + text
    calls = part.get("tool_calls")
    for at, call in enumerate(calls if isinstance(calls, list) else ()):
        _add_call(raw, mapping_of(call), at)
    logprobs = mapping_of(choice.get("logprobs")).get("content")
    raw.tokens += [_token(one) for one in logprobs or () if isinstance(one, Mapping)]
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


def _add_call(raw: RawCompletion, call: Mapping[str, Any], at: int) -> None:
    index = call.get("index")
    place = index if isinstance(index, int) else at
    found = raw.calls.setdefault(place, RawCall())
    function = mapping_of(call.get("function"))
    found.id = text_of(call.get("id")) or found.id
    found.name = text_of(function.get("name")) or found.name
    arguments = function.get("arguments")
    if isinstance(arguments, Mapping):
        found.arguments = arguments
    elif text := text_of(arguments):
        found.text += text
        raw.watch([found.text], len(text))


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


def _token(one: Mapping[str, Any]) -> Token:
    top = one.get("top_logprobs")
    others = [_chance(other) for other in top or () if isinstance(other, Mapping)]
    return Token(*_chance(one), tuple(others))


def _chance(one: Mapping[str, Any]) -> tuple[bytes, float]:
    given = one.get("bytes")
    data = bytes(given) if isinstance(given, list) else text_of(one.get("token")).encode()
    logprob = one.get("logprob")
    known = isinstance(logprob, int | float)
    return data, float(logprob) if known else -math.inf  # type: ignore[arg-type]
