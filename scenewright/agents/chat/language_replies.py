"""Replies of language models: JSON in text, tool arguments, and one correction.

For any LangChain chat model. Replies are data: they are parsed, never followed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from scenewright.agents.chat.model import LIMIT, stop_of
from scenewright.config.profiles import OF_THE_MODEL
from scenewright.core.errors import ScenewrightError
from scenewright.core.validation import cut_short
from scenewright.prompts import Prompt
from scenewright.providers.replies import best_object

T = TypeVar("T")
_SHOWN = 300
_MEND = "Mend this and answer with the whole corrected object."


class ReplyError(ScenewrightError, RuntimeError):
    """A reply that is unusable even after a correction."""


@dataclass(frozen=True, slots=True)
class ParsedReply(Generic[T]):
    """Parsed reply."""

    value: T
    problem: str = ""
    """Problem of the first reply; empty if there was none."""


def digest_of(chat: BaseChatModel, *parts: str) -> str:
    """Return 12 hex digits that depend on the model, its settings and ``parts``."""
    model = [chat._llm_type, chat._identifying_params]
    text = json.dumps([model, *parts], sort_keys=True, default=lambda value: type(value).__name__)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def name_of(chat: BaseChatModel) -> str:
    """Return a chat model's name in logs: ``account:model`` where it has an account."""
    for key in ("id", "model_name", "model"):
        found = getattr(chat, key, None)
        if isinstance(found, str) and found:
            return found
    return chat._llm_type


def as_data(value: object) -> str:
    """Return ``value`` as JSON that cannot close its block of a prompt."""
    text = json.dumps(value, ensure_ascii=False, indent=1)
    return text.replace("`", "\\u0060")


def reply_text(message: BaseMessage) -> str:
    """Return the text of a reply.

    Raises ``ReplyError`` if the model declined or was cut off.
    """
    text = str(message.text).strip()
    stop = stop_of(message) if isinstance(message, AIMessage) else None
    if stop == "refusal":
        raise ReplyError(f"the model declined: {shortened(text)}")
    if stop == "length":
        # Told what is wrong with a reply that never ends, a model writes another such.
        raise ReplyError(cut_off(message))
    return text


def cut_off(message: BaseMessage) -> str:
    """Return the message about a reply cut off at the limit of output tokens."""
    usage = message.usage_metadata if isinstance(message, AIMessage) else None
    after = f" after {usage['output_tokens']} tokens" if usage is not None else ""
    limit = message.response_metadata.get(LIMIT, OF_THE_MODEL)
    return (
        f"the reply was cut off{after}: the model runs on without an end, or needs more ({limit})"
    )


def shortened(text: str) -> str:
    """Return ``text`` on one line, cut short for an error message."""
    return cut_short(" ".join(text.split()), _SHOWN)


def tool_of(prompt: Prompt) -> dict[str, Any]:
    """Return the tool of ``prompt`` in OpenAI's form."""
    function = {
        "name": prompt.tool,
        "description": prompt.tool_description,
        "parameters": prompt.output,
    }
    return {"type": "function", "function": function}


async def ask_for(
    chat: BaseChatModel,
    messages: Sequence[BaseMessage],
    tool: Mapping[str, Any],
    read: Callable[[Mapping[str, Any]], T],
) -> ParsedReply[T]:
    """Return ``read`` of the arguments with which the model calls ``tool``.

    A model without tools may write the same as JSON. ``read`` raises ``ValueError`` for what
    cannot be; the model is told so and asked once more. Raises ``ReplyError`` if that fails too,
    and what the model's calls raise.
    """
    name = str(tool["function"]["name"])
    # A chat model class without bind_tools has no tools.
    takes_tools = type(chat).bind_tools is not BaseChatModel.bind_tools
    asked = chat.bind_tools([dict(tool)], tool_choice=name) if takes_tools else chat
    said_so_far = list(messages)
    problem = ""
    while True:
        reply = await asked.ainvoke(said_so_far)
        try:
            return ParsedReply(read(_arguments(reply, name)), problem)
        except ValueError as error:
            if problem:
                raise ReplyError(
                    f"{name_of(chat)} gave nothing usable, even when told what was wrong: "
                    f"{shortened(str(error))}"
                ) from error
            problem = shortened(str(error)) or "it cannot be read"
        said_so_far += [reply, *answers_to(reply, f"{problem}\n{_MEND}")]


def _arguments(message: BaseMessage, tool: str) -> Mapping[str, Any]:
    text = reply_text(message)
    texts = [text]
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            if call["name"] == tool:
                return call["args"]
        broken = [call["args"] for call in message.invalid_tool_calls if call["name"] == tool]
        texts = [*filter(None, broken), text]
    for found in (best_object(one, None) for one in texts):
        if found is not None:
            return found
    raise ValueError(f"no call of {tool} and no JSON object, but: {text or 'nothing'}")


def answers_to(message: BaseMessage, text: str) -> list[BaseMessage]:
    """Return ``text`` as what follows a reply: an answer to each of its tool calls, if it has any.

    Providers refuse a conversation in which a call has no answer of its own.
    """
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    answers: list[BaseMessage] = [
        ToolMessage(text, tool_call_id=call["id"] or call["name"], status="error") for call in calls
    ]
    return answers or [HumanMessage(text)]
