"""One model at work behind a server: orders in, replies or problems out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from PIL import Image

from scenewright.agents.panel.panel import identity_of_judge
from scenewright.core.error_text import error_text
from scenewright.core.facts import Answer, Fact
from scenewright.core.images import ImageError, read_image
from scenewright.core.ports.backend import (
    BackendError,
    GenerationRequest,
    GenerationStep,
    ImageBackend,
)
from scenewright.core.ports.judge import Judge
from scenewright.providers.model_serving import (
    AnswerReply,
    GenerateReply,
    ModelCard,
    Problem,
    ProblemLine,
    ReplyLine,
    StepLine,
    encoded_image,
)

StreamItem = StepLine | ReplyLine | ProblemLine
Batched = Callable[[tuple[Image.Image, tuple[Fact, ...]]], Awaitable[list[Answer]]]


class ModelEndpoint(Protocol):
    """A model as the gateway reaches it, in this process or in replicas elsewhere."""

    async def card(self) -> ModelCard:
        """Return the model's card."""
        ...

    async def answer(
        self, image: bytes, facts: Sequence[Fact], fingerprint: str
    ) -> AnswerReply | Problem:
        """Of a judge: its answers about a picture file."""
        ...

    def generate(
        self, request: GenerationRequest, images: Mapping[str, bytes], fingerprint: str
    ) -> AsyncIterator[StreamItem]:
        """Of a backend: the steps of a drawing, then a reply or a problem.

        Closing it early stops the drawing after its current step.
        """
        ...


class LocalJudgeEndpoint:
    """Implements :class:`ModelEndpoint` for a judge of this process."""

    def __init__(self, judge: Judge, name: str, batched: Batched | None = None) -> None:
        """Serve ``judge`` under the id ``name``.

        ``batched``: answers one picture's facts together with those of others; None: each picture
        alone.
        """
        self._judge = judge
        self._batched = batched
        self._card = ModelCard(
            id=name, kind="judge", fingerprint=judge.fingerprint, caps=judge.caps
        )
        self._told: ModelCard | None = None

    async def card(self) -> ModelCard:
        """Return the model's card; the first call reads its weights, which takes seconds."""
        if self._told is None:
            found = await asyncio.to_thread(identity_of_judge, self._judge)
            self._told = self._card.model_copy(update={"weights": found.weights})
        return self._told

    async def answer(
        self, image: bytes, facts: Sequence[Fact], fingerprint: str
    ) -> AnswerReply | Problem:
        """Its answers; a picture that cannot be read is a problem."""
        if (other := other_model(self._card, fingerprint)) is not None:
            return other
        try:
            picture = await asyncio.to_thread(read_image, image, "the picture")
        except ImageError as error:
            return unfit(str(error))
        asked = tuple(facts)
        if self._batched is None:
            found = await self._judge.answer(picture, asked)
        else:
            found = await self._batched((picture, asked))
        return AnswerReply(fingerprint=self._card.fingerprint, answers=tuple(found))

    async def generate(
        self, request: GenerationRequest, images: Mapping[str, bytes], fingerprint: str
    ) -> AsyncIterator[StreamItem]:
        """Return a problem: it does not draw."""
        yield ProblemLine(problem=wrong_verb(self._card, "generate"))


class LocalBackendEndpoint:
    """Implements :class:`ModelEndpoint` for a backend of this process."""

    def __init__(self, backend: ImageBackend, name: str) -> None:
        """Serve ``backend`` under the id ``name``."""
        self._backend = backend
        self._card = ModelCard(
            id=name, kind="backend", fingerprint=backend.fingerprint, features=backend.features
        )

    async def card(self) -> ModelCard:
        """Return the model's card."""
        return self._card

    async def answer(
        self, image: bytes, facts: Sequence[Fact], fingerprint: str
    ) -> AnswerReply | Problem:
        """Return a problem: it does not judge."""
        return wrong_verb(self._card, "answer")

    async def generate(
        self, request: GenerationRequest, images: Mapping[str, bytes], fingerprint: str
    ) -> AsyncIterator[StreamItem]:
        """Return the drawing; what the backend refuses is a problem."""
        if (other := other_model(self._card, fingerprint)) is not None:
            yield ProblemLine(problem=other)
            return
        steps: asyncio.Queue[GenerationStep | None] = asyncio.Queue()

        def load(name: str) -> Image.Image:
            if name not in images:
                raise BackendError(f"the picture {name} is named and was not sent: add it")
            return read_image(images[name], f"the picture {name}")

        drawing = asyncio.create_task(self._backend.generate(request, load, steps.put_nowait))
        drawing.add_done_callback(lambda _: steps.put_nowait(None))
        try:
            while (step := await steps.get()) is not None:
                yield StepLine(step=step.step, of=step.of)
            try:
                drawn = await drawing
            except (BackendError, ImageError) as error:
                yield ProblemLine(problem=unfit(str(error)))
                return
            except Exception as error:
                yield ProblemLine(problem=failed(error))
                return
            image = await asyncio.to_thread(encoded_image, drawn.image)
            reply = GenerateReply(
                fingerprint=self._card.fingerprint,
                image=image,
                seconds=drawn.seconds,
                usd=drawn.usd,
                prompt=drawn.prompt,
                count=drawn.count,
                steps=drawn.steps,
                details=drawn.details,
            )
            yield ReplyLine(reply=reply)
        finally:
            if not drawing.done():
                drawing.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await drawing


def other_model(card: ModelCard, fingerprint: str) -> Problem | None:
    """Return the problem of an order for other weights than those of ``card``.

    None if they are meant.
    """
    if not fingerprint or fingerprint == card.fingerprint:
        return None
    return Problem(
        title="Another model",
        status=412,
        detail=f"{card.id} has the fingerprint {card.fingerprint[:12]} here, and "
        f"{fingerprint[:12]} was meant: its weights, versions or settings changed since it was "
        "looked up. Start again to use what is served now",
    )


def wrong_verb(card: ModelCard, verb: str) -> Problem:
    """Return the problem of an order that ``card``'s kind of model does not take."""
    does = "draws (generate)" if card.kind == "backend" else "judges (answer)"
    detail = f"{card.id} is a {card.kind}: it {does} and knows no {verb}"
    return Problem(title="Another kind of model", status=405, detail=detail)


def unfit(detail: str) -> Problem:
    """Return the problem of an order that the model cannot serve."""
    return Problem(title="Cannot be served", status=422, detail=detail)


def failed(error: BaseException) -> Problem:
    """Return the problem of a model that broke."""
    return Problem(title="The model failed", status=500, detail=error_text(error))
