"""Captions to scene graphs by a language model (Scene-Bench, Table 10)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from scenewright.agents.chat.language_replies import ask_for, digest_of, name_of, tool_of
from scenewright.agents.parsers.reading import read_graph
from scenewright.core.scene import SceneError, SceneGraph
from scenewright.prompts import load_prompt

CAPTION_PROMPT = "parse_caption"
MAX_CAPTION = 8000
"""Longest caption that is read, in characters."""


@dataclass(frozen=True)
class LanguageParser:
    """Reads captions with a language model that calls a tool with the graph."""

    chat: BaseChatModel
    """The language model."""

    @property
    def id(self) -> str:
        """``llm``."""
        return "llm"

    @cached_property
    def fingerprint(self) -> str:
        """Model and its settings, and the prompt."""
        return (
            f"llm@1 {name_of(self.chat)}#{digest_of(self.chat, load_prompt(CAPTION_PROMPT).hash)}"
        )

    async def parse(self, caption: str) -> SceneGraph:
        """The scene graph of ``caption``: every object, its attributes, the relations.

        A graph that cannot be is sent back once with what is wrong. Raises ``SceneError`` for an
        empty or endless caption, ``ReplyError`` where the model gives no graph, and what the
        model's calls raise.
        """
        text = caption.strip()
        if not text:
            raise SceneError("the caption is empty: write a sentence, for example 'a red ball'")
        if len(text) > MAX_CAPTION:
            raise SceneError(
                f"the caption has {len(text)} characters, the limit is {MAX_CAPTION}: shorten it"
            )
        prompt = load_prompt(CAPTION_PROMPT)
        # Between the quotes of the prompt, a quote must not end the sentence.
        quoted = json.dumps(text, ensure_ascii=False)[1:-1]
        asked = HumanMessage(prompt.render(input_sentence=quoted))
        return (await ask_for(self.chat, [asked], tool_of(prompt), read_graph)).value
