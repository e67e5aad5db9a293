"""What draws: the port every image backend implements."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self, runtime_checkable

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.core.closed_vocabulary import ClosedVocabulary

MAX_SIDE = 4096
MAX_STEPS = 1000
ReferenceMaths = Literal["exact", "joined", "pictures", "none"]
"""How references enter a picture.

``exact``: each has its own softmax and weight (Scene-Bench Eq. 5; UNets, Flux). ``joined``: its
keys share one softmax with those of the picture itself, so that the weight is that of both (SD3).
``pictures``: the model sees them as pictures beside the prompt, and weights have no effect (edit
models, image APIs). ``none``: no references.
"""


class BackendError(RuntimeError):
    """A backend that cannot be loaded or a request it cannot serve; says how to fix it."""


class Cancelled(RuntimeError):
    """The generation was stopped between two steps because its caller asked for it."""


@dataclass(frozen=True, slots=True)
class PromptCount:
    """How long a prompt is for a model, and how much of it the model reads."""

    tokens: int
    """Tokens of the whole prompt, without the marks of its start and end."""
    dropped: int = 0
    """Those of them, at its end, that the model does not read."""
    read: int | None = None
    """Characters that it reads: the beginning of the prompt, in whole words; None: all of it."""
    estimated: bool = False
    """Whether the tokens are an estimate from the characters, for lack of a tokenizer."""

    def tail(self, prompt: str) -> str:
        """The words of ``prompt`` that are not read."""
        return "" if self.read is None else prompt[self.read :].strip()


@dataclass(frozen=True, slots=True)
class BackendFeatures:
    """What a backend can do; callers look here, never at its name."""

    references: int
    """Most reference images in one request (0: none)."""
    reference_maths: ReferenceMaths
    """How references enter the picture; whether Eq. 5 holds."""
    masks: bool
    """Whether a reference may carry a mask."""
    edit: bool
    """Whether a request may start from a picture and keep a part of it."""
    negative_prompt: bool
    """Whether a negative prompt has an effect."""
    seeds: bool
    """Whether the same request with the same seed gives the same image."""
    sizes: tuple[tuple[int, int], ...] | None
    """The only (width, height) in pixels that are served; None: any multiple of 8."""
    default_size: tuple[int, int]
    """(width, height) in pixels used when a request names none."""
    default_steps: int
    """Denoising steps used when a request names none."""
    default_guidance: float
    """Classifier-free guidance scale used when a request names none."""
    schedules: bool = False
    """Whether the weight of a reference may change over the denoising steps."""
    instructions: bool = False
    """Whether the prompt may say what to change in the start picture."""
    emphasis: bool = False
    """Whether parts of the prompt may weigh more than others."""
    strengths: bool = True
    """Whether the strength of a start picture has an effect; elsewhere it is always 1."""
    vocabulary: ClosedVocabulary | None = None
    """The words that it can draw, where they are few; None: any."""
    prompt_tokens: int | None = None
    """Most tokens of a prompt that are read, without the marks of its start and end; None: any
    number, or nobody knows. ``prompt_length.count_prompt`` counts those of a prompt."""


class Reference(BaseModel):
    """A reference image, by content hash."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: str
    """Content hash (SHA-256 hex of the PNG bytes) in the image store."""
    weight: float = Field(ge=-4.0, le=4.0, allow_inf_nan=False)
    """λ of this reference in Eq. 5."""
    mask: str | None = None
    """Content hash of a mask: white where the reference may act."""
    schedule: tuple[float, ...] = ()
    """Factors of the weight at equally spaced moments from the first denoising step to the last,
    linear in between; empty: 1 throughout."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.schedule) == 1 or not all(-4.0 <= factor <= 4.0 for factor in self.schedule):
            raise ValueError("a schedule needs at least two factors, each between -4 and 4")
        return self

    def factor(self, done: float) -> float:
        """The factor of the weight when the share ``done`` (0 to 1) of the steps is done."""
        if not self.schedule:
            return 1.0
        place = min(max(done, 0.0), 1.0) * (len(self.schedule) - 1)
        at = min(int(place), len(self.schedule) - 2)
        share = place - at
        return self.schedule[at] * (1 - share) + self.schedule[at + 1] * share


class Emphasis(BaseModel):
    """Words of the prompt that weigh more, or less, than the others."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    text: str = Field(min_length=1, max_length=2_000)
    """The words as they stand in the prompt; each place where they stand is meant."""
    weight: float = Field(gt=0.0, le=4.0)
    """Factor of their embeddings: 1 changes nothing."""


