"""Drawing in batches: requests that wait for a model are put together when it comes free."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from PIL import Image

from scenewright.core.ports.backend import (
    GeneratedImage,
    GenerationRequest,
    GenerationStep,
    ImageBackend,
)
from scenewright.evals.runner.arms import digest
from scenewright.evals.runner.backend_cache import BackendProxy

_Load = Callable[[str], Image.Image]
_OnStep = Callable[[GenerationStep], None] | None


@runtime_checkable
class BatchBackend(ImageBackend, Protocol):
    """Draws several pictures at once."""

    async def generate_many(
        self, requests: Sequence[GenerationRequest], load: _Load, on_step: _OnStep = None
    ) -> list[GeneratedImage]:
        """As :meth:`ImageBackend.generate`, of all ``requests`` in their order."""
        ...


@dataclass(frozen=True, slots=True)
class _Order:
    request: GenerationRequest
    load: _Load
    on_step: _OnStep
    picture: asyncio.Future[GeneratedImage]


class BatchingBackend(BackendProxy):
    """Implements :class:`~scenewright.core.ports.backend.ImageBackend`: those who ask at the same
    time get their pictures from one batch.

    Nobody waits for others to come: a batch is what waits when the model comes free. Pictures are
    those of single requests up to rounding, which depends on the batch, so that the fingerprint
    is another one. One event loop uses it.
    """

    __slots__ = ("_drawing", "_most", "_now", "_waiting", "backend")

    def __init__(self, backend: BatchBackend, most: int) -> None:
        """``most``: pictures in a batch; ``backend`` may draw them in smaller ones."""
        self.backend: BatchBackend = backend
        self._most = most
        self._waiting: deque[_Order] = deque()
        self._now: list[_Order] = []
        self._drawing: asyncio.Task[None] | None = None

    @property
    def fingerprint(self) -> str:
        """Changes with that of what draws."""
        return digest("batches", self.backend.fingerprint)

    async def load(self) -> None:
        """Load the weights ahead, where what draws can."""
        load = getattr(self.backend, "load", None)
        if load is not None:
            await load()

    async def generate(
        self, request: GenerationRequest, load: _Load, on_step: _OnStep = None
    ) -> GeneratedImage:
        """As that of what draws. What a batch cannot be drawn for is raised for the requests that
        it is due to alone."""
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
        """Close what draws."""
        await self.backend.aclose()

    async def _draw(self) -> None:
        try:
            # Those who are about to ask in this turn of the loop come along.
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
        """Nobody waits for ``order`` any more; a batch that nobody waits for is stopped."""
        if order in self._waiting:
            self._waiting.remove(order)
            return
        drawing = self._drawing
        if drawing is not None and order in self._now and all(o.picture.done() for o in self._now):
            drawing.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.shield(drawing)


def in_batches(backend: ImageBackend, most: int) -> ImageBackend:
    """``backend`` drawing in batches of at most ``most`` pictures, where it can."""
    if most > 1 and isinstance(backend, BatchBackend):
        return BatchingBackend(backend, most)
    return backend
