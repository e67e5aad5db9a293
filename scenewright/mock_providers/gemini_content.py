"""Gemini's content: ``POST /v1beta/models/MODEL:generateContent``, or with ``v1``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from scenewright.agents.judges.tokens import image_tokens
from scenewright.mock_providers.openai_common import logprob
from scenewright.mock_providers.pictures import decode_base64
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.turns_gemini import content_turns, field, signature
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
                    raise Problem.image("the lab fetches nothing: use inline_data", place)
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
        # The lab has no vocabulary: the id of a token is a number of its text.
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
