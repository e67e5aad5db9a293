"""Protocol of image backends, with requests, results and features.

A backend has an ``id``, a ``fingerprint``, ``features`` and the methods ``generate`` and
``aclose``. A :class:`GenerationRequest` names images by content hash; the backend loads them with
the function that it gets.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self, runtime_checkable

from PIL import Image
from pydantic import Field, model_validator

from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.errors import ScenewrightError
from scenewright.core.layout import Region
from scenewright.core.ports import MAX_PROMPT, MAX_SIDE, MAX_STEPS
from scenewright.core.validation import FiniteModel, FrozenModel

LoadImage = Callable[[str], Image.Image]
"""Loads the image of a content hash."""
ReferenceMaths = Literal["exact", "joined", "pictures", "none"]
"""Way in which reference images enter a picture.

``exact``: each has its own softmax and weight (Scene-Bench Eq. 5; UNets, Flux). ``joined``: its
keys share one softmax with those of the picture itself, so that the weight is that of both (SD3).
``pictures``: the model sees them as pictures beside the prompt, and weights have no effect (edit
models, image APIs). ``none``: no references.
"""


class BackendError(ScenewrightError, RuntimeError):
    """A backend that cannot be loaded, or a request that it cannot serve; says how to fix it."""


class Cancelled(RuntimeError):
    """The generation was stopped between two steps at its caller's request."""


@dataclass(frozen=True, slots=True)
class PromptCount:
    """Length of a prompt for a model, and how much of it the model reads."""

    tokens: int
    """Tokens of the whole prompt, without the marks of its start and end."""
    dropped: int = 0
    """Tokens at its end that the model does not read."""
    read: int | None = None
    """Number of characters that it reads from the beginning, in whole words; None: all."""
    estimated: bool = False
    """Whether the tokens are estimated from the characters, without a tokenizer."""

    def tail(self, prompt: str) -> str:
        """Return the unread end of ``prompt``."""
        return "" if self.read is None else prompt[self.read :].strip()


@dataclass(frozen=True, slots=True)
class BackendFeatures:
    """Abilities of a backend, as data: callers look here, never at its name or class.

    A request must not ask for what is denied here; the backend raises ``BackendError`` for it,
    unless the field says that it has no effect.
    """

    references: int
    """Most reference images in one request; 0: none."""
    reference_maths: ReferenceMaths
    """Way in which references enter the picture, and whether Eq. 5 holds."""
    masks: bool
    """Whether a reference may carry a mask."""
    edit: bool
    """Whether a request may start from a picture and keep a part of it (``start``)."""
    negative_prompt: bool
    """Whether a negative prompt has an effect; elsewhere it is ignored."""
    seeds: bool
    """Whether the same request with the same seed gives the same image."""
    sizes: tuple[tuple[int, int], ...] | None
    """The only (width, height) in pixels; None: any multiple of 8."""
    default_size: tuple[int, int]
    """(width, height) in pixels of a request without a size."""
    default_steps: int
    """Denoising steps of a request without a number."""
    default_guidance: float
    """Classifier-free guidance scale of a request without one."""
    instructions: bool = False
    """Whether the prompt may say what to change in the start picture (``instruct``)."""
    boxes: bool = False
    """Whether a request may say where things are to be (``boxes``)."""
    edit_references: int = 0
    """Most references beside a picture that is edited by instruction (``instructions``)."""
    start_references: bool = False
    """Whether a start picture that is no instruction may come with one reference, which the model
    sees as a picture."""
    languages: tuple[str, ...] = ("en",)
    """Languages of prompts that it reads (ISO 639-1); ``*``: any."""
    crops: bool = False
    """Whether a masked start picture may be redrawn within a crop (``start.crop``)."""
    strengths: bool = True
    """Whether the strength of a start picture has an effect; elsewhere it is always 1."""
    vocabulary: ClosedVocabulary | None = None
    """Closed vocabulary of what it can draw; None: any words."""
    prompt_tokens: int | None = None
    """Most tokens of a prompt that are read, without start and end tokens; None: unlimited or
    unknown.
    """


