"""A conversation with tools, whichever provider's format it came in, as LangChain's messages.

What was put into a prompt: its variables, read back from the text of a request.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.wire import (
    Form,
    ModelRequest,
    Turns,
    as_object,
    as_text,
    fields_of,
    objects,
    size_of,
    text_of,
)
from scenewright.prompts import load_prompt
from scenewright.providers.clients.base import Tools

NO_ANSWER = "every call of a tool must be answered, at once, by a message with the call's id"
Block = dict[str, Any]
"""A text or an image, as LangChain's messages hold it."""
PartReaders = Mapping[str, "Callable[[Reading, Mapping[str, Any], str], Block]"]
"""Readers of the parts of a provider's messages, by their type."""


class Reading:
    """The conversation of a request while it is read, and what is counted of it."""

    def __init__(self, parts: PartReaders, step: str = "[{}]") -> None:
        """``parts``: readers of parts by their type; ``step``: how a place names an entry."""
        self.parts, self.step = parts, step
        self.messages: list[BaseMessage] = []
        """In order."""
        self.images: list[bytes] = []
        """The files of all images."""
        self.image_param: str | None = None
        """Place of the last of them."""
        self.low_detail = False
        """Whether one is wanted at low resolution."""
        self.characters = 0
        """Length of all texts and arguments."""

    def blocks(self, content: object, place: str) -> list[Block]:
        """Return the parts of a message, or its text; raises ``Problem``."""
        if content is None or content == "":
            return []
        if isinstance(content, str):
            return [self.words(content, place)]
        return [self.part(part, where) for where, part in objects(content, place, self.step)]

    def part(self, part: Mapping[str, Any], where: str) -> Block:
        """Return one part of a message; raises ``Problem``."""
        kind = part.get("type")
        reader = self.parts.get(kind) if isinstance(kind, str) else None
        if reader is None:
            raise Problem.invalid(f"{where}.type: the mock server knows no {kind!r}", where)
        return reader(self, part, where)

    def words(self, text: object, param: str) -> Block:
        """Return a text as LangChain's standard block; raises ``Problem`` if it is none."""
        said = as_text(text, param)
        self.characters += len(said)
        return {"type": "text", "text": said}

    def picture(self, data: bytes, param: str, *, low_detail: bool = False) -> Block:
        """Return an image as LangChain's standard block."""
        self.images.append(data)
        self.image_param = param
        self.low_detail = self.low_detail or low_detail
        encoded = base64.b64encode(data).decode()
        return {"type": "image", "base64": encoded, "mime_type": "image/png"}

    def call(self, id: object, name: object, arguments: object, param: str) -> ToolCall:
        """Return a call of a tool; ``arguments``: an object, or the JSON text of one."""
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except (ValueError, RecursionError):
                raise Problem.invalid(f"{param}: the arguments are not valid JSON", param) from None
        args = as_object(arguments, f"{param}.arguments")
        self.characters += size_of(args)
        return ToolCall(
            name=as_text(name, f"{param}.name"), args=args, id=as_text(id, f"{param}.id"),
            type="tool_call",
        )  # fmt: skip

    def system(self, blocks: Sequence[Block]) -> None:
        """Add a system message; pictures in it are left out."""
        self.messages.append(SystemMessage(content=text_of(blocks)))

    def user(self, blocks: Sequence[Block]) -> None:
        """Add a user message with its pictures."""
        self.messages.append(HumanMessage(content=_content(blocks)))

    def model(self, blocks: Sequence[Block], calls: Sequence[ToolCall] = ()) -> None:
        """Add a reply of the model and its calls."""
        self.messages.append(AIMessage(content=text_of(blocks), tool_calls=list(calls)))

    def answer(
        self, id: object, blocks: Sequence[Block], param: str, failed: bool = False, name: str = ""
    ) -> None:
        """Add a tool's result for the call ``id``."""
        message = ToolMessage(
            content=_content(blocks),
            tool_call_id=as_text(id, param),
            status="error" if failed else "success",
            name=name or None,
        )
        self.messages.append(message)

    def request(
        self,
        model: object,
        tools: Tools,
        *,
        images_in: str,
        as_json: bool = False,
        schema: object = None,
        tool_as_text: bool = False,
        counted: Sequence[object] = (),
        max_tokens: int | None = None,
        alternatives: int | None = None,
    ) -> ModelRequest:
        """Return what was read; raises ``Problem`` for a conversation that is not sound.

        ``images_in``: the field where images would stand. ``as_json``: JSON text is wanted, of
        ``schema`` if there is one; a tool goes before it. ``tool_as_text``:
        :attr:`~.wire.Turns.as_text`. ``counted``: further fields whose JSON counts as input.
        """
        turns = Turns(tuple(self.messages), tools, tool_as_text)
        if tools.named is not None and tools.named not in [f["name"] for f in tools.functions]:
            raise Problem.invalid(
                f"no tool {tools.named!r} among the tools of the request", "tool_choice"
            )
        waiting: set[str] = set()
        for at, message in enumerate(turns.messages):
            if isinstance(message, ToolMessage):
                if message.tool_call_id not in waiting:
                    raise Problem.invalid(
                        f"message {at} answers {message.tool_call_id!r}, which nobody called"
                    )
                waiting.discard(message.tool_call_id)
            elif waiting:
                break
            if isinstance(message, AIMessage):
                waiting = {str(call["id"]) for call in message.tool_calls}
        if waiting:
            raise Problem.invalid(f"{NO_ANSWER}: missing {', '.join(sorted(waiting))}")
        form: Form = "json" if as_json else "text"
        tool = ""
        if tools.schemas and tools.choice != "none" and not tool_as_text:
            functions = tools.functions
            named = next((f for f in functions if f["name"] == tools.named), functions[0])
            form, tool, schema = "tool", named["name"], named["parameters"]
        return ModelRequest(
            model=as_text(model, "model"),
            turns=turns,
            text=turns.last_text,
            images=tuple(self.images),
            image_param=self.image_param or images_in,
            characters=self.characters + size_of(*counted),
            low_detail=self.low_detail,
            form=form,
            tool=tool,
            forced=form == "tool" and tools.named is not None,
            fields=fields_of(schema),
            alternatives=alternatives,
            max_tokens=max_tokens,
        )


