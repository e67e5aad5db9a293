"""Replies of chat models: collected from streams or whole bodies, and read alike for all providers.

A client fills a :class:`RawCompletion` with what its wire format holds; :func:`completion_of` makes
the completion of it: thoughts cut, the wanted object found, refusals, cuts and empty replies told.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from scenewright.core.validation import cut_short, mapping_of
from scenewright.providers.clients.base import (
    Completion,
    CompletionRequest,
    MalformedReply,
    OutputSchema,
    Stop,
    Token,
    ToolCall,
)
from scenewright.providers.clients.errors import StatusError, error_codes
from scenewright.providers.error_bodies import silently_cut
from scenewright.providers.replies import (
    answer_of,
    best_object,
    page_problem,
    repeats,
    status_inside,
)
from scenewright.providers.retry import UnusableReply
from scenewright.providers.usage import Usage

_SHOWN = 200
_SEARCHED = 4096
"""Last characters of a growing reply that are searched for repetition."""
_LOOKED_AT = 128
"""New characters of a growing reply after which it is searched for repetition."""
CHARACTERS_PER_TOKEN = 16
"""Characters of a reply per token of its limit beyond which the server keeps no limit."""


@dataclass(slots=True)
class RawCall:
    """A tool call as it comes, its arguments as text or as an object."""

    id: str = ""
    name: str = ""
    text: str = ""
    arguments: Mapping[str, Any] | None = None
    signature: str = ""


@dataclass(slots=True)
class RawCompletion:
    """A reply before it is read."""

    parts: list[str] = field(default_factory=list)
    """Texts of the answer."""
    thoughts: list[str] = field(default_factory=list)
    """Texts of a field of its own for reasoning."""
    calls: dict[object, RawCall] = field(default_factory=dict)
    """Tool calls by their place."""
    ended: str = ""
    """The provider's word for why it ended."""
    cut: bool = False
    """Whether it ended at the limit of output tokens."""
    refusal: str | None = None
    """Words of a refusal, which may be empty; None: no refusal."""
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    request_id: str = ""
    tokens: list[Token] = field(default_factory=list)
    signature: str = ""
    limit: int = 0
    """Most output tokens that were asked for; 0: none."""
    watching: bool = True
    """Whether the reply is still growing, so that it may be stopped."""
    streamed: bool = True
    """Whether it comes part by part."""
    _seen: int = 0
    _length: int = 0

    @property
    def text(self) -> str:
        """The answer's text."""
        return "".join(self.parts)

    def thoughts_beside(self, answer: str) -> int:
        """Return the characters of thoughts, in the text and in a field of their own."""
        in_text = max(0, len(self.text.strip()) - len(answer.strip()))
        return in_text + sum(map(len, self.thoughts))

    def grow(self, kind: list[str], text: str) -> None:
        """Append ``text`` to ``kind`` (:attr:`parts` or :attr:`thoughts`).

        Raises ``UnusableReply`` where the reply repeats itself without an end, or is far longer
        than the limit that the server was given.
        """
        kind.append(text)
        self.watch(kind, len(text))

    def watch(self, kind: list[str], length: int) -> None:
        """Search a growing reply for repetition, now and then."""
        self._length += length
        if not self.watching or self._length - self._seen < _LOOKED_AT:
            return
        self._seen = self._length
        problem = repeats("".join(kind)[-_SEARCHED:])
        if problem:
            raise UnusableReply(
                f"the model repeats itself ({problem}): the reply was stopped after "
                f"{self._length} characters",
                self.usage,
                retry=False,
            )
        if self.limit and self._length > self.limit * CHARACTERS_PER_TOKEN:
            raise UnusableReply(
                f"the server keeps no limit of output tokens: the reply was stopped after "
                f"{self._length} characters, {self.limit} tokens were asked for",
                self.usage,
                retry=False,
            )


