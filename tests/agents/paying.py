"""A chat model that costs a cent a call."""

from __future__ import annotations

from typing import Any

from langchain_core.outputs import ChatResult

from scenewright.providers.usage import Usage, count
from tests.agents.replying import ReplyingChat

CENT = 0.01


class PayingChat(ReplyingChat):
    """Counts its calls as a provider's client does."""

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        count(Usage(100, 50), CENT, 0.1)
        return super()._generate(*args, **kwargs)

    def price(self, usage: Usage) -> float:
        """Return the dollars of a call."""
        return CENT