class Reference(FrozenModel):
    """A reference image, by content hash."""

    image: str
    """Content hash (SHA-256 hex of the PNG bytes) in the image store."""
    weight: float = Field(ge=-4.0, le=4.0, allow_inf_nan=False)
    """λ of this reference in Eq. 5."""
    mask: str | None = None
    """Content hash of a mask: white where the reference may act."""
    schedule: tuple[float, ...] = ()
    """Factors of the weight over the steps by an older version; stored runs hold them, and a
    backend refuses them."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.schedule) == 1 or not all(-4.0 <= factor <= 4.0 for factor in self.schedule):
            raise ValueError("a schedule needs at least two factors, each between -4 and 4")
        return self


class Emphasis(FiniteModel):
    """Weight of some words of the prompt."""

    text: str = Field(min_length=1, max_length=2_000)
    """The words as in the prompt; all their occurrences are meant."""
    weight: float = Field(gt=0.0, le=4.0)
    """Factor of their embeddings; 1 changes nothing."""


class Box(FiniteModel):
    """Place of a thing in the picture."""

    name: str = Field(min_length=1, max_length=200)
    """Its class: ``dog``."""
    phrase: str = Field(min_length=1, max_length=2_000)
    """The thing in words: ``small red dog``."""
    region: Region
    """Place."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        at = self.region
        if not (0.0 <= at.left < at.right <= 1.0 and 0.0 <= at.top < at.bottom <= 1.0):
            raise ValueError("a region needs left < right and top < bottom, all between 0 and 1")
        return self


class Start(FiniteModel):
    """Start picture, in place of pure noise."""

    image: str
    """Content hash of the picture."""
    strength: float = Field(gt=0.0, le=1.0)
    """Share of the denoising that is done; with 1 the picture has no influence."""
    mask: str | None = None
    """Content hash of a mask: white where the picture may change."""
    crop: bool = Field(default=False, exclude_if=lambda chosen: not chosen)
    """Whether only a crop around what may change is drawn and put back
    (``features.crops``). References are cropped alike: they show what belongs in its place."""
    crop_scale: float = Field(default=1.0, ge=1.0, le=8.0, exclude_if=lambda scale: scale == 1.0)
    """Enlargement of a crop by an older version; stored runs hold it, and nothing reads it when a
    picture is drawn."""
    instruct: bool = False
    """Whether the prompt says what to change in the picture rather than what it shows
    (``features.instructions``); ``strength`` then has no effect.
    """


