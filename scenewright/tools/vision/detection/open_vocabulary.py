"""Boxes of whatever is named: OWL-ViT, OWLv2 and Grounding DINO.

OWL (Minderer et al., 2022, 2023) compares each box with each text; Grounding DINO (Liu et al.,
2023) reads all labels as one text and scores each box against its tokens. There a label's score is
that of its best token, so that a box always has one of the labels asked for, where the library's
own reading joins tokens of several.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from PIL import Image
from transformers import AutoModelForZeroShotObjectDetection, AutoTokenizer

from scenewright.core.ports.vision import Detection, DetectionError
from scenewright.tools.vision.detection.boxes import non_maximum_suppression
from scenewright.tools.vision.detection.labels import plain
from scenewright.tools.vision.detection.local import LocalDetector

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
        threshold: float | None = None,
        overlap: float = OVERLAP,
        kind: str = "owlv2",
        **options: Any,
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
        threshold = THRESHOLDS[kind] if threshold is None else threshold
        super().__init__(model, threshold=threshold, **options)
        self.settings = {"overlap": overlap, "text": _OWL_TEXT}
        self._kind = kind
        self._overlap = overlap

    def open_model(self, device: torch.device) -> None:
        """Load processor, model and tokenizer."""
        super().open_model(device)
        self._tokenizer = AutoTokenizer.from_pretrained(self.folder, local_files_only=True)

    def find(self, image: Image.Image, labels: tuple[str, ...]) -> list[Detection]:
        """Return the detections of ``labels``, without those that overlap."""
        pixels = self._processor(images=image, return_tensors="pt").to(self._model.device)
        if self._kind.startswith("owl"):
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
            found = self.read_boxes(outputs, image, dict(enumerate(labels)))
            return non_maximum_suppression(found, self._overlap)
        found = []
        for some, text, spans in self._texts(labels):
            tokens = self._tokenizer(text, return_tensors="pt", return_token_type_ids=True)
            outputs = self._model(**pixels, **tokens.to(self._model.device))
            chances = outputs.logits[0].sigmoid()
            scores = torch.stack([chances[:, span].max(dim=1).values for span in spans], dim=1)
            best, which = scores.max(dim=1)
            sides = torch.tensor([image.width, image.height] * 2, device=best.device)
            center, half = outputs.pred_boxes[0][:, :2], outputs.pred_boxes[0][:, 2:] / 2
            boxes = torch.cat((center - half, center + half), dim=1) * sides
            found += [
                Detection(some[label], tuple(box), min(1.0, score))
                for box, label, score in zip(
                    boxes.tolist(), which.tolist(), best.tolist(), strict=True
                )
                if score > self.threshold
            ]
        return non_maximum_suppression(found, self._overlap)

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
