"""Ways of servers that speak OpenAI's format and are not OpenAI's, as llama.cpp showed them.

A fault befalls some requests; a quirk is how a server always is, for all accounts or for one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from typing import Any

from scenewright.agents.chat.model import Tools
from scenewright.agents.judges.pictures import CHARACTERS_A_TOKEN
from scenewright.mock_providers.faults import MockError
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.wire import ModelReply, ModelRequest, Token


class Quirk(StrEnum):
    """A way of a server."""

    STRING_CHOICE = "string_choice"
    LOOSE_CHOICE = "loose_choice"
    NO_TOOLS = "no_tools"
    FENCED_TOKENS = "fenced_tokens"
    REFUSED_LOGPROBS = "refused_logprobs"
    NO_LOGPROBS = "no_logprobs"
    NO_PICTURES = "no_pictures"
    ENDLESS = "endless"


ABOUT: dict[Quirk, str] = {
    Quirk.STRING_CHOICE: "a tool_choice that names a tool gets a 400: only strings are understood",
    Quirk.LOOSE_CHOICE: "a tool_choice that names a tool is left aside, and nothing is called",
    Quirk.NO_TOOLS: "tools never reach the model: it answers in words, or by a JSON schema",
    Quirk.FENCED_TOKENS: "the tokens have a code fence around the JSON that the text lacks",
    Quirk.REFUSED_LOGPROBS: "a request for log-probabilities gets a 400",
    Quirk.NO_LOGPROBS: "log-probabilities are asked for in vain: replies hold none",
    Quirk.NO_PICTURES: "every request with a picture gets the same error 500",
    Quirk.ENDLESS: "the model says the same until the limit of output tokens cuts it off",
}
"""Quirk → what a client meets."""

_ROUND = "I'm so glad you're here. "
_MOST_TOKENS = 4096
_NO_PICTURES = (
    "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
)


def parse_quirks(names: Iterable[str]) -> frozenset[Quirk]:
    """Return the quirks of these names; ``MockError`` lists what there is."""
    try:
        return frozenset(Quirk(name.strip()) for name in names)
    except ValueError as error:
        raise MockError(f"{error}: there are {', '.join(Quirk)}") from None


class Quirks:
    """Which account meets which quirks."""

    def __init__(self, quirks: Iterable[Quirk] = ()) -> None:
        """``quirks`` hold for every account and are what :meth:`clear` goes back to."""
        self._given = frozenset(quirks)
        self._own: dict[str | None, frozenset[Quirk]] = {}
        self.clear()

    def order(self, quirk: Quirk, account: str | None = None) -> None:
        """Have every account, or one, meet ``quirk`` from now on."""
        self._own[account] = self._own.get(account, frozenset()) | {quirk}

    def clear(self) -> None:
        """Go back to the quirks that the mock server began with."""
        self._own = {None: self._given}

    def of(self, account: str) -> frozenset[Quirk]:
        """Return what the requests of ``account`` meet."""
        return self._own[None] | self._own.get(account, frozenset())

    def state(self) -> list[dict[str, Any]]:
        """Return what is met, for people."""
        return [
            {"kind": quirk.value, "key": account}
            for account, quirks in self._own.items()
            for quirk in sorted(quirks)
        ]


def apply_request_quirks(asked: ModelRequest, quirks: frozenset[Quirk]) -> ModelRequest:
    """Return the request as a server with these quirks understands it; raises ``Problem``."""
    if Quirk.NO_PICTURES in quirks and asked.images:
        raise Problem("server", 500, _NO_PICTURES)
    if Quirk.REFUSED_LOGPROBS in quirks and asked.alternatives is not None:
        # In the words of OpenAI; Gemini's are "Logprobs is not enabled for models/...".
        raise Problem.invalid(f"logprobs are not supported with {asked.model}.", "logprobs")
    if Quirk.NO_LOGPROBS in quirks:
        asked = replace(asked, alternatives=None)
    if Quirk.STRING_CHOICE in quirks and asked.forced:
        raise Problem.invalid("tool_choice: expected a string", "tool_choice")
    if Quirk.NO_TOOLS in quirks and asked.form == "tool":
        return _loosened(asked, tools=False)
    if Quirk.LOOSE_CHOICE in quirks and asked.forced:
        return _loosened(asked, tools=True)
    return asked


def _loosened(asked: ModelRequest, *, tools: bool) -> ModelRequest:
    """Return a request that forces nothing; with ``tools``, they are still there to be called."""
    left = replace(asked.turns.tools, choice="auto") if tools else Tools()
    turns = replace(asked.turns, tools=left)
    return replace(asked, form="text", tool="", forced=False, plain=True, turns=turns)


def apply_reply_quirks(
    said: ModelReply, asked: ModelRequest, quirks: frozenset[Quirk]
) -> ModelReply:
    """Return what a server with these quirks makes of an answer."""
    if Quirk.ENDLESS in quirks:
        length = (asked.max_tokens or _MOST_TOKENS) * CHARACTERS_A_TOKEN
        text = (_ROUND * (1 + length // len(_ROUND)))[:length]
        return ModelReply(text, {}, "length", calls=())
    if Quirk.FENCED_TOKENS in quirks and said.tokens is not None:
        before, after = ("\n", "```", "json", "\n"), ("\n", "```")
        return replace(said, tokens=(*map(_sure, before), *said.tokens, *map(_sure, after)))
    return said


def _sure(text: str) -> Token:
    return Token(text, ((text, 1.0),))
