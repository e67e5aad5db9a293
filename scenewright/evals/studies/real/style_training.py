"""Fine-tunes a CLIP to tell photos from illustrations (REAL, Sections 3.3 and 5.3).

The defaults are the paper's: rate 5e-5, batches of 8, 5 epochs. The optimizer is AdamW at a
constant rate. The result is a folder that transformers, and this package, load as any CLIP.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

from scenewright.core.images import load_image
from scenewright.evals.metrics.weights import digest, find_model, fingerprint
from scenewright.evals.studies.real.style import TEXTS_FILE, LoadedStyle, StyleTexts
from scenewright.evals.studies.real.style_checkpoint import (
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from scenewright.evals.studies.real.style_data import LABELS, StyleError, StyleSet
from scenewright.evals.studies.real.style_loss import batches, style_loss
from scenewright.evals.studies.real.style_report import StyleFigures, StyleReport, figures_of
from scenewright.miniature.training.loop import autocast, forget_origin, pick_device
from scenewright.runs.folder import write_json

REPORT = "report.json"
"""Beside the weights: what was learned, and how well."""
CHECKPOINT = "checkpoint.safetensors"
"""In the folder of work that is not finished."""
_THREADS = 4


class StylePlan(BaseModel):
    """How a scorer is trained."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    texts: StyleTexts = StyleTexts()
    """What pictures are compared with."""
    rate: float = Field(default=5e-5, gt=0)
    """Learning rate."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Of AdamW."""
    batch: int = Field(default=8, ge=2)
    """Pictures a step."""
    epochs: int = Field(default=5, ge=1)
    """Passes over the training part."""
    seed: int = Field(default=0, ge=0)
    """Of the order of pictures and of dropout, where the model has any."""


@dataclass(frozen=True, slots=True)
class StyleStand:
    """How far a training is."""

    doing: str
    """What it is at."""
    step: int
    """Steps done."""
    steps: int
    """Steps in all."""
    loss: float | None = None
    """Of the last step."""


OnStand = Callable[[StyleStand], None]


def train_style(
    model: str | Path,
    data: StyleSet,
    out: Path,
    plan: StylePlan | None = None,
    *,
    device: str = "auto",
    save_seconds: float = 120.0,
    most_steps: int | None = None,
    name: str = "",
    tell: OnStand = lambda stand: None,
) -> StyleReport | None:
    """Train ``model`` (a folder, or a repository that was fetched before) on ``data`` into ``out``.

    A training that was stopped goes on where its last checkpoint was, and ends with the same
    weights, bit by bit, on the same machine; one that is finished is not done again.
    ``save_seconds``: how much work a kill loses at most; ``most_steps``: stop after so many steps
    of this call, with a checkpoint; the result is then None unless that was the end. ``name``: what
    the report calls the model. Raises
    ``StyleError`` for a model that is no CLIP, a folder that holds something else or a loss that is
    no number, ``MetricError`` for a model that is not on this machine.
    """
    asked = plan if plan is not None else StylePlan()
    source = find_model("style", str(model))
    where = pick_device(device)
    key = fingerprint(digest(source), data.digest, asked.model_dump_json(), where)
    finished = _finished(out, key)
    if finished is not None:
        return finished
    torch.manual_seed(asked.seed)
    loaded = LoadedStyle(source, str(where), asked.texts)
    work = out.with_name(f".{out.name}.training")
    training = _Training(loaded, data, asked, work / CHECKPOINT, key, where, tell)
    try:
        work.mkdir(parents=True, exist_ok=True)
        if not training.run(save_seconds, most_steps):
            return None
        report = training.report(name or str(model), source)
        _export(loaded, asked, report, out)
        shutil.rmtree(work)
    except OSError as error:
        raise StyleError(f"{out} cannot be written: {error.strerror or error}") from error
    return report


