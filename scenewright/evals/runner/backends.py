"""Backends and composers of an evaluation: batches of pictures, shared pictures, cached prompts.

Arms that begin alike must draw the same first picture: the gain of a round of feedback must not be
the gain of another wording. And nothing that was paid for is paid for again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from PIL import Image

from scenewright.agents.composers.rules import GridComposer
from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.core.images import ImageStore
from scenewright.core.layout import Region
from scenewright.core.ports.backend import (
    BackendFeatures,
    GeneratedImage,
    GenerationRequest,
    GenerationStep,
    ImageBackend,
    PromptCount,
)
from scenewright.core.ports.composer import Composer, ReportingComposer, Wording
from scenewright.core.scene import SceneGraph
from scenewright.evals.runner.config import digest
from scenewright.evals.store.journal import Unit, Units
from scenewright.tools.backends.prompts import count_prompt


class BackendProxy:
    """Image backend that passes everything on to another one."""

    __slots__ = ()
    backend: ImageBackend

    @property
    def id(self) -> str:
        """The backend's id."""
        return self.backend.id

    @property
    def fingerprint(self) -> str:
        """The backend's fingerprint."""
        return self.backend.fingerprint

    @property
    def features(self) -> BackendFeatures:
        """The backend's features."""
        return self.backend.features

    def count_prompt(self, prompt: str) -> PromptCount:
        """Return the backend's token count of ``prompt``."""
        return count_prompt(self.backend, prompt)


@dataclass(frozen=True, slots=True)
class CachedBackend(BackendProxy):
    """Image backend that takes one request's picture from a store and has others drawn.

    Implements :class:`~scenewright.core.ports.backend.ImageBackend`.
    """

    backend: ImageBackend
    images: ImageStore
    request: GenerationRequest
    """The request whose picture is known."""
    image: str
    """Content hash of that picture."""

    async def generate(
        self,
        request: GenerationRequest,
        load: Callable[[str], Image.Image],
        on_step: Callable[[GenerationStep], None] | None = None,
    ) -> GeneratedImage:
        """Return the stored picture at no cost, or a new one."""
        if request == self.request:
            return GeneratedImage(await asyncio.to_thread(self.images.get, self.image), 0.0)
        return await self.backend.generate(request, load, on_step)

    async def aclose(self) -> None:
        """Do nothing: the backend has other users."""


_Load = Callable[[str], Image.Image]
_OnStep = Callable[[GenerationStep], None] | None


@runtime_checkable
class BatchBackend(ImageBackend, Protocol):
    """Draws several pictures at once."""

    async def generate_many(
        self, requests: Sequence[GenerationRequest], load: _Load, on_step: _OnStep = None
    ) -> list[GeneratedImage]:
        """Return as :meth:`ImageBackend.generate`, of all ``requests`` in their order."""
        ...


@dataclass(frozen=True, slots=True)
class _Order:
    request: GenerationRequest
    load: _Load
    on_step: _OnStep
    picture: asyncio.Future[GeneratedImage]


