"""Object realism by a multimodal language model, in the eight strategies of Liang et al.

Sec. 4.1 and 4.2: {zero-shot, few-shot} × {``img``, ``crop``} × {``base``, ``s5``}. One call an
object asks for shape, texture and both together.

How far scores of realism are from people's, as the paper counts (Liang et al., Sec. 4.1).

Rated objects as examples: few of each category, chosen to span the scale.

Examples drawn at random crowd around the average and bias a model towards it (Liang et al., Sec.
4.2); these are spread over the range of both scores.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from scenewright.agents.chat.language_replies import as_data, ask_for, digest_of, name_of, tool_of
from scenewright.agents.judges.pictures import ImagePreparation, prepare
from scenewright.core.error_text import error_text
from scenewright.core.images import load_image
from scenewright.core.ports.vision import (
    HIGHEST,
    LOWEST,
    Box,
    Detection,
    ObjectRealism,
    RealismError,
)
from scenewright.prompts import Prompt, load_prompt
from scenewright.providers.usage import metered
from scenewright.tools.vision.realism.pictures import LEAST_SIDE, VIEW_WORDS, VIEWS, View, view_of

Array = NDArray[np.float64]


def normalized_error(said: ArrayLike, wanted: ArrayLike) -> Array:
    """``|said − wanted| / 4`` for scores of 1 to 5: its mean is the paper's MAE."""
    found: Array = np.abs(np.asarray(said, np.float64) - np.asarray(wanted, np.float64))
    return found / (HIGHEST - LOWEST)


def realism_class(score: ArrayLike) -> Array:
    """Return the nearest of the classes 1 to 5; halves go up, as people round."""
    # A mean of five ratings such as 3.4999999 must not fall below its half by rounding error.
    near = np.floor(np.asarray(score, np.float64) + 0.5 + 1e-9)
    found: Array = np.clip(near, LOWEST, HIGHEST)
    return found


def same_class(said: ArrayLike, wanted: ArrayLike) -> Array:
    """1.0 where both fall into one class, else 0.0.

    Its mean is the paper's ACC. ``wanted`` is the mean of an object's raters.
    """
    found: Array = (realism_class(said) == realism_class(wanted)).astype(np.float64)
    return found


MOST = 5
"""Most examples of a category (Liang et al., Sec. 4.2)."""


class Rated(Protocol):
    """An object whose realism is known."""

    @property
    def id(self) -> str:
        """Unique among those it is given with."""
        ...

    @property
    def category(self) -> str:
        """Class label."""
        ...

    @property
    def shape(self) -> float:
        """Realism of its shape, 1 to 5."""
        ...

    @property
    def texture(self) -> float:
        """Realism of its texture, likewise."""
        ...


R = TypeVar("R", bound=Rated)


@dataclass(frozen=True, slots=True)
class Example:
    """A rated object that a scorer is shown, or is calibrated on."""

    id: str
    """Unique among the examples."""
    picture: Path
    """File of its picture."""
    category: str
    """Class label."""
    box: Box
    """Left, top, right, bottom in pixels of the picture."""
    shape: float
    """Realism of its shape, 1 to 5."""
    texture: float
    """Realism of its texture, likewise."""

    @property
    def joint(self) -> float:
        """The mean of both."""
        return (self.shape + self.texture) / 2

    @property
    def detection(self) -> Detection:
        """It as a scorer gets it."""
        return Detection(name=self.category, box=self.box)


@dataclass(frozen=True, slots=True)
class Spanning(Generic[R]):
    """Examples that were chosen for a category."""

    objects: tuple[R, ...]
    """In the order in which they were chosen: the least real one, the most real one, then each
    time the one farthest from all before."""
    note: str = ""
    """What could not be as it should: too few of the category; empty if nothing."""


def spanning_examples(objects: Sequence[R], category: str, count: int = MOST) -> Spanning[R]:
    """``count`` of ``objects`` of ``category`` that span the range of shape and texture scores.

    Greedy farthest points on the plane of (shape, texture), from the two ends of its diagonal on;
    ties go to the smaller id, so that the order of ``objects`` does not matter. Where the category
    has fewer objects, others fill up in the same way. Raises ``RealismError`` for no objects or a
    ``count`` below 1.
    """
    if count < 1:
        raise RealismError(f"{count} examples of a category: use 1 or more")
    if not objects:
        raise RealismError("there are no rated objects to take examples from: give a rated set")
    name = category.casefold()
    own = sorted((o for o in objects if o.category.casefold() == name), key=lambda o: o.id)
    chosen = _spread(own, [], count)
    if len(chosen) == count:
        return Spanning(tuple(chosen))
    others = sorted((o for o in objects if o.category.casefold() != name), key=lambda o: o.id)
    filled = _spread(others, chosen, count)
    note = f"{len(chosen)} of {count} examples are of the category {category!r}"
    if len(filled) > len(chosen):
        note += f", {len(filled) - len(chosen)} of others"
    return Spanning(tuple(filled), note)


