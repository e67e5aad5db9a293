"""Train on sets augmented by REAL scores, and compare what the sets make of a test.

REAL (Section 4.4): real pictures of each class alone (``none``), or with the best (``high``), any
(``random``) or the worst (``low``) scored pictures of the class. Every set is trained for as many
steps, from the same start, and measured on the same held-out real pictures. Seeds differ in the
real pictures, in the weights of the head and in the order of the batches, and are the same for
every set: sets are compared seed by seed.

The task here is classification of pictures, by any classifier in transformers layout or any image
encoder under a new head; :mod:`scenewright.evals.studies.real.relation_recognition` has relations.

Finished trainings are kept in a folder under all that decides their result: the start's weights,
the recipe, the pictures with their labels, the seed, the test and the libraries. A study that was
stopped goes on with the first training that is not there.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional

from scenewright.core.errors import ScenewrightError
from scenewright.core.images import hash_of_image
from scenewright.evals.metrics.encoders import digest, fingerprint
from scenewright.evals.statistics.estimates import LEVEL, Estimate
from scenewright.evals.store.journal import Unit, open_journal
from scenewright.evals.studies.real.ranking import How, Ranked, select
from scenewright.tools.vision.training import ResumableTraining

T = TypeVar("T")

DIFFERENCE = (-1.0, 1.0)
"""Bounds of the difference of two measures that lie in [0, 1]."""
SETS: tuple[How, ...] = ("high", "random", "low", "none")
"""The training sets in the order of the paper's Tables 2 to 4."""
DIFFERENCES: tuple[tuple[How, How], ...] = (
    ("high", "low"),
    ("high", "random"),
    ("high", "none"),
    ("random", "none"),
    ("low", "none"),
)
"""Pairs of sets that are compared: the first less the second."""


class AugmentationError(ScenewrightError, ValueError):
    """Sets that cannot be built or compared; says what is wrong."""


@dataclass(frozen=True, slots=True)
class Example:
    """A picture and its class."""

    image: Image.Image
    """RGB."""
    label: str
    """Its class."""


def chosen(
    labels: Collection[str],
    pool: Collection[str],
    ranked: Iterable[Ranked],
    how: How,
    k: int,
    seed: int = 0,
) -> list[Ranked]:
    """Return the ``k`` pictures of each class that ``how`` selects from ``ranked``.

    They are names in ``pool``; ``labels`` are the classes of the real pictures. Raises
    ``AugmentationError`` if a class has fewer than ``k`` scored pictures (the sets would differ in
    size), if a picture's class is not among ``labels``, or if it is not in ``pool``.
    """
    rows = list(ranked)
    if how != "none":
        counts = dict.fromkeys(sorted(set(labels)), 0)
        for row in rows:
            if row.label not in counts:
                raise AugmentationError(
                    f"the pool has pictures of {row.label!r}, of which no real one is given: "
                    "add real ones, or leave the class out"
                )
            if row.image not in pool:
                raise AugmentationError(f"{row.image} is ranked but not in the pool")
            counts[row.label] += row.score is not None
        few = [f"{label} ({n})" for label, n in counts.items() if n < k]
        if few:
            raise AugmentationError(
                f"{k} scored pictures a class are needed, there are fewer of {', '.join(few)}: "
                "score more pictures, or take fewer a class"
            )
    return select(rows, k, how, seed)


def equal_epochs(epochs: int, largest: int, size: int) -> int:
    """Return the epochs with which ``size`` pictures take as many steps as the largest set.

    The ``largest`` set takes ``epochs``: the paper has 20 for *none* (half the pictures) against
    10. Raises ``AugmentationError`` if a number is below 1 or ``size`` above ``largest``.
    """
    if epochs < 1 or size < 1 or size > largest:
        raise AugmentationError(
            f"{epochs} epochs of {largest} pictures cannot be made equal for {size} pictures"
        )
    return max(1, round(epochs * largest / size))


def macro_f1(truth: Sequence[str], predicted: Sequence[str]) -> float:
    """Return the mean over the classes of ``truth`` of F1 = 2·TP / (2·TP + FP + FN), in [0, 1].

    A class that is never predicted has F1 0; one that is predicted but nowhere true is no class
    of the mean. Raises ``AugmentationError`` without pictures or for unequal lengths.
    """
    if not truth or len(truth) != len(predicted):
        raise AugmentationError(
            f"{len(predicted)} predictions for {len(truth)} pictures: give one for each of some"
        )
    true, said = np.array(truth), np.array(predicted)
    scores = []
    for label in sorted(set(truth)):
        there, named = true == label, said == label
        scores.append(2 * np.sum(there & named) / (there.sum() + named.sum()))
    return math.fsum(scores) / len(scores)


