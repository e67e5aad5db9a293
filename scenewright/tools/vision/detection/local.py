"""What all detectors on this machine share: the model's folder, its thread, its turn, its print.

Boxes of the classes that a model was trained on: DETR, RT-DETR, YOLOS and their relatives.

Things by a model of semantic segmentation: SegFormer, UperNet, BEiT and their relatives.

Things and stuff with their masks, by a model of universal segmentation.

Mask2Former, MaskFormer, OneFormer, EoMT and DETR's panoptic head all give a class and a mask for
each of their queries; the library's post-processing makes segments of them, each pixel in at most
one.

Boxes of whatever is named: OWL-ViT, OWLv2 and Grounding DINO.

OWL (Minderer et al., 2022, 2023) compares each box with each text; Grounding DINO (Liu et al.,
2023) reads all labels as one text and scores each box against its tokens. There a label's score is
that of its best token, so that a box always has one of the labels asked for, where the library's
own reading joins tokens of several.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
import transformers
from PIL import Image
from torch.nn import functional
from transformers import (
    AutoModelForObjectDetection,
    AutoModelForSemanticSegmentation,
    AutoModelForUniversalSegmentation,
    AutoModelForZeroShotObjectDetection,
    AutoTokenizer,
)
from transformers.models.maskformer.image_processing_pil_maskformer import (
    MaskFormerImageProcessorPil,
)

from scenewright.agents.judges.pictures import shrink
from scenewright.agents.judges.vlm import digest_folder
from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.error_text import error_text
from scenewright.core.ports.vision import Box, Detection, DetectionError
from scenewright.providers.device_gate import (
    Stop,
)
from scenewright.tools.vision.detection.boxes import (
    among,
    box_of,
    by_score,
    non_maximum_suppression,
    normalized_label,
    plain,
    scaled,
    stuff_ids,
    wanted_of,
)
from scenewright.tools.vision.detection.components import Mending, instances_of
from scenewright.tools.vision.local_model import LocalModel, image_processor_of, model_of

MAX_SIDE = 1333
"""Longest side that a model is shown, in pixels: that of the published detectors for COCO."""
THRESHOLD = 0.5
"""Least probability of a class, the default of the library's post-processing."""
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
        self._max_side = max_side
        self._processor: Any = None
        self._model: Any = None

    @property
    def id(self) -> str:
        """``transformers:`` and the name."""
        return f"transformers:{self.name}"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of weights, library versions and the settings that matter."""
        parts = [
            type(self).__name__,
            digest_folder(self.folder),
            transformers.__version__,
            torch.__version__,
            self._device,
            self._max_side,
            self.threshold,
            self._settings(),
            _READING,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

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
        labels = dict.fromkeys(
            normalized_label(name) for name in names if not self._is_nothing(name)
        )
        return ClosedVocabulary(classes=tuple(labels))

    async def detect(self, image: Image.Image, labels: Sequence[str] = ()) -> tuple[Detection, ...]:
        """As the port says. Raises ``DetectionError`` also where the model fails on ``image``.

        Cancelling stops the work before the model's next turn.
        """
        self._check_open()
        asked = tuple(dict.fromkeys(label for label in labels if label.strip()))
        if self.open_vocabulary and not asked:
            raise DetectionError(
                f"{self.id} looks for what it is told: give it labels, for example those of the "
                "scene's objects"
            )
        return await self._run(lambda stop: self._detect(image, asked, stop))

    def _open(self, device: torch.device) -> None:
        """Load processor and model; what the libraries raise is told by the caller."""
        self._processor = image_processor_of(self.folder)
        self._model = model_of(self.auto_class, self.folder, device)

    def _free(self) -> None:
        """Let go of the model."""
        self._processor = self._model = None

    @abstractmethod
    def _find(self, image: Image.Image, labels: tuple[str, ...]) -> list[Detection]:
        """Return the detections in ``image`` (RGB) above the threshold.

        Boxes may reach out of the picture.
        """

    def _boxes(self, outputs: Any, image: Image.Image, names: dict[int, str]) -> list[Detection]:
        """Read boxes by the library's post-processing."""
        (found,) = self._processor.post_process_object_detection(
            outputs, threshold=self.threshold, target_sizes=[(image.height, image.width)]
        )
        columns = (found[name].tolist() for name in ("boxes", "labels", "scores"))
        return [
            Detection(names[label], _box(box), min(1.0, score))
            for box, label, score in zip(*columns, strict=True)
        ]

    def _is_nothing(self, label: str) -> bool:
        """Whether a label of the model stands for no thing."""
        return False

    def _settings(self) -> dict[str, Any]:
        """Return further settings that the detections depend on, as JSON."""
        return {}

    def _detect(
        self, image: Image.Image, labels: tuple[str, ...], stop: Stop
    ) -> tuple[Detection, ...]:
        self._make_ready(stop)
        shown = shrink(image, self._max_side)
        with self._turn(stop, f"a picture of {shown.width}×{shown.height}"):
            found = self._find(shown, labels)
        wanted = wanted_of(() if self.open_vocabulary else labels)
        kept = [one for one in found if among(one.name, wanted)]
        return tuple(by_score(scaled(kept, shown.size, image.size)))


