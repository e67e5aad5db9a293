"""What clients' tests ask: a conversation, tools, a schema, and what is read of a reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scenewright.providers.clients.base import (
    Completion,
    CompletionRequest,
    Message,
    OutputSchema,
    Picture,
    Tools,
)
from scenewright.providers.clients.reading import RawCompletion, completion_of

LOOK: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look.",
        "parameters": {"type": "object", "properties": {"where": {"type": "string"}}},
    },
}
FORCED = Tools((LOOK,), "=look")
SHEET = OutputSchema("report", {"type": "object", "required": ["a"]})
DOG = Message("user", ("dog",))
PICTURE = Picture(b"a file", "image/png")
PICTURE_BASE64 = "YSBmaWxl"


def asked(output: OutputSchema | Tools | None = None, *messages: Message) -> CompletionRequest:
    return CompletionRequest(messages or (DOG,), output)


def read(
    add: Callable[[RawCompletion, Mapping[str, Any]], bool],
    events: Sequence[Mapping[str, Any]],
    output: OutputSchema | Tools | None = None,
) -> Completion:
    """The completion of a reply that came in ``events``, of which the last is not left out."""
    raw = RawCompletion()
    assert any([add(raw, event) for event in events])
    return completion_of(raw, asked(output), logprobs=False)