def text_part(reading: Reading, part: Mapping[str, Any], where: str) -> Block:
    """Return the text of a part."""
    return reading.words(part.get("text"), f"{where}.text")


def tool_schema(function: Mapping[str, Any], parameters: object, param: str) -> dict[str, Any]:
    """Return a tool in the form of :attr:`~scenewright.agents.chat.model.Tools.schemas`.

    Raises ``Problem`` if it has no name.
    """
    description = function.get("description")
    return {
        "type": "function",
        "function": {
            "name": as_text(function.get("name"), f"{param}.name"),
            "description": description if isinstance(description, str) else "",
            "parameters": parameters if isinstance(parameters, dict) else {"type": "object"},
        },
    }


def _content(blocks: Sequence[Block]) -> Any:
    if all(block["type"] == "text" for block in blocks):
        return text_of(blocks)
    return list(blocks)


_STRING = r'"(?:[^"\\]|\\.)*"'
_VARIABLE = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_REMINDER = load_prompt("retry").text.partition("{")[0]
"""Beginning of what follows a prompt that is sent again."""


def variables_of(prompt_id: str, turns: Turns, *, last: bool = False) -> dict[str, str]:
    """Return the values of the variables in the first user message that is ``prompt_id``.

    In the ``last`` one where earlier ones are examples. Later messages may say what was wrong with
    a reply. Raises ``Problem`` if no message is that prompt, word for word.
    """
    form = _form(prompt_id)
    for message in reversed(turns.messages) if last else turns.messages:
        prompt = str(message.text).partition(_REMINDER)[0]
        if isinstance(message, HumanMessage) and (found := form.search(prompt)):
            return {name: text.strip() for name, text in found.groupdict().items()}
    raise Problem.invalid(
        f"no user message is the prompt {prompt_id}: only its exact words are understood"
    )


@lru_cache(maxsize=16)
def _form(prompt_id: str) -> re.Pattern[str]:
    """Return the prompt's text, each variable a named group."""
    pieces = _VARIABLE.split(load_prompt(prompt_id).text)
    seen: set[str] = set()
    made = ""
    for at, piece in enumerate(pieces):
        if at % 2 == 0:
            # Providers' formats and callers may break lines elsewhere.
            made += r"\s+".join(re.escape(word) for word in re.split(r"\s+", piece))
        else:
            # A JSON string is one value, whatever spaces and words are in it.
            made += rf"(?P={piece})" if piece in seen else rf"(?P<{piece}>{_STRING}|.*?)"
            seen.add(piece)
    return re.compile(made + r"\s*\Z", re.DOTALL)


def listed(text: str) -> list[str]:
    """Return the words of a list in a prompt: JSON, or divided by commas."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        parts = text.strip("[](){} ").split(",")
        return [word for part in parts if (word := part.strip().strip("\"'`"))]
    return [str(one) for one in found] if isinstance(found, list) else [str(found)]


def entries(text: str) -> list[Mapping[str, Any]]:
    """Return the objects of a JSON list; raises ``Problem`` if it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise Problem.invalid("the numbered list of the prompt is not valid JSON list")
    return [entry for entry in found if isinstance(entry, dict)]
