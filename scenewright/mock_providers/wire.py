"""Common parts of every provider's format.

A request read into one form, an answer to put into words, and helpers to read JSON that may hold
anything.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from scenewright.agents.judges.pictures import image_tokens
from scenewright.mock_providers.problems import Left, Problem, language
from scenewright.mock_providers.refusals import Place
from scenewright.mock_providers.shapes import shaped
from scenewright.mock_providers.streams import Event
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