def over_seeds(
    values: Sequence[float], items: int = 0, bounds: tuple[float, float] = (0.0, 1.0)
) -> Estimate:
    """Return the mean over seeds with its 95 % interval by Student's t (n − 1 degrees of freedom).

    ``items``: pictures each value is measured on. The interval ends at ``bounds``, beyond which the
    measure has no values: Student's t does not respect them. One seed has no interval. Raises
    ``AugmentationError`` without values, or for one outside the bounds.
    """
    if not values:
        raise AugmentationError("no seed was trained: there is nothing to average")
    array = np.asarray(values, np.float64)
    least, most = bounds
    if array.min() < least or array.max() > most:
        raise AugmentationError(f"values from {array.min()} to {array.max()} are beyond {bounds}")
    mean = float(array.mean())
    if len(array) < 2:
        return Estimate(value=mean, n=items, seeds=1)
    from scipy.stats import t

    sd = float(array.std(ddof=1))
    half = float(t.ppf((1 + LEVEL) / 2, len(array) - 1)) * sd / math.sqrt(len(array))
    low, high = max(least, mean - half), min(most, mean + half)
    return Estimate(value=mean, low=low, high=high, sd=sd, n=items, seeds=len(array))


@dataclass(frozen=True, slots=True)
class Comparison:
    """One measure of every training set, seed by seed."""

    measure: str
    """What the values are, for example ``F1`` or ``mR@20``."""
    values: Mapping[How, Sequence[float]]
    """Set → one value a seed, in the same order of seeds."""
    items: int = 0
    """Held-out pictures each value is measured on."""

    def __post_init__(self) -> None:
        lengths = {how: len(values) for how, values in self.values.items()}
        if len(set(lengths.values())) > 1:
            raise AugmentationError(f"sets were trained with other numbers of seeds: {lengths}")

    def mean(self, how: How) -> Estimate:
        """Return the measure of one set, over seeds."""
        return over_seeds(self.values[how], self.items)

    def difference(self, first: How, second: How) -> Estimate:
        """Return ``first`` less ``second``, paired by seed."""
        pairs = zip(self.values[first], self.values[second], strict=True)
        return over_seeds([a - b for a, b in pairs], self.items, DIFFERENCE)

    def markdown(self) -> str:
        """Return the layout of Tables 2 to 4: a row a set, then the paired differences."""
        lines = [f"| training set | {self.measure} | 95 % interval | sd |", "|---|---|---|---|"]
        shown = [how for how in SETS if how in self.values]
        lines += [_row(how, self.mean(how), "") for how in shown]
        lines += [
            _row(f"{first} − {second}", self.difference(first, second), "+")
            for first, second in DIFFERENCES
            if first in self.values and second in self.values
        ]
        return "\n".join(lines) + "\n"


def _row(name: str, estimate: Estimate, sign: str) -> str:
    def text(number: float | None, mark: str) -> str:
        return "–" if number is None else f"{number:{mark}.3f}"

    interval = "–"
    if estimate.low is not None:
        interval = f"{text(estimate.low, sign)} … {text(estimate.high, sign)}"
    return f"| {name} | {text(estimate.value, sign)} | {interval} | {text(estimate.sd, '')} |"


CLIP_TOWER = "clip_vision_model"
_MEAN = (0.48145466, 0.4578275, 0.40821073)
_STD = (0.26862954, 0.26130258, 0.27577711)
_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a set is trained; the defaults are the paper's (Section 4.4.1)."""

    epochs: int = 10
    """Of the largest set; smaller ones get more, so that all take as many steps."""
    batch: int = 8
    """Pictures a step."""
    rate: float = 5e-5
    """First learning rate of AdamW; falls linearly to 0."""
    decay: float = 0.01
    """Weight decay."""

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 1 or self.rate <= 0 or self.decay < 0:
            raise AugmentationError(
                f"{self}: epochs and batch must be 1 or more, the rate above 0, the decay not below"
            )


def load_config(folder: Path) -> Any:
    """Return the configuration of the model in ``folder``.

    Raises ``AugmentationError`` if there is none.
    """
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise AugmentationError(
            f"{folder} is not a model in transformers layout: {error}"
        ) from error


