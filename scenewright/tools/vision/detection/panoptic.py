"""Things and stuff with their masks, by a model of universal segmentation.

Mask2Former, MaskFormer, OneFormer, EoMT and DETR's panoptic head all give a class and a mask for
each of their queries; the library's post-processing makes segments of them, each pixel in at most
one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

import torch
from PIL import Image
from transformers import AutoModelForUniversalSegmentation, AutoTokenizer
from transformers.models.maskformer.image_processing_pil_maskformer import (
    MaskFormerImageProcessorPil,
)

from scenewright.core.ports.detector import Detection, DetectionError
from scenewright.tools.vision.detection.boxes import box_of
from scenewright.tools.vision.detection.labels import stuff_ids
from scenewright.tools.vision.detection.local import (
    MAX_SIDE,
    LocalDetector,
    image_processor_of,
    model_of,
    names_of,
    said,
)

Task = Literal["panoptic", "instance"]

THRESHOLD = 0.5
"""Least probability of a segment's class."""
_CLASS_INFO = "class_info_file"


class PanopticDetector(LocalDetector):
    """Any ``AutoModelForUniversalSegmentation``; detections have masks, stuff is marked.

    Stuff comes in one segment a class. An ``instance`` model knows things alone, whose masks may
    overlap in a model's mind; here each pixel goes to the surest.
    """

    auto_class = AutoModelForUniversalSegmentation

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        name: str | None = None,
        device: str = "auto",
        threshold: float = THRESHOLD,
        max_side: int = MAX_SIDE,
        task: Task = "panoptic",
        stuff: Collection[str] | None = None,
    ) -> None:
        """As :class:`LocalDetector`. ``task``: what the model was trained for. ``stuff``: labels
        of the classes without instances, as the model's configuration writes them; by default
        those of its processor, or COCO's if it knows all of them, else none."""
        super().__init__(model, name=name, device=device, threshold=threshold, max_side=max_side)
        if task not in ("panoptic", "instance"):
            raise DetectionError(f"task {task!r}: use panoptic or instance")
        self._task: Task = task
        self._stuff = None if stuff is None else tuple(sorted(stuff))
        self._reader: Any = None
        self._task_tokens: torch.Tensor | None = None
        self._names: dict[int, str] = {}
        self._stuff_ids: frozenset[int] = frozenset()

    def _settings(self) -> dict[str, Any]:
        return {"task": self._task, "stuff": self._stuff}

    def _open(self, device: torch.device) -> None:
        self._model = model_of(self.auto_class, self.folder, device)
        oneformer = self._model.config.model_type == "oneformer"
        # OneFormer's processor would fetch its table of classes from the hub.
        self._processor = image_processor_of(
            self.folder, **({_CLASS_INFO: None} if oneformer else {})
        )
        self._reader = self._processor
        if oneformer:
            self._task_tokens = self._tokens_of_task()
            # OneFormer's own post-processing does the same, but needs torchvision.
            self._reader = MaskFormerImageProcessorPil()
        self._names = names_of(self._model)
        listed = _stuff_in(self.folder) if self._stuff is None else None
        if self._task == "panoptic":
            self._stuff_ids = stuff_ids(self._names, self._stuff) if listed is None else listed

    def _free(self) -> None:
        super()._free()
        self._reader = self._task_tokens = None

    def _tokens_of_task(self) -> torch.Tensor:
        """OneFormer is told its task in words; its text encoder wants padding as zeros."""
        tokenizer = AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
        length = int(self._model.config.task_seq_len)
        tokens = tokenizer(
            [f"the task is {self._task}"],
            padding="max_length",
            max_length=length,
            truncation=True,
            return_tensors="pt",
        )
        made: torch.Tensor = tokens["input_ids"] * tokens["attention_mask"]
        return made

    def _find(self, image: Image.Image, labels: tuple[str, ...]) -> list[Detection]:
        inputs = self._processor(images=[image], **self._asked(), return_tensors="pt")
        offsets = inputs.pop("patch_offsets", None)
        given = {
            key: value.to(self._model.device)
            for key, value in inputs.items()
            if isinstance(value, torch.Tensor)
        }
        if self._task_tokens is not None:
            given["task_inputs"] = self._task_tokens.to(self._model.device)
        if offsets is not None:
            given["patch_offsets"] = offsets
        outputs = self._model(**given)
        kind = self._model.config.model_type
        fused = "stuff_classes" if kind.startswith("eomt") else "label_ids_to_fuse"
        fuse: Any = sorted(self._stuff_ids) if fused == "stuff_classes" else set(self._stuff_ids)
        (found,) = self._reader.post_process_panoptic_segmentation(
            outputs,
            threshold=self.threshold,
            target_sizes=[(image.height, image.width)],
            **{fused: fuse},
        )
        return self._read(found)

    def _asked(self) -> dict[str, Any]:
        return {} if self._task_tokens is None else {"task_inputs": [self._task]}

    def _read(self, found: dict[str, Any]) -> list[Detection]:
        segments = found["segmentation"].cpu().numpy()
        best: dict[int, dict[str, Any]] = {}
        for info in found["segments_info"]:
            # A fused segment is listed once for each query that went into it.
            known = best.get(info["id"])
            if known is None or info["score"] > known["score"]:
                best[info["id"]] = info
        detections = []
        for number, info in best.items():
            mask = segments == number
            box = box_of(mask)
            label = int(info["label_id"])
            if box is not None and label in self._names:
                detections.append(
                    Detection(
                        said(self._names[label]),
                        box,
                        min(1.0, float(info["score"])),
                        mask,
                        label in self._stuff_ids,
                    )
                )
        return detections


def _stuff_in(folder: Path) -> frozenset[int] | None:
    """Stuff by the table of classes that OneFormer's repositories come with, if it lies in
    ``folder``; none if there is no such table."""
    try:
        named = json.loads((folder / "preprocessor_config.json").read_text("utf-8"))[_CLASS_INFO]
        table = json.loads((folder / str(named)).read_text("utf-8"))
        return frozenset(int(at) for at, entry in table.items() if not entry["isthing"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
