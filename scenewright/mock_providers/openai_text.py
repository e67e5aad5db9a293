"""OpenAI's formats of text: ``POST /v1/chat/completions`` and ``POST /v1/responses``.

All formats of OpenAI share errors, headers and the price of images.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, Literal

from langchain_core.messages import ToolCall
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionMessage,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionTokenLogprob,
)
from openai.types.chat.chat_completion import Choice, ChoiceLogprobs
from openai.types.chat.chat_completion_message_function_tool_call import Function
from openai.types.completion_usage import CompletionUsage, PromptTokensDetails
from openai.types.responses import (
    Response,
    ResponseFunctionToolCall,
    ResponseOutputItem,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
    ResponseUsage,
)

from scenewright.agents.chat.model import Tools
from scenewright.agents.judges import pictures
from scenewright.mock_providers.pictures import from_data_url
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.turns import Block, Reading, tool_schema
from scenewright.mock_providers.wire import (
    MAX_ALTERNATIVES,
    Limits,
    ModelReply,
    ModelRequest,
    Spent,
    Token,
    ToolInvocation,
    as_count,
    as_list,
    as_object,
    call_id,
    no_streams,
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


class OpenAIFormat:
    """What all formats of OpenAI share."""

    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """Tokens of an image for gpt-4o; in low detail 85 whatever its size."""
        return 85 if low_detail else pictures.image_tokens("tiles-85-170", *size)

    def problem(self, problem: Problem, id: str) -> dict[str, Any]:
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

    def headers(self, id: str, problem: Problem | None, account: Limits) -> dict[str, str]:
        """``x-request-id``, what is left of the limits, and when to come again."""
        found = {"x-request-id": f"req_{id}", "openai-version": "2020-10-01"}
        for name, limit, left in (
            ("requests", account.requests, account.requests_left),
            ("tokens", account.tokens, account.tokens_left),
        ):
            if limit is not None:
                found[f"x-ratelimit-limit-{name}"] = str(limit)
                found[f"x-ratelimit-remaining-{name}"] = str(left)
        if problem is not None and problem.kind == "rate_limited":
            found["retry-after"] = str(whole_seconds(problem.retry_after))
            found["retry-after-ms"] = str(1000 * whole_seconds(problem.retry_after))
        return found


def usage(spent: Spent) -> ResponseUsage:
    """Return the tokens of a reply, as responses and decisions tell them."""
    return ResponseUsage.model_validate(
        {
            "input_tokens": spent.tokens_in,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": spent.tokens_out,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": spent.tokens_in + spent.tokens_out,
        }
    )


def logprob(probability: float) -> float:
    """Natural logarithm, bounded below."""
    return math.log(probability) if probability > 0 else LEAST_LOGPROB


def logprobs(said: Sequence[Token], alternatives: int) -> list[dict[str, Any]]:
    """Tokens as OpenAI lists them."""

    def entry(text: str, probability: float) -> dict[str, Any]:
        encoded = list(text.encode("utf-8", "replace"))
        return {"token": text, "logprob": logprob(probability), "bytes": encoded}

    return [
        {
            **entry(*token.chances[0]),
            "top_logprobs": [entry(*chance) for chance in token.chances[:alternatives]],
        }
        for token in said
    ]


def _blocks(reading: Reading, content: object, place: str) -> list[Block]:
    """Return the parts of a message; raises ``Problem``."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [reading.words(content, place)]
    found = []
    for at, entry in enumerate(as_list(content, place)):
        where = f"{place}[{at}]"
        part = as_object(entry, where)
        match part.get("type"):
            case "text" | "input_text" | "output_text":
                found.append(reading.words(part.get("text"), f"{where}.text"))
            case "refusal":
                found.append(reading.words(part.get("refusal"), f"{where}.refusal"))
            case "image_url" | "input_image":
                image, param = part.get("image_url"), f"{where}.image_url"
                whole = image if isinstance(image, dict) else {**part, "url": image}
                low = whole.get("detail") == "low"
                data = from_data_url(whole.get("url"), param)
                found.append(reading.picture(data, param, low_detail=low))
            case kind:
                raise Problem.invalid(f"{where}.type: the mock server knows no {kind!r}", where)
    return found


def _tools(body: dict[str, Any], field: str | None) -> Tools:
    """Return the tools of a request; ``field``: where a tool and a choice hold the function."""
    schemas = []
    for at, entry in enumerate(as_list(body.get("tools") or [], "tools")):
        where = f"tools[{at}]"
        tool = as_object(entry, where)
        if tool.get("type", "function") != "function":
            raise Problem.invalid("the mock server knows tools of type function only", "tools")
        function = as_object(tool.get(field), f"{where}.{field}") if field else tool
        schemas.append(tool_schema(function, function.get("parameters"), where))
    choice, parallel = body.get("tool_choice"), body.get("parallel_tool_calls")
    wanted = {"required": "any", "none": "none"}.get(str(choice), "auto")
    if isinstance(choice, dict):
        function = as_object(choice.get(field), f"tool_choice.{field}") if field else choice
        wanted = f"={function.get('name')}"
    return Tools(tuple(schemas), wanted, parallel if isinstance(parallel, bool) else None)


