"""How one provider's decision model is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from scenewright.agents.judges.calling import Endpoint
from scenewright.agents.judges.decisions.asking import Question
from scenewright.agents.judges.decisions.reading import DecisionReading
from scenewright.agents.judges.pictures import PreparedImage


@dataclass(frozen=True, slots=True)
class WireReply:
    """An answer with HTTP status 200, as it came."""

    text: str
    """The body."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers, in lower case."""


class DecisionWire(Endpoint, Protocol):
    """A pure ``build``, one await, a pure ``read``."""

    def build(self, picture: PreparedImage, questions: Sequence[Question]) -> Any:
        """The request as data: the picture first, so that prefixes are alike. Pure."""
        ...

    async def send(self, request: Any) -> Any:
        """One attempt: the provider's reply. Raises what its client raises."""
        ...

    def read(self, response: Any, questions: Sequence[Question]) -> DecisionReading:
        """What the reply says of each question. Pure.

        Raises ``UnusableReply`` where the whole request was refused, ``MalformedReply`` for what is
        no reply of the provider.
        """
        ...