class Start(BaseModel):
    """A picture to begin with in place of noise alone."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    image: str
    """Content hash of the picture."""
    strength: float = Field(gt=0.0, le=1.0)
    """Share of the denoising that is done: with 1 nothing of the picture guides it."""
    mask: str | None = None
    """Content hash of a mask: white where the picture may change; elsewhere it stays as it is."""
    instruct: bool = False
    """Whether the prompt says what to change in the picture, in place of what it shows
    (``features.instructions``); ``strength`` has no effect then."""


class GenerationRequest(BaseModel):
    """All that decides one image: equal requests give equal images on a backend with seeds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    prompt: str = Field(min_length=1, max_length=20_000)
    """What to draw."""
    negative_prompt: str = ""
    """What to avoid."""
    seed: int = Field(ge=0, lt=2**63)
    """Seed of the starting noise."""
    width: int | None = Field(default=None, ge=8, le=MAX_SIDE, multiple_of=8)
    """Pixels; None: the backend's default."""
    height: int | None = Field(default=None, ge=8, le=MAX_SIDE, multiple_of=8)
    """Pixels; None: the backend's default."""
    steps: int | None = Field(default=None, ge=1, le=MAX_STEPS)
    """Denoising steps; None: the backend's default."""
    guidance: float | None = Field(default=None, ge=0.0, le=100.0)
    """Classifier-free guidance scale; None: the backend's default."""
    references: tuple[Reference, ...] = ()
    """Reference images, each with its own weight (Eq. 5)."""
    start: Start | None = None
    """The picture to begin with; None: draw from noise alone."""
    emphasis: tuple[Emphasis, ...] = ()
    """Words of the prompt that weigh more than others (``features.emphasis``)."""

    def key(self, backend_fingerprint: str) -> str:
        """SHA-256 (hex) of request and backend fingerprint: the image's name in stores."""
        text = json.dumps([backend_fingerprint, self.model_dump(mode="json")], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class GenerationStep:
    """Progress of one generation."""

    step: int
    """Steps done, from 1."""
    of: int
    """Steps in all."""


@dataclass(frozen=True, slots=True)
class GeneratedImage:
    """An image and what it took."""

    image: Image.Image
    """RGB."""
    seconds: float
    """Wall time."""
    usd: float = 0.0
    """Cost in US dollars."""
    prompt: str = ""
    """The words that the model was given; empty: those of the request."""
    count: PromptCount | None = None
    """How many tokens the request's prompt has and how many were not read; None: not known."""
    steps: int | None = None
    """Denoising steps that were done; None: not known."""
    details: dict[str, str | int | float] = field(default_factory=dict)
    """Backend-specific facts worth keeping (scheduler, dtype, cache hits)."""


@runtime_checkable
class ImageBackend(Protocol):
    """Draws images. A model on this machine serves one request at a time, and more wait in line;
    behind an API they go side by side as far as its account allows."""

    @property
    def id(self) -> str:
        """``kind:model``, for example ``diffusers:miniature``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever the same request could give another image (weights, versions)."""
        ...

    @property
    def features(self) -> BackendFeatures:
        """What it can do."""
        ...

    async def generate(
        self,
        request: GenerationRequest,
        load: Callable[[str], Image.Image],
        on_step: Callable[[GenerationStep], None] | None = None,
    ) -> GeneratedImage:
        """Draw ``request``. ``load`` gives the image of a content hash.

        Raises ``BackendError`` for what it cannot serve. Cancelling the awaiting task
        stops the drawing after the current step.
        """
        ...

    async def aclose(self) -> None:
        """Free the model. The backend cannot be used afterwards."""
        ...


@runtime_checkable
class CountingBackend(ImageBackend, Protocol):
    """A backend that counts the tokens of prompts; ``prompt_length.count_prompt`` asks it."""

    def count_prompt(self, prompt: str) -> PromptCount:
        """Count ``prompt`` with the model's tokenizers; its weights are not loaded for it."""
        ...