def _calls(said: ModelReply, asked: ModelRequest, id: str) -> list[tuple[str, ToolInvocation]]:
    """Return the tool calls of a reply, each with its id."""
    if said.calls is not None:
        return [(call_id(id, at), call) for at, call in enumerate(said.calls)]
    if asked.form != "tool" or said.finish in ("empty", "refusal"):
        return []
    return [(id, ToolInvocation(asked.tool, said.arguments, said.text))]


class OpenAIChat(OpenAIFormat):
    """Implements :class:`~scenewright.mock_providers.wire.Wire`."""

    def read(self, body: dict[str, Any], model: str) -> ModelRequest:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        no_streams(body)
        reading = Reading()
        for at, entry in enumerate(as_list(body.get("messages"), "messages")):
            place = f"messages[{at}]"
            message = as_object(entry, place)
            blocks = _blocks(reading, message.get("content"), f"{place}.content")
            match message.get("role"):
                case "system" | "developer":
                    reading.system(blocks)
                case "user":
                    reading.user(blocks)
                case "tool":
                    if any(block["type"] != "text" for block in blocks):
                        raise Problem.invalid("tools answer in text only", f"{place}.content")
                    id = message.get("tool_call_id")
                    reading.answer(id, blocks, f"{place}.tool_call_id")
                case "assistant":
                    reading.model(blocks, self._called(reading, message, place))
                case role:
                    raise Problem.invalid(f"{place}.role: unknown role {role!r}", f"{place}.role")
        tools, wish = _tools(body, "function"), body.get("response_format")
        form = as_object(wish or {}, "response_format")
        schema: dict[str, Any] = {}
        if form.get("type") == "json_schema":
            schema = as_object(form.get("json_schema"), "response_format.json_schema")
        as_text = bool(schema) and not tools.schemas
        if as_text:
            found = tool_schema(schema, schema.get("schema"), "response_format.json_schema")
            tools = Tools((found,), f"={schema['name']}")
        return reading.request(
            body.get("model"),
            tools,
            images_in="messages",
            as_json=form.get("type") in ("json_schema", "json_object"),
            schema=schema.get("schema"),
            tool_as_text=as_text,
            counted=(body.get("tools"), wish),
            alternatives=self._alternatives(body),
            max_tokens=as_count(
                body.get("max_completion_tokens", body.get("max_tokens")), "max_tokens", 1
            ),
        )

    def reply(self, asked: ModelRequest, said: ModelReply, spent: Spent, id: str) -> ChatCompletion:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        calls, refused = _calls(said, asked, id), said.finish == "refusal"
        message = ChatCompletionMessage(
            role="assistant",
            # A judge's text is that of its call; a script may speak beside its calls.
            content=None if refused or (calls and said.calls is None) else said.text,
            refusal=said.text if refused else None,
        )
        if said.calls is not None:
            message.content = message.content or None
        if calls:
            message.tool_calls = [
                ChatCompletionMessageFunctionToolCall(
                    id=f"call_{own_id}",
                    type="function",
                    function=Function(name=call.name, arguments=call.text),
                )
                for own_id, call in calls
            ]
        finish: Literal["length", "tool_calls", "stop"] = "stop"
        if said.finish == "length":
            finish = "length"
        # A call that the request names ends with "stop", one that the model chose does not.
        elif calls and not asked.forced:
            finish = "tool_calls"
        listed = None
        if said.tokens is not None:
            content = [
                ChatCompletionTokenLogprob.model_validate(token)
                for token in logprobs(said.tokens, asked.alternatives or 0)
            ]
            listed = ChoiceLogprobs(content=content, refusal=None)
        return ChatCompletion(
            id=f"chatcmpl-{id}",
            object="chat.completion",
            created=int(time.time()),
            model=asked.model,
            choices=[Choice(index=0, message=message, logprobs=listed, finish_reason=finish)],
            usage=CompletionUsage(
                prompt_tokens=spent.tokens_in,
                completion_tokens=spent.tokens_out,
                total_tokens=spent.tokens_in + spent.tokens_out,
                prompt_tokens_details=PromptTokensDetails(cached_tokens=0),
            ),
            service_tier="default",
            system_fingerprint="fp_scenewright_lab",
        )

    def _called(self, reading: Reading, message: dict[str, Any], place: str) -> list[ToolCall]:
        calls = []
        for at, entry in enumerate(as_list(message.get("tool_calls") or [], place)):
            where = f"{place}.tool_calls[{at}]"
            call = as_object(entry, where)
            function = as_object(call.get("function"), f"{where}.function")
            name, arguments = function.get("name"), function.get("arguments")
            calls.append(reading.call(call.get("id"), name, arguments, where))
        return calls

    def _alternatives(self, body: dict[str, Any]) -> int | None:
        top = as_count(body.get("top_logprobs"), "top_logprobs", 0, MAX_ALTERNATIVES)
        if body.get("logprobs") is True:
            return top or 0
        if top is not None:
            raise Problem.invalid(
                "'top_logprobs' is only allowed when 'logprobs' is true", "top_logprobs"
            )
        return None


