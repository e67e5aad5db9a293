"""The text of a drawn scene by a language model, none of whose facts is lost.

The question is PSG-Bench's own (supplement A.3, prompt ``synthesize_prompt``). What comes back is
checked by rules; lost facts are named and the model is asked once more; what still lacks facts, or
could not be had at all, is worded by the rules, and the row says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from scenewright.agents.chat.language_replies import as_data, ask_for, shortened, tool_of
from scenewright.agents.composers.check import lost_facts
from scenewright.agents.composers.rules import word
from scenewright.agents.judges.pictures import character_tokens
from scenewright.agents.parsers.classes import EXAMPLES
from scenewright.core.formats import megasg
from scenewright.evals.datasets.psg_prompts.templates import Draw
from scenewright.prompts import load_prompt
from scenewright.providers.usage import Usage

PROMPT = "synthesize_prompt"
MAX_LENGTH = 2000
"""Longest text that is taken from a model, in characters."""
_TOKENS_OUT = 60
_OPENINGS = 3

Author = Literal["model", "model again", "rules"]


@dataclass(frozen=True, slots=True)
class Written:
    """A text, and how it came about."""

    text: str
    """The prompt."""
    author: Author
    """``model``: its first text says all; ``model again``: the second does; ``rules``: the rules
    worded it."""
    problem: str = ""
    """What was wrong with the model's first text, or why the rules worded it."""


def by_rules(drawn: Draw, problem: str = "") -> Written:
    """The text of the rules; ``problem``: why no model wrote it, if one should have."""
    turn = drawn.rng("opening").randrange(_OPENINGS)
    return Written(word(drawn.scene, drawn.said, turn), "rules", problem)


async def by_model(chat: BaseChatModel, drawn: Draw) -> Written:
    """The text of ``chat``, or the rules' where it gives none that says all. Never raises for what
    the model or its library does."""

    def read(given: Mapping[str, Any]) -> str:
        text = given.get("prompt")
        text = " ".join(text.split()) if isinstance(text, str) else ""
        if not text:
            raise ValueError("prompt is missing or no text")
        if len(text) > MAX_LENGTH:
            raise ValueError(f"it has {len(text)} characters, at most {MAX_LENGTH} are wanted")
        if lost := lost_facts(drawn.scene, text):
            facts = "; ".join(f"{fact.kind}: {fact.statement}" for fact in lost)
            raise ValueError(f"it does not say these facts of the scene graph: {facts}")
        return text

    prompt = load_prompt(PROMPT)
    asked = [HumanMessage(request_of(drawn))]
    try:
        found = await ask_for(chat, asked, tool_of(prompt), read)
    except Exception as error:
        # Whatever the model's library raises costs this text and no other.
        return by_rules(drawn, shortened(f"{type(error).__name__}: {error}"))
    return Written(found.value, "model again" if found.problem else "model", found.problem)


def request_of(drawn: Draw) -> str:
    """The paper's question about a drawn scene."""
    challenge = drawn.challenge
    if challenge == "NONE":
        said = "no challenge"
    else:
        said = f"the challenge {challenge} (such as: {EXAMPLES[challenge]})"
    graph = as_data(megasg.write(drawn.scene))
    return load_prompt(PROMPT).render(template=graph, challenge=said)


def expected(drawn: Draw) -> Usage:
    """Tokens of one call, by a quarter of the characters; a text that is asked for twice costs
    twice as much."""
    schema = len(str(load_prompt(PROMPT).output))
    tokens = character_tokens(len(request_of(drawn)) + schema)
    return Usage(tokens, _TOKENS_OUT + character_tokens(len(by_rules(drawn).text)))
