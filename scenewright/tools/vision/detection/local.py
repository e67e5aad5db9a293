"""What all detectors on this machine share: the model's folder, its thread, its turn, its print."""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
import transformers
from PIL import Image
from transformers import AutoImageProcessor
from transformers.utils import logging as transformers_logging

from scenewright.agents.judges.pictures import shrink
from scenewright.agents.judges.vlm import device_of, digest_folder, find_model
from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.images import ImageError
from scenewright.core.ports.detector import Detection, DetectionError
from scenewright.core.ports.judge import JudgeError
from scenewright.providers.device_gate import LOADING, DeviceGate, Stop, Stopped, gate_of
from scenewright.providers.model_thread import ModelThread
from scenewright.tools.vision.detection.boxes import by_score, scaled
from scenewright.tools.vision.detection.labels import among, folded, plain, wanted_of

MAX_SIDE = 1333
"""Longest side that a model is shown, in pixels: that of the published detectors for COCO."""
_READING = 1
"""Raised when the way in which detections are read from a model changes."""


class LocalDetector(ABC):
    """Implements :class:`~scenewright.core.ports.detector.Detector` for a model of transformers.

    One worker thread owns the model, so pictures wait in line and the event loop stays free; on an
    accelerator each also waits for the device's turn. The model is loaded with the first picture,
    or by :meth:`load`. Weights are in single precision: boxes and masks suffer from less.
    """

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
        threshold: float,
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
        self.folder = folder_of(model)
        """Where the model lies."""
        self.threshold = threshold
        """Least score of a detection."""
        self._name = name or str(model)
        self._device = device
        self._max_side = max_side
        self._loaded = False
        self._failure: DetectionError | None = None
        self._thread = ModelThread("detector")
        self._processor: Any = None
        self._model: Any = None

    @property
    def id(self) -> str:
        """``transformers:`` and the name."""
        return f"transformers:{self._name}"

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
        """The labels of the model's configuration as people say them; None for an open
        vocabulary. The model is not loaded for it. ``DetectionError`` if it cannot be read."""
        if self.open_vocabulary:
            return None
        try:
            config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
            names = [str(name) for name in config["id2label"].values()]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DetectionError(
                f"{self.folder}/config.json names no labels: {type(error).__name__}: {error}"
            ) from error
        labels = dict.fromkeys(folded(name) for name in names if not self._is_nothing(name))
        return ClosedVocabulary(classes=tuple(labels))

    async def load(self) -> None:
        """Load the model now; ``DetectionError`` if that fails."""
        self._check_open()
        await self._thread.run(self._make_ready)

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
        return await self._thread.run(lambda stop: self._detect(image, asked, stop))

    async def aclose(self) -> None:
        """Wait for the running picture, then free the model."""
        if self._thread.closed:
            return
        await self._thread.aclose()
        self._free()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _open(self, device: torch.device) -> None:
        """Load processor and model; what the libraries raise is told by the caller."""
        self._processor = image_processor_of(self.folder)
        self._model = model_of(self.auto_class, self.folder, device)

    def _free(self) -> None:
        """Let go of the model."""
        self._processor = self._model = None

    @abstractmethod
    def _find(self, image: Image.Image, labels: tuple[str, ...]) -> list[Detection]:
        """Detections in ``image`` (RGB) above the threshold; boxes may reach out of it."""

    def _is_nothing(self, label: str) -> bool:
        """Whether a label of the model stands for no thing."""
        return False

    def _settings(self) -> dict[str, Any]:
        """What else the detections hang on, as JSON."""
        return {}

    def _check_open(self) -> None:
        if self._thread.closed:
            raise DetectionError(f"{self.id} is closed: make a new detector")

    @property
    def _gate(self) -> DeviceGate:
        return gate_of(str(device_of(self._device)))

    def _make_ready(self, stop: Stop) -> None:
        """Runs in the worker thread, as what follows."""
        if self._failure is not None:
            raise self._failure
        if self._loaded:
            return
        try:
            device = device_of(self._device)
            with self._gate.turn(stop), LOADING, _silent():
                self._open(device)
        except Stopped:
            raise
        except DetectionError as error:
            self._failure = error
            raise
        except Exception as error:
            self._failure = DetectionError(
                f"{self.folder} could not be loaded with transformers {transformers.__version__} "
                f"on {self._device}: {type(error).__name__}: {error}"
            )
            raise self._failure from error
        self._loaded = True

    def _detect(
        self, image: Image.Image, labels: tuple[str, ...], stop: Stop
    ) -> tuple[Detection, ...]:
        self._make_ready(stop)
        shown = shrink(image, self._max_side)
        try:
            with self._gate.turn(stop), torch.inference_mode():
                found = self._find(shown, labels)
        except (Stopped, DetectionError, ImageError):
            raise
        except Exception as error:
            raise DetectionError(
                f"{self.id} failed on a picture of {shown.width}×{shown.height}: "
                f"{type(error).__name__}: {error}"
            ) from error
        wanted = wanted_of(() if self.open_vocabulary else labels)
        kept = [one for one in found if among(one.name, wanted)]
        return tuple(by_score(scaled(kept, shown.size, image.size)))


def folder_of(model: str | os.PathLike[str]) -> Path:
    """The local folder of ``model``; ``DetectionError`` if there is none, or files are missing."""
    try:
        return find_model(model)
    except JudgeError as error:
        raise DetectionError(str(error)) from None


def image_processor_of(folder: Path, **overrides: Any) -> Any:
    """The image processor in ``folder`` that works on Pillow's pictures."""
    # Without a backend the library asks for torchvision first.
    return AutoImageProcessor.from_pretrained(
        folder, backend="pil", local_files_only=True, **overrides
    )


def model_of(auto_class: Any, folder: Path, device: torch.device) -> Any:
    """The model in ``folder``, in single precision, for inference."""
    model = auto_class.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    return model.to(device).eval()


def names_of(model: Any) -> dict[int, str]:
    """Class → label as the model's configuration has it."""
    return {int(at): str(label) for at, label in model.config.id2label.items()}


def said(label: str) -> str:
    """The name of a detection with that label."""
    return plain(label) or label


class _silent:
    """No progress bar while a model is loaded."""

    def __enter__(self) -> None:
        self._bar = transformers_logging.is_progress_bar_enabled()
        transformers_logging.disable_progress_bar()

    def __exit__(self, *_: object) -> None:
        if self._bar:
            transformers_logging.enable_progress_bar()