class GenerationRequest(FiniteModel):
    """Everything that decides one image.

    Equal requests give equal images on a backend with seeds.
    """

    prompt: str = Field(min_length=1, max_length=MAX_PROMPT)
    """Description of the image, or the instruction of ``start.instruct``."""
    negative_prompt: str = ""
    """Things to avoid."""
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
    guided_share: float = Field(
        default=1.0, ge=0.0, le=1.0, allow_inf_nan=False, exclude_if=lambda share: share == 1.0
    )
    """Share of the steps that an older version guided; stored runs hold it, and nothing reads it
    when a picture is drawn."""
    references: tuple[Reference, ...] = ()
    """Reference images, each with its own weight (Eq. 5)."""
    start: Start | None = None
    """Start picture; None: pure noise."""
    emphasis: tuple[Emphasis, ...] = ()
    """Weighted words of the prompt by an older version; stored runs hold them, and a backend
    refuses them."""
    boxes: tuple[Box, ...] = Field(default=(), exclude_if=lambda boxes: not boxes)
    """Places of things (``features.boxes``)."""

    def key(self, backend_fingerprint: str) -> str:
        """Return the SHA-256 (hex) of request and backend fingerprint: the image's key."""
        text = json.dumps([backend_fingerprint, self.model_dump(mode="json")], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class GenerationStep:
    """Progress of one generation."""

    step: int
    """Finished steps, from 1."""
    of: int
    """Total number of steps."""
    preview: bytes = b""
    """The picture as it stands, a file of ``images.preview_bytes``; empty: none is shown now."""


OnStep = Callable[[GenerationStep], None]
"""Is told of each step."""


def always() -> bool:
    """Yes: somebody looks."""
    return True


@dataclass(frozen=True, slots=True)
class StepListener:
    """An ``on_step`` that knows whether anybody sees what the steps show."""

    tell: OnStep
    """Is told of each step."""
    watched: Callable[[], bool] = always
    """Whether anybody looks now; may be called from another thread."""

    def __call__(self, step: GenerationStep) -> None:
        """Tell of a step."""
        self.tell(step)


def watched_by(on_step: OnStep | None) -> Callable[[], bool]:
    """Return what says whether a preview is worth its time now; any other listener looks."""
    return on_step.watched if isinstance(on_step, StepListener) else always


@dataclass(frozen=True, slots=True)
class GeneratedImage:
    """An image and its cost."""

    image: Image.Image
    """RGB."""
    seconds: float
    """Wall time."""
    usd: float = 0.0
    """Cost in US dollars."""
    prompt: str = ""
    """Prompt that the model received; empty: that of the request."""
    count: PromptCount | None = None
    """Tokens of the request's prompt and how many were not read; None: unknown."""
    steps: int | None = None
    """Denoising steps done; None: unknown."""
    work: float | None = None
    """Work of the denoiser in full-picture steps: those of a plain picture of the default size and
    guidance; None: unknown, as with an API."""
    details: dict[str, str | int | float] = field(default_factory=dict)
    """Backend-specific information (scheduler, dtype, cache hits)."""


@runtime_checkable
class ImageBackend(Protocol):
    """A model that draws images.

    :meth:`generate` may be called concurrently from one event loop. A local model serves one
    request at a time and queues the others; an API serves as many as its account allows.
    """

    @property
    def id(self) -> str:
        """``kind:model``, for example ``diffusers:miniature``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digest that changes whenever the same request could give another image.

        It covers weights, versions and settings. Stored images are keyed with it.
        """
        ...

    @property
    def features(self) -> BackendFeatures:
        """Abilities; constant."""
        ...

    async def generate(
        self,
        request: GenerationRequest,
        load: LoadImage,
        on_step: OnStep | None = None,
    ) -> GeneratedImage:
        """Draw ``request`` and return the image in RGB with its cost.

        ``load`` returns the image of a content hash in the request (references, start, masks) and
        may be called from another thread. ``on_step`` is called in the event loop after each
        denoising step; backends without steps call it for each partial image and at the end.

        Fields that are None take the defaults of ``features``. Raises ``BackendError`` for a
        request outside of ``features``, a model that fails and a call that is lost. Cancelling the
        awaiting task stops the drawing after the current step.
        """
        ...

    async def aclose(self) -> None:
        """Free the model. The backend cannot be used afterwards."""
        ...


@runtime_checkable
class BatchingBackend(ImageBackend, Protocol):
    """A backend that draws several pictures together, faster than one by one."""

    async def generate_many(
        self,
        requests: Sequence[GenerationRequest],
        load: LoadImage,
        on_step: OnStep | None = None,
    ) -> list[GeneratedImage]:
        """Draw all ``requests``, in their order; as :meth:`generate` otherwise.

        Nothing is drawn if one of them cannot be served.
        """
        ...


@runtime_checkable
class CountingBackend(ImageBackend, Protocol):
    """A backend that can count the tokens of prompts, for ``prompt_length.count_prompt``."""

    def count_prompt(self, prompt: str) -> PromptCount:
        """Count ``prompt`` with the model's tokenizers, without loading its weights."""
        ...
