"""Fine-tune a CLIP to tell photos from illustrations (REAL, Sections 3.3 and 5.3).

The defaults are the paper's: rate 5e-5, batches of 8, 5 epochs. The optimizer is AdamW at a
constant rate. The result is a folder that transformers, and this package, load as any CLIP.

CLIP's own contrastive objective pairs every picture of a batch with a text of its own, and takes
all other texts for wrong. With one text a class that would call a picture's own text wrong for
every neighbour of its class. So each text stands once, and all pictures of its class are its
positives.

The painted world has a style scorer too: its flat paintings are the photos, its pencil drawings the
illustrations. It is a small CLIP of the ordinary class, from random weights. The miniature's
generator draws flat pictures, smeared by its autoencoder. So that smear does not pass for a style,
a part of the flat paintings goes through that autoencoder, and in a part of both styles the pixels
are smeared, noisy or shifted in colour. Pencil drawings stay out of the autoencoder: it gives them
back flat.
"""

from __future__ import annotations

import functools
import os
import random
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor
from torch.nn import functional

from scenewright.core.images import load_image
from scenewright.core.validation import FrozenModel
from scenewright.evals.metrics.encoders import digest, find_model, fingerprint
from scenewright.evals.statistics.figures import (
    RESAMPLES,
    Array,
    Figure,
    figure_of,
    resamples_of,
)
from scenewright.evals.statistics.ranks import kendall, spearman
from scenewright.evals.studies.real.style import (
    LABELS,
    TEXTS_FILE,
    Label,
    LoadedStyle,
    StyleError,
    StyleSet,
    StyleTexts,
)
from scenewright.miniature.training.loop import autocast, forget_origin, pick_device, to_pixels
from scenewright.runs.folder import write_json
from scenewright.tools.vision.training import ResumableTraining


def style_loss(logits: Tensor, classes: Tensor) -> Tensor:
    """Return the mean of both directions of the contrast.

    ``logits``: (pictures, texts) scaled cosines, ``classes``: (pictures,) number of each picture's
    text. Picture to text: cross-entropy over all texts. Text to picture: for each text with
    pictures in the batch, the cross-entropy between its softmax over the batch's pictures and an
    equal share for each picture of its class (the positives outside of the logarithm, as Khosla et
    al., 2020, Equation 2). With one picture a class this is CLIP's objective. A text without
    pictures is a wrong answer for them and asks nothing itself.
    """
    to_text = functional.cross_entropy(logits, classes)
    own = functional.one_hot(classes, logits.shape[1]).to(logits.dtype)
    count = own.sum(0)
    there = count > 0
    shares = own[:, there] / count[there]
    to_picture = -(shares * logits[:, there].log_softmax(0)).sum(0).mean()
    return (to_text + to_picture) / 2


def batches(classes: list[int], batch: int, seed: int, epoch: int) -> list[list[int]]:
    """Return the places of all pictures once, in batches, in an order drawn for ``epoch``.

    ``classes`` are those of the pictures. Each class is shuffled and spread evenly over the epoch,
    so that batches hold the classes as the set does; a smaller last batch is kept.
    """
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    places: list[tuple[float, float, int]] = []
    for name in sorted(set(classes)):
        inside = [at for at, found in enumerate(classes) if found == name]
        order = torch.randperm(len(inside), generator=generator).tolist()
        ties = torch.rand(len(inside), generator=generator).tolist()
        places += [
            ((rank + 0.5) / len(inside), ties[rank], inside[at]) for rank, at in enumerate(order)
        ]
    drawn = [at for _, _, at in sorted(places)]
    return [drawn[start : start + batch] for start in range(0, len(drawn), batch)]


class StyleFigures(FrozenModel):
    """A scorer on held-out pictures; intervals are a bootstrap over pictures (95 %)."""

    accuracy: Figure
    """Share of pictures whose P(photo) lies on the right side of 1/2."""
    auc: Figure
    """Chance that a photo scores above an illustration; equal scores count half."""
    spearman: Figure
    """Rank correlation of P(photo) with the labels (the paper's Table 8)."""
    kendall: Figure
    """τ-b of the same."""