def _finished(out: Path, key: str) -> StyleReport | None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    try:
        report = StyleReport.model_validate_json((out / REPORT).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StyleError(f"{out} holds something else: name another folder") from error
    if report.key != key:
        raise StyleError(
            f"{out} holds a scorer that was trained otherwise (other pictures, model, settings or "
            "library versions): name another folder"
        )
    return report


class _Training:
    def __init__(
        self,
        loaded: LoadedStyle,
        data: StyleSet,
        plan: StylePlan,
        file: Path,
        key: str,
        where: torch.device,
        tell: OnStand,
    ) -> None:
        self._loaded, self._data, self._plan = loaded, data, plan
        self._file, self._key, self._where, self._tell = file, key, where, tell
        self._classes = [LABELS.index(one.label) for one in data.train]
        self._optimizer = torch.optim.AdamW(
            loaded.model.parameters(), lr=plan.rate, weight_decay=plan.weight_decay
        )
        self._an_epoch = -(-len(data.train) // plan.batch)
        self._steps = plan.epochs * self._an_epoch
        self._step = 0
        self._seconds = 0.0
        self._before: StyleFigures | None = None

    def run(self, save_seconds: float, most_steps: int | None) -> bool:
        """Train; whether the end was reached."""
        found = load_checkpoint(self._file, self._key, self._loaded.model, self._optimizer)
        if found is not None:
            self._step, self._seconds = found.step, found.seconds
            self._before = StyleFigures.model_validate_json(found.before)
        else:
            self._before = self._measured("measuring the model as it was")
        model: Any = self._loaded.model
        model.train()
        started = saved = time.monotonic()
        before = self._seconds
        last = self._steps if most_steps is None else min(self._steps, self._step + most_steps)
        with ThreadPoolExecutor(_THREADS) as threads:
            for pictures, images in self._stream(threads, last):
                loss = self._learn(pictures, images)
                self._step += 1
                self._seconds = before + time.monotonic() - started
                self._tell(StyleStand("training", self._step, self._steps, loss))
                if time.monotonic() - saved > save_seconds:
                    self._save()
                    saved = time.monotonic()
        self._save()
        model.eval()
        return self._step >= self._steps

    def report(self, model: str, source: Path) -> StyleReport:
        """What there is to say when all is trained."""
        assert self._before is not None
        return StyleReport(
            key=self._key,
            model=model,
            weights=digest(source),
            plan=self._plan.model_dump(mode="json"),
            pictures={
                part: {label: sum(one.label == label for one in pictures) for label in LABELS}
                for part, pictures in (("train", self._data.train), ("test", self._data.test))
            },
            repeated=self._data.repeated,
            data=self._data.digest,
            steps=self._steps,
            seconds=round(self._seconds, 1),
            device=str(self._where),
            before=self._before,
            after=self._measured("measuring what was learned"),
        )

    def _learn(self, pictures: Sequence[int], images: Sequence[Image.Image]) -> float:
        classes = torch.tensor([self._classes[at] for at in pictures], device=self._where)
        with autocast(self._where):
            logits = self._loaded.logits(self._loaded.pixels(images))
        loss = style_loss(logits, classes)
        if not torch.isfinite(loss):
            raise StyleError(
                f"the loss is {loss.item()} at step {self._step}: train with a lower rate than "
                f"{self._plan.rate:g}"
            )
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        # As CLIP's own training does, so that cosines are not scaled without end.
        self._loaded.model.logit_scale.data.clamp_(max=4.6052)
        return float(loss.item())

    def _stream(
        self, threads: ThreadPoolExecutor, last: int
    ) -> Iterator[tuple[list[int], list[Image.Image]]]:
        """Batches from the present step on; the next one is read while one is learned."""
        waiting: list[tuple[list[int], list[Any]]] = []
        order: list[list[int]] = []
        known = -1
        for step in range(self._step, last):
            epoch, at = divmod(step, self._an_epoch)
            if epoch != known:
                order = batches(self._classes, self._plan.batch, self._plan.seed, epoch)
                known = epoch
            files = [self._data.train[place].file for place in order[at]]
            waiting.append((order[at], [threads.submit(load_image, file) for file in files]))
            if len(waiting) > 2:
                pictures, found = waiting.pop(0)
                yield pictures, [one.result() for one in found]
        for pictures, found in waiting:
            yield pictures, [one.result() for one in found]

    def _measured(self, doing: str) -> StyleFigures:
        self._tell(StyleStand(doing, self._step, self._steps))
        self._loaded.model.eval()
        scores: list[float] = []
        test = self._data.test
        with ThreadPoolExecutor(_THREADS) as threads:
            for start in range(0, len(test), 32):
                files = [one.file for one in test[start : start + 32]]
                images = list(threads.map(load_image, files))
                scores += [float(row[0]) for row in self._loaded.scores(images)]
        return figures_of(scores, [one.label for one in test], self._plan.seed)

    def _save(self) -> None:
        assert self._before is not None
        save_checkpoint(
            self._file,
            self._key,
            self._loaded.model,
            self._optimizer,
            Checkpoint(self._step, self._seconds, self._before.model_dump_json()),
        )


def _export(loaded: LoadedStyle, plan: StylePlan, report: StyleReport, out: Path) -> None:
    """The whole folder appears at once, or not at all."""
    draft = out.with_name(f".{out.name}.{secrets.token_hex(4)}.tmp")
    loaded.model.cpu().save_pretrained(draft)
    loaded.processor.save_pretrained(draft)
    loaded.tokenizer.save_pretrained(draft)
    forget_origin(draft)
    write_json(draft / TEXTS_FILE, plan.texts.model_dump())
    write_json(draft / REPORT, report.model_dump(mode="json"))
    if out.is_dir():
        out.rmdir()
    os.replace(draft, out)
