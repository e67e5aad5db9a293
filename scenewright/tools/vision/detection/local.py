"""Detectors of transformers on this machine, by what their models give.

- boxes of the classes that a model was trained on: DETR, RT-DETR, YOLOS and their relatives;
- a map of classes, of semantic segmentation: SegFormer, UperNet, BEiT and their relatives;
- a class and a mask for each query, of universal segmentation: Mask2Former, MaskFormer, OneFormer,
  EoMT and DETR's panoptic head, of which the library's post-processing makes segments, each pixel
  in at most one.

Boxes of any label are in :mod:`~scenewright.tools.vision.detection.open_vocabulary`.
"""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from PIL import Image
from torch.nn import functional
from transformers import (
    AutoModelForObjectDetection,
    AutoModelForSemanticSegmentation,
    AutoModelForUniversalSegmentation,
    AutoTokenizer,
)
from transformers.models.maskformer.image_processing_pil_maskformer import (
    MaskFormerImageProcessorPil,
)

from scenewright.agents.judges.pictures import shrink
from scenewright.agents.judges.vlm import digest_folder
from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.error_text import error_text
from scenewright.core.ports.vision import Detection, DetectionError, Mask
from scenewright.providers.device_gate import Stop
from scenewright.tools.digests import json_digest
from scenewright.tools.vision.detection.boxes import box_of, by_score, scaled
from scenewright.tools.vision.detection.components import Mending, instances_of
from scenewright.tools.vision.detection.labels import (
    is_wanted,
    normalized_label,
    normalized_labels,
    plain,
    stuff_ids,
)
from scenewright.tools.vision.local_model import LocalModel, image_processor_of, model_of

MAX_SIDE = 1333
"""Longest side that a model is shown, in pixels: that of the published detectors for COCO."""
MAX_MAP_SIDE = 640
"""The same where the model gives a map of classes, with a number for each class and pixel."""
THRESHOLD = 0.5
"""Least probability of a class, the default of the library's post-processing."""
BACKGROUND = ("background", "unlabeled", "void")
"""Labels of what is no thing."""
Task = Literal["panoptic", "instance"]
_CLASS_INFO = "class_info_file"
_READING = 1
"""Raised when the way in which detections are read from a model changes."""


