"""What draws: the port every image backend implements."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

MAX_SIDE = 4096
MAX_STEPS = 1000


class BackendError(RuntimeError):
    """A backend that cannot be loaded or a request it cannot serve; says how to fix it."""


class Cancelled(RuntimeError):
    """The generation was stopped between two steps because its caller asked for it."""


@dataclass(frozen=True, slots=True)
class BackendFeatures:
    """What a backend can do; callers look here, never at its name."""

    references: int
    """Most reference images in one request (0: none)."""
    reference_maths: Literal["exact", "shared-softmax", "none"]
    """Whether each reference has its own softmax and weight (Scene-Bench Eq. 5)."""
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


class Reference(BaseModel):
    """A reference image, by content hash."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: str
    """Content hash (SHA-256 hex of the PNG bytes) in the image store."""
    weight: float = Field(ge=-4.0, le=4.0, allow_inf_nan=False)
    """λ of this reference in Eq. 5."""
    mask: str | None = None
    """Content hash of a mask: white where the reference may act."""


class Start(BaseModel):
    """A picture to begin with in place of noise alone."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    image: str
    """Content hash of the picture."""
    strength: float = Field(gt=0.0, le=1.0)
    """Share of the denoising that is done: with 1 nothing of the picture guides it."""
    mask: str | None = None
    """Content hash of a mask: white where the picture may change; elsewhere it stays as it is."""


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
    details: dict[str, str | int | float] = field(default_factory=dict)
    """Backend-specific facts worth keeping (scheduler, dtype, cache hits)."""


@runtime_checkable
class ImageBackend(Protocol):
    """Draws images. One instance serves one request at a time; more wait in line."""

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
