"""Style realism: how likely a picture is a photo rather than an illustration (REAL, Section 3.3).

Any CLIP in transformers layout is the scorer: the picture is compared with one text a class, and
the score is P(photo), the softmax over the two scaled cosines. The paper fine-tunes it first
(:mod:`scenewright.evals.studies.real.style_training`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scenewright.core.images import ImageError, hash_of_image, load_image
from scenewright.core.validation import first_problem
from scenewright.evals.metrics.weights import digest, find_model, fingerprint
from scenewright.evals.metrics.worker import Worker, shared
from scenewright.evals.store.journal import Features
from scenewright.evals.studies.real.style_data import StyleError
from scenewright.evals.studies.real.style_store import StyleStore

TEXTS_FILE = "style.json"
"""Beside a trained scorer's weights: the texts that it was trained with."""
_VERSION = 1
"""Raised when the same picture would get another score."""


class StyleTexts(BaseModel):
    """What a picture is compared with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    photo: str = Field(default="a photo", min_length=1)
    """Text of the class that is scored."""
    illustration: str = Field(default="an illustration", min_length=1)
    """Text of the other class."""

    @model_validator(mode="after")
    def _apart(self) -> StyleTexts:
        if self.photo.strip().lower() == self.illustration.strip().lower():
            raise ValueError("both classes have the same text: give each its own")
        return self

    @property
    def both(self) -> tuple[str, str]:
        """In the order of the scores: photo, illustration."""
        return self.photo, self.illustration


@dataclass(frozen=True, slots=True)
class StyleScore:
    """The style of one picture."""

    file: Path
    """Its file."""
    score: float | None
    """P(photo); none if the picture could not be read."""
    reason: str = ""
    """Why there is no score."""


def texts_of(folder: Path) -> StyleTexts:
    """The texts that the scorer in ``folder`` was trained with; the usual ones if it says none.

    Raises ``StyleError`` for a damaged file.
    """
    file = folder / TEXTS_FILE
    if not file.is_file():
        return StyleTexts()
    try:
        return StyleTexts.model_validate(json.loads(file.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise StyleError(f"{file}: {first_problem(error)}") from error
    except (OSError, ValueError) as error:
        raise StyleError(f"{file} cannot be read: {error}") from error


class LoadedStyle:
    """A loaded CLIP with its preparation of pictures. Not thread-safe: one thread uses it."""

    def __init__(self, folder: Path, device: str, texts: StyleTexts) -> None:
        """From ``folder``, in single precision; ``StyleError`` if that fails or it is no CLIP."""
        import transformers
        from transformers import AutoImageProcessor, AutoTokenizer, CLIPModel
        from transformers.utils import logging

        bar = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        try:
            kind = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
            if kind != "clip":
                raise StyleError(f"{folder} holds a {kind}: name a CLIP")
            # The variant without torchvision, which is not everywhere.
            self.processor: Any = AutoImageProcessor.from_pretrained(
                folder, local_files_only=True, backend="pil"
            )
            self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            self.model: Any = CLIPModel.from_pretrained(folder, local_files_only=True).float()
            self.model.to(device).eval()
        except StyleError:
            raise
        except Exception as error:
            raise StyleError(
                f"{folder} could not be loaded with transformers {transformers.__version__} as a "
                f"CLIP on {device}: {error}"
            ) from error
        finally:
            if bar:
                logging.enable_progress_bar()
        self.given = self.tokenizer(list(texts.both), padding=True, return_tensors="pt").to(device)
        room = self.model.config.text_config.max_position_embeddings
        if self.given["input_ids"].shape[1] > room:
            raise StyleError(
                f"a text of {self.given['input_ids'].shape[1]} tokens is too long for {folder}, "
                f"which reads {room}: use shorter ones"
            )

    def pixels(self, images: Sequence[Image.Image]) -> Any:
        """What the model takes of RGB pictures, (n, 3, side, side) on its device."""
        found = self.processor(images=list(images), return_tensors="pt")["pixel_values"]
        return found.to(self.model.device)

    def logits(self, pixels: Any) -> Any:
        """Scaled cosines of pictures with the texts, (n, 2)."""
        output = self.model(pixel_values=pixels, **self.given)
        return output.logits_per_image.float()

    def scores(self, images: Sequence[Image.Image]) -> Features:
        """(n, 1) P(photo)."""
        import torch

        with torch.inference_mode():
            found = self.logits(self.pixels(images)).softmax(-1)[:, :1]
        rows: Features = found.cpu().numpy().astype(np.float32)
        return rows


class StyleScorer:
    """P(photo) of pictures, by a CLIP."""

    def __init__(
        self,
        model: str | Path,
        texts: StyleTexts | None = None,
        *,
        device: str = "auto",
        batch: int = 32,
        store: Path | None = None,
    ) -> None:
        """``model``: a folder, or a repository that was fetched before (nothing is downloaded);
        ``texts``: by default those that it was trained with; ``batch``: pictures in one pass;
        ``store``: a file that keeps scores, so that nothing is computed twice.

        Raises ``MetricError`` if the model is not on this machine.
        """
        if batch < 1:
            raise StyleError(f"{batch} pictures cannot be one pass: use 1 or more")
        self._name = str(model)
        self._folder = find_model("style", self._name)
        self._texts = texts if texts is not None else texts_of(self._folder)
        self._batch = batch
        self._store = store
        key = ("style", self._folder.resolve(), device, self._texts)
        self._worker: Worker[LoadedStyle] = shared(
            key,
            lambda: Worker(
                self._name, device, lambda where: LoadedStyle(self._folder, where, self._texts)
            ),
        )

    @property
    def id(self) -> str:
        """``style:`` and the model as it was named."""
        return f"style:{self._name}"

    @property
    def texts(self) -> StyleTexts:
        """What pictures are compared with."""
        return self._texts

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of weights, texts, device and library versions."""
        return fingerprint(_VERSION, digest(self._folder), self._worker.device, *self._texts.both)

    async def score(self, images: Sequence[Image.Image]) -> list[float]:
        """P(photo) of RGB pictures, in [0, 1]; ``StyleError`` if the model cannot be loaded."""
        if not images:
            return []
        rows = await self._worker.rows(images, self._batch, lambda model, part: model.scores(part))
        return [float(row[0]) for row in rows]

    async def photo(self, image: Image.Image) -> float:
        """P(photo) of one RGB picture."""
        return (await self.score([image]))[0]

    async def score_files(self, files: Sequence[Path]) -> AsyncIterator[StyleScore]:
        """The same of files, one after the other in their order.

        Of a file that cannot be read the score says why. What the store knows is not computed,
        also after a kill.
        """
        store = StyleStore(self._store) if self._store is not None else None
        try:
            for start in range(0, len(files), self._batch):
                for found in await self._part(files[start : start + self._batch], store):
                    yield found
        finally:
            if store is not None:
                store.close()

    async def _part(self, files: Sequence[Path], store: StyleStore | None) -> list[StyleScore]:
        read = await asyncio.gather(*(asyncio.to_thread(_read, file) for file in files))
        images = {one[0]: one[1] for one in read if not isinstance(one, ImageError)}
        known = store.known(self.fingerprint, list(images)) if store is not None else {}
        fresh = [name for name in images if name not in known]
        scores = await self.score([images[name] for name in fresh])
        made = dict(zip(fresh, scores, strict=True))
        if store is not None:
            store.keep(self.fingerprint, made)
        known = {**known, **made}
        return [
            StyleScore(file, None, str(one))
            if isinstance(one, ImageError)
            else StyleScore(file, known[one[0]])
            for file, one in zip(files, read, strict=True)
        ]


def _read(file: Path) -> tuple[str, Image.Image] | ImageError:
    try:
        image = load_image(file)
    except ImageError as error:
        return error
    return hash_of_image(image), image
