"""Scorer of objects by OLIP: a picture and its boxes in, shape, texture and joint realism out."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import torch
from PIL import Image

from scenewright.agents.judges.vlm import find_model
from scenewright.core.images import to_rgb
from scenewright.core.ports.judge import JudgeError
from scenewright.core.ports.vision import (
    Detection,
    ObjectRealism,
    RealismError,
)
from scenewright.tools.digests import json_digest
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
    try:
        folder = find_model(model)
    except JudgeError as error:
        raise RealismError(str(error)) from None
    return load_olip(folder)


class OlipScorer:
    """Scorer of realism by OLIP: a frozen BLIP and trained heads (Liang et al., Sec. 4.3).

    Implements :class:`~scenewright.core.ports.vision.RealismScorer`,
    :class:`~scenewright.tools.vision.realism.pictures.InstanceReader` and
    :class:`~scenewright.tools.vision.realism.trained_on.TrainedScorer`. The encoder's features of
    the whole picture and of the object's crop, both with the object's class, go through the trained
    heads.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | SavedOlip,
        *,
        name: str | None = None,
        encoder: BlipEncoder | None = None,
        device: str = "auto",
    ) -> None:
        """Load the heads of ``model`` and their encoder.

        ``model``: OLIP's folder, a fetched hub repository ``owner/name``, or loaded heads. ``name``
        follows ``olip:`` in the id (default: the model as given). ``encoder``: a shared BLIP that
        its owner closes; None: the one that the folder names, on ``device``. Raises
        ``RealismError`` if one of them is not on this machine or damaged, or if they do not belong
        together.
        """
        self._saved = model if isinstance(model, SavedOlip) else saved_olip(model)
        self._name = name or str(self._saved.folder if isinstance(model, SavedOlip) else model)
        self._owned = encoder is None
        self._encoder = encoder or BlipEncoder(
            self._saved.encoder, name=Path(self._saved.encoder).name, device=device
        )
        check_encoder(self._saved, self._encoder.digest, self._encoder.name)

    @property
    def id(self) -> str:
        """``olip:`` and the name."""
        return f"olip:{self._name}"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of heads, encoder, and how objects are cut out."""
        return json_digest(self._saved.fingerprint, self._encoder.fingerprint, MARGIN, _READING)

    @property
    def trained_on(self) -> TrainedOn | None:
        """The pictures of the heads' training; None if they were not recorded."""
        return self._saved.trained_on

    async def load(self) -> None:
        """Load the encoder now; ``RealismError`` if that fails."""
        await self._encoder.load()

    async def score(self, image: Image.Image, objects: Sequence[Detection]) -> list[ObjectRealism]:
        """As the port says. Raises ``RealismError`` if the encoder cannot be loaded or fails."""
        started = time.perf_counter()
        whole = to_rgb(image)
        crops, found = crops_of(whole, objects)
        if crops:
            names = [objects[at].name for at in crops]
            # A picture that is given several times in a row is looked at once.
            features = await self._encoder.features(
                [*(whole for _ in crops), *crops.values()], [*names, *names]
            )
            with torch.inference_mode():
                full, crop = torch.from_numpy(features).chunk(2)
                rows = self._saved.model(full, crop)
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
        return (await self._encoder.likeness(crops, list(phrases))).T

    async def aclose(self) -> None:
        """Free the encoder, if it is the scorer's own."""
        if self._owned:
            await self._encoder.aclose()
