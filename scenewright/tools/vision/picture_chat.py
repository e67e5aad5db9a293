"""Questions about pictures to a multimodal language model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from PIL import Image

from scenewright.agents.chat.language_replies import ask_for, digest_of, name_of, tool_of
from scenewright.agents.judges.pictures import ImagePreparation, prepare
from scenewright.prompts import Prompt

T = TypeVar("T")


@dataclass(frozen=True)
class PictureChat:
    """A language model that sees pictures and replies by calling a tool."""

    chat: BaseChatModel
    """The language model; it must take images."""
    preparation: ImagePreparation = field(default_factory=ImagePreparation)
    """Preparation of each view before it is sent."""

    def digest(self, *parts: str) -> str:
        """Return name and digest of the model with its settings, ``parts`` and preparation."""
        return f"{name_of(self.chat)}#{digest_of(self.chat, *parts, repr(self.preparation))}"

    async def message(self, text: str, *views: Image.Image) -> HumanMessage:
        """Return the message of ``views`` and ``text``."""
        blocks = [(await prepare(view, self.preparation)).block for view in views]
        return HumanMessage(content=[*blocks, {"type": "text", "text": text}])

    async def ask(
        self,
        prompt: Prompt,
        text: str,
        views: Sequence[Image.Image],
        read: Callable[[Mapping[str, Any]], T],
    ) -> T:
        """Return ``read`` of the arguments of the tool of ``prompt``; raises as ``ask_for``."""
        asked = await self.message(text, *views)
        return (await ask_for(self.chat, [asked], tool_of(prompt), read)).value
