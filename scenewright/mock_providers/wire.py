"""Common parts of every provider's format.

A request read into one form, its conversation as LangChain's messages, an answer to put into words,
helpers to read JSON that may hold anything, and the variables of a prompt, read back from its text.
"""

from __future__ import annotations

import base64
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from scenewright.agents.judges.pictures import image_tokens
from scenewright.mock_providers.problems import Left, Problem, language, shaped
from scenewright.mock_providers.refusals import Place
from scenewright.mock_providers.streams import Event
from scenewright.prompts import load_prompt
from scenewright.providers.clients.base import Tools

Form = Literal["tool", "json", "text"]
Finish = Literal["stop", "length", "refusal", "malformed", "empty"]
MAX_ALTERNATIVES = 20
REFUSAL = "I'm sorry, but I can't help with identifying what is in this image."


@dataclass(frozen=True, slots=True)
class Turns:
    """The conversation so far, and the tools that may be called next."""

    messages: tuple[BaseMessage, ...]
    """In order."""
    tools: Tools
    """The tools and how they must be used."""
    as_text: bool = False
    """Whether the arguments of the one tool are wanted as JSON text: the request has a schema and
    no tools."""

    @property
    def last_text(self) -> str:
        """Lines of the last user message that has words; empty if there is none."""
        for message in reversed(self.messages):
            if isinstance(message, HumanMessage) and (text := text_of(message.content)):
                return text
        return ""

    @property
    def answers(self) -> list[ToolMessage]:
        """Answers of tools to the calls that the model made last."""
        found: list[ToolMessage] = []
        for message in reversed(self.messages):
            if isinstance(message, ToolMessage):
                found.insert(0, message)
            elif isinstance(message, AIMessage):
                break
        return found


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request, whichever provider's format it came in."""

    model: str
    """The model's name as given."""
    turns: Turns
    """The whole conversation with its tools."""
    text: str
    """Text of the last user message."""
    images: tuple[bytes, ...]
    """The files of all images, in order; the last one is looked at."""
    image_param: str | None
    """Place of the last image in the request."""
    characters: int
    """Length of all texts, the tools' and schemas' JSON included."""
    low_detail: bool = False
    """Whether the images are wanted at the provider's low resolution."""
    form: Form = "text"
    """Whether the answer is a tool call, JSON text or plain text."""
    tool: str = ""
    """Name of the tool to call."""
    forced: bool = False
    """Whether the request names the tool to call."""
    fields: frozenset[str] | None = None
    """Fields that the request's schema knows for one answer and beside them; none: all."""
    plain: bool = False
    """Whether the model is told of no form at all: it answers in words, to a sheet of questions
    too."""
    alternatives: int | None = None
    """Number of alternatives of each token; none: no log probabilities."""
    max_tokens: int | None = None
    """Most output tokens; none: no limit."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the answer's text."""

    text: str
    """The piece."""
    chances: tuple[tuple[str, float], ...]
    """Pieces that could stand here with their probabilities, this one first."""