def names_of(model: Any) -> dict[int, str]:
    """Class → label as the model's configuration has it."""
    return {int(at): str(label) for at, label in model.config.id2label.items()}


def said(label: str) -> str:
    """Return the name of a detection with that label."""
    return plain(label) or label


class ClosedSetDetector(LocalDetector):
    """Any ``AutoModelForObjectDetection``; things have boxes and no masks."""

    auto_class = AutoModelForObjectDetection

    def _find(self, image: Image.Image, labels: tuple[str, ...]) -> list[Detection]:
        inputs = self._processor(images=image, return_tensors="pt").to(self._model.device)
        names = {at: said(name) for at, name in names_of(self._model).items()}
        return self._boxes(self._model(**inputs), image, names)


BACKGROUND = ("background", "unlabeled", "void")
"""Labels of what is no thing."""
MAX_MAP_SIDE = 640
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
        max_side: int = MAX_MAP_SIDE,
        mending: Mending | None = None,
        background: Collection[str] = BACKGROUND,
        stuff: Collection[str] | None = None,
    ) -> None:
        """As :class:`LocalDetector`.

        ``mending``: how components become instances. ``background``: labels of what is no thing.
        ``stuff``: labels of the classes without instances, which come in one detection each; by
        default COCO's if the model knows all of them, else none.
        """
        super().__init__(model, name=name, device=device, threshold=threshold, max_side=max_side)
        self._mending = mending or Mending()
        self._background = frozenset(normalized_label(label) for label in background)
        self._stuff = None if stuff is None else tuple(sorted(stuff))

    def _is_nothing(self, label: str) -> bool:
        return normalized_label(label) in self._background

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
            background={
                at for at, name in names.items() if normalized_label(name) in self._background
            },
            stuff=stuff,
        )
        detections = []
        for one in found:
            box = box_of(one.mask)
            if box is not None and one.score >= self.threshold:
                score, is_stuff = min(1.0, one.score), one.label in stuff
                detections.append(Detection(said(names[one.label]), box, score, one.mask, is_stuff))
        return detections


