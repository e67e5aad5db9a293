"""The port of an engine, and what all of them do alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

from scenewright.evals.datasets.base import Dataset, Item
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.drawing import GenerationContext
from scenewright.evals.runner.drift.drift_detector import DriftDetector
from scenewright.evals.runner.model_setup import EvalModelOverrides, EvalModels
from scenewright.evals.runner.progress import ProgressReporter
from scenewright.evals.store.journal import Journal
from scenewright.providers import Answers

_CHUNK = 32


@dataclass(frozen=True, slots=True)
class EvalSession:
    """One sitting of an evaluation: what an engine works with."""

    config: EvalConfig
    """What is to be done."""
    place: Path
    """The evaluation's folder, locked by this process."""
    eval_models: EvalModels
    """The models, as this process built them; no weights are loaded yet."""
    generation: GenerationContext
    """Where pictures are kept."""
    journal: Journal
    """What is done. Only this process writes it."""
    answers: Answers
    """What judges said."""
    plan: str
    """Digest of the evaluation."""
    retry: bool
    """What failed or was left unscored is tried again."""
    tell: ProgressReporter
    """Is told what was done."""
    watch: DriftDetector
    """Is given what judges say of sentinel pictures."""


class Engine(Protocol):
    """Works on the items of an evaluation."""

    @property
    def name(self) -> str:
        """As the command calls it."""
        ...

    def models(self, given: EvalModelOverrides | None, root: Path) -> EvalModelOverrides:
        """The models that replace those of the profiles: ``given``, or what the engine finds.

        Raises ``EvalError`` for models that the engine cannot use.
        """
        ...

    async def run(self, session: EvalSession, items: Dataset) -> None:
        """Do all ``items``, with what they bring kept in the sitting's journal.

        Raises ``EvalError``, ``StoreError`` and ``DatasetError``; what is done is kept.
        """
        ...


async def numbered(items: Dataset) -> AsyncGenerator[tuple[int, Item]]:
    """The items with their positions, read in a thread a few at a time.

    Raises ``EvalError`` if two have the same id.
    """
    iterator: Iterator[Item] = iter(items)
    ids: set[int] = set()
    position = 0
    while some := await asyncio.to_thread(lambda: list(islice(iterator, _CHUNK))):
        for item in some:
            name = hash(item.id)
            if name in ids:
                raise EvalError(
                    f"the set holds the item {item.id!r} twice: give each an id of its own"
                )
            ids.add(name)
            yield position, item
            position += 1


def first_of(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group, which may hold groups."""
    found = errors.exceptions[0]
    return first_of(found) if isinstance(found, BaseExceptionGroup) else found
