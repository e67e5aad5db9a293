"""What every provider's format has in common.

A request read into one form, an answer to put into words, and helpers to read JSON that may hold
anything.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from scenewright.agents.chat.model import Tools
from scenewright.mock_providers.problems import Problem

Form = Literal["tool", "json", "text"]
Finish = Literal["stop", "length", "refusal", "malformed", "empty"]
MAX_ALTERNATIVES = 20
REFUSAL = "I'm sorry, but I can't help with identifying what is in this image."


@dataclass(frozen=True, slots=True)
class Turns:
    """What was said so far, and the tools that may be called next."""

    messages: tuple[BaseMessage, ...]
    """In order."""
    tools: Tools
    """The tools and how they must be used."""
    as_text: bool = False
    """Whether the arguments of the one tool are wanted as JSON text: the request has a schema and
    no tools."""

    @property
    def last_text(self) -> str:
        """Text of the last user message; empty if there is none."""
        for message in reversed(self.messages):
            if isinstance(message, HumanMessage) and message.text:
                return str(message.text)
        return ""

    @property
    def answers(self) -> list[ToolMessage]:
        """What tools answered to the calls that the model made last."""
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
    """Where in the request the last image stands."""
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
    """How many alternatives each token comes with; none: no log probabilities."""
    max_tokens: int | None = None
    """Most output tokens; none: no limit."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the answer's text."""

    text: str
    """The piece."""
    chances: tuple[tuple[str, float], ...]
    """What could stand here and how probable it was, this piece first."""


@dataclass(frozen=True, slots=True)
class ToolInvocation:
    """A call of a tool."""

    name: str
    """The tool."""
    arguments: Mapping[str, Any]
    """Its arguments, where a format carries an object."""
    text: str
    """Its arguments as JSON, or what a fault made of them."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What a model answers."""

    text: str
    """Plain text, JSON text, or the arguments of the tool call as JSON."""
    arguments: Mapping[str, Any]
    """The arguments of the tool call, where a format carries an object."""
    finish: Finish = "stop"
    """Why it ended, or in what way it went wrong."""
    tokens: tuple[Token, ...] | None = None
    """The text in pieces, if log probabilities were asked for."""
    calls: tuple[ToolInvocation, ...] | None = None
    """Tools that a script calls beside its text; none: not a script's answer."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens of a request."""

    tokens_in: int
    """Input, images included."""
    image_tokens: int
    """Those of the images."""
    tokens_out: int
    """Output."""


class Format(Protocol):
    """What all routes of one provider share."""

    def problem(self, problem: Problem, id: str) -> dict[str, Any]:
        """Return the body of an error."""
        ...

    def headers(self, id: str, problem: Problem | None, account: Limits) -> dict[str, str]:
        """Headers of a response or an error."""
        ...


class Wire(Format, Protocol):
    """One provider's format of questions about an image and their answers."""

    def read(self, body: dict[str, Any], model: str) -> ModelRequest:
        """Return the request; ``model`` is that of the address, if it stands there.

        Raises ``Problem`` for what cannot be read.
        """
        ...

    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """Tokens of an image of ``size`` by the provider's published rule."""
        ...

    def reply(self, asked: ModelRequest, said: ModelReply, spent: Spent, id: str) -> Any:
        """Return the body of a response; ``id`` is 24 hexadecimal digits."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """What an account may still do, for headers."""

    requests: int | None
    """Requests a minute; none: no limit."""
    requests_left: int | None
    """How many are left."""
    tokens: int | None
    """Tokens a minute; none: no limit."""
    tokens_left: int | None
    """How many are left."""


def whole_seconds(seconds: float | None) -> int:
    """Seconds for a Retry-After: rounded up, at least 1."""
    return max(1, math.ceil(seconds or 0.0))


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


def no_streams(body: Mapping[str, Any]) -> None:
    """Raise ``Problem`` if the answer is wanted as a stream."""
    if body.get("stream"):
        raise Problem.invalid("the mock server does not stream: leave stream out", "stream")


def size_of(*values: object) -> int:
    """Characters of ``values`` as JSON, those left out not counted."""
    return sum(len(json.dumps(value)) for value in values if value)


def call_id(id: str, at: int) -> str:
    """Return the id of the ``at``-th call of a reply with the ``id``."""
    return f"{id}{at}" if at else id


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
