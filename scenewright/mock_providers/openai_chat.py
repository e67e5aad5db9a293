"""OpenAI's chat completions: ``POST /v1/chat/completions``."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from scenewright.mock_providers import openai_common as common
from scenewright.mock_providers.pictures import from_data_url
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.turns_openai import chat_turns
from scenewright.mock_providers.wire import (
    MAX_ALTERNATIVES,
    Form,
    Limits,
    ModelReply,
    ModelRequest,
    Spent,
    as_count,
    as_list,
    as_object,
    as_text,
    call_id,
    fields_of,
    no_streams,
    pick_tool,
    size_of,
)


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
        """See :func:`~scenewright.mock_providers.openai_common.image_tokens`."""
        return common.image_tokens(size, low_detail)

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
                    _call(call_id(id, at), call.name, call.text)
                    for at, call in enumerate(said.calls)
                ]
                finish = finish if asked.forced or finish == "length" else "tool_calls"
        elif asked.form == "tool" and said.finish != "empty":
            message["content"] = None
            message["tool_calls"] = [_call(id, asked.tool, said.text)]
            # A call that the request names ends with "stop", one that the model chose does not.
            if finish == "stop" and not asked.forced:
                finish = "tool_calls"
        listed = None
        if said.tokens is not None:
            listed = {
                "content": common.logprobs(said.tokens, asked.alternatives or 0),
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
        return common.error_body(problem)

    def headers(self, id: str, problem: Problem | None, account: Limits) -> dict[str, str]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        return common.headers(id, problem, account)

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


def _call(id: str, name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": f"call_{id}", "type": "function", "function": function}
