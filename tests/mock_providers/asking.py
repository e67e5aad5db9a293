"""Requests in the providers' formats as plain HTTP, and what is said in their responses."""

from __future__ import annotations

import base64
import http.client
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from PIL import Image

from scenewright.prompts import load_prompt

TOOL = "report_answers"
SCHEMA: dict[str, Any] = json.loads(json.dumps(load_prompt("judge_sheet").output))
ROUTES = ("chat", "responses", "messages", "gemini")
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/{model}:generateContent",
}
REQUEST_ID = {"chat": "x-request-id", "responses": "x-request-id", "messages": "request-id"}


def picture(color: tuple[int, int, int] = (200, 40, 40), format: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (64, 64), color).save(buffer, format)
    return buffer.getvalue()


def sheet(*questions: str | tuple[str, Mapping[str, str]]) -> str:
    """The text of a sheet; a question with options is a pair."""
    lines = []
    for number, question in enumerate(questions, start=1):
        if isinstance(question, str):
            entry: list[Any] = [number, question]
        else:
            options = [f"{label}:{option}" for label, option in question[1].items()]
            entry = [number, question[0], options]
        lines.append(json.dumps(entry, ensure_ascii=False, separators=(",", ":")))
    return "\n".join(lines)


TWO = sheet("Is there a dog in the image?", "Is there a cat in the image?")


