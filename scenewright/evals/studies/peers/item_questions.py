"""What a metric of questions asks about an item: its own questions, a model's, or its scene's.

The choice (``auto``): questions that the set brings, whichever metric they were written for; else
those that a language model writes about the item's text, where one is named; else the facts of its
scene. What an item is asked is the same for all of its pictures.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args
from weakref import WeakValueDictionary

from scenewright.core.facts import Fact
from scenewright.core.predicate_statistics import DEFAULT
from scenewright.core.questions import PROTOCOLS, QuestionForm
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets.base import Item
from scenewright.evals.metrics.base import MetricError, Sample
from scenewright.evals.metrics.options import text
from scenewright.providers.usage import ExpectedUsage

if TYPE_CHECKING:
    from scenewright.evals.store.ledger import Ledger

Source = Literal["auto", "item", "chat", "scene"]
SOURCES: tuple[Source, ...] = get_args(Source)
TYPICAL = 8
"""Questions about a text, where a plan has to guess: DSG-1k has 7.7 a prompt."""
_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class ItemQuestions:
    """What is asked about an item."""

    facts: tuple[Fact, ...]
    """Parents before their children."""
    source: Source
    """Whose they are."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Why a model's question was left out → how many."""
    usd: float = 0.0
    """Dollars that the questions cost, on whatever day."""
    tokens: int = 0
    """Tokens in and out, likewise."""


class QuestionMaker(Protocol):
    """Writes the questions of a text."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever a text could get other questions."""
        ...

    def expected(self, about: str) -> Mapping[str, ExpectedUsage]:
        """Id of the model → what writing them takes; no call."""
        ...

    async def make(self, about: str) -> ItemQuestions:
        """The questions about a text. Raises ``MetricError`` where the model gave none."""
        ...


class QuestionSource:
    """Chooses what is asked, once an item."""

    def __init__(
        self,
        source: str = "auto",
        maker: QuestionMaker | None = None,
        protocol: str = "scene-bench",
        *,
        shuffled: bool = False,
    ) -> None:
        """``shuffled``: deal the options of questions that are not yes/no, by a hash of the
        question: those who write them put the right one first. Facts of a scene keep the order of
        their protocol, so that metrics share their answers. Raises ``MetricError`` for an unknown
        source or protocol, for ``chat`` without a model, and for a model that has nothing to
        write."""
        text("questions", source, SOURCES)
        text("protocol", protocol, PROTOCOLS)
        if source == "chat" and maker is None:
            raise MetricError(
                'questions = "chat" needs a model that writes: chat = "ACCOUNT:MODEL"'
            )
        if source in ("item", "scene") and maker is not None:
            raise MetricError(f'chat writes nothing where questions = "{source}": leave one out')
        self._source = source
        self._maker = maker
        self._protocol: Any = protocol
        self._shuffled = shuffled
        self._known: OrderedDict[tuple[str, str], ItemQuestions] = OrderedDict()
        # A lock lives as long as somebody waits for it, so that no event loop meets another's.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def fingerprint(self) -> str:
        """Changes whenever an item could be asked something else."""
        by = "" if self._maker is None else self._maker.fingerprint
        return f"{self._source} {self._protocol} {'shuffled' if self._shuffled else 'given'} {by}"

    async def of(self, sample: Sample) -> ItemQuestions:
        """What is asked about the sample's item.

        Raises ``MetricError`` where the source has nothing for it. A model that failed is asked
        again for the item's next picture.
        """
        item = sample.item
        if self._brought(item):
            if not item.facts:
                raise MetricError(
                    "the item brings no questions: take a set that does (tifa, dsg), or another "
                    "source: chat or scene"
                )
            return self._dealt(ItemQuestions(item.facts, "item"))
        if self._maker is None:
            if item.scene is None:
                raise MetricError(
                    "the item has neither questions nor a scene: name a model that writes "
                    'questions, chat = "ACCOUNT:MODEL"'
                )
            return ItemQuestions(self._of_scene(sample, item.scene), "scene")
        about = _about(sample)
        if not about:
            raise MetricError("the item has no text to write questions about")
        async with self._locks.setdefault(about, asyncio.Lock()):
            key = (self._maker.fingerprint, about)
            found = self._known.get(key)
            if found is None:
                found = self._dealt(await self._maker.make(about))
                self._known[key] = found
                while len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
        if not found.facts:
            why = ", ".join(f"{reason} ({n})" for reason, n in found.dropped.items())
            raise MetricError(f"no question about the text was left: {why or 'none was written'}")
        return found

    async def planned(self, sample: Sample) -> tuple[tuple[Fact, ...], Mapping[str, ExpectedUsage]]:
        """What will be asked, and what writing it takes, model by model; no call is made.

        Questions that a model has yet to write are taken to be those of the item's scene, or
        :data:`TYPICAL` yes/no questions. Raises ``MetricError`` as :meth:`of`.
        """
        about = _about(sample)
        if self._maker is None or self._brought(sample.item) or not about:
            return (await self.of(sample)).facts, {}
        scene = sample.item.scene
        likely = _typical(about) if scene is None else self._of_scene(sample, scene)
        return tuple(likely), self._maker.expected(about)

    def _of_scene(self, sample: Sample, scene: SceneGraph) -> tuple[Fact, ...]:
        known = sample.predicates or sample.item.predicates or DEFAULT
        return QuestionForm(self._protocol, known).facts(scene)

    def _brought(self, item: Item) -> bool:
        return self._source == "item" or (self._source == "auto" and bool(item.facts))

    def _dealt(self, asked: ItemQuestions) -> ItemQuestions:
        if not self._shuffled:
            return asked
        return replace(asked, facts=tuple(map(dealt, asked.facts)))


def _about(sample: Sample) -> str:
    return " ".join((sample.item.prompt or sample.prompt).split())


def _typical(about: str) -> list[Fact]:
    question = f"Is there {about[:40]} in the image?"
    return [
        Fact(id=f"q{at}", kind="object", subject="any", statement=about, question=question)
        for at in range(TYPICAL)
    ]


def dealt(fact: Fact) -> Fact:
    """``fact`` with its options in an order that its question decides; yes/no stays."""
    if fact.is_binary:
        return fact
    options = sorted(fact.options)
    random.Random(f"{fact.question}\0{options}").shuffle(options)
    return fact.model_copy(update={"options": tuple(options)})


@lru_cache(maxsize=8)
def ledger_in(folder: Path) -> Ledger:
    """Where the questions of models are kept: one file a folder, for all metrics of this process.

    Raises ``MetricError``.
    """
    from scenewright.evals.errors import AnnotationError
    from scenewright.evals.store.ledger import Ledger

    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Ledger(folder / "questions.db")
    except OSError as error:
        raise MetricError(f"{folder} cannot be made: {error.strerror or error}") from error
    except AnnotationError as error:
        raise MetricError(str(error)) from error
