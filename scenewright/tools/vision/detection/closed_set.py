"""Boxes of the classes that a model was trained on: DETR, RT-DETR, YOLOS and their relatives."""

from __future__ import annotations

import os

from PIL import Image
from transformers import AutoModelForObjectDetection

from scenewright.core.ports.detector import Detection
from scenewright.tools.vision.detection.local import MAX_SIDE, LocalDetector, names_of, said

THRESHOLD = 0.5
"""Least probability of a class, the default of the library's post-processing."""


class ClosedSetDetector(LocalDetector):
    """Any ``AutoModelForObjectDetection``; things have boxes and no masks."""

    auto_class = AutoModelForObjectDetection

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        name: str | None = None,
        device: str = "auto",
        threshold: float = THRESHOLD,
        max_side: int = MAX_SIDE,
    ) -> None:
        """As :class:`LocalDetector`."""
        super().__init__(model, name=name, device=device, threshold=threshold, max_side=max_side)

    def _find(self, image: Image.Image, labels: tuple[str, ...]) -> list[Detection]:
        inputs = self._processor(images=image, return_tensors="pt").to(self._model.device)
        outputs = self._model(**inputs)
        (found,) = self._processor.post_process_object_detection(
            outputs, threshold=self.threshold, target_sizes=[(image.height, image.width)]
        )
        names = names_of(self._model)
        rows = zip(
            found["boxes"].tolist(), found["labels"].tolist(), found["scores"].tolist(), strict=True
        )
        return [
            Detection(said(names[label]), (box[0], box[1], box[2], box[3]), min(1.0, score))
            for box, label, score in rows
        ]
