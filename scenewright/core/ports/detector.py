"""The port of detectors: from a picture to named things with their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import ConfigDict, InstanceOf

from scenewright.core.closed_vocabulary import ClosedVocabulary

Box = tuple[float, float, float, float]
"""(left, top, right, bottom) in pixels; right and bottom are the first ones outside."""
Mask = NDArray[np.bool_]
"""(height, width): true where the thing can be seen."""


class DetectionError(RuntimeError):
    """A detector that cannot be built or loaded, or a file of detections that cannot be used; says
    how to fix it."""


@dataclass(frozen=True, slots=True)
class Detection:
    """A detected object."""

    __pydantic_config__ = ConfigDict(arbitrary_types_allowed=True)

    name: str
    """Class label."""
    box: Box
    """(xmin, ymin, xmax, ymax), in pixels of the image."""
    score: float = 1.0
    """Confidence in [0, 1]; 1 where it was given as true."""
    mask: InstanceOf[Mask] | None = field(default=None, compare=False, repr=False)
    """Its pixels, of the image's size; none where only the box is known."""
    stuff: bool = False
    """Whether it is a region without instances (sky, grass), as panoptic models tell."""

    @property
    def area(self) -> float:
        """Square pixels: of the mask where there is one, else of the box."""
        if self.mask is not None:
            return float(self.mask.sum())
        left, top, right, bottom = self.box
        return max(0.0, right - left) * max(0.0, bottom - top)


@runtime_checkable
class Detector(Protocol):
    """Finds things in pictures."""

    @property
    def id(self) -> str:
        """``kind:model``, for example ``transformers:facebook/mask2former-swin-tiny-coco-panoptic``
        or ``json:detections.json``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever a picture could get other detections (weights, thresholds, labels)."""
        ...

    @property
    def vocabulary(self) -> ClosedVocabulary | None:
        """The classes that it can find, where it has classes of its own: of any other it cannot
        say that there is none. None: any."""
        ...

    async def detect(self, image: Image.Image, labels: Sequence[str] = ()) -> tuple[Detection, ...]:
        """What is in ``image``, by score, highest first; boxes lie inside of it.

        ``labels`` are the classes of interest: an open-vocabulary model looks for just these (and
        raises ``DetectionError`` without any), one with classes of its own gives those of its
        things that are among them, or all if there are none. Raises ``ImageError`` for an image
        that cannot be read, and ``DetectionError`` for a model that cannot be loaded.
        """
        ...

    async def aclose(self) -> None:
        """Free the model."""
        ...
