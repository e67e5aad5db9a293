"""Gemini's content: ``POST /v1beta/models/MODEL:generateContent``, or with ``v1``.

Conversations in Gemini's format.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from functools import partial
from typing import Any

from langchain_core.messages import BaseMessage, ToolCall

from scenewright.agents.chat.model import Tools
from scenewright.agents.judges.pictures import image_tokens
from scenewright.mock_providers import turns
from scenewright.mock_providers.openai_text import logprob
from scenewright.mock_providers.pictures import decode_base64
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
    fields_of,
    length_of,
    pick_tool,
    size_of,
    whole_seconds,
)

_SIGNED = b"lab:"
_MODES = {"AUTO": "auto", "ANY": "any", "NONE": "none", "VALIDATED": "auto"}


def signature(id: str) -> str:
    """Return the thought signature of the first call of a reply, base64."""
    return base64.b64encode(_SIGNED + id.encode()).decode()


def field(entry: Mapping[str, Any], name: str) -> Any:
    """Return a field by its JSON name, ``inlineData``, or by its proto name, ``inline_data``."""
    if name in entry:
        return entry[name]
    return entry.get("".join(f"_{c.lower()}" if c.isupper() else c for c in name))


def content_turns(body: dict[str, Any]) -> Turns:
    """Return the conversation of a content; raises ``Problem``.

    As Gemini 3 does, it wants back the signature of the first call of each turn of the model.
    """
    said: list[BaseMessage] = []
    told = field(body, "systemInstruction")
    if told:
        said.append(turns.system(_text(_parts(told, "systemInstruction"))))
    given = body.get("contents")
    # Gemini names calls where it gives no ids: answers go to calls of their name, in order.
    waiting: list[ToolCall] = []
    for at, entry in enumerate(as_list([given] if isinstance(given, dict) else given, "contents")):
        place = f"contents[{at}]"
        content = as_object(entry, place)
        parts = _parts(content, place)
        if content.get("role", "user") == "model":
            waiting = _calls(parts, place)
            said.append(turns.model(_text(parts), list(waiting)))
            continue
        rest = []
        for n, part in enumerate(parts):
            where = f"{place}.parts[{n}]"
            answered = field(part, "functionResponse")
            if answered is not None:
                said.append(_answer(as_object(answered, where), waiting, where))
            elif field(part, "inlineData") is not None:
                blob = as_object(field(part, "inlineData"), where)
                rest.append(turns.picture(decode_base64(blob.get("data"), where)))
            else:
                rest.append(turns.words(as_text(part.get("text"), f"{where}.text")))
        if rest:
            said.append(turns.user(rest))
    return turns_of(said, _tools(body))


def _parts(content: object, place: str) -> list[dict[str, Any]]:
    parts = as_object(content, place).get("parts")
    listed = [parts] if isinstance(parts, dict) else parts
    return [
        as_object(part, f"{place}.parts[{n}]")
        for n, part in enumerate(as_list(listed, f"{place}.parts"))
    ]


def _calls(parts: list[dict[str, Any]], place: str) -> list[ToolCall]:
    calls: list[ToolCall] = []
    for n, part in enumerate(parts):
        found = field(part, "functionCall")
        if found is None:
            continue
        where = f"{place}.parts[{n}].function_call"
        function = as_object(found, where)
        name = as_text(function.get("name"), f"{where}.name")
        id = str(function.get("id") or f"{place}:{n}")
        if not calls and not _signed(field(part, "thoughtSignature")):
            raise Problem.invalid(
                f"Function call is missing a thought_signature in functionCall parts: `{name}`, "
                f"position {n + 1} of {place}. Send back the signature that came with it.",
                where,
            )
        calls.append(turns.call(id, name, function.get("args") or {}, where))
    return calls


def _signed(given: object) -> bool:
    try:
        plain = str(given or "").replace("-", "+").replace("_", "/")
        return base64.b64decode(plain, validate=True).startswith(_SIGNED)
    except (binascii.Error, ValueError):
        return False


def _answer(answered: dict[str, Any], waiting: list[ToolCall], place: str) -> BaseMessage:
    name = as_text(answered.get("name"), f"{place}.function_response.name")
    id = answered.get("id")
    fits = [call for call in waiting if call["name"] == name and id in (None, call["id"])]
    if not fits:
        raise Problem.invalid(
            "Please ensure that the number of function response parts is equal to the number of "
            f"function call parts of the function call turn: nobody called {name!r}",
            place,
        )
    waiting.remove(fits[0])
    response = as_object(answered.get("response") or {}, f"{place}.response")
    failed = "error" in response
    told = response.get("error", response.get("output", response))
    text = told if isinstance(told, str) else str(told)
    return turns.answer(str(fits[0]["id"]), [turns.words(text)], failed, name)


def _tools(body: dict[str, Any]) -> Tools:
    schemas = []
    for at, given in enumerate(as_list(body.get("tools") or [], "tools")):
        declared = field(as_object(given, f"tools[{at}]"), "functionDeclarations") or []
        for entry in as_list(declared, f"tools[{at}].function_declarations"):
            function = as_object(entry, "function_declarations")
            schema = field(function, "parametersJsonSchema") or function.get("parameters")
            name = as_text(function.get("name"), "function_declarations.name")
            schemas.append(turns.schema_of(name, function.get("description"), schema))
    config = as_object(field(body, "toolConfig") or {}, "toolConfig")
    calling = as_object(field(config, "functionCallingConfig") or {}, "functionCallingConfig")
    choice = _MODES.get(str(calling.get("mode", "AUTO")).upper(), "auto")
    allowed = field(calling, "allowedFunctionNames")
    if choice == "any" and isinstance(allowed, list) and len(allowed) == 1:
        choice = f"={allowed[0]}"
    return Tools(tuple(schemas), choice)


def _text(parts: list[dict[str, Any]]) -> str:
    return "".join(str(part["text"]) for part in parts if part.get("text"))


_STATUS = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    529: "UNAVAILABLE",
}
_QUOTAS = {
    "requests": "GenerateRequestsPerMinutePerProjectPerModel",
    "tokens": "GenerateContentInputTokensPerModelPerMinute",
    "concurrent": "GenerateConcurrentRequestsPerProjectPerModel",
}
_TYPE = "type.googleapis.com/google.rpc"
_SERVICE = "generativelanguage.googleapis.com"


def _part(entry: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = field(entry, name)
    return {} if value is None else as_object(value, name)


class GeminiContent:
    """Implements :class:`~scenewright.mock_providers.wire.Wire`."""

    name = "gemini"

    def read(self, body: dict[str, Any], model: str) -> ModelRequest:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        text, characters = "", length_of(field(body, "systemInstruction"))
        images: list[bytes] = []
        param: str | None = None
        given = body.get("contents")
        for at, entry in enumerate(
            as_list([given] if isinstance(given, dict) else given, "contents")
        ):
            content = as_object(entry, f"contents[{at}]")
            parts = content.get("parts")
            texts, told = [], 0
            parts = [parts] if isinstance(parts, dict) else parts
            for n, piece in enumerate(as_list(parts, f"contents[{at}].parts")):
                place = f"contents[{at}].parts[{n}]"
                part = as_object(piece, place)
                blob = field(part, "inlineData")
                if blob is not None:
                    param = f"{place}.inline_data"
                    images.append(decode_base64(as_object(blob, param).get("data"), param))
                elif field(part, "fileData") is not None:
                    raise Problem.image("the mock server fetches nothing: use inline_data", place)
                elif "functionCall" in part or "functionResponse" in part:
                    told += size_of(part)
                elif "text" in part:
                    texts.append(as_text(part["text"], f"{place}.text"))
            characters += sum(map(len, texts)) + told
            if content.get("role", "user") == "user" and texts:
                text = "\n".join(texts)
        config = _part(body, "generationConfig")
        form, tool, forced, schema = self._form(body, config)
        alternatives = as_count(config.get("logprobs"), "logprobs", 0, MAX_ALTERNATIVES)
        return ModelRequest(
            model=model,
            text=text,
            images=tuple(images),
            image_param=param or "contents",
            characters=characters
            + size_of(
                body.get("tools"),
                field(config, "responseSchema"),
                field(config, "responseJsonSchema"),
            ),
            form=form,
            tool=tool,
            forced=forced,
            fields=fields_of(schema),
            alternatives=(alternatives or 0) if field(config, "responseLogprobs") else None,
            max_tokens=as_count(field(config, "maxOutputTokens"), "maxOutputTokens", 1),
            turns=partial(content_turns, body),
        )

    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """Tokens of an image: 258 a tile, whatever the media resolution."""
        return image_tokens("tiles-258", *size)

    def reply(self, asked: ModelRequest, said: ModelReply, spent: Spent, id: str) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        text_in = {"modality": "TEXT", "tokenCount": spent.tokens_in - spent.image_tokens}
        usage: dict[str, Any] = {
            "promptTokenCount": spent.tokens_in,
            "totalTokenCount": spent.tokens_in + spent.tokens_out,
            "promptTokensDetails": [
                text_in,
                {"modality": "IMAGE", "tokenCount": spent.image_tokens},
            ],
        }
        ends = {"usageMetadata": usage, "modelVersion": asked.model, "responseId": id}
        if said.finish == "refusal":
            usage["totalTokenCount"] = spent.tokens_in
            return {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, **ends}
        usage["candidatesTokenCount"] = spent.tokens_out
        return {"candidates": [self._candidate(asked, said, id)], **ends}

    def problem(self, problem: Problem, id: str) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        message = problem.message
        error: dict[str, Any] = {"code": problem.status}
        if problem.kind == "unknown_model":
            message = (
                f"models/{message} is not found for this API version, or is not supported for "
                "generateContent. Call ListModels to see the list of available models and their "
                "supported methods."
            )
        elif problem.kind == "rate_limited":
            wait = whole_seconds(problem.retry_after)
            message = (
                "You exceeded your current quota, please check your plan and billing details. "
                f"Please retry in {wait}s."
            )
            violation = {
                "quotaMetric": f"{_SERVICE}/generate_content_{problem.limit}",
                "quotaId": _QUOTAS[problem.limit],
                "quotaDimensions": {"location": "global"},
            }
            if problem.allowed is not None:
                violation["quotaValue"] = str(problem.allowed)
            error["details"] = [
                {"@type": f"{_TYPE}.QuotaFailure", "violations": [violation]},
                {"@type": f"{_TYPE}.RetryInfo", "retryDelay": f"{wait}s"},
            ]
        elif problem.param and problem.kind in ("invalid", "image"):
            error["details"] = [
                {
                    "@type": f"{_TYPE}.BadRequest",
                    "fieldViolations": [{"field": problem.param, "description": message}],
                }
            ]
        return {"error": {**error, "message": message, "status": _STATUS[problem.status]}}

    def headers(self, id: str, problem: Problem | None, account: Limits) -> dict[str, str]:
        """None of its own: Gemini says in the body when to come again."""
        return {}

    def _candidate(self, asked: ModelRequest, said: ModelReply, id: str) -> dict[str, Any]:
        parts: list[dict[str, Any]] = []
        finish = "MAX_TOKENS" if said.finish == "length" else "STOP"
        extra: dict[str, Any] = {}
        if said.calls is not None and said.finish != "malformed":
            parts = [{"text": said.text}] if said.text else []
            for at, called in enumerate(said.calls):
                number = f"{id[:8]}{at}"
                part = {"functionCall": {
                    "id": number, "name": called.name, "args": called.arguments
                }}  # fmt: skip
                # Gemini signs the first of the calls that it makes at once.
                parts.append(part if at else {**part, "thoughtSignature": signature(number)})
        elif asked.form == "tool":
            if said.finish == "malformed":
                finish = "MALFORMED_FUNCTION_CALL"
                extra["finishMessage"] = f"Malformed function call: {asked.tool}({said.text[:200]})"
            elif said.finish == "stop":
                call = {"id": id[:8], "name": asked.tool, "args": said.arguments}
                parts = [{"functionCall": call}]
        elif said.finish != "empty":
            parts = [{"text": said.text}]
        # Without parts Gemini leaves the field out.
        content: dict[str, Any] = {"parts": parts, "role": "model"} if parts else {"role": "model"}
        if said.tokens is not None:
            extra |= _logprobs(said.tokens, asked.alternatives or 0)
        return {"content": content, "finishReason": finish, "index": 0, **extra}

    def _form(self, body: dict[str, Any], config: dict[str, Any]) -> tuple[Form, str, bool, object]:
        calling = _part(_part(body, "toolConfig"), "functionCallingConfig")
        if body.get("tools") and calling.get("mode") != "NONE":
            named = []
            for at, given in enumerate(as_list(body["tools"], "tools")):
                declared = field(as_object(given, f"tools[{at}]"), "functionDeclarations") or []
                for entry in as_list(declared, f"tools[{at}].function_declarations"):
                    function = as_object(entry, "function_declarations")
                    schema = field(function, "parametersJsonSchema") or function.get("parameters")
                    named.append((as_text(function.get("name"), "name"), schema))
            allowed = field(calling, "allowedFunctionNames")
            wanted = allowed[0] if isinstance(allowed, list) and allowed else None
            tool, schema = pick_tool(named, wanted)
            return "tool", tool, calling.get("mode") == "ANY", schema
        if field(config, "responseMimeType") == "application/json":
            schema = field(config, "responseJsonSchema") or field(config, "responseSchema")
            return "json", "", False, schema
        return "text", "", False, None


def _logprobs(tokens: tuple[Token, ...], alternatives: int) -> dict[str, Any]:
    def entry(text: str, probability: float) -> dict[str, Any]:
        # The mock server has no vocabulary: the id of a token is a number of its text.
        number = int.from_bytes(text.encode("utf-8", "replace")[:3], "big")
        return {"token": text, "tokenId": number, "logProbability": logprob(probability)}

    chosen = [entry(*token.chances[0]) for token in tokens]
    total = sum(item["logProbability"] for item in chosen)
    result: dict[str, Any] = {"chosenCandidates": chosen, "logProbabilitySum": total}
    if alternatives:
        result["topCandidates"] = [
            {"candidates": [entry(*chance) for chance in token.chances[:alternatives]]}
            for token in tokens
        ]
    return {"avgLogprobs": total / max(1, len(chosen)), "logprobsResult": result}