class BatchingBackend(BackendProxy):
    """Image backend that draws concurrent requests in one batch.

    Implements :class:`~scenewright.core.ports.backend.ImageBackend`. No request waits for others to
    come: a batch is what waits when the model becomes free. Pictures are those of single requests
    up to rounding, which depends on the batch, so that the fingerprint is another one. One event
    loop uses it.
    """

    __slots__ = ("_drawing", "_most", "_now", "_waiting", "backend")

    def __init__(self, backend: BatchBackend, most: int) -> None:
        """Draw with ``backend`` in batches of at most ``most`` pictures; it may split them."""
        self.backend: BatchBackend = backend
        self._most = most
        self._waiting: deque[_Order] = deque()
        self._now: list[_Order] = []
        self._drawing: asyncio.Task[None] | None = None

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the backend in batches."""
        return digest("batches", self.backend.fingerprint)

    async def load(self) -> None:
        """Load the weights ahead, where the backend can."""
        load = getattr(self.backend, "load", None)
        if load is not None:
            await load()

    async def generate(
        self, request: GenerationRequest, load: _Load, on_step: _OnStep = None
    ) -> GeneratedImage:
        """Return the picture of ``request``.

        An error of a batch is raised only for the requests that cause it.
        """
        if request.references or request.start is not None:
            # These are drawn one by one, and each has pictures of its own to load.
            return await self.backend.generate(request, load, on_step)
        order = _Order(request, load, on_step, asyncio.get_running_loop().create_future())
        self._waiting.append(order)
        if self._drawing is None:
            self._drawing = asyncio.create_task(self._draw())
        try:
            return await order.picture
        except asyncio.CancelledError:
            await self._given_up(order)
            raise

    async def aclose(self) -> None:
        """Close the backend."""
        await self.backend.aclose()

    async def _draw(self) -> None:
        try:
            # Requests of this turn of the event loop join the batch.
            await asyncio.sleep(0)
            while self._waiting:
                some = min(self._most, len(self._waiting))
                self._now = [self._waiting.popleft() for _ in range(some)]
                await self._together(self._now)
        finally:
            self._now, self._drawing = [], None
            if self._waiting:
                self._drawing = asyncio.create_task(self._draw())

    async def _together(self, orders: Sequence[_Order]) -> None:
        try:
            if len(orders) == 1:
                only = orders[0]
                drawn = [await self.backend.generate(only.request, only.load, only.on_step)]
            else:
                drawn = await self._many(orders)
        except Exception as error:
            if len(orders) > 1:
                for order in orders:
                    if not order.picture.done():
                        await self._together([order])
            elif not orders[0].picture.done():
                orders[0].picture.set_exception(error)
            return
        for order, picture in zip(orders, drawn, strict=True):
            if not order.picture.done():
                order.picture.set_result(picture)

    async def _many(self, orders: Sequence[_Order]) -> list[GeneratedImage]:
        def step(made: GenerationStep) -> None:
            for order in orders:
                if order.on_step is not None and not order.picture.done():
                    order.on_step(made)

        requests = [order.request for order in orders]
        return await self.backend.generate_many(requests, orders[0].load, step)

    async def _given_up(self, order: _Order) -> None:
        """Withdraw ``order``; a batch without any waiting order is stopped."""
        if order in self._waiting:
            self._waiting.remove(order)
            return
        drawing = self._drawing
        if drawing is not None and order in self._now and all(o.picture.done() for o in self._now):
            drawing.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.shield(drawing)


def in_batches(backend: ImageBackend, most: int) -> ImageBackend:
    """Return ``backend`` drawing in batches of at most ``most`` pictures, where it can."""
    if most > 1 and isinstance(backend, BatchBackend):
        return BatchingBackend(backend, most)
    return backend


PROMPT = "prompt"


@dataclass(frozen=True, slots=True)
class CachedComposer:
    """Asks a composer once for each scene, seed and whole, whatever arm needs it."""

    composer: ReportingComposer
    journal: Units
    """Store of prompts."""

    @property
    def id(self) -> str:
        """Id of the composer."""
        return self.composer.id

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the composer."""
        return self.composer.fingerprint

    async def word(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> Wording:
        """Return the kept prompt, or a new one.

        One that the model did not write itself is not kept.
        """
        whole = None if within is None else within.digest
        key = digest(PROMPT, self.fingerprint, scene.digest, seed, whole)
        unit = self.journal.get(key)
        if unit is not None:
            return Wording(unit.facts["prompt"], unit.facts["author"], unit.facts.get("model", ""))
        found = await self.composer.word(scene, seed, within)
        if not found.problem:
            said = {"prompt": found.prompt, "author": found.author, "model": found.model}
            self.journal.put([Unit(key, PROMPT, facts=said)])
        return found

    async def compose(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> str:
        """Return the prompt of :meth:`word`."""
        return (await self.word(scene, seed, within)).prompt

    def places(self, scene: SceneGraph, seed: int) -> Mapping[str, Region]:
        """Return the composer's."""
        return self.composer.places(scene, seed)


def kept(composer: Composer, journal: Units) -> Composer:
    """Return ``composer``, with its prompts kept if they cost something."""
    free = isinstance(composer, GridComposer | SentenceComposer)
    if free or not isinstance(composer, ReportingComposer):
        return composer
    return CachedComposer(composer, journal)