class LocalDetector(LocalModel):
    """Implements :class:`~scenewright.core.ports.vision.Detector` for a model of transformers.

    Weights are in single precision: boxes and masks suffer from less.
    """

    error = DetectionError
    loaded_as = "a detector"
    open_vocabulary = False
    """Whether it looks for the labels of each call, and has none of its own."""
    auto_class: ClassVar[Any]
    """Class of transformers that the model is loaded by."""

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        name: str | None = None,
        device: str = "auto",
        threshold: float = THRESHOLD,
        max_side: int = MAX_SIDE,
    ) -> None:
        """``model``: a folder in transformers layout, or a fetched hub repository ``owner/name``.

        ``name`` is what follows ``transformers:`` in the id (default: the model as given).
        ``threshold``: least score of a detection. ``max_side``: larger pictures are scaled down, in
        pixels. Raises ``DetectionError`` if the model is not on this machine or a number is out of
        range.
        """
        if not 0 <= threshold < 1 or max_side < 8:
            raise DetectionError(
                f"threshold {threshold}, max_side {max_side}: use a threshold from 0 to below 1 "
                "and at least 8 pixels"
            )
        super().__init__(model, name=name, device=device, thread="detector")
        self.threshold = threshold
        """Least score of a detection."""
        self.settings: dict[str, Any] = {}
        """Further settings that the detections depend on, as JSON."""
        self.background: frozenset[str] = frozenset()
        """Normalized labels of the model that stand for no thing."""
        self._max_side = max_side

    @property
    def id(self) -> str:
        """``transformers:`` and the name."""
        return f"transformers:{self.name}"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of weights, library versions and the settings that matter."""
        return json_digest(
            *(type(self).__name__, digest_folder(self.folder)),
            *self.versions,
            *(self._max_side, self.threshold, self.settings, _READING),
        )

    @cached_property
    def vocabulary(self) -> ClosedVocabulary | None:
        """Return the labels of the model's configuration as people say them.

        None for an open vocabulary. The model is not loaded for it. ``DetectionError`` if it cannot
        be read.
        """
        if self.open_vocabulary:
            return None
        try:
            config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
            names = [str(name) for name in config["id2label"].values()]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DetectionError(
                f"{self.folder}/config.json names no labels: {error_text(error)}"
            ) from error
        labels = dict.fromkeys(map(normalized_label, names))
        return ClosedVocabulary(classes=tuple(one for one in labels if one not in self.background))

    async def detect(self, image: Image.Image, labels: Sequence[str] = ()) -> tuple[Detection, ...]:
        """As the port says. Raises ``DetectionError`` also where the model fails on ``image``.

        Cancelling stops the work before the model's next turn.
        """
        self.check_open()
        asked = tuple(dict.fromkeys(label for label in labels if label.strip()))
        if self.open_vocabulary and not asked:
            raise DetectionError(
                f"{self.id} looks for what it is told: give it labels, for example those of the "
                "scene's objects"
            )
        return await self.run(lambda stop: self._detections(image, asked, stop))

    def open_model(self, device: torch.device) -> None:
        """Load processor and model."""
        self._processor = image_processor_of(self.folder)
        self._model = model_of(self.auto_class, self.folder, device)

    @property
    def names(self) -> dict[int, str]:
        """Class → label, as the configuration of the loaded model writes it."""
        return {int(at): str(label) for at, label in self._model.config.id2label.items()}

    @abstractmethod
    def find(self, image: Image.Image, labels: tuple[str, ...]) -> list[Detection]:
        """Return the detections in ``image`` (RGB) above the threshold.

        Boxes may reach out of the picture.
        """

    def read_boxes(
        self, outputs: Any, image: Image.Image, names: dict[int, str]
    ) -> list[Detection]:
        """Read boxes by the library's post-processing."""
        (found,) = self._processor.post_process_object_detection(
            outputs, threshold=self.threshold, target_sizes=[(image.height, image.width)]
        )
        columns = (found[name].tolist() for name in ("boxes", "labels", "scores"))
        return [
            Detection(names[label], tuple(box), min(1.0, score))
            for box, label, score in zip(*columns, strict=True)
        ]

    def read_masks(
        self, found: Iterable[tuple[int, float, Mask]], stuff: frozenset[int]
    ) -> list[Detection]:
        """Return the detections of (class, score, mask), without empty masks."""
        names = self.names
        return [
            Detection(plain(names[at]) or names[at], box, min(1.0, score), mask, at in stuff)
            for at, score, mask in found
            if at in names and (box := box_of(mask)) is not None
        ]

    def _detections(
        self, image: Image.Image, labels: tuple[str, ...], stop: Stop
    ) -> tuple[Detection, ...]:
        self.make_ready(stop)
        shown = shrink(image, self._max_side)
        with self.turn(stop, f"a picture of {shown.width}×{shown.height}"):
            found = self.find(shown, labels)
        wanted = normalized_labels(() if self.open_vocabulary else labels)
        kept = [one for one in found if is_wanted(one.name, wanted)]
        return tuple(by_score(scaled(kept, shown.size, image.size)))


class ClosedSetDetector(LocalDetector):
    """Any ``AutoModelForObjectDetection``; things have boxes and no masks."""

    auto_class = AutoModelForObjectDetection

    def find(self, image: Image.Image, labels: tuple[str, ...]) -> list[Detection]:
        """Return the boxes of all classes."""
        inputs = self._processor(images=image, return_tensors="pt").to(self._model.device)
        names = {at: plain(name) or name for at, name in self.names.items()}
        return self.read_boxes(self._model(**inputs), image, names)


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
        max_side: int = MAX_MAP_SIDE,
        mending: Mending | None = None,
        background: Collection[str] = BACKGROUND,
        stuff: Collection[str] | None = None,
        **options: Any,
    ) -> None:
        """As :class:`LocalDetector`.

        ``mending``: how components become instances. ``background``: labels of what is no thing.
        ``stuff``: labels of the classes without instances, which come in one detection each; by
        default COCO's if the model knows all of them, else none.
        """
        super().__init__(model, max_side=max_side, **options)
        self._mending = mending or Mending()
        self._stuff = None if stuff is None else tuple(sorted(stuff))
        self.background = frozenset(normalized_label(label) for label in background)
        self.settings = {
            "mending": asdict(self._mending),
            "background": sorted(self.background),
            "stuff": self._stuff,
        }

    def find(self, image: Image.Image, labels: tuple[str, ...]) -> list[Detection]:
        """Return the instances of the map of classes."""
        inputs = self._processor(images=image, return_tensors="pt").to(self._model.device)
        logits = self._model(pixel_values=inputs["pixel_values"]).logits
        size = (image.height, image.width)
        full = functional.interpolate(logits.float(), size=size, mode="bilinear")
        names = self.names
        stuff = stuff_ids(names, self._stuff)
        found = instances_of(
            full.softmax(dim=1)[0].cpu().numpy(),
            self._mending,
            background={at for at, n in names.items() if normalized_label(n) in self.background},
            stuff=stuff,
        )
        sure = [(one.label, one.score, one.mask) for one in found if one.score >= self.threshold]
        return self.read_masks(sure, stuff)