Task = Literal["panoptic", "instance"]

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
        """As :class:`LocalDetector`.

        ``task``: what the model was trained for. ``stuff``: labels of the classes without
        instances, as the model's configuration writes them; by default those of its processor, or
        COCO's if it knows all of them, else none.
        """
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
    """Return the stuff classes by the class table of OneFormer's repositories in ``folder``.

    None if there is no such table.
    """
    try:
        named = json.loads((folder / "preprocessor_config.json").read_text("utf-8"))[_CLASS_INFO]
        table = json.loads((folder / str(named)).read_text("utf-8"))
        return frozenset(int(at) for at, entry in table.items() if not entry["isthing"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


THRESHOLDS: dict[str, float] = {
    "owlvit": 0.1,
    "owlv2": 0.1,
    "grounding-dino": 0.25,
    "mm-grounding-dino": 0.25,
}
"""Kind of model (``model_type``) → least score of a detection, the library's defaults."""
OVERLAP = 0.5
"""Of two boxes of one label that share more of their union, the surer one stays."""
_OWL_TEXT = "a photo of a {}"


class OpenVocabularyDetector(LocalDetector):
    """An ``AutoModelForZeroShotObjectDetection`` of :data:`THRESHOLDS`.

    Detections are named as they were asked for.
    """

    open_vocabulary = True
    auto_class = AutoModelForZeroShotObjectDetection

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        name: str | None = None,
        device: str = "auto",
        threshold: float | None = None,
        max_side: int = MAX_SIDE,
        overlap: float = OVERLAP,
        kind: str = "owlv2",
    ) -> None:
        """As :class:`LocalDetector`.

        ``overlap``: see :data:`OVERLAP`. ``kind``: the ``model_type`` of the model's configuration.
        """
        if kind not in THRESHOLDS:
            raise DetectionError(
                f"{model}: open vocabulary models of type {kind!r} are not known here, but "
                f"{', '.join(THRESHOLDS)}"
            )
        if not 0 <= overlap <= 1:
            raise DetectionError(f"overlap {overlap}: use a share from 0 to 1")
        super().__init__(
            model,
            name=name,
            device=device,
            threshold=THRESHOLDS[kind] if threshold is None else threshold,
            max_side=max_side,
        )
        self._kind = kind
        self._overlap = overlap
        self._tokenizer: Any = None

    def _settings(self) -> dict[str, Any]:
        return {"overlap": self._overlap, "text": _OWL_TEXT}

    def _open(self, device: torch.device) -> None:
        super()._open(device)
        self._tokenizer = AutoTokenizer.from_pretrained(self.folder, local_files_only=True)

    def _free(self) -> None:
        super()._free()
        self._tokenizer = None

    def _find(self, image: Image.Image, labels: tuple[str, ...]) -> list[Detection]:
        pixels = self._processor(images=image, return_tensors="pt").to(self._model.device)
        if self._kind.startswith("owl"):
            found = self._owl(image, pixels, labels)
        else:
            found = self._dino(image, pixels, labels)
        return non_maximum_suppression(found, self._overlap)

    def _owl(self, image: Image.Image, pixels: Any, labels: tuple[str, ...]) -> list[Detection]:
        texts = self._tokenizer(
            [_OWL_TEXT.format(plain(label)) for label in labels],
            padding="max_length",
            max_length=self._model.config.text_config.max_position_embeddings,
            truncation=True,
            return_tensors="pt",
        ).to(self._model.device)
        outputs = self._model(
            input_ids=texts["input_ids"],
            attention_mask=texts["attention_mask"],
            pixel_values=pixels["pixel_values"],
        )
        return self._boxes(outputs, image, dict(enumerate(labels)))

    def _dino(self, image: Image.Image, pixels: Any, labels: tuple[str, ...]) -> list[Detection]:
        found: list[Detection] = []
        for some, text, spans in self._texts(labels):
            tokens = self._tokenizer(text, return_tensors="pt", return_token_type_ids=True)
            outputs = self._model(**pixels, **tokens.to(self._model.device))
            chances = outputs.logits[0].sigmoid()
            scores = torch.stack([chances[:, span].max(dim=1).values for span in spans], dim=1)
            best, which = scores.max(dim=1)
            sides = torch.tensor([image.width, image.height] * 2, device=best.device)
            center, half = outputs.pred_boxes[0][:, :2], outputs.pred_boxes[0][:, 2:] / 2
            boxes = torch.cat((center - half, center + half), dim=1) * sides
            for box, label, score in zip(
                boxes.tolist(), which.tolist(), best.tolist(), strict=True
            ):
                if score > self.threshold:
                    found.append(Detection(some[label], _box(box), min(1.0, score)))
        return found

    def _texts(self, labels: tuple[str, ...]) -> list[tuple[tuple[str, ...], str, list[list[int]]]]:
        """(labels, their text, tokens of each label): as few texts as the model's length allows."""
        most = int(self._model.config.max_text_len)
        made = []
        rest = labels
        while rest:
            some = rest
            while True:
                text, spans, length = self._spans(some)
                if length <= most:
                    break
                if len(some) == 1:
                    raise DetectionError(
                        f"the label {some[0]!r:.60} is longer than the {most} tokens of {self.id}: "
                        "use a shorter one"
                    )
                some = some[: max(1, min(len(some) - 1, len(some) * most // length))]
            made.append((some, text, spans))
            rest = rest[len(some) :]
        return made

    def _spans(self, labels: tuple[str, ...]) -> tuple[str, list[list[int]], int]:
        text, places = "", []
        for label in labels:
            # A full stop ends a label.
            word = " ".join(plain(label).lower().replace(".", " ").split()) or "thing"
            places.append((len(text), len(text) + len(word)))
            text += f"{word}. "
        read = self._tokenizer(text.rstrip(), return_offsets_mapping=True)
        spans: list[list[int]] = [
            [
                at
                for at, (start, end) in enumerate(read["offset_mapping"])
                if end > start and start < last and end > first
            ]
            for first, last in places
        ]
        lost = [label for label, span in zip(labels, spans, strict=True) if not span]
        if lost:
            raise DetectionError(f"{self.id} cannot read the label {lost[0]!r:.60}: use words")
        return text.rstrip(), spans, len(read["input_ids"])


def _box(sides: list[float]) -> Box:
    return sides[0], sides[1], sides[2], sides[3]