def completion_of(raw: RawCompletion, request: CompletionRequest, *, logprobs: bool) -> Completion:
    """Return the completion of a reply; ``logprobs``: token probabilities were requested.

    Raises ``UnusableReply`` for an empty reply or a tool call that cannot be read, unless it was
    cut off, and ``MalformedReply`` for a tool call without a name.
    """
    told: dict[str, Any] = {
        "usage": raw.usage,
        "ended": raw.ended,
        "model": raw.model,
        "request_id": raw.request_id,
        "signature": raw.signature,
    }
    if raw.refusal is not None:
        return Completion(raw.refusal.strip() or raw.text.strip(), "refusal", **told)
    wanted = request.output if isinstance(request.output, OutputSchema) else None
    schema = None if wanted is None else wanted.schema
    asked = sum(len(message.text) for message in request.messages)
    if problem := silently_cut(raw.usage.tokens_in or None, asked):
        raise UnusableReply(problem, raw.usage, retry=False)
    text, problem = answer_of(raw.text, "".join(raw.thoughts), schema)
    told |= {"streamed": raw.streamed, "thoughts": raw.thoughts_beside(text)}
    found = list(raw.calls.values())
    data: Mapping[str, Any] | None = None
    calls: list[ToolCall] = []
    called = False
    if wanted is not None:
        filled = next((call for call in found if call.name == wanted.name), None)
        if filled is not None:
            # A server that cannot force a tool lets the model write the same as text.
            data = filled.arguments or _object_of(filled.text, schema)
            text = text if data is not None else filled.text or text
        else:
            data = _object_of(text, schema)
        called = filled is not None
    else:
        calls = [_call(call, raw) for call in found]
    if not text.strip() and not calls and data is None and not raw.cut:
        if not raw.text.strip() and not raw.thoughts:
            problem = f"empty reply (it ended by {raw.ended or 'nothing'})"
        # A model that thinks instead of answering does so again.
        raise UnusableReply(problem, raw.usage, retry=not raw.thoughts)
    stop: Stop = "length" if raw.cut else "tools" if calls else "end"
    return Completion(
        text, stop, calls=tuple(calls), data=data, called=called, tokens=tuple(raw.tokens),
        logprobs_requested=logprobs, **told,
    )  # fmt: skip


def _object_of(text: str, schema: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the wanted object of ``text``; one with NaN is left to its reader."""
    found = best_object(text, schema)
    if found is None and ("NaN" in text or "Infinity" in text):
        with suppress(ValueError, RecursionError):
            loose = json.loads(text)
            return loose if isinstance(loose, Mapping) else None
    return found


def _call(call: RawCall, raw: RawCompletion) -> ToolCall:
    if not call.name:
        raise MalformedReply("a tool call without a name")
    arguments = call.arguments
    if arguments is None:
        arguments = best_object(call.text, None) if call.text.strip() else {}
    if arguments is None:
        if raw.cut:
            # Its text was cut as well: the reply as a whole is told as cut off.
            arguments = {}
        else:
            broken = cut_short(f"{call.name}({call.text})", _SHOWN)
            raise UnusableReply(f"a tool call that cannot be read: {broken}", raw.usage)
    return ToolCall(call.id, call.name, dict(arguments), call.signature)


class StreamedResponse(Protocol):
    """The part of an SDK's raw response that is read here."""

    @property
    def headers(self) -> Any: ...

    async def read(self) -> bytes: ...

    def iter_lines(self) -> AsyncIterator[str]: ...


async def events_of(response: StreamedResponse, place: str) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the JSON objects of a stream of server-sent events, or a whole body as the only one.

    Servers that know no streams answer whole. ``place``: the address, for messages. Raises
    ``StatusError`` for an error inside, ``MalformedReply`` for what is no JSON object.
    """
    kind = str(response.headers.get("content-type", "")).lower()
    if not is_stream(response):
        body = await response.read()
        problem = page_problem(kind, body, place)
        if problem:
            raise MalformedReply(problem)
        yield _object(body.decode("utf-8", "replace"), "")
        return
    name, data = "", ""
    async for line in response.iter_lines():
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data = f"{data}\n{line[5:].lstrip()}" if data else line[5:].lstrip()
        elif not line.strip() and data:
            if data.strip() == "[DONE]":
                return
            yield _object(data, name)
            name, data = "", ""
    if data and data.strip() != "[DONE]":
        yield _object(data, name)


def is_stream(response: StreamedResponse) -> bool:
    """Return whether a response is a stream of server-sent events."""
    return "event-stream" in str(response.headers.get("content-type", "")).lower()


def _object(text: str, name: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise MalformedReply(f"no JSON: {cut_short(text, 80)!r}") from None
    if not isinstance(found, Mapping):
        raise MalformedReply(f"no JSON object: {cut_short(text, 80)!r}")
    kind = name or text_of(found.get("type"))
    failed = kind == "response.failed"
    told = mapping_of(found.get("response")) if failed else found
    # An event's other members, such as the message that begins, are no error.
    if kind and kind != "error" and not told.get("error"):
        return found
    error = mapping_of(told.get("error")) or told
    codes = error_codes(error)
    inside = status_inside(told)
    if inside is not None:
        raise StatusError(*inside, codes=codes)
    if failed or kind == "error":
        message = text_of(error.get("message")) or cut_short(text, _SHOWN)
        raise StatusError(500, message, codes=codes)
    return found


def text_of(value: object) -> str:
    """Return ``value`` where it is text; servers send null and other types in its place."""
    return value if isinstance(value, str) else ""


def count_of(value: object) -> int:
    """Return ``value`` where it counts tokens, else 0; some servers send whole floats."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 < value < math.inf and value == value // 1 else 0