def body(
    route: str,
    text: str = TWO,
    image: bytes | str | None = None,
    form: str = "tool",
    model: str = "instant",
    logprobs: int | None = None,
    max_tokens: int | None = None,
) -> dict[str, Any]:
    """A request; ``image``: a file, base64 text, or ``""`` for none."""
    file = picture() if image is None else image
    data = base64.b64encode(file).decode() if isinstance(file, bytes) else file
    url = f"data:image/png;base64,{data}"
    function = {"name": TOOL, "description": "answers", "parameters": SCHEMA}
    made: dict[str, Any]
    if route == "chat":
        parts: list[Any] = [{"type": "text", "text": text}]
        if data:
            parts.insert(0, {"type": "image_url", "image_url": {"url": url}})
        made = {"model": model, "messages": [{"role": "user", "content": parts}]}
        if form == "tool":
            made["tools"] = [{"type": "function", "function": function}]
            made["tool_choice"] = {"type": "function", "function": {"name": TOOL}}
        elif form == "json":
            named = {"name": TOOL, "schema": SCHEMA, "strict": True}
            made["response_format"] = {"type": "json_schema", "json_schema": named}
        if logprobs is not None:
            made |= {"logprobs": True, "top_logprobs": logprobs}
        if max_tokens is not None:
            made["max_completion_tokens"] = max_tokens
    elif route == "responses":
        parts = [{"type": "input_text", "text": text}]
        if data:
            parts.insert(0, {"type": "input_image", "image_url": url, "detail": "auto"})
        made = {"model": model, "input": [{"role": "user", "content": parts}]}
        if form == "tool":
            made["tools"] = [{"type": "function", **function, "strict": True}]
            made["tool_choice"] = {"type": "function", "name": TOOL}
        elif form == "json":
            wanted = {"type": "json_schema", "name": TOOL, "schema": SCHEMA, "strict": True}
            made["text"] = {"format": wanted}
        if logprobs is not None:
            made |= {"include": ["message.output_text.logprobs"], "top_logprobs": logprobs}
        if max_tokens is not None:
            made["max_output_tokens"] = max_tokens
    elif route == "messages":
        parts = [{"type": "text", "text": text}]
        if data:
            source = {"type": "base64", "media_type": "image/png", "data": data}
            parts.insert(0, {"type": "image", "source": source})
        made = {"model": model, "messages": [{"role": "user", "content": parts}]}
        made["max_tokens"] = max_tokens or 4096
        if form == "tool":
            made["tools"] = [{"name": TOOL, "input_schema": SCHEMA}]
            made["tool_choice"] = {"type": "tool", "name": TOOL}
        elif form == "json":
            made["output_config"] = {"format": {"type": "json_schema", "schema": SCHEMA}}
    else:
        parts = [{"text": text}]
        if data:
            parts.insert(0, {"inlineData": {"mimeType": "image/png", "data": data}})
        made = {"contents": [{"role": "user", "parts": parts}]}
        config: dict[str, Any] = {}
        if form == "tool":
            declared = {"name": TOOL, "parametersJsonSchema": SCHEMA}
            made["tools"] = [{"functionDeclarations": [declared]}]
            calling = {"mode": "ANY", "allowedFunctionNames": [TOOL]}
            made["toolConfig"] = {"functionCallingConfig": calling}
        elif form == "json":
            config = {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
        if logprobs is not None:
            config |= {"responseLogprobs": True, "logprobs": logprobs}
        if max_tokens is not None:
            config["maxOutputTokens"] = max_tokens
        made["generationConfig"] = config
    return made


@dataclass
class Response:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    data: Any


class Client:
    """Plain HTTP, a connection for each request."""

    def __init__(self, url: str, key: str) -> None:
        self.address = urlsplit(url)
        self.key = key

    def ask(self, route: str, made: Any = None, timeout: float = 20.0, **given: Any) -> Response:
        """A request of ``route``; ``given`` goes to :func:`body`."""
        content = body(route, **given) if made is None else made
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        path = PATHS[route].format(model=given.get("model", "instant"))
        header = {"messages": "x-api-key", "gemini": "x-goog-api-key"}.get(route)
        keys = {header: self.key} if header else {"authorization": f"Bearer {self.key}"}
        return self.call("POST", path, raw, keys, timeout)

    def call(
        self,
        method: str,
        path: str,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 20.0,
    ) -> Response:
        connection = http.client.HTTPConnection(
            self.address.hostname or "", self.address.port, timeout=timeout
        )
        try:
            sent = {"content-type": "application/json", **(headers or {})}
            connection.request(method, path, raw, sent)
            response = connection.getresponse()
            data = json.loads(response.read())
            named = {name.lower(): value for name, value in response.getheaders()}
            return Response(response.status, named, data)
        finally:
            connection.close()


def parts_of(route: str, data: Any) -> dict[str, Any]:
    """``text``, ``arguments`` (as the format carries them), ``finish`` and ``refused``."""
    if route == "chat":
        choice = data["choices"][0]
        message = choice["message"]
        calls = message.get("tool_calls") or []
        return {
            "text": message["content"],
            "arguments": calls[0]["function"]["arguments"] if calls else None,
            "finish": choice["finish_reason"],
            "refused": message["refusal"] is not None,
        }
    if route == "responses":
        items = data["output"]
        first = items[0] if items else {}
        piece = (first.get("content") or [{}])[0]
        return {
            "text": piece.get("text"),
            "arguments": first.get("arguments"),
            "finish": (data["incomplete_details"] or {}).get("reason", data["status"]),
            "refused": piece.get("type") == "refusal",
        }
    if route == "messages":
        block = data["content"][0] if data["content"] else {}
        return {
            "text": block.get("text"),
            "arguments": block.get("input"),
            "finish": data["stop_reason"],
            "refused": data["stop_reason"] == "refusal",
        }
    if "candidates" not in data:
        return {
            "text": None,
            "arguments": None,
            "finish": None,
            "refused": bool(data["promptFeedback"]["blockReason"]),
        }
    candidate = data["candidates"][0]
    piece = (candidate["content"].get("parts") or [{}])[0]
    return {
        "text": piece.get("text"),
        "arguments": piece.get("functionCall", {}).get("args"),
        "finish": candidate["finishReason"],
        "refused": False,
    }


def answers_of(route: str, data: Any) -> Sequence[Mapping[str, Any]]:
    """The answers of a response, as tool call or JSON text."""
    found = parts_of(route, data)
    given = found["arguments"] if found["arguments"] is not None else found["text"]
    parsed = json.loads(given) if isinstance(given, str) else given
    answers: Sequence[Mapping[str, Any]] = parsed["answers"]
    return answers


def error_of(route: str, data: Any) -> tuple[str, str]:
    """Type (or status) and message of an error."""
    error = data["error"]
    return error["status" if route == "gemini" else "type"], error["message"]
