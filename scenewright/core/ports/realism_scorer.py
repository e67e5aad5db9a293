"""The port of realism scorers: how real the shape and the texture of an object look.

Object-centric realism, OcR: every object of a picture gets a shape score and a texture score from
1 (not real at all) to 5 (as in a photo); their mean is its OcR (Liang et al., Sec. 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from PIL import Image

from scenewright.core.ports.detector import Detection

LOWEST = 1.0
"""Least realism that can be given."""
HIGHEST = 5.0
"""Most."""
PROMPTS = {
    "shape": "{category} with realistic shape and structure.",
    "texture": "{category} with realistic texture, color and shade.",
    "joint": "{category} with realistic shape, structure, texture, color and shade.",
}
"""Prompts of the paper for scorers that compare a picture with a text (Table 3)."""


class RealismError(RuntimeError):
    """A scorer that cannot be built, or data that it cannot be used with; says how to fix it."""


@dataclass(frozen=True, slots=True)
class ObjectRealism:
    """How real one object looks, each from 1 to 5; none where a scorer does not tell or failed."""

    shape: float | None
    """Its shape and structure."""
    texture: float | None
    """Its texture, colour and shade."""
    joint: float | None = None
    """Both, asked or regressed at once."""
    reason: str = ""
    """Why a score is missing."""
    tokens_in: int = 0
    """Input tokens that this object's share of the calls took."""
    tokens_out: int = 0
    """Output tokens, likewise."""
    usd: float = 0.0
    """US dollars, likewise."""
    seconds: float = 0.0
    """Wall time, likewise."""

    @property
    def average(self) -> float | None:
        """OcR: the mean of shape and texture; none without both."""
        if self.shape is None or self.texture is None:
            return None
        return (self.shape + self.texture) / 2


@runtime_checkable
class RealismScorer(Protocol):
    """Scores the objects of a picture."""

    @property
    def id(self) -> str:
        """``kind:model``, for example ``olip:miniature/olip-a``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever an object could get another score (weights, prompts, preparation)."""
        ...

    async def score(self, image: Image.Image, objects: Sequence[Detection]) -> list[ObjectRealism]:
        """One score an object, in their order; boxes are in pixels of ``image``.

        What goes wrong with one object is an :class:`ObjectRealism` without scores and with its
        reason. Raises ``RealismError`` only if the scorer itself cannot be loaded.
        """
        ...

    async def aclose(self) -> None:
        """Free the model or its connections."""
        ...


def normalized(score: float) -> float:
    """A score from 1 to 5 as 0 to 1, as the paper's MAE takes it."""
    return (score - LOWEST) / (HIGHEST - LOWEST)


def on_scale(share: float) -> float:
    """A share from 0 to 1 as a score from 1 to 5; beyond that it is cut off."""
    return LOWEST + (HIGHEST - LOWEST) * min(1.0, max(0.0, share))
