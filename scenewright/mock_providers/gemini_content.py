"""Gemini's content: ``POST /v1beta/models/MODEL:generateContent``, or with ``v1``."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from google.genai import types
from langchain_core.messages import ToolCall
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from scenewright.agents.judges.pictures import image_tokens
from scenewright.core.validation import first_problem
from scenewright.mock_providers.openai_text import logprob
from scenewright.mock_providers.problems import Problem, language, whole_seconds
from scenewright.mock_providers.refusals import Place
from scenewright.mock_providers.streams import Event, content_events
from scenewright.mock_providers.turns import Block, Reading, tool_schema
from scenewright.mock_providers.wire import (
    MAX_ALTERNATIVES,
    Format,
    ModelReply,
    ModelRequest,
    Token,
    TokenCounts,
    ToolInvocation,
    Wire,
    as_count,
)
from scenewright.providers.clients.base import Tools

_SIGNED = b"lab:"
_MODES = {"ANY": "any", "NONE": "none"}
_TYPE = "type.googleapis.com/google.rpc"
_SERVICE = "generativelanguage.googleapis.com"


class Config(types.GenerationConfig):
    """Settings of a reply, with those of pictures."""

    image_config: types.ImageConfig = Field(default_factory=types.ImageConfig)


class ContentRequest(BaseModel):
    """The body of a request, of the SDK's parts."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    contents: list[types.Content]
    system_instruction: types.Content | None = None
    tools: list[types.Tool] = []
    tool_config: types.ToolConfig = Field(default_factory=types.ToolConfig)
    generation_config: Config = Field(default_factory=Config)


def parsed_content(body: dict[str, Any]) -> ContentRequest:
    """Return ``body`` in the SDK's types; raises ``Problem``."""
    try:
        return ContentRequest.model_validate_json(json.dumps(body))
    except ValidationError as error:
        param = ".".join(map(str, error.errors()[0]["loc"]))
        raise Problem.invalid(first_problem(error), param) from None


class GeminiFormat(Format):
    """Base of all formats of Gemini."""

    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """Tokens of an image: 258 a tile, whatever the media resolution."""
        return image_tokens("tiles-258", *size)

    def problem(self, problem: Problem, id: str) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        words = language("gemini")
        told = words.tell(problem)
        error: dict[str, Any] = {"code": problem.status}
        if problem.kind == "rate_limited":
            violation = {
                "quotaMetric": f"{_SERVICE}/generate_content_{problem.limit}",
                "quotaId": words.limits[problem.limit],
                "quotaDimensions": {"location": "global"},
            }
            if problem.allowed is not None:
                violation["quotaValue"] = str(problem.allowed)
            wait = f"{whole_seconds(problem.retry_after)}s"
            error["details"] = [
                {"@type": f"{_TYPE}.QuotaFailure", "violations": [violation]},
                {"@type": f"{_TYPE}.RetryInfo", "retryDelay": wait},
            ]
        elif problem.param and problem.kind in ("invalid", "image"):
            violation = {"field": problem.param, "description": told.message}
            error["details"] = [{"@type": f"{_TYPE}.BadRequest", "fieldViolations": [violation]}]
        return {"error": {**error, "message": told.message, "status": told.type}}


