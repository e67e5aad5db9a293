"""OpenAI's responses: ``POST /v1/responses``."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from scenewright.mock_providers import openai_common as common
from scenewright.mock_providers.pictures import from_data_url
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.turns_openai import responses_turns
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
        """See :func:`~scenewright.mock_providers.openai_common.image_tokens`."""
        return common.image_tokens(size, low_detail)

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
            "usage": common.usage(spent),
            "user": None,
            **(asked.echo or {}),
        }

    def problem(self, problem: Problem, id: str) -> dict[str, Any]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        return common.error_body(problem)

    def headers(self, id: str, problem: Problem | None, account: Limits) -> dict[str, str]:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        return common.headers(id, problem, account)

    def _output(
        self, asked: ModelRequest, said: ModelReply, status: str, id: str
    ) -> list[dict[str, Any]]:
        if said.finish == "empty":
            return []
        if asked.form == "tool" and said.calls is None and said.finish != "refusal":
            return [_call(id, asked.tool, said.text, status)]
        calls = [
            _call(call_id(id, at), call.name, call.text, status)
            for at, call in enumerate(said.calls or ())
        ]
        if calls and not said.text:
            return calls
        content: dict[str, Any]
        if said.finish == "refusal":
            content = {"type": "refusal", "refusal": said.text}
        else:
            listed = (
                common.logprobs(said.tokens, asked.alternatives or 0)
                if said.tokens is not None
                else []
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
                    raise Problem.invalid("the lab knows tools of type function only", "tools")
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


def _call(id: str, name: str, arguments: str, status: str) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{id}",
        "call_id": f"call_{id}",
        "name": name,
        "arguments": arguments,
        "status": status,
    }
