"""A worker of a cluster: the panel and its judges, asked with the code of the local engine.

It runs as an async actor. Each reply goes to the driver as soon as it is there; the driver is the
only one who writes the ledger.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from scenewright.config.settings import Settings
from scenewright.core.flushing import Flusher
from scenewright.core.images import load_image
from scenewright.evals.annotation.config import AnnotateConfig
from scenewright.evals.annotation.engines.base import Models
from scenewright.evals.annotation.engines.photo_files import fetch_photo
from scenewright.evals.annotation.panel_queries import ReceivedReply, Sheet, ask_about
from scenewright.evals.annotation.verifying import Claimed, Verified, verify
from scenewright.evals.annotation.voters import voters_of
from scenewright.evals.runner.engines.event_stream import stream_events
from scenewright.evals.runner.engines.model_references import load_reference
from scenewright.evals.runner.engines.rate_limit_actor import RateLimitClient
from scenewright.evals.runner.engines.store_actor import RemoteAnswers
from scenewright.evals.store.ledger import Photo
from scenewright.evals.store.paths import ANSWERS
from scenewright.providers import Answers, AnswerStore
from scenewright.providers.limits import share_gates
from scenewright.runs.model_factory.profiles import judge_of


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a worker is told when it begins."""

    name: str
    """Its name."""
    config: AnnotateConfig
    """What is to be built."""
    settings: Settings
    """The driver's."""
    folder: Path
    """The set's folder on the driver's machine, absolute."""
    given: str
    """``module:function`` that builds models; empty: those of the configuration."""
    node: str
    """The driver's machine, as the cluster calls it; empty: treat every machine as another."""
    stores: Any
    """The actor for workers elsewhere."""
    rate_limits: Any
    """The actor that hands out tickets."""


@dataclass(frozen=True, slots=True)
class Replied:
    """All that a sheet wants was asked."""


Event = ReceivedReply | Replied | Verified


class AnnotationWorker:
    """Asks models of photos, several at a time."""

    def __init__(self, post: WorkerSpec) -> None:
        """Builds nothing yet: see :meth:`ready`."""
        self._post = post
        self._open = ExitStack()
        self._models = Models(())
        self._answers: Answers | None = None
        self._here = False

    async def ready(self) -> dict[str, dict[str, str]]:
        """Build the models and load their weights; their fingerprints.

        Raises what building them raises.
        """
        import ray

        post = self._post
        share_gates(partial(RateLimitClient, post.rate_limits, post.name))
        self._here = bool(post.node) and ray.get_runtime_context().get_node_id() == post.node
        given = await asyncio.to_thread(load_reference, post.given, post.folder, Models)
        if given is None:
            given = await asyncio.to_thread(models_of, post.config, post.settings)
        self._models = given
        for judge in self._models.judges:
            load = getattr(judge, "load", None)
            if load is not None:
                await load()
        if self._models.judges:
            self._answers = self._answers_of(post)
            self._open.callback(self._answers.close)
        return await self._models.manifest()

    async def item(self, piece: Sheet | Claimed) -> AsyncIterator[list[Event]]:
        """Ask what ``piece`` wants; replies as they come, the last event says that it is done.

        Raises ``ImageError`` and ``StoreError`` as the local engine does.
        """
        async with aclosing(stream_events(lambda tell: self._done(piece, tell))) as stream:
            async for events in stream:
                yield events

    async def close(self) -> None:
        """Flush and close what is open."""
        await asyncio.to_thread(self._open.close)

    def process(self) -> int:
        """The id of the process."""
        return os.getpid()

    async def _done(self, piece: Sheet | Claimed, tell: Callable[[Event], None]) -> Event:
        load = partial(self._photo, piece.photo)
        if isinstance(piece, Sheet):
            await ask_about(piece, self._models.voters, load, tell)
            return Replied()
        assert self._answers is not None
        return await verify(piece, self._models.judges, self._answers, load)

    def _photo(self, photo: Photo) -> Image.Image:
        if self._here:
            return load_image(photo.file)
        return fetch_photo(photo, self._post.stores)

    def _answers_of(self, post: WorkerSpec) -> Answers:
        if not self._here:
            return RemoteAnswers(post.stores)
        flusher = Flusher()
        self._open.callback(flusher.close)
        return AnswerStore(post.folder / ANSWERS, flusher=flusher)


def models_of(config: AnnotateConfig, settings: Settings) -> Models:
    """The models that ``config`` names. Raises as :func:`~scenewright.evals.annotation.voters.
    voters_of` and :func:`~scenewright.runs.model_factory.profiles.judge_of` do."""
    voters = voters_of(config.panel, settings)
    return Models(voters, tuple(judge_of(spec, settings) for spec in config.judges))
