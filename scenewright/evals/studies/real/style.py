"""Style realism: how likely a picture is a photo rather than an illustration (REAL, Sec. 3.3).

Any CLIP in transformers layout is the scorer: the picture is compared with one text a class, and
the score is P(photo), the softmax over the two scaled cosines. The paper fine-tunes it first
(:mod:`scenewright.evals.studies.real.style_training`). Scores can be kept, so that none is computed
twice.

A set of labelled pictures is a folder with the folders ``photo`` and ``illustration``, or a file of
JSON lines ``{"image": "a.png", "label": "photo"}``, whose paths begin at the file's own folder. A
line may say ``"split": "train"`` or ``"test"``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scenewright.core.images import ENDINGS, ImageError, hash_of_image, load_image, nothing_drawn
from scenewright.core.validation import FrozenModel, first_problem
from scenewright.evals.datasets import reading
from scenewright.evals.metrics.base import MetricError
from scenewright.evals.metrics.encoders import (
    Worker,
    digest,
    find_model,
    fingerprint,
    quiet,
    shared,
)
from scenewright.evals.store.journal import Features, Journal, open_journal

_THREADS = 4
_AT_ONCE = 16


def pictures_in(folder: Path) -> list[Path]:
    """Return the pictures of ``folder`` and the folders below it, sorted; hidden ones are left out.

    ``OSError`` if it cannot be read.
    """
    return sorted(
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in ENDINGS
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    )


def digests(files: Iterable[Path]) -> Iterator[tuple[Path, str | ImageError]]:
    """Yield each file with the content hash of its picture, or why it cannot be read.

    The hash is that of rows of scores. Files come in their order; a few are read at the same time.
    """
    rest = iter(files)
    with ThreadPoolExecutor(_THREADS) as threads:
        while some := list(islice(rest, _AT_ONCE)):
            yield from zip(some, threads.map(_digest, some), strict=True)


def _digest(file: Path) -> str | ImageError:
    try:
        return hash_of_image(load_image(file))
    except ImageError as error:
        return error


Label = Literal["photo", "illustration"]
Split = Literal["train", "test"]
LABELS: tuple[Label, ...] = get_args(Label)
"""The classes; the first is what is scored."""
LEAST = 4
"""Pictures of each class, at least: fewer cannot be parted into training and test."""
_TOLD = 5


class StyleError(MetricError):
    """A style scorer or a set for one that cannot be used; says how to fix it."""


@dataclass(frozen=True, slots=True)
class LabelledPicture:
    """One picture of a set."""

    file: Path
    """Where it lies."""
    label: Label
    """Its class."""
    split: Split | None = None
    """Its part of the set; none: it is drawn."""
    digest: str = ""
    """Hash of its pixels; empty until :func:`checked`."""


@dataclass(frozen=True, slots=True)
class StyleSet:
    """A set that was read whole."""

    train: tuple[LabelledPicture, ...]
    """What is learned from."""
    test: tuple[LabelledPicture, ...]
    """What is held out."""
    repeated: int = 0
    """Pictures that were left out since the set holds the same pixels already."""

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of contents, labels and parts; not of where the files lie."""
        rows = [
            f"{part}\0{one.label}\0{one.digest}\n"
            for part, pictures in (("train", self.train), ("test", self.test))
            for one in pictures
        ]
        return hashlib.sha256("".join(rows).encode()).hexdigest()


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    image: str = Field(min_length=1)
    label: Label
    split: Split | None = None


def read_labelled(source: Path) -> list[LabelledPicture]:
    """Return the pictures that a folder or a file of JSON lines names; they are not opened.

    Raises ``StyleError`` or ``DatasetError`` for what is not there or not such a set.
    """
    if source.is_dir():
        return [
            LabelledPicture(file, label) for label in LABELS for file in _of_folder(source, label)
        ]
    if not source.is_file():
        raise StyleError(
            f"{source} does not exist: give a folder with the folders {' and '.join(LABELS)}, or a "
            'file of JSON lines {"image": …, "label": …}'
        )
    found = []
    for place, row in reading.json_lines(source):
        line = reading.checked(_Line, row, place)
        found.append(LabelledPicture(source.parent / line.image, line.label, line.split))
    return found


def _of_folder(source: Path, label: Label) -> list[Path]:
    folder = source / label
    if not folder.is_dir():
        raise StyleError(
            f"{source} has no folder {label!r}: put the pictures of each class into "
            f"{' and '.join(LABELS)}"
        )
    try:
        return pictures_in(folder)
    except OSError as error:
        raise StyleError(f"{folder} cannot be read: {error.strerror or error}") from error