class GeminiContent(GeminiFormat, Wire):
    """Content, whole or as a stream."""

    place: Place = "gemini"

    def __init__(self, *, streaming: bool = False) -> None:
        """``streaming``: for ``:streamGenerateContent``."""
        self._streaming = streaming

    def read(self, body: dict[str, Any], model: str) -> ModelRequest:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        asked = parsed_content(body)
        config, reading = asked.generation_config, Reading({})
        if asked.system_instruction is not None:
            reading.system(_blocks(reading, asked.system_instruction, "systemInstruction"))
        # Gemini names calls where it gives no ids: answers go to calls of their name, in order.
        waiting: list[ToolCall] = []
        for at, content in enumerate(asked.contents):
            place = f"contents[{at}]"
            blocks = _blocks(reading, content, place)
            if content.role == "model":
                waiting = _calls(reading, content, place)
                reading.model(blocks, list(waiting))
                continue
            for part in content.parts or ():
                if part.function_response is not None:
                    _answer(reading, part.function_response, waiting, place)
            if blocks:
                reading.user(blocks)
        alternatives = as_count(config.logprobs, "logprobs", 0, MAX_ALTERNATIVES)
        schema = config.response_json_schema
        if schema is None and config.response_schema is not None:
            schema = config.response_schema.model_dump(mode="json", exclude_none=True)
        return reading.request(
            model,
            _tools(asked),
            images_in="contents",
            as_json=config.response_mime_type == "application/json",
            schema=schema,
            counted=(body.get("tools"), schema),
            alternatives=(alternatives or 0) if config.response_logprobs else None,
            max_tokens=as_count(config.max_output_tokens, "maxOutputTokens", 1),
        )

    def reply(self, asked: ModelRequest, said: ModelReply, spent: TokenCounts, id: str) -> Any:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        if said.finish == "refusal":
            blocked = replace(spent, tokens_out=0)
            return content_reply(None, asked.model, id, blocked)
        ends = {"finishReason": "MAX_TOKENS" if said.finish == "length" else "STOP"}
        parts: list[dict[str, Any]] = [{"text": said.text}] if said.text else []
        # A call comes whole or not at all.
        calls = [call for call in said.calls if call.arguments is not None]
        if calls and said.finish == "malformed":
            told = f"Malformed function call: {calls[0].name}({calls[0].text[:200]})"
            ends = {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": told}
            parts, calls = [], []
        parts += [_call(call, f"{id[:8]}{at}", first=not at) for at, call in enumerate(calls)]
        candidate = content_candidate(parts) | ends
        if said.tokens is not None:
            candidate |= _logprobs(said.tokens, asked.alternatives or 0)
        return content_reply(candidate, asked.model, id, spent)

    def streams(self, body: Mapping[str, Any]) -> bool:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        return self._streaming

    def events(self, reply: dict[str, Any], body: Mapping[str, Any]) -> tuple[Event, ...]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        return content_events(reply)


def content_candidate(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the candidate of ``parts``; without parts Gemini leaves the field out."""
    content = {"role": "model", **({"parts": list(parts)} if parts else {})}
    return {"content": content, "index": 0}


def content_reply(
    candidate: dict[str, Any] | None,
    model: str,
    id: str,
    spent: TokenCounts,
    details: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return the body of a response; without a candidate the prompt is blocked.

    ``details``: the kinds of the tokens of the reply.
    """
    usage: dict[str, Any] = {
        "promptTokenCount": spent.tokens_in,
        "totalTokenCount": spent.tokens_in + spent.tokens_out,
        "promptTokensDetails": [
            {"modality": "TEXT", "tokenCount": spent.tokens_in - spent.image_tokens},
            {"modality": "IMAGE", "tokenCount": spent.image_tokens},
        ],
    }
    reply = {"modelVersion": model, "responseId": id, "usageMetadata": usage}
    if candidate is None:
        return reply | {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
    usage["candidatesTokenCount"] = spent.tokens_out
    if details is not None:
        usage["candidatesTokensDetails"] = details
    return reply | {"candidates": [candidate]}


def _blocks(reading: Reading, content: types.Content, place: str) -> list[Block]:
    """Return the texts and pictures of a turn; raises ``Problem``."""
    found = []
    for at, part in enumerate(content.parts or ()):
        where = f"{place}.parts[{at}]"
        if part.file_data is not None:
            raise Problem.image("the mock server fetches nothing: use inline_data", where)
        if part.inline_data is not None:
            if not part.inline_data.data:
                raise Problem.image("the image holds no base64 data", where)
            found.append(reading.picture(part.inline_data.data, f"{where}.inline_data"))
        elif part.text is not None:
            found.append(reading.words(part.text, where))
    return found


def _calls(reading: Reading, content: types.Content, place: str) -> list[ToolCall]:
    """Return the calls of a turn of the model.

    As Gemini 3 does, it wants back the signature of the first one.
    """
    calls: list[ToolCall] = []
    for at, part in enumerate(content.parts or ()):
        call = part.function_call
        if call is None:
            continue
        where = f"{place}.parts[{at}].function_call"
        if not calls and not (part.thought_signature or b"").startswith(_SIGNED):
            raise Problem.invalid(
                f"Function call is missing a thought_signature in functionCall parts: "
                f"`{call.name}`, position {at + 1} of {place}. Send back the signature that came "
                "with it.",
                where,
            )
        id = call.id or f"{place}:{at}"
        calls.append(reading.call(id, call.name, call.args or {}, where))
    return calls


def _answer(
    reading: Reading, answered: types.FunctionResponse, waiting: list[ToolCall], place: str
) -> None:
    name, id = answered.name, answered.id
    fits = [call for call in waiting if call["name"] == name and id in (None, call["id"])]
    if not fits:
        raise Problem.invalid(
            "Please ensure that the number of function response parts is equal to the number of "
            f"function call parts of the function call turn: nobody called {name!r}",
            place,
        )
    waiting.remove(fits[0])
    response = answered.response or {}
    told = response.get("error", response.get("output", response))
    blocks = [reading.words(told if isinstance(told, str) else str(told), place)]
    reading.answer(fits[0]["id"], blocks, place, "error" in response, name or "")


def _tools(asked: ContentRequest) -> Tools:
    declared = [f for tool in asked.tools for f in tool.function_declarations or ()]
    schemas = []
    for function in declared:
        schema = function.parameters_json_schema
        if schema is None and function.parameters is not None:
            schema = function.parameters.model_dump(mode="json", exclude_none=True)
        named = {"name": function.name, "description": function.description}
        schemas.append(tool_schema(named, schema, "function_declarations"))
    calling = asked.tool_config.function_calling_config or types.FunctionCallingConfig()
    choice = _MODES.get(calling.mode or "", "auto")
    allowed = calling.allowed_function_names
    if choice == "any" and allowed:
        choice = f"={allowed[0]}"
    return Tools(tuple(schemas), choice)


def _call(call: ToolInvocation, id: str, *, first: bool) -> dict[str, Any]:
    part: dict[str, Any] = {
        "functionCall": {"id": id, "name": call.name, "args": dict(call.arguments or {})}
    }
    if first:
        # Gemini signs the first of the calls that it makes at once.
        part["thoughtSignature"] = base64.b64encode(_SIGNED + id.encode()).decode()
    return part


def _logprobs(tokens: Sequence[Token], alternatives: int) -> dict[str, Any]:
    def entry(text: str, probability: float) -> dict[str, Any]:
        # The mock server has no vocabulary: the id of a token is a number of its text.
        number = int.from_bytes(text.encode("utf-8", "replace")[:3], "big")
        return {"token": text, "tokenId": number, "logProbability": logprob(probability)}

    chosen = [entry(*token.chances[0]) for token in tokens]
    total = sum(one["logProbability"] for one in chosen)
    result: dict[str, Any] = {"chosenCandidates": chosen, "logProbabilitySum": total}
    if alternatives:
        result["topCandidates"] = [
            {"candidates": [entry(*chance) for chance in token.chances[:alternatives]]}
            for token in tokens
        ]
    return {"avgLogprobs": total / max(1, len(chosen)), "logprobsResult": result}