class PanopticDetector(LocalDetector):
    """Any ``AutoModelForUniversalSegmentation``; detections have masks, stuff is marked.

    Stuff comes in one segment a class. An ``instance`` model knows things alone, whose masks may
    overlap in a model's mind; here each pixel goes to the surest.
    """

    auto_class = AutoModelForUniversalSegmentation
    _reader: Any = None

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        task: Task = "panoptic",
        stuff: Collection[str] | None = None,
        **options: Any,
    ) -> None:
        """As :class:`LocalDetector`.

        ``task``: what the model was trained for. ``stuff``: labels of the classes without
        instances, as the model's configuration writes them; by default those of its processor, or
        COCO's if it knows all of them, else none.
        """
        super().__init__(model, **options)
        if task not in ("panoptic", "instance"):
            raise DetectionError(f"task {task!r}: use panoptic or instance")
        self._task: Task = task
        self._stuff = None if stuff is None else tuple(sorted(stuff))
        self.settings = {"task": task, "stuff": self._stuff}
        self._task_tokens: torch.Tensor | None = None
        self._stuff_ids: frozenset[int] = frozenset()

    def open_model(self, device: torch.device) -> None:
        """Load the model, its processor, and what OneFormer is told of its task."""
        self._model = model_of(self.auto_class, self.folder, device)
        oneformer = self._model.config.model_type == "oneformer"
        # OneFormer's processor would fetch its table of classes from the hub.
        overrides = {_CLASS_INFO: None} if oneformer else {}
        self._reader = self._processor = image_processor_of(self.folder, **overrides)
        if oneformer:
            tokenizer = AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
            tokens = tokenizer(
                [f"the task is {self._task}"],
                padding="max_length",
                max_length=int(self._model.config.task_seq_len),
                truncation=True,
                return_tensors="pt",
            )
            # Its text encoder wants padding as zeros.
            self._task_tokens = tokens["input_ids"] * tokens["attention_mask"]
            # OneFormer's own post-processing does the same, but needs torchvision.
            self._reader = MaskFormerImageProcessorPil()
        if self._task == "panoptic":
            listed = self._listed_stuff() if self._stuff is None else None
            self._stuff_ids = stuff_ids(self.names, self._stuff) if listed is None else listed

    def _listed_stuff(self) -> frozenset[int] | None:
        """Return the stuff classes of the table in OneFormer's repositories; None without one."""
        try:
            settings = json.loads((self.folder / "preprocessor_config.json").read_text("utf-8"))
            table = json.loads((self.folder / str(settings[_CLASS_INFO])).read_text("utf-8"))
            return frozenset(int(at) for at, entry in table.items() if not entry["isthing"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def free_model(self) -> None:
        """Let go of them."""
        super().free_model()
        self._reader = None

    def find(self, image: Image.Image, labels: tuple[str, ...]) -> list[Detection]:
        """Return the segments."""
        asked = {} if self._task_tokens is None else {"task_inputs": [self._task]}
        inputs = self._processor(images=[image], **asked, return_tensors="pt")
        offsets = inputs.pop("patch_offsets", None)
        tensors = {
            key: value.to(self._model.device)
            for key, value in inputs.items()
            if isinstance(value, torch.Tensor)
        }
        if self._task_tokens is not None:
            tensors["task_inputs"] = self._task_tokens.to(self._model.device)
        if offsets is not None:
            tensors["patch_offsets"] = offsets
        outputs = self._model(**tensors)
        fuse: dict[str, Any] = {"label_ids_to_fuse": set(self._stuff_ids)}
        if self._model.config.model_type.startswith("eomt"):
            fuse = {"stuff_classes": sorted(self._stuff_ids)}
        (found,) = self._reader.post_process_panoptic_segmentation(
            outputs,
            threshold=self.threshold,
            target_sizes=[(image.height, image.width)],
            **fuse,
        )
        segments = found["segmentation"].cpu().numpy()
        best: dict[int, tuple[float, int]] = {}
        for info in found["segments_info"]:
            # A fused segment is listed once for each query that went into it.
            known = best.get(info["id"])
            if known is None or info["score"] > known[0]:
                best[info["id"]] = float(info["score"]), int(info["label_id"])
        masks = [(label, score, segments == number) for number, (score, label) in best.items()]
        return self.read_masks(masks, self._stuff_ids)
