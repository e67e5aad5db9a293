"""A backend that ``scenewright models serve`` runs, on this machine or another one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from PIL import Image

from scenewright.core.images import ImageError
from scenewright.core.ports.backend import (
    BackendError,
    BackendFeatures,
    GeneratedImage,
    GenerationRequest,
    GenerationStep,
)
from scenewright.providers.caller import Caller
from scenewright.providers.model_serving import (
    GenerateOrder,
    GenerateReply,
    InvalidReply,
    ModelServer,
    ProblemLine,
    RefusedReply,
    ReplyLine,
    ServingError,
    StepLine,
    decoded_image,
    encoded_image,
    line_of,
)
from scenewright.providers.retry import CallError, Decision, PermanentError, Transient
from scenewright.providers.usage import Reply, Usage


class ServedBackend:
    """Implements :class:`~scenewright.core.ports.backend.ImageBackend`.

    Its fingerprint is the served model's: the same weights draw the same pictures, under the same
    names in stores. A server whose model has another one by now is refused.
    """

    def __init__(
        self,
        server: ModelServer,
        caller: Caller,
        *,
        account: str,
        size: tuple[int, int] | None = None,
    ) -> None:
        """Draw on ``server``; ``account`` precedes the served id in the backend's id.

        ``size``: (width, height) in pixels of requests that name none; None: the served model's
        own.

        Asks the server what it serves. Raises ``BackendError`` if that fails. The backend closes
        the ``server``'s connections, not the ``caller``, which models of one account share.
        """
        try:
            card = server.card("backend")
        except ServingError as error:
            raise BackendError(f"{account}:{server.model}: {error}") from None
        assert card.features is not None
        if size is not None and size != card.features.default_size:
            raise BackendError(
                f"{account}:{server.model} draws {card.features.default_size} pixels unless a "
                f"request says otherwise, not {size}: leave size out, and set it where it is served"
            )
        self._server = server
        self._caller = caller
        self._account = account
        self._fingerprint = card.fingerprint
        self._features = card.features
        self._closed = False

    def __repr__(self) -> str:
        """Return the backend's id."""
        return f"ServedBackend({self.id!r})"

    @property
    def id(self) -> str:
        """``account:kind:model``, for example ``cluster:diffusers:miniature``."""
        return f"{self._account}:{self._server.model}"

    @property
    def fingerprint(self) -> str:
        """The served model's."""
        return self._fingerprint

    @property
    def features(self) -> BackendFeatures:
        """The served model's."""
        return self._features

    async def generate(
        self,
        request: GenerationRequest,
        load: Callable[[str], Image.Image],
        on_step: Callable[[GenerationStep], None] | None = None,
    ) -> GeneratedImage:
        """Draw ``request``; ``load`` is called from another thread, ``on_step`` on the event loop.

        Raises ``BackendError`` for what cannot be served and for a call that is lost, with the
        reason. Cancelling the awaiting task stops the drawing there after its current step.
        """
        if self._closed:
            raise BackendError(f"{self.id} was closed: make a new one")
        began = time.perf_counter()
        order = await asyncio.to_thread(self._order, request, load)
        told = 0

        def tell(line: StepLine) -> None:
            nonlocal told
            # A drawing that begins anew after a lost connection is not told twice.
            if on_step is not None and line.step > told:
                told = line.step
                on_step(GenerationStep(line.step, line.of))

        async def attempt() -> Reply[tuple[GenerateReply, Image.Image]]:
            reply = await self._drawn(order, tell)
            try:
                image = await asyncio.to_thread(decoded_image, reply.image, "the picture that came")
            except ImageError as error:
                raise InvalidReply(str(error)) from None
            return Reply((reply, image), Usage(images=1))

        try:
            done = await self._caller.call(
                attempt,
                classify=self._server.classify,
                provider=self._account,
                model=self._server.model,
                tokens=0,
                label=f"{self.id} picture",
            )
        except CallError as error:
            # What the model refuses says itself what to do.
            final = isinstance(error.decision, PermanentError)
            advice = "" if final else f". {self._advice(error.decision)}"
            raise BackendError(f"{self.id} drew nothing: {error}{advice}") from None
        reply, image = done.value
        return GeneratedImage(
            image=image,
            seconds=time.perf_counter() - began,
            usd=reply.usd,
            prompt=reply.prompt,
            count=reply.count,
            steps=reply.steps,
            details={**reply.details, "seconds_there": reply.seconds, "attempts": done.attempts},
        )

    async def aclose(self) -> None:
        """Close the connections; the served model goes on."""
        if not self._closed:
            self._closed = True
            await self._server.aclose()

    def _order(
        self, request: GenerationRequest, load: Callable[[str], Image.Image]
    ) -> GenerateOrder:
        names = [reference.image for reference in request.references]
        names += [reference.mask for reference in request.references if reference.mask]
        if request.start is not None:
            names += [request.start.image, *([request.start.mask] if request.start.mask else [])]
        images = {name: encoded_image(load(name)) for name in dict.fromkeys(names)}
        return GenerateOrder(request=request, images=images, fingerprint=self._fingerprint)

    async def _drawn(self, order: GenerateOrder, tell: Callable[[StepLine], None]) -> GenerateReply:
        async with self._server.lines("generate", order) as lines:
            async for text in lines:
                line = line_of(_kind, text)
                match line:
                    case StepLine():
                        tell(line)
                    case ReplyLine():
                        return line.reply
                    case ProblemLine():
                        problem = line.problem
                        raise RefusedReply(problem.status, problem.detail, problem.retry_after)
        raise InvalidReply("the server ended its reply before the picture")

    def _advice(self, decision: Decision) -> str:
        if isinstance(decision, Transient) and not decision.timed_out:
            return "What was drawn before is kept: try again once that has passed"
        return (
            "Try again; where drawings wait long for a replica, give a longer timeout in "
            f"[accounts.{self._account}] of scenewright.toml or serve more replicas"
        )


def _kind(raw: object) -> type[StepLine] | type[ReplyLine] | type[ProblemLine]:
    keys = raw.keys() if isinstance(raw, dict) else ()
    return ReplyLine if "reply" in keys else ProblemLine if "problem" in keys else StepLine