_WITH_LOGPROBS = "message.output_text.logprobs"


class OpenAIResponses(OpenAIFormat):
    """Implements :class:`~scenewright.mock_providers.wire.Wire`."""

    def read(self, body: dict[str, Any], model: str) -> ModelRequest:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        no_streams(body)
        reading = Reading()
        if isinstance(body.get("instructions"), str):
            reading.system([reading.words(body["instructions"], "instructions")])
        self._read_items(reading, body.get("input"))
        text = as_object(body.get("text") or {}, "text")
        form = as_object(text.get("format") or {}, "text.format")
        return reading.request(
            body.get("model"),
            _tools(body, None),
            images_in="input",
            as_json=form.get("type") in ("json_schema", "json_object"),
            schema=form.get("schema"),
            counted=(body.get("tools"), text),
            alternatives=self._alternatives(body),
            max_tokens=as_count(body.get("max_output_tokens"), "max_output_tokens", 1),
        )

    def reply(self, asked: ModelRequest, said: ModelReply, spent: Spent, id: str) -> Response:
        """See :class:`~scenewright.mock_providers.wire.Wire`."""
        cut = said.finish == "length"
        return Response.model_validate(
            {
                "id": f"resp_{id}",
                "object": "response",
                "created_at": int(time.time()),
                "status": "incomplete" if cut else "completed",
                "error": None,
                "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
                "instructions": None,
                "metadata": {},
                "model": asked.model,
                "output": self._output(asked, said, id),
                "parallel_tool_calls": True,
                "temperature": 1.0,
                "tool_choice": "auto",
                "tools": [],
                "top_p": 1.0,
                "usage": usage(spent),
            }
        )

    def _read_items(self, reading: Reading, given: object) -> None:
        """Read messages, calls and their results; calls belong to the text before them."""
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        texts, calls = list[Block](), list[ToolCall]()

        def close() -> None:
            if texts or calls:
                reading.model(texts, calls)
                texts.clear()
                calls.clear()

        for at, entry in enumerate(as_list(items, "input")):
            place = f"input[{at}]"
            item = as_object(entry, place)
            role, kind = item.get("role"), item.get("type")
            if kind == "function_call":
                name, arguments = item.get("name"), item.get("arguments")
                calls.append(reading.call(item.get("call_id"), name, arguments, place))
                continue
            if role != "assistant" or calls:
                close()
            if kind == "function_call_output":
                blocks = _blocks(reading, item.get("output"), f"{place}.output")
                reading.answer(item.get("call_id"), blocks, f"{place}.call_id")
                continue
            if role is None and kind == "reasoning":
                continue
            blocks = _blocks(reading, item.get("content"), f"{place}.content")
            match role:
                case "assistant":
                    texts += blocks
                case "system" | "developer":
                    reading.system(blocks)
                case "user":
                    reading.user(blocks)
                case _:
                    raise Problem.invalid(f"{place}: unknown item", place)
        close()

    def _output(self, asked: ModelRequest, said: ModelReply, id: str) -> list[ResponseOutputItem]:
        if said.finish == "empty":
            return []
        status: Literal["incomplete", "completed"] = "completed"
        if said.finish == "length":
            status = "incomplete"
        calls: list[ResponseOutputItem] = [
            ResponseFunctionToolCall(
                type="function_call",
                id=f"fc_{own_id}",
                call_id=f"call_{own_id}",
                name=call.name,
                arguments=call.text,
                status=status,
            )
            for own_id, call in _calls(said, asked, id)
        ]
        if calls and (said.calls is None or not said.text):
            return calls
        content: ResponseOutputText | ResponseOutputRefusal
        if said.finish == "refusal":
            content = ResponseOutputRefusal(type="refusal", refusal=said.text)
        else:
            listed: Any = logprobs(said.tokens or (), asked.alternatives or 0)
            content = ResponseOutputText(
                type="output_text", text=said.text, annotations=[], logprobs=listed
            )
        message = ResponseOutputMessage(
            type="message", id=f"msg_{id}", role="assistant", status=status, content=[content]
        )
        return [message, *calls]

    def _alternatives(self, body: dict[str, Any]) -> int | None:
        top = as_count(body.get("top_logprobs"), "top_logprobs", 0, MAX_ALTERNATIVES)
        include = body.get("include")
        wanted = isinstance(include, list) and _WITH_LOGPROBS in include
        return top or 0 if wanted or top else None
