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

from scenewright.core.validation import first_problem
from scenewright.mock_providers.openai_text import logprob
from scenewright.mock_providers.problems import ABSENT, Problem
from scenewright.mock_providers.streams import Event, content_events
from scenewright.mock_providers.wire import (
    MAX_ALTERNATIVES,
    Block,
    Format,
    ModelReply,
    ModelRequest,
    Reading,
    TokenCounts,
    Wire,
    as_count,
    tool_schema,
)
from scenewright.providers.clients.base import Tools

_SIGNED = b"lab:"
_MODES = {"ANY": "any", "NONE": "none"}


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
    """Base of all formats of Gemini; images cost the same at every media resolution."""

    provider, place = "gemini", "gemini"
    image_rule = "tiles-258"

    def content(
        self,
        parts: Sequence[Any],
        finish: str,
        model: str,
        id: str,
        spent: TokenCounts,
        **more: Any,
    ) -> Any:
        """Return the body of a response with ``more`` values of its shape."""
        rare = dict.fromkeys(("words", "average", "logprobs", "details"), ABSENT)
        # Gemini leaves an empty list out.
        told = {"id": id, "model": model, "finish": finish, "parts": parts or ABSENT}
        return self.shaped("reply", spent, **told, **(rare | more))

    def blocked(self, model: str, id: str, spent: TokenCounts) -> Any:
        """Return the body of a response to a prompt that is blocked."""
        return self.shaped("blocked", replace(spent, tokens_out=0), id=id, model=model)


class GeminiContent(GeminiFormat, Wire):
    """Content, whole or as a stream."""

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
                waiting = []
                for number, part in enumerate(content.parts or ()):
                    if (call := part.function_call) is None:
                        continue
                    where = f"{place}.parts[{number}].function_call"
                    # As Gemini 3 does, it wants back the signature of the first one.
                    if not waiting and not (part.thought_signature or b"").startswith(_SIGNED):
                        raise Problem.invalid(
                            "Function call is missing a thought_signature in functionCall parts: "
                            f"`{call.name}`, position {number + 1} of {place}. Send back the "
                            "signature that came with it.",
                            where,
                        )
                    own_id = call.id or f"{place}:{number}"
                    waiting.append(reading.call(own_id, call.name, call.args or {}, where))
                reading.model(blocks, list(waiting))
                continue
            for part in content.parts or ():
                if (answered := part.function_response) is None:
                    continue
                name, id = answered.name, answered.id
                fits = [one for one in waiting if one["name"] == name and id in (None, one["id"])]
                if not fits:
                    raise Problem.invalid(
                        "Please ensure that the number of function response parts is equal to the "
                        "number of function call parts of the function call turn: nobody called "
                        f"{name!r}",
                        place,
                    )
                waiting.remove(fits[0])
                response = answered.response or {}
                told = response.get("error", response.get("output", response))
                said = [reading.words(told if isinstance(told, str) else str(told), place)]
                reading.answer(fits[0]["id"], said, place, "error" in response, name or "")
            if blocks:
                reading.user(blocks)
        alternatives = as_count(config.logprobs, "logprobs", 0, MAX_ALTERNATIVES)
        schema = _schema(config.response_json_schema, config.response_schema)
        schemas = []
        for function in (one for tool in asked.tools for one in tool.function_declarations or ()):
            parameters = _schema(function.parameters_json_schema, function.parameters)
            named = {"name": function.name, "description": function.description}
            schemas.append(tool_schema(named, parameters, "function_declarations"))
        calling = asked.tool_config.function_calling_config or types.FunctionCallingConfig()
        choice = _MODES.get(calling.mode or "", "auto")
        if choice == "any" and calling.allowed_function_names:
            choice = f"={calling.allowed_function_names[0]}"
        return reading.request(
            model,
            Tools(tuple(schemas), choice),
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
            return self.blocked(asked.model, id, spent)
        finish, words = "MAX_TOKENS" if said.finish == "length" else "STOP", ABSENT
        parts: list[dict[str, Any]] = [{"text": said.text}] if said.text else []
        # A call comes whole or not at all.
        calls = [call for call in said.calls if call.arguments is not None]
        if calls and said.finish == "malformed":
            words = f"Malformed function call: {calls[0].name}({calls[0].text[:200]})"
            finish, parts, calls = "MALFORMED_FUNCTION_CALL", [], []
        for at, call in enumerate(calls):
            own_id = f"{id[:8]}{at}"
            # Gemini signs the first of the calls that it makes at once.
            signed = ABSENT if at else base64.b64encode(_SIGNED + own_id.encode()).decode()
            told = {"id": own_id, "name": call.name, "args": dict(call.arguments or {})}
            parts.append(self.shaped("call", **told, signature=signed))
        average = result = ABSENT
        if said.tokens is not None:
            chosen = [_logprob(*token.chances[0]) for token in said.tokens]
            total = sum(one["logProbability"] for one in chosen)
            average = total / max(1, len(chosen))
            tops = [
                {"candidates": [_logprob(*one) for one in token.chances[: asked.alternatives]]}
                for token in said.tokens
            ]
            result = self.shaped(
                "logprobs", chosen=chosen, total=total, tops=tops if asked.alternatives else ABSENT
            )
        return self.content(
            parts, finish, asked.model, id, spent, words=words, average=average, logprobs=result
        )

    def streams(self, body: Mapping[str, Any]) -> bool:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        return self._streaming

    def events(self, reply: dict[str, Any], body: Mapping[str, Any]) -> tuple[Event, ...]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        return content_events(reply)


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


def _schema(in_json: Any, typed: Any) -> Any:
    """Return a schema that comes as JSON or in the SDK's type."""
    if in_json is None and typed is not None:
        return typed.model_dump(mode="json", exclude_none=True)
    return in_json


def _logprob(text: str, probability: float) -> dict[str, Any]:
    # The mock server has no vocabulary: the id of a token is a number of its text.
    number = int.from_bytes(text.encode("utf-8", "replace")[:3], "big")
    return {"token": text, "tokenId": number, "logProbability": logprob(probability)}
