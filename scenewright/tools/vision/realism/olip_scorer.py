"""Scorer of objects by OLIP: a picture and its boxes in, shape, texture and joint realism out."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from PIL import Image

from scenewright.core.images import to_rgb
from scenewright.core.ports.vision import Detection, ObjectRealism, RealismError
from scenewright.tools.digests import json_digest
from scenewright.tools.vision.local_model import folder_of
from scenewright.tools.vision.realism.blip import BlipEncoder
from scenewright.tools.vision.realism.object_views import MARGIN, crops_of, object_crop
from scenewright.tools.vision.realism.olip_files import SavedOlip, check_encoder, load_olip
from scenewright.tools.vision.realism.pictures import Likenesses
from scenewright.tools.vision.realism.trained_on import TrainedOn

_READING = 1
"""Raised when the same object would get another score."""


def saved_olip(model: str | os.PathLike[str]) -> SavedOlip:
    """Return the heads in a folder or a fetched hub repository ``owner/name``.

    ``RealismError`` if they are not on this machine, or damaged.
    """
    return load_olip(folder_of(model, RealismError))


@dataclass(frozen=True)
class OlipScorer:
    """Scorer of realism by OLIP: a frozen BLIP and trained heads (Liang et al., Sec. 4.3).

    Implements :class:`~scenewright.core.ports.vision.RealismScorer`,
    :class:`~scenewright.tools.vision.realism.pictures.InstanceReader` and
    :class:`~scenewright.tools.vision.realism.trained_on.TrainedScorer`. The encoder's features of
    the whole picture and of the object's crop, both with the object's class, go through the trained
    heads.
    """

    saved: SavedOlip
    """The heads."""
    encoder: BlipEncoder
    """The encoder that they were trained with, which its owner closes."""
    name: str
    """Follows ``olip:`` in the id."""

    def __post_init__(self) -> None:
        """Raise ``RealismError`` if heads and encoder do not belong together."""
        check_encoder(self.saved, self.encoder.digest, self.encoder.name)

    @property
    def id(self) -> str:
        """``olip:`` and the name."""
        return f"olip:{self.name}"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of heads, encoder, and how objects are cut out."""
        return json_digest(self.saved.fingerprint, self.encoder.fingerprint, MARGIN, _READING)

    @property
    def trained_on(self) -> TrainedOn | None:
        """The pictures of the heads' training; None if they were not recorded."""
        return self.saved.trained_on

    async def load(self) -> None:
        """Load the encoder now; ``RealismError`` if that fails."""
        await self.encoder.load()

    async def score(self, image: Image.Image, objects: Sequence[Detection]) -> list[ObjectRealism]:
        """As the port says. Raises ``RealismError`` if the encoder cannot be loaded or fails."""
        started = time.perf_counter()
        whole = to_rgb(image)
        crops, found = crops_of(whole, objects)
        if crops:
            names = [objects[at].name for at in crops]
            # A picture that is given several times in a row is looked at once.
            features = await self.encoder.features(
                [*(whole for _ in crops), *crops.values()], [*names, *names]
            )
            with torch.inference_mode():
                full, crop = torch.from_numpy(features).chunk(2)
                rows = self.saved.model(full, crop)
            if not rows.isfinite().all():
                raise RealismError(
                    f"{self.id} gave scores that are not numbers: its weights are broken"
                )
            seconds = (time.perf_counter() - started) / len(crops)
            for at, (shape, texture, joint) in zip(crops, rows.tolist(), strict=True):
                found[at] = ObjectRealism(shape, texture, joint, seconds=seconds)
        return [found[at] for at in range(len(objects))]

    async def likeness(
        self, image: Image.Image, objects: Sequence[Detection], phrases: Sequence[str]
    ) -> Likenesses:
        """Return the cosine of each phrase with the crop of each object, (phrases, objects).

        Raises as :meth:`score`, and ``ValueError`` for a box that is no part of ``image``.
        """
        whole = to_rgb(image)
        crops = [object_crop(whole, item.box) for item in objects]
        return (await self.encoder.likeness(crops, list(phrases))).T

    async def aclose(self) -> None:
        """Nothing: the encoder is its owner's."""