def new_classifier(folder: Path, labels: Sequence[str], seed: int) -> nn.Module:
    """Return the model in ``folder`` with a new head for ``labels``; ``seed`` draws the head.

    A CLIP vision tower gets the head of ``CLIPForImageClassification``: one linear layer on the
    mean of its patch tokens. Single precision. Raises ``AugmentationError`` for a folder without a
    usable model, fewer than two labels, or a label that is given twice.
    """
    from transformers import AutoModelForImageClassification, CLIPConfig, CLIPForImageClassification

    if len(labels) < 2 or len(set(labels)) != len(labels):
        raise AugmentationError(f"labels {list(labels)}: give two or more, each once")
    config = load_config(folder)
    torch.manual_seed(seed)
    if config.model_type == CLIP_TOWER:
        whole = CLIPConfig(vision_config=config.to_dict(), num_labels=len(labels))
        model: Any = CLIPForImageClassification(whole).float()
        model.vision_model.load_state_dict(vision_tower(folder).state_dict())
        return cast("nn.Module", model)
    try:
        model = AutoModelForImageClassification.from_pretrained(
            folder,
            local_files_only=True,
            num_labels=len(labels),
            ignore_mismatched_sizes=True,
            dtype=torch.float32,
        )
    except (OSError, ValueError) as error:
        raise AugmentationError(
            f"{folder} is not an image classifier or encoder: {error}"
        ) from error
    return cast("nn.Module", model)


def vision_tower(folder: Path) -> Any:
    """Return CLIP's vision transformer of the model in ``folder``, in single precision."""
    from transformers import CLIPVisionModelWithProjection

    found = CLIPVisionModelWithProjection.from_pretrained(
        folder, local_files_only=True, dtype=torch.float32
    )
    return found.vision_model


def pixels_of(images: Sequence[Image.Image], side: int) -> torch.Tensor:
    """Return (n, 3, side, side) float: squeezed to a square, normalised as CLIP's pictures are."""
    squares = [
        np.asarray(image.convert("RGB").resize((side, side), Image.Resampling.BICUBIC), np.uint8)
        if image.size != (side, side)
        else np.asarray(image.convert("RGB"), np.uint8)
        for image in images
    ]
    scaled = torch.from_numpy(np.stack(squares)).permute(0, 3, 1, 2).float().div_(255)
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (_MEAN, _STD))
    return (scaled - mean) / std


def side_of(config: Any) -> int:
    """Return the side of the pictures that a model takes, in pixels; 224 where it takes any."""
    inner = getattr(config, "vision_config", None) or config
    side = getattr(inner, "image_size", None) or 224
    return int(side[0] if isinstance(side, (tuple, list)) else side)


def batches(size: int, batch: int, epochs: int, seed: int) -> Iterator[torch.Tensor]:
    """Yield shuffled indices of ``epochs`` passes over ``size`` examples, by ``seed`` alone."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        order = torch.randperm(size, generator=generator)
        yield from (order[at : at + batch] for at in range(0, size, batch))


def descend(
    model: nn.Module,
    steps: Sequence[torch.Tensor],
    loss_of: Callable[[torch.Tensor], torch.Tensor],
    recipe: Recipe,
) -> None:
    """Train by AdamW with a linearly falling rate over ``steps`` (indices of examples each).

    Raises ``AugmentationError`` if the loss is not a number.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    falling = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: 1 - done / len(steps))
    training = ResumableTraining(
        model, optimizer, {}, file=None, wrong=AugmentationError, schedule=falling
    )
    model.train()
    for done, members in enumerate(steps):
        training.learn(loss_of(members), f"at step {done}")
    model.eval()


def classify(
    folder: Path,
    examples: Sequence[Example],
    test: Sequence[Image.Image],
    *,
    recipe: Recipe,
    epochs: int,
    seed: int,
) -> list[str]:
    """Train on ``examples`` for ``epochs``; the predicted class of each picture of ``test``.

    The same arguments give the same predictions on one machine with one number of threads. Raises
    ``AugmentationError`` as :func:`new_classifier` and :func:`descend`.
    """
    labels = sorted({example.label for example in examples})
    model = new_classifier(folder, labels, seed)
    side = side_of(model.config)
    given = pixels_of([example.image for example in examples], side)
    wanted = torch.tensor([labels.index(example.label) for example in examples])

    def loss_of(members: torch.Tensor) -> torch.Tensor:
        logits = model(pixel_values=given[members]).logits
        return functional.cross_entropy(logits, wanted[members])

    steps = list(batches(len(examples), recipe.batch, epochs, seed))
    descend(model, steps, loss_of, recipe)
    found: list[str] = []
    with torch.inference_mode():
        for start in range(0, len(test), _AT_ONCE):
            pixels = pixels_of(test[start : start + _AT_ONCE], side)
            best = model(pixel_values=pixels).logits.argmax(-1)
            found += [labels[at] for at in best.tolist()]
    return found


_VERSION = 1
"""Raised when the same sets would give other results."""
TRAININGS = "trainings.sqlite"
"""The journal of finished trainings in its folder."""
OnProgress = Callable[[int, int], None]
"""Gets how many trainings are done or were kept, and of how many."""


