"""Object realism by a multimodal language model, in the eight strategies of Liang et al.

Sec. 4.1 and 4.2: {zero-shot, few-shot} × {``img``, ``crop``} × {``base``, ``s5``}. One call an
object asks for shape, texture and both together.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from PIL import Image

from scenewright.agents.chat.language_replies import as_data, ask_for, digest_of, name_of, tool_of
from scenewright.agents.judges.pictures import ImagePreparation
from scenewright.core.error_text import error_text
from scenewright.core.images import load_image
from scenewright.core.ports.vision import (
    HIGHEST,
    LOWEST,
    Detection,
    ObjectRealism,
    RealismError,
)
from scenewright.prompts import Prompt, load_prompt
from scenewright.providers.usage import metered
from scenewright.tools.vision.concurrency import map_bounded
from scenewright.tools.vision.picture_chat import PictureChat
from scenewright.tools.vision.realism.examples import Example, Examples
from scenewright.tools.vision.realism.object_views import (
    LEAST_SIDE,
    VIEW_WORDS,
    VIEWS,
    View,
    view_of,
)

Wording = Literal["base", "s5"]
PROMPTS: dict[Wording, str] = {"base": "rate_object_base", "s5": "rate_object_s5"}
"""Wording → prompt."""
_FIELDS = ("shape", "texture", "overall")
_EXAMPLE_FAULTS = ("none", "some slight ones", "several", "many", "nearly everything")


@dataclass(frozen=True, slots=True)
class Strategy:
    """View and question of an object."""

    few_shot: bool
    """Whether rated examples come before the object."""
    view: View
    """The whole picture with the box drawn, or a crop."""
    wording: Wording
    """The annotators' question on a Likert scale, or the freer one, faults first and decimals."""

    @property
    def name(self) -> str:
        """``zero-shot-img-base`` and so on."""
        return f"{'few' if self.few_shot else 'zero'}-shot-{self.view}-{self.wording}"

    @property
    def prompt(self) -> Prompt:
        """The question."""
        return load_prompt(PROMPTS[self.wording])


_WORDINGS: tuple[Wording, ...] = ("base", "s5")
STRATEGIES: dict[str, Strategy] = {
    found.name: found
    for few_shot in (False, True)
    for view in VIEWS
    for wording in _WORDINGS
    for found in [Strategy(few_shot, view, wording)]
}
"""The eight strategies by name."""


@dataclass(frozen=True)
class VlmScorer:
    """Implements :class:`~scenewright.core.ports.vision.RealismScorer`.

    Examples go as earlier turns of the conversation: a view, then its rating as the model would
    have given it. They are written as words, not as calls of the tool, because every provider takes
    those from a conversation that it did not have.
    """

    chat: BaseChatModel
    """The language model; it must take images."""
    strategy: Strategy = STRATEGIES["zero-shot-img-base"]
    """View and question of an object."""
    examples: Examples | None = None
    """Source of few-shot examples."""
    preparation: ImagePreparation = field(default_factory=ImagePreparation)
    """Preparation of each view before it is sent."""
    concurrent: int = 8
    """Most calls under way at once."""

    def __post_init__(self) -> None:
        """Check that few shots have their examples, and zero shots none."""
        if self.strategy.few_shot and self.examples is None:
            raise RealismError(f"the strategy {self.strategy.name} needs examples: give some")
        if not self.strategy.few_shot and self.examples is not None:
            raise RealismError(
                f"the strategy {self.strategy.name} takes no examples: use a few-shot one"
            )

    @property
    def id(self) -> str:
        """``vlm:``, the model and the strategy."""
        return f"vlm:{name_of(self.chat)}:{self.strategy.name}"

    @cached_property
    def fingerprint(self) -> str:
        """Model and its settings, strategy, prompt, view, examples, and the images' preparation."""
        digest = digest_of(
            self.chat,
            self.strategy.prompt.hash,
            VIEW_WORDS[self.strategy.view],
            str(LEAST_SIDE),
            self.examples.digest if self.examples else "",
            repr(self.preparation),
        )
        return f"vlm realism@1 {name_of(self.chat)} {self.strategy.name}#{digest}"

    async def score(self, image: Image.Image, objects: Sequence[Detection]) -> list[ObjectRealism]:
        """As the port says; every object is a call of its own."""
        return await map_bounded(partial(self._score_one, image), objects, self.concurrent)

    async def aclose(self) -> None:
        """Close the model's connections where it has some."""
        close = getattr(self.chat, "aclose", None)
        if close is not None:
            await close()

    async def _score_one(self, image: Image.Image, item: Detection) -> ObjectRealism:
        started = time.perf_counter()
        scores: Mapping[str, float] = {}
        reason = ""
        with metered() as spent:
            try:
                turns: list[BaseMessage] = []
                if self.examples is not None:
                    for example in self.examples.of(item.name).objects:
                        shown = await asyncio.to_thread(load_image, example.picture)
                        turns.append(await self._question(shown, example.detection))
                        reply = example_reply(example, self.strategy.wording)
                        turns.append(AIMessage(json.dumps(reply)))
                turns.append(await self._question(image, item))
                tool = tool_of(self.strategy.prompt)
                scores = (await ask_for(self.chat, turns, tool, read_scores)).value
            except Exception as error:
                # A call that fails costs its object, not the others.
                reason = error_text(error)
        return ObjectRealism(
            shape=scores.get("shape"),
            texture=scores.get("texture"),
            joint=scores.get("overall"),
            reason=reason,
            tokens_in=spent.usage.tokens_in,
            tokens_out=spent.usage.tokens_out,
            usd=spent.usd,
            seconds=spent.seconds if spent.calls else time.perf_counter() - started,
        )

    async def _question(self, image: Image.Image, item: Detection) -> HumanMessage:
        view = self.strategy.view
        shown = await asyncio.to_thread(view_of, image, item.box, view)
        text = self.strategy.prompt.render(category=as_data(item.name), view=VIEW_WORDS[view])
        return await PictureChat(self.chat, self.preparation).message(text, shown)


def example_reply(example: Example, wording: Wording) -> dict[str, Any]:
    """Return the reply of a model that rates ``example`` right.

    Whole numbers for ``base``, as its scale asks; decimals and the number of faults in general
    words for ``s5``.
    """
    scores = (example.shape, example.texture, example.joint)
    if wording == "base":
        return {name: int(score + 0.5) for name, score in zip(_FIELDS, scores, strict=True)}
    faults = _EXAMPLE_FAULTS[int(HIGHEST) - int(example.joint + 0.5)]
    return {
        "faults": faults,
        **{name: round(score, 2) for name, score in zip(_FIELDS, scores, strict=True)},
    }


def read_scores(data: Mapping[str, Any]) -> dict[str, float]:
    """``shape``, ``texture`` and ``overall`` of a reply, each from 1 to 5.

    Raises ``ValueError`` for one that is missing, no number, or out of range.
    """
    found: dict[str, float] = {}
    for name in _FIELDS:
        given = data.get(name)
        try:
            score = float(given) if isinstance(given, int | float | str) else float("nan")
        except ValueError:
            score = float("nan")
        # Of nan both comparisons are false.
        if isinstance(given, bool) or not LOWEST <= score <= HIGHEST:
            raise ValueError(f"{name}: write a number from {LOWEST:g} to {HIGHEST:g}")
        found[name] = score
    return found