class StyleReport(FrozenModel):
    """Report beside a trained scorer."""

    key: str
    """Names model, pictures, settings and library versions."""
    model: str
    """What was fine-tuned, as it was named."""
    weights: str
    """Digest of its files."""
    plan: dict[str, Any]
    """How it was trained."""
    pictures: dict[str, dict[str, int]]
    """Part → class → pictures."""
    repeated: int
    """Pictures that were left out since others are equal."""
    data: str
    """Digest of the pictures."""
    steps: int
    """Optimizer steps."""
    seconds: float
    """Time of the steps."""
    device: str
    """Where it was trained."""
    before: StyleFigures
    """On the held-out pictures, as the model was."""
    after: StyleFigures
    """On the same pictures, trained."""


def figures_of(scores: Sequence[float], labels: Sequence[Label], seed: int = 0) -> StyleFigures:
    """Return the figures of ``scores`` (P(photo)) of pictures with ``labels``.

    Raises ``ValueError`` for lists of different lengths, or without pictures.
    """
    if len(scores) != len(labels) or not scores:
        raise ValueError(f"{len(scores)} scores and {len(labels)} labels: give one each, or more")
    given = np.asarray(scores, np.float64)
    truth = np.array([label == LABELS[0] for label in labels], np.float64)
    every = np.arange(len(given))
    drawn = resamples_of(every, len(given), RESAMPLES, seed)

    def figure(statistic: Callable[[Array, Array], float]) -> Figure:
        return figure_of(lambda at: statistic(given[at], truth[at]), every, drawn, len(given))

    return StyleFigures(
        accuracy=figure(_accuracy),
        auc=figure(auc),
        spearman=figure(functools.partial(spearman, least=3)),
        kendall=figure(functools.partial(kendall, least=3)),
    )


def auc(scores: Array, truth: Array) -> float:
    """Return the area under the ROC curve by ranks; NaN with one class alone."""
    from scipy.stats import mannwhitneyu

    positive, negative = scores[truth > 0.5], scores[truth <= 0.5]
    if not len(positive) or not len(negative):
        return float("nan")
    won = mannwhitneyu(positive, negative, method="asymptotic").statistic
    return float(won / (len(positive) * len(negative)))


def _accuracy(scores: Array, truth: Array) -> float:
    return float(((scores > 0.5) == (truth > 0.5)).mean())


REPORT = "report.json"
"""Beside the weights: what was learned, and how well."""
CHECKPOINT = "checkpoint.pt"
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
class StyleProgress:
    """How far a training is."""

    doing: str
    """What it is at."""
    step: int
    """Steps done."""
    steps: int
    """Steps in all."""
    loss: float | None = None
    """Of the last step."""


