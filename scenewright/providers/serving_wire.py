"""What clients and servers of models say to each other; ``docs/scaling.md`` describes it.

Bodies are JSON, pictures in them base64 of a PNG file.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Literal, Self

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from scenewright.core.facts import Answer, Fact
from scenewright.core.images import ImageError, png_bytes, read_image
from scenewright.core.ports.backend import BackendFeatures, GenerationRequest, PromptCount
from scenewright.core.ports.judge import JudgeCaps

PROTOCOL = 2
"""Raised when clients and servers of different versions no longer understand each other."""
MAX_FACTS = 4096
MAX_PICTURES = 64
PROBLEM = "application/problem+json"
LINES = "application/x-ndjson"
"""Accepted for a drawing: a line a step, then one with the picture."""

Picture = Annotated[str, StringConstraints(min_length=1)]
Fingerprint = Annotated[str, StringConstraints(max_length=128)]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ModelCard(_Message):
    """A model that is served."""

    id: str
    """``kind:model``, for example ``local:miniature/judge-a``."""
    kind: Literal["judge", "backend"]
    """What it does."""
    fingerprint: str
    """That of the model in the server's process."""
    caps: JudgeCaps | None = None
    """Of a judge: what it can do, and the words that it knows where they are few."""
    features: BackendFeatures | None = None
    """Of a backend, likewise."""
    weights: str = ""
    """Of a judge: digest of its weights (:mod:`scenewright.config.model_identity`), which tells a
    copy under another name; empty where it has none of its own."""
    protocol: int = PROTOCOL
    """Version of the messages."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.caps is None) == (self.kind == "judge"):
            raise ValueError("a judge has caps, and nothing else has")
        if (self.features is None) == (self.kind == "backend"):
            raise ValueError("a backend has features, and nothing else has")
        return self


class Cards(_Message):
    """All models of a server."""

    models: tuple[ModelCard, ...]
    """In the order in which they were named."""


class AnswerOrder(_Message):
    """Facts of one picture, for a judge."""

    image: Picture
    """The picture."""
    facts: tuple[Fact, ...] = Field(min_length=1, max_length=MAX_FACTS)
    """What is asked."""
    fingerprint: Fingerprint = ""
    """Of the judge that is meant; empty: whichever is there."""


class AnswerReply(_Message):
    """What a judge said."""

    fingerprint: str
    """Of the judge that answered."""
    answers: tuple[Answer, ...]
    """One a fact, in their order."""


class GenerateOrder(_Message):
    """One picture to draw."""

    request: GenerationRequest
    """What decides it."""
    images: dict[str, Picture] = Field(default_factory=dict, max_length=MAX_PICTURES)
    """Content hash → picture, of all that the request names."""
    fingerprint: Fingerprint = ""
    """Of the backend that is meant; empty: whichever is there."""


class GenerateReply(_Message):
    """A picture, and what it took."""

    fingerprint: str
    """Of the backend that drew."""
    image: Picture
    """The picture."""
    seconds: float
    """Wall time of the drawing, without the wait for its turn on the way there."""
    usd: float = 0.0
    """Cost in US dollars."""
    prompt: str = ""
    """The words that the model was given; empty: those of the request."""
    count: PromptCount | None = None
    """How many tokens the prompt has and how many were not read; None: not known."""
    steps: int | None = None
    """Denoising steps that were done; None: not known."""
    details: dict[str, str | int | float] = Field(default_factory=dict)
    """What the backend says of it."""


class Problem(_Message):
    """Why there is no reply (RFC 9457)."""

    title: str
    """What kind of problem, in a few words."""
    status: int = Field(ge=400, le=599)
    """The HTTP status."""
    detail: str
    """What is wrong, and what to do."""
    type: str = "about:blank"
    """No page describes them further."""
    retry_after: float | None = Field(default=None, ge=0)
    """Seconds after which another try may go better; also the header ``Retry-After``."""


class StepLine(_Message):
    """A line of a drawing under way."""

    step: int
    """Steps done, from 1."""
    of: int
    """Steps in all."""


class ReplyLine(_Message):
    """The last line of a drawing that went well."""

    reply: GenerateReply
    """The picture."""


class ProblemLine(_Message):
    """The last line of one that did not."""

    problem: Problem
    """Why."""


def written(image: Image.Image) -> str:
    """``image`` as text; equal pixels give equal text. Raises ``ImageError`` as ``png_bytes``."""
    return base64.b64encode(png_bytes(image)).decode("ascii")


def file_of(text: str, name: str) -> bytes:
    """The picture file in ``text``; ``ImageError``, which calls it ``name``, if it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ImageError(f"{name} is not base64: send a PNG file in standard base64") from None


def read(text: str, name: str) -> Image.Image:
    """The picture in ``text`` as RGB; ``ImageError``, which calls it ``name``, if it is none."""
    return read_image(file_of(text, name), name)