@dataclass(frozen=True, slots=True)
class ToolInvocation:
    """A call of a tool."""

    name: str
    """The tool."""
    text: str
    """Its arguments as JSON, or what a fault made of them."""
    arguments: Mapping[str, Any] | None = None
    """Its arguments, where a format carries an object; none: they were cut off."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """Reply of a model."""

    text: str
    """Plain text or JSON text, which may stand beside calls."""
    finish: Finish = "stop"
    """Why it ended, or in what way it went wrong."""
    tokens: tuple[Token, ...] | None = None
    """The text in pieces, if log probabilities were asked for."""
    calls: tuple[ToolInvocation, ...] = ()
    """Tools that it calls."""

    def named_calls(self, id: str) -> list[tuple[str, ToolInvocation]]:
        """Return the calls, each with an id of its own."""
        return [(f"{id}{at}" if at else id, call) for at, call in enumerate(self.calls)]


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """Next reply of a script."""

    text: str = ""
    """Its words."""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Tools that it calls at once: name and arguments."""
    refused: bool = False
    """It declines, with :attr:`text`."""


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens of a request."""

    tokens_in: int
    """Input, images included."""
    image_tokens: int
    """Tokens of the images."""
    tokens_out: int
    """Output."""

    def values(self) -> dict[str, int]:
        """Return the figures that replies tell."""
        return {
            "tokens_in": self.tokens_in,
            "text_tokens": self.tokens_in - self.image_tokens,
            "image_tokens": self.image_tokens,
            "tokens_out": self.tokens_out,
            "total": self.tokens_in + self.tokens_out,
        }


class Format:
    """Base of all routes of one provider."""

    provider: str
    """The provider whose shapes and words are used."""
    place: Place
    """Place in the table of refusals."""
    image_rule: str
    """The provider's published rule of an image's tokens."""
    low_detail_tokens: int | None = None
    """Tokens of an image in low detail, whatever its size; none: as of any other."""
    error_name = ""
    """Name of the event of an error in the middle of a stream."""

    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """Tokens of an image of ``size``."""
        if low_detail and self.low_detail_tokens is not None:
            return self.low_detail_tokens
        return image_tokens(self.image_rule, *size)

    def shaped(self, name: str, spent: TokenCounts | None = None, /, **values: Any) -> Any:
        """Return a shape of the provider with ``values`` and the tokens that were ``spent``."""
        return shaped(self.provider, name, **(spent.values() if spent else {}), **values)

    def problem(self, problem: Problem, id: str) -> dict[str, Any]:
        """Return the body of an error."""
        return language(self.provider).body(problem, id)

    def headers(
        self, id: str, problem: Problem | None = None, limits: Sequence[Left] = ()
    ) -> dict[str, str]:
        """Headers of a response or an error."""
        return language(self.provider).headers_of(id, problem, limits)

    def error_event(self, problem: Problem, id: str) -> Event:
        """Return the event of an error in the middle of a stream."""
        return self.error_name, self.problem(problem, id)


class Wire(Format, ABC):
    """One provider's format of questions about an image and their answers."""

    @abstractmethod
    def read(self, body: dict[str, Any], model: str) -> ModelRequest:
        """Return the request; ``model`` is that of the address, if it stands there.

        Raises ``Problem`` for what cannot be read.
        """

    @abstractmethod
    def reply(self, asked: ModelRequest, said: ModelReply, spent: TokenCounts, id: str) -> Any:
        """Return the body of a response; ``id`` is 24 hexadecimal digits."""

    def streams(self, body: Mapping[str, Any]) -> bool:
        """Whether a request wants a stream; raises ``Problem``."""
        return body.get("stream") is True

    @abstractmethod
    def events(self, reply: dict[str, Any], body: Mapping[str, Any]) -> tuple[Event, ...]:
        """Return a reply as the events of a stream."""


def text_of(content: Any) -> str:
    """Return the text of a message's content, its parts as lines."""
    if isinstance(content, str):
        return content
    return "\n".join(str(block["text"]) for block in content if block["type"] == "text")


def as_object(value: object, param: str) -> dict[str, Any]:
    """``value`` if it is a JSON object; raises ``Problem``."""
    if not isinstance(value, dict):
        raise Problem.invalid(f"{param}: expected an object", param)
    return value


def as_list(value: object, param: str) -> list[Any]:
    """``value`` if it is a JSON array; raises ``Problem``."""
    if not isinstance(value, list):
        raise Problem.invalid(f"{param}: expected an array", param)
    return value


def objects(value: object, param: str, step: str = "[{}]") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a JSON array, each with its place; raises ``Problem``."""
    for at, entry in enumerate(as_list(value, param)):
        place = param + step.format(at)
        yield place, as_object(entry, place)


def as_text(value: object, param: str) -> str:
    """``value`` if it is a string; raises ``Problem``."""
    if not isinstance(value, str):
        raise Problem.invalid(f"{param}: expected a string", param)
    return value


def as_count(value: object, param: str, least: int, most: int | None = None) -> int | None:
    """``value`` if it is a whole number in range, none if there is none; raises ``Problem``."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise Problem.invalid(f"{param}: expected an integer of at least {least}", param)
    if most is not None and value > most:
        raise Problem.invalid(f"{param}: expected an integer of at most {most}", param)
    return value


def size_of(*values: object) -> int:
    """Characters of ``values`` as JSON, those left out not counted."""
    return sum(len(json.dumps(value)) for value in values if value)


def fields_of(schema: object) -> frozenset[str] | None:
    """Fields that a schema of the form ``{"answers".

    [{…}], …}`` knows for one answer and beside the answers; else none.
    """
    whole = schema.get("properties") if isinstance(schema, dict) else None
    inner = whole
    for step in ("answers", "items", "properties"):
        inner = inner.get(step) if isinstance(inner, dict) else None
    if not isinstance(whole, dict) or not isinstance(inner, dict) or not inner:
        return None
    return frozenset(map(str, inner)) | frozenset(map(str, whole)) - {"answers"}


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
