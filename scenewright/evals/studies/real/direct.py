"""GPT Score, REAL's baseline: a model that sees the schema gives the picture its points itself.

The same knowledge without the questions (REAL, Sec. 4.3). The points are divided by the number of
attributes, so that pictures of different classes can be compared.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import HumanMessage
from PIL import Image

from scenewright.agents.chat.language_replies import ask_for, tool_of
from scenewright.agents.judges.pictures import ImagePreparation, prepare
from scenewright.core.images import hash_of_image
from scenewright.evals.annotation.panel_queries import after, reason_of, tries_of
from scenewright.evals.annotation.voters import TextModel
from scenewright.evals.store.ledger import Ledger, Reply
from scenewright.evals.studies.real.schema import AttributeSchema
from scenewright.prompts import load_prompt
from scenewright.providers.sdk_clients import identified
from scenewright.providers.usage import metered

PROMPT = "real_direct"
_KIND = "direct"


@dataclass(frozen=True, slots=True)
class DirectScore:
    """What a model gave a picture."""

    value: float | None
    """Points divided by attributes, in [0, 1]; None with :attr:`reason`."""
    points: int | None
    """Its points."""
    reason: str = ""
    """Why there are none."""
    usd: float = 0.0
    """Dollars."""
    tokens: int = 0
    """Tokens in and out."""
    seconds: float = 0.0
    """Wall time of the call."""


@dataclass(frozen=True)
class DirectScorer:
    """Asks one model for the points of pictures; replies are kept."""

    model: TextModel
    """The model; it must take images."""
    ledger: Ledger
    """Where replies are kept."""
    preparation: ImagePreparation = field(default_factory=ImagePreparation)
    """What is done to a picture before it is sent."""

    async def score(
        self, image: Image.Image, schema: AttributeSchema, *, retry: bool = False
    ) -> DirectScore:
        """The score of ``image`` as one of the class; ``retry``: ask again where it failed before.

        Never raises for what the model does. ``AnnotationError`` if the ledger fails,
        ``ImageError`` for a picture that cannot be sent.
        """
        most = len(schema.attributes)
        prompt = load_prompt(PROMPT)
        text = prompt.render(name=schema.name, description=description_of(schema))
        told = (_KIND, self.model.fingerprint, prompt.hash, text, repr(self.preparation))
        key = hashlib.sha256("\0".join((*told, hash_of_image(image))).encode()).hexdigest()
        reply = self.ledger.get(key)
        if reply is None or (reply.state == "failed" and retry):
            shown = (await prepare(image, self.preparation)).block
            message = HumanMessage(content=[shown, {"type": "text", "text": text}])
            reply = await self._ask(key, message, most, reply)
            self.ledger.put(reply)
        points = reply.data if reply.state == "done" else None
        return DirectScore(
            None if points is None else points / most,
            points,
            reply.reason,
            reply.usd,
            reply.tokens_in + reply.tokens_out,
            reply.seconds,
        )

    async def _ask(self, key: str, message: HumanMessage, most: int, before: Reply | None) -> Reply:
        points, reason = None, ""
        tool = tool_of(load_prompt(PROMPT))
        started = time.perf_counter()
        with metered() as spent, identified(f"{_KIND}:{key}:{tries_of(before)}"):
            try:
                points = (
                    await ask_for(
                        self.model.chat, [message], tool, lambda given: read_points(given, most)
                    )
                ).value
            # Whatever a model's reply or library does costs this reply and no other.
            except Exception as error:
                reason = reason_of(error)
        usage = spent.usage
        reply = Reply(
            key,
            _KIND,
            self.model.name,
            "failed" if reason else "done",
            reason,
            points,
            usage.tokens_in,
            usage.tokens_out,
            spent.usd,
            time.perf_counter() - started,
        )
        return after(before, reply)


def read_points(given: Mapping[str, Any], most: int) -> int:
    """The points of a reply; ``ValueError`` for anything but a whole number from 0 to ``most``."""
    points = given.get("score")
    if isinstance(points, float) and points.is_integer():
        points = int(points)
    if isinstance(points, bool) or not isinstance(points, int) or not 0 <= points <= most:
        raise ValueError(f"score is {points!r}: there are {most} attributes, of one point each")
    return points


def description_of(schema: AttributeSchema) -> str:
    """The knowledge as the prompt gives it: ``bill: hooked; legs: red``."""
    return "; ".join(attribute.statement for attribute in schema.attributes)