def _spread(objects: Sequence[R], before: Sequence[R], count: int) -> list[R]:
    chosen, left = list(before), list(objects)
    while left and len(chosen) < count:
        if not chosen:
            found = min(left, key=lambda o: (o.shape + o.texture, o.id))
        elif len(chosen) == 1 and not before:
            found = min(left, key=lambda o: (-(o.shape + o.texture), o.id))
        else:
            found = min(left, key=lambda o: (-_nearest(o, chosen), o.id))
        chosen.append(found)
        left.remove(found)
    return chosen


def _nearest(one: Rated, chosen: Sequence[Rated]) -> float:
    """Squared distance to the nearest of ``chosen``."""
    return min((one.shape - o.shape) ** 2 + (one.texture - o.texture) ** 2 for o in chosen)


@dataclass(frozen=True)
class Examples:
    """Rated objects, of which each category gets its own few.

    Take them from the part that scorers are trained on: an example among the scored objects gives
    its answer away.
    """

    objects: tuple[Example, ...]
    """All that may be chosen from."""
    count: int = MOST
    """How many a category gets."""
    _chosen: dict[str, Spanning[Example]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Check that there are some."""
        if not self.objects or self.count < 1:
            raise RealismError(
                f"{self.count} examples a category of {len(self.objects)} rated objects: give at "
                "least one of each"
            )

    def of(self, category: str) -> Spanning[Example]:
        """Those for ``category``; see :func:`spanning_examples`."""
        key = category.casefold()
        if key not in self._chosen:
            self._chosen[key] = spanning_examples(self.objects, category, self.count)
        return self._chosen[key]

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be as it should, of the categories that were asked for so far."""
        return tuple(found.note for found in self._chosen.values() if found.note)

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories that there are examples of, in the order of the alphabet."""
        return tuple(sorted({one.category for one in self.objects}))

    @cached_property
    def digest(self) -> str:
        """Return 12 hex digits that change with any example of a known category.

        The bytes of its picture are included. Raises ``RealismError`` for a picture that cannot be
        read.
        """
        chosen = {one.id: one for category in self.categories for one in self.of(category).objects}
        ratings = sorted((o.id, o.category, o.box, o.shape, o.texture) for o in self.objects)
        try:
            files = {
                path: hashlib.sha256(path.read_bytes()).hexdigest()
                for path in {one.picture for one in chosen.values()}
            }
        except OSError as error:
            raise RealismError(f"the picture of an example cannot be read: {error}") from error
        pictures = sorted((id_, files[one.picture]) for id_, one in chosen.items())
        text = json.dumps([self.count, ratings, pictures])
        return hashlib.sha256(text.encode()).hexdigest()[:12]


Wording = Literal["base", "s5"]
PROMPTS: dict[Wording, str] = {"base": "rate_object_base", "s5": "rate_object_s5"}
"""Wording → prompt."""
_FIELDS = ("shape", "texture", "overall")
_EXAMPLE_FAULTS = ("none", "some slight ones", "several", "many", "nearly everything")


@dataclass(frozen=True, slots=True)
class Strategy:
    """What a model is shown and asked."""

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
    """What it is shown and asked."""
    examples: Examples | None = None
    """Where few-shot examples come from."""
    preparation: ImagePreparation = field(default_factory=ImagePreparation)
    """What is done to each view before it is sent."""
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
        turn = asyncio.Semaphore(max(1, self.concurrent))

        async def one(item: Detection) -> ObjectRealism:
            async with turn:
                return await self._scored(image, item)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in objects]
        return [task.result() for task in tasks]

    async def aclose(self) -> None:
        """Close the model's connections where it has some."""
        close = getattr(self.chat, "aclose", None)
        if close is not None:
            await close()

    async def _scored(self, image: Image.Image, item: Detection) -> ObjectRealism:
        started = time.perf_counter()
        scores: Mapping[str, float] = {}
        reason = ""
        with metered() as spent:
            try:
                scores = await self._asked(image, item)
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

    async def _asked(self, image: Image.Image, item: Detection) -> Mapping[str, float]:
        said: list[BaseMessage] = []
        if self.examples is not None:
            for example in self.examples.of(item.name).objects:
                shown = await asyncio.to_thread(load_image, example.picture)
                said.append(await self._question(shown, example.detection))
                said.append(AIMessage(json.dumps(example_reply(example, self.strategy.wording))))
        said.append(await self._question(image, item))
        tool = tool_of(self.strategy.prompt)
        return (await ask_for(self.chat, said, tool, read_scores)).value

    async def _question(self, image: Image.Image, item: Detection) -> HumanMessage:
        view = self.strategy.view
        shown = await asyncio.to_thread(view_of, image, item.box, view)
        text = self.strategy.prompt.render(category=as_data(item.name), view=VIEW_WORDS[view])
        picture = await prepare(shown, self.preparation)
        return HumanMessage(content=[picture.block, {"type": "text", "text": text}])


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