def checked(
    pictures: Sequence[LabelledPicture],
    held_out: float = 0.2,
    seed: int = 0,
    tell: Callable[[int], None] = lambda done: None,
) -> StyleSet:
    """Open every picture, and part the set into training and test.

    Pictures without a split are drawn by content: a share of ``held_out`` of each class is for the
    test, the same ones for the same ``seed`` wherever they lie. Of equal pictures the first stays,
    so that no test picture was learned. ``tell`` gets how many were read. Raises ``StyleError``
    that names all pictures at fault at once: unreadable ones, and equal ones of both classes; and
    for a set with too few of a class or of a part.
    """
    if not 0.0 < held_out < 1.0:
        raise StyleError(f"a share of {held_out:g} cannot be held out: use one between 0 and 1")
    known: dict[str, LabelledPicture] = {}
    faults: list[str] = []
    repeated = 0
    read = digests(one.file for one in pictures)
    for done, (one, (_, found)) in enumerate(zip(pictures, read, strict=True), start=1):
        tell(done)
        if not isinstance(found, str):
            faults.append(str(found))
            continue
        first = known.setdefault(found, replace(one, digest=found))
        if first.file is one.file:
            continue
        if first.label != one.label:
            faults.append(f"{one.file} is labelled {one.label}, the equal {first.file} is not")
        elif None not in (first.split, one.split) and first.split != one.split:
            faults.append(f"{one.file} and the equal {first.file} are in both train and test")
        else:
            repeated += 1
    if faults:
        more = f"; and {len(faults) - _TOLD} more" if len(faults) > _TOLD else ""
        raise StyleError(
            f"{len(faults)} pictures of the set cannot be used: {'; '.join(faults[:_TOLD])}{more}. "
            "Mend or take them out"
        )
    train: list[LabelledPicture] = []
    test: list[LabelledPicture] = []
    for label in LABELS:
        inside = [one for one in known.values() if one.label == label]
        if len(inside) < LEAST:
            raise StyleError(
                f"the set has {len(inside)} different pictures of the class {label!r}: both "
                f"classes are needed, with {LEAST} or more each"
            )
        drawn = sorted((one for one in inside if one.split is None), key=lambda o: _draw(o, seed))
        cut = max(1, round(held_out * len(drawn))) if drawn else 0
        test += [one for one in inside if one.split == "test"] + drawn[:cut]
        train += [one for one in inside if one.split == "train"] + drawn[cut:]
    for name, part in (("train", train), ("test", test)):
        if {one.label for one in part} != set(LABELS):
            raise StyleError(
                f"the part {name!r} lacks a class: leave `split` away, or give both parts both"
            )
    return StyleSet(tuple(train), tuple(test), repeated)


def _draw(one: LabelledPicture, seed: int) -> str:
    return hashlib.sha256(f"{seed}\0{one.digest}".encode()).hexdigest()


TEXTS_FILE = "style.json"
"""Beside a trained scorer's weights: the texts that it was trained with."""
_VERSION = 1
"""Raised when the same picture would get another score."""


class StyleTexts(FrozenModel):
    """What a picture is compared with."""

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
    """Return the texts that the scorer in ``folder`` was trained with, else the usual ones.

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
        """Load ``folder`` in single precision; ``StyleError`` if that fails or it is not a CLIP."""
        import transformers
        from transformers import AutoImageProcessor, AutoTokenizer, CLIPModel

        try:
            kind = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
            if kind != "clip":
                raise StyleError(f"{folder} holds a {kind}: name a CLIP")
            with quiet():
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
        self.given = self.tokenizer(list(texts.both), padding=True, return_tensors="pt").to(device)
        room = self.model.config.text_config.max_position_embeddings
        if self.given["input_ids"].shape[1] > room:
            raise StyleError(
                f"a text of {self.given['input_ids'].shape[1]} tokens is too long for {folder}, "
                f"which reads {room}: use shorter ones"
            )

    def pixels(self, images: Sequence[Image.Image]) -> Any:
        """Return RGB pictures as the model takes them, (n, 3, side, side) on its device."""
        found = self.processor(images=list(images), return_tensors="pt")["pixel_values"]
        return found.to(self.model.device)

    def logits(self, pixels: Any) -> Any:
        """Return the scaled cosines of pictures with the texts, (n, 2)."""
        output = self.model(pixel_values=pixels, **self.given)
        return output.logits_per_image.float()

    def scores(self, images: Sequence[Image.Image]) -> Features:
        """Return (n, 1) P(photo)."""
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
        """Score with ``model``: a folder, or a repository that was fetched before.

        Nothing is downloaded. ``texts``: by default those that it was trained with; ``batch``:
        pictures in one pass; ``store``: a file that keeps scores, so that nothing is computed
        twice. Raises ``MetricError`` if the model is not on this machine.
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
        """Return P(photo) of RGB pictures, in [0, 1].

        Raises ``StyleError`` if the model cannot be loaded.
        """
        if not images:
            return []
        rows = await self._worker.rows(images, self._batch, lambda model, part: model.scores(part))
        return [float(row[0]) for row in rows]

    async def score_files(self, files: Sequence[Path]) -> AsyncIterator[StyleScore]:
        """Yield the scores of files in their order.

        A file that cannot be read has the reason in place of a score. What the store knows is not
        computed, also after a kill.
        """
        with open_journal(self._store) as store:
            for start in range(0, len(files), self._batch):
                for found in await self._part(files[start : start + self._batch], store):
                    yield found

    async def _part(self, files: Sequence[Path], store: Journal) -> list[StyleScore]:
        read = await asyncio.gather(*(asyncio.to_thread(_read, file) for file in files))
        images = {one[0]: one[1] for one in read if not isinstance(one, ImageError)}
        known = store.known_vectors(self.fingerprint, list(images), 1)
        fresh = [name for name in images if name not in known]
        scores = await self.score([images[name] for name in fresh])
        made = np.array(scores, np.float32)[:, None]
        store.put_vectors(self.fingerprint, fresh, made)
        known |= dict(zip(fresh, made, strict=True))
        return [
            StyleScore(file, None, str(one))
            if isinstance(one, ImageError)
            else StyleScore(file, float(known[one[0]][0]))
            for file, one in zip(files, read, strict=True)
        ]


def _read(file: Path) -> tuple[str, Image.Image] | ImageError:
    try:
        image = load_image(file)
    except ImageError as error:
        return error
    empty = nothing_drawn(image)
    return ImageError(f"{file}: {empty}") if empty else (hash_of_image(image), image)
