"""Things by a model of semantic segmentation: SegFormer, UperNet, BEiT and their relatives."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from PIL import Image
from torch.nn import functional
from transformers import AutoModelForSemanticSegmentation

from scenewright.core.ports.detector import Detection
from scenewright.tools.vision.detection.boxes import box_of
from scenewright.tools.vision.detection.components import Mending, instances_of
from scenewright.tools.vision.detection.labels import folded, stuff_ids
from scenewright.tools.vision.detection.local import LocalDetector, names_of, said

BACKGROUND = ("background", "unlabeled", "void")
"""Labels of what is no thing."""
THRESHOLD = 0.5
"""Least mean probability of an instance."""
MAX_SIDE = 640
"""Longest side in pixels: the map of classes has a number for each class and pixel."""


class SemanticDetector(LocalDetector):
    """Any ``AutoModelForSemanticSegmentation``; detections have masks.

    Instances are found by :func:`~scenewright.tools.vision.detection.components.instances_of`; a
    detection's score is its mean probability.
    """

    auto_class = AutoModelForSemanticSegmentation

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        name: str | None = None,
        device: str = "auto",
        threshold: float = THRESHOLD,
        max_side: int = MAX_SIDE,
        mending: Mending | None = None,
        background: Collection[str] = BACKGROUND,
        stuff: Collection[str] | None = None,
    ) -> None:
        """As :class:`LocalDetector`. ``mending``: how components become instances.
        ``background``: labels of what is no thing. ``stuff``: labels of the classes without
        instances, which come in one detection each; by default COCO's if the model knows all of
        them, else none."""
        super().__init__(model, name=name, device=device, threshold=threshold, max_side=max_side)
        self._mending = mending or Mending()
        self._background = frozenset(folded(label) for label in background)
        self._stuff = None if stuff is None else tuple(sorted(stuff))

    def _is_nothing(self, label: str) -> bool:
        return folded(label) in self._background

    def _settings(self) -> dict[str, Any]:
        return {
            "mending": asdict(self._mending),
            "background": sorted(self._background),
            "stuff": self._stuff,
        }

    def _find(self, image: Image.Image, labels: tuple[str, ...]) -> list[Detection]:
        inputs = self._processor(images=image, return_tensors="pt").to(self._model.device)
        logits = self._model(pixel_values=inputs["pixel_values"]).logits
        size = (image.height, image.width)
        full = functional.interpolate(logits.float(), size=size, mode="bilinear")
        names = names_of(self._model)
        stuff = stuff_ids(names, self._stuff)
        found = instances_of(
            full.softmax(dim=1)[0].cpu().numpy(),
            self._mending,
            background={at for at, name in names.items() if folded(name) in self._background},
            stuff=stuff,
        )
        detections = []
        for one in found:
            box = box_of(one.mask)
            if box is not None and one.score >= self.threshold:
                score, is_stuff = min(1.0, one.score), one.label in stuff
                detections.append(Detection(said(names[one.label]), box, score, one.mask, is_stuff))
        return detections