@dataclass(frozen=True, slots=True)
class AugmentationStudy:
    """What all trainings of a study share."""

    start: Path
    """Folder of the model that every training starts from."""
    recipe: Recipe
    """How it is trained."""
    k: int
    """Pictures a class that are added to the real ones."""
    kept: Path | None = None
    """Folder of the journal of results, so that nothing is trained twice; none: nothing is kept."""

    def remembered(self, key: Mapping[str, Any], train: Callable[[], Any]) -> Any:
        """Return the result (JSON) of the training that ``key`` names; trained if it is not kept.

        Raises ``EvalError`` if the journal cannot be used.
        """
        if self.kept is None:
            return train()
        whole = {
            "version": _VERSION,
            "start": digest(self.start),
            "libraries": fingerprint(),
            "recipe": asdict(self.recipe),
            **key,
        }
        name = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
        with open_journal(self.kept / TRAININGS) as journal:
            unit = journal.get(name)
            if unit is None:
                unit = Unit(name, "training", facts={"result": train(), **key})
                journal.put([unit])
        return unit.facts["result"]


def trained_sets(
    study: AugmentationStudy,
    key: Mapping[str, Any],
    real: Sequence[Sequence[tuple[T, str]]],
    pool: Mapping[str, T],
    ranked: Sequence[Ranked],
    sets: Sequence[How],
    on_progress: OnProgress,
    content: Callable[[T, str], Any],
    train: Callable[[Sequence[tuple[T, str]], int, int], Any],
) -> Iterator[tuple[How, Any]]:
    """Yield each set with the result of its training, seed by seed.

    ``real[s]`` are the examples of seed ``s`` with their classes, ``content`` is what a result
    depends on of an example, ``train`` gets the examples, the epochs and the seed.
    """
    for seed, given in enumerate(real):
        labels = {label for _, label in given}
        largest = len(given) + study.k * len(labels)
        for at, how in enumerate(sets):
            rows = chosen(labels, pool, ranked, how, study.k, seed)
            examples = [*given, *((pool[row.image], row.label) for row in rows)]
            epochs = equal_epochs(study.recipe.epochs, largest, len(examples))
            digest_of_set = digest_of_rows([content(*example) for example in examples])
            whole = {**key, "seed": seed, "epochs": epochs, "set": digest_of_set}
            yield how, study.remembered(whole, partial(train, examples, epochs, seed))
            on_progress(seed * len(sets) + at + 1, len(real) * len(sets))


def compare_classifiers(
    study: AugmentationStudy,
    real: Sequence[Sequence[Example]],
    pool: Mapping[str, Image.Image],
    ranked: Sequence[Ranked],
    test: Sequence[Example],
    *,
    sets: Sequence[How] = SETS,
    on_progress: OnProgress = lambda done, of: None,
) -> Comparison:
    """Return the macro F1 of every set on ``test``, with one seed for each of ``real`` (Table 2).

    ``real[s]`` are the real pictures of seed ``s``; ``ranked`` scores pictures of ``pool``.
    Raises ``AugmentationError`` as the sets' makers do, and if a picture of ``real`` or ``pool`` is
    in ``test`` too.
    """
    pictures = [example.image for example in test]
    check_independence(pictures, [*(one.image for some in real for one in some), *pool.values()])
    truth = [example.label for example in test]

    def content(image: Image.Image, label: str) -> tuple[str, str]:
        return hash_of_image(image), label

    def train(examples: Sequence[tuple[Image.Image, str]], epochs: int, seed: int) -> list[str]:
        learned = [Example(*example) for example in examples]
        return classify(
            study.start, learned, pictures, recipe=study.recipe, epochs=epochs, seed=seed
        )

    tested = digest_of_rows([content(example.image, example.label) for example in test])
    key = {"task": "classification", "test": tested}
    labelled = [[(one.image, one.label) for one in some] for some in real]
    found: dict[How, list[float]] = {how: [] for how in sets}
    results = trained_sets(study, key, labelled, pool, ranked, sets, on_progress, content, train)
    for how, predicted in results:
        found[how].append(macro_f1(truth, predicted))
    return Comparison("F1", found, len(test))


def check_independence(test: Sequence[Image.Image], learned: Sequence[Image.Image]) -> None:
    """Raise ``AugmentationError`` unless both sets have pictures and share none."""
    if not test or not learned:
        raise AugmentationError("pictures to learn from, or pictures to test on, are missing")
    if {hash_of_image(image) for image in test} & {hash_of_image(image) for image in learned}:
        raise AugmentationError(
            "a picture that is learned from is in the test too: hold the test out"
        )


def digest_of_rows(rows: Sequence[Any]) -> str:
    """Return the SHA-256 (hex) of ``rows`` as JSON."""
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()