OnStyleProgress = Callable[[StyleProgress], None]


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
    tell: OnStyleProgress = lambda stand: None,
) -> StyleReport | None:
    """Train ``model`` (a folder, or a repository that was fetched before) on ``data`` into ``out``.

    A training that was stopped goes on where its last checkpoint was, and ends with the same
    weights, bit by bit, on the same machine; one that is finished is not done again.
    ``save_seconds``: how much work a kill loses at most; ``most_steps``: stop after so many steps
    of this call, with a checkpoint; the result is then None unless that was the end. ``name``: what
    the report calls the model. Raises ``StyleError`` for a model that is not a CLIP, a folder that
    holds something else or a loss that is not a number, ``MetricError`` for a model that is not on
    this machine.
    """
    asked = plan if plan is not None else StylePlan()
    source = find_model("style", str(model))
    where = pick_device(device)
    weights = digest(source)
    key = fingerprint(weights, data.digest, asked.model_dump_json(), where)
    finished = _finished(out, key)
    if finished is not None:
        return finished
    torch.manual_seed(asked.seed)
    loaded = LoadedStyle(source, str(where), asked.texts)
    work = out.with_name(f".{out.name}.training")
    identity = {
        "model": weights,
        "pictures": data.digest,
        "settings": asked.model_dump_json(),
        "device or library versions": fingerprint(where),
    }
    optimizer = torch.optim.AdamW(
        loaded.model.parameters(), lr=asked.rate, weight_decay=asked.weight_decay
    )
    resumable = ResumableTraining(
        loaded.model,
        optimizer,
        identity,
        file=work / CHECKPOINT,
        wrong=StyleError,
        save_seconds=save_seconds,
    )
    training = _Training(loaded, data, asked, resumable, where, tell)
    try:
        if not training.run(most_steps):
            return None
        report = training.report(key, name or str(model), weights)
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
        training: ResumableTraining,
        where: torch.device,
        tell: OnStyleProgress,
    ) -> None:
        self._loaded, self._data, self._plan = loaded, data, plan
        self._training, self._where, self._tell = training, where, tell
        self._classes = [LABELS.index(one.label) for one in data.train]
        self._an_epoch = -(-len(data.train) // plan.batch)
        self._steps = plan.epochs * self._an_epoch
        self._step = 0
        self._seconds = 0.0
        self._before: StyleFigures | None = None

    def run(self, most_steps: int | None) -> bool:
        """Train; whether the end was reached."""
        found = self._training.load()
        if found is not None:
            self._step, self._seconds = found["step"], found["seconds"]
            self._before = StyleFigures.model_validate_json(found["before"])
        else:
            self._before = self._measured("measuring the model as it was")
        self._loaded.model.train()
        started, before = time.monotonic(), self._seconds
        last = self._steps if most_steps is None else min(self._steps, self._step + most_steps)
        with ThreadPoolExecutor(_THREADS) as threads:
            for pictures, images in self._stream(threads, last):
                loss = self._learn(pictures, images)
                self._step += 1
                self._seconds = before + time.monotonic() - started
                self._tell(StyleProgress("training", self._step, self._steps, loss))
                if self._training.due:
                    self._save()
        self._save()
        self._loaded.model.eval()
        return self._step >= self._steps

    def report(self, key: str, model: str, weights: str) -> StyleReport:
        """Return the report of the finished training."""
        assert self._before is not None
        return StyleReport(
            key=key,
            model=model,
            weights=weights,
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
        loss = self._training.learn(style_loss(logits, classes), f"at step {self._step}")
        # As CLIP's own training does, so that cosines are not scaled without end.
        self._loaded.model.logit_scale.data.clamp_(max=4.6052)
        return loss

    def _stream(
        self, threads: ThreadPoolExecutor, last: int
    ) -> Iterator[tuple[list[int], list[Image.Image]]]:
        """Yield batches from the present step on; the next is read while one is learned."""
        ahead: tuple[list[int], Iterator[Image.Image]] | None = None
        order: list[list[int]] = []
        for step in range(self._step, last):
            epoch, at = divmod(step, self._an_epoch)
            if not order or not at:
                order = batches(self._classes, self._plan.batch, self._plan.seed, epoch)
            files = [self._data.train[place].file for place in order[at]]
            now = order[at], threads.map(load_image, files)
            if ahead is not None:
                yield ahead[0], list(ahead[1])
            ahead = now
        if ahead is not None:
            yield ahead[0], list(ahead[1])

    def _measured(self, doing: str) -> StyleFigures:
        self._tell(StyleProgress(doing, self._step, self._steps))
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
        before = self._before.model_dump_json()
        self._training.save({"step": self._step, "seconds": self._seconds, "before": before})


def _export(loaded: LoadedStyle, plan: StylePlan, report: StyleReport, out: Path) -> None:
    """Write the whole folder at once, or not at all."""
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


STYLES: dict[Label, str] = {"photo": "flat", "illustration": "pencil"}
"""Class → the painter's style."""
SIDE = 64
"""Pixels a side that the model sees."""
PLAN = StylePlan(rate=1e-3, batch=16, epochs=14, weight_decay=0.05)
"""A model without any knowledge learns at a higher rate than CLIP is fine-tuned with."""
_WIDTH = 64
_MEAN, _SPREAD = 0.85, 0.12
_PASSED = 0.4
_WEATHERED = 0.5
_BATCH = 16


def new_style_clip(folder: Path, seed: int = 0) -> Path:
    """Write a CLIP with random weights, its tokenizer and its preparation to ``folder``."""
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel

    from scenewright.miniature.world import SIZE, new_tokenizer

    tokenizer = new_tokenizer()
    config = CLIPConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "max_position_embeddings": 32,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={
            "hidden_size": _WIDTH,
            "intermediate_size": 2 * _WIDTH,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": SIDE,
            "patch_size": 8,
        },
        projection_dim=32,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = CLIPModel(config)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # The middle of a picture at its own scale: made small, pencil strokes would be lost.
    CLIPImageProcessorPil(
        size={"shortest_edge": SIZE},
        crop_size={"height": SIDE, "width": SIDE},
        image_mean=[_MEAN] * 3,
        image_std=[_SPREAD] * 3,
    ).save_pretrained(folder)
    return folder


def paint_styles(folder: Path, n: int, seed: int = 0) -> int:
    """Paint ``n`` pictures of each style; return how many were new.

    Flat paintings go to ``folder/photo``, pencil drawings of other scenes to
    ``folder/illustration``, as PNG. Started again it goes on. The same arguments give the same
    pictures. Raises ``ValueError`` for fewer than one, ``OSError``.
    """
    if n < 1:
        raise ValueError(f"{n} paintings of a style: use 1 or more")
    made = 0
    for label in LABELS:
        (folder / label).mkdir(parents=True, exist_ok=True)
        files = [folder / label / f"{at:05d}.png" for at in range(n)]
        lost = [at for at, file in enumerate(files) if not file.exists()]
        for start in range(0, len(lost), _BATCH):
            part = lost[start : start + _BATCH]
            for at, image in zip(part, _painted(label, part, seed), strict=True):
                draft = files[at].with_suffix(".tmp")
                image.save(draft, "PNG")
                draft.replace(files[at])
        made += len(lost)
    return made


def _painted(label: Label, numbers: Sequence[int], seed: int) -> list[Image.Image]:
    from scenewright.miniature.sampler import sample_painting

    images: list[Image.Image] = []
    passed: list[int] = []
    weathered: list[int] = []
    for place, at in enumerate(numbers):
        rng = random.Random(f"style {label} {seed}/{at}")
        images.append(sample_painting(rng, style=STYLES[label]).image)
        if label == "photo" and rng.random() < _PASSED:
            passed.append(place)
        if rng.random() < _WEATHERED:
            weathered.append(place)
    if passed:
        for place, image in zip(passed, autoencoded([images[at] for at in passed]), strict=True):
            images[place] = image
    for place in weathered:
        images[place] = _worse(images[place], f"{label} {seed}/{numbers[place]}")
    return images


def autoencoded(images: Sequence[Image.Image]) -> list[Image.Image]:
    """Return the pictures of the world's size as the generator's autoencoder gives them back."""
    model = _autoencoder()
    with torch.inference_mode():
        found = model.decode(model.encode(to_pixels(list(images))).latent_dist.mode()).sample
    return _images(found)


def _worse(image: Image.Image, name: str) -> Image.Image:
    from scenewright.miniature.training.judge_batch import weather

    generator = torch.Generator().manual_seed(random.Random(name).getrandbits(31))
    return _images(weather(to_pixels([image]), generator, 1.0))[0]


def _images(pixels: Any) -> list[Image.Image]:
    found = ((pixels.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).numpy()
    return [Image.fromarray(one) for one in found]


@functools.cache
def _autoencoder() -> Any:
    from diffusers import AutoencoderKL

    import scenewright.miniature as world

    folder = Path(world.__file__).parent / "weights" / "generator"
    model = AutoencoderKL.from_pretrained(
        folder, subfolder="vae", local_files_only=True, torch_dtype=torch.float32
    )
    return model.eval()
