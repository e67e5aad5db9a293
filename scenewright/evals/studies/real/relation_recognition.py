"""Recognition of relations, learned from training sets that REAL scores augment.

A picture comes with the boxes of its objects, and a network names the predicate of each ordered
pair of them, as a scene-graph generator with given boxes does (*predicate classification*; REAL's
Section 4.4.3 fine-tunes RelTR, which finds the boxes too).

Mean recall at k (Table 4) ranks all (pair, predicate) proposals of a picture by their probability;
a relation is recalled if it is among the first k. Recall is taken for each predicate over all
pictures, then averaged over the predicates of the test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn
from torch.nn import functional

from scenewright.core.images import hash_of_image
from scenewright.evals.studies.real.augmentation import (
    CLIP_TOWER,
    SETS,
    AugmentationError,
    AugmentationStudy,
    Comparison,
    OnProgress,
    Recipe,
    batches,
    check_independence,
    descend,
    digest_of_rows,
    load_config,
    pixels_of,
    side_of,
    trained_sets,
    vision_tower,
)
from scenewright.evals.studies.real.ranking import How, Ranked

Array = NDArray[np.float64]


Box = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels; right and bottom outside."""


_WIDTH = 128


_GEOMETRY = 12


@dataclass(frozen=True, slots=True)
class Relations:
    """A picture, the boxes of its objects, and the relations that it is said to show."""

    image: Image.Image
    """RGB."""
    boxes: tuple[Box, ...]
    """One an object."""
    triplets: tuple[tuple[int, str, int], ...]
    """(subject, predicate, object), objects by their place in ``boxes``."""

    def __post_init__(self) -> None:
        for subject, predicate, target in self.triplets:
            if not (0 <= subject < len(self.boxes) and 0 <= target < len(self.boxes)):
                raise AugmentationError(
                    f"the relation {subject} {predicate} {target} names an object without a box"
                )
            if subject == target:
                raise AugmentationError(f"object {subject} is {predicate} itself")
        for box in self.boxes:
            if not (box[0] < box[2] and box[1] < box[3]):
                raise AugmentationError(f"the box {box} is empty: left < right and top < bottom")


def ordered_pairs(n: int) -> list[tuple[int, int]]:
    """Return all (subject, object) of ``n`` objects, in one fixed order."""
    return [(a, b) for a in range(n) for b in range(n) if a != b]


class PairClassifier(nn.Module):
    """Tells the predicate of pairs of boxes: an image encoder, and a head on what it sees there.

    Of the encoder's patch tokens the mean within the subject's box, the object's box and the box
    around both are taken; with the boxes' places they go through two layers.
    """

    def __init__(self, folder: Path, predicates: Sequence[str], seed: int) -> None:
        """Load the encoder from ``folder`` and draw the head from ``seed``.

        Raises ``AugmentationError``.
        """
        super().__init__()
        from transformers import AutoModel

        config = load_config(folder)
        if config.model_type == CLIP_TOWER:
            self.tower: Any = vision_tower(folder)
        else:
            try:
                self.tower = AutoModel.from_pretrained(
                    folder, local_files_only=True, dtype=torch.float32
                )
            except (OSError, ValueError) as error:
                raise AugmentationError(f"{folder} is not an image encoder: {error}") from error
        self.side = side_of(config)
        self.predicates = tuple(predicates)
        torch.manual_seed(seed)
        size = int(config.hidden_size)
        self.head = nn.Sequential(
            nn.Linear(3 * size + _GEOMETRY, _WIDTH),
            nn.GELU(),
            nn.Linear(_WIDTH, len(self.predicates)),
        )

    def forward(self, pixels: torch.Tensor, owners: torch.Tensor, ends: torch.Tensor) -> Any:
        """Return (n_pairs, n_predicates) logits.

        ``pixels`` (n, 3, side, side); ``owners`` (n_pairs,) the picture of each pair; ``ends``
        (n_pairs, 2, 4) boxes of subject and object as shares of the picture's sides.
        """
        tokens = self.tower(pixel_values=pixels).last_hidden_state
        grid = math.isqrt(tokens.shape[1])
        patches = tokens[:, -grid * grid :][owners]
        both = torch.cat(
            [ends[..., :2].amin(1, keepdim=True), ends[..., 2:].amax(1, keepdim=True)], -1
        )
        cover = _coverage(torch.cat([ends, both], 1), grid)
        seen = torch.einsum("prk,pkd->prd", cover, patches).flatten(1)
        return self.head(torch.cat([seen, _places(ends)], 1))


def _coverage(boxes: torch.Tensor, grid: int) -> torch.Tensor:
    """Return (pairs, regions, grid²) share of each region's area that lies in each patch."""
    edges = torch.arange(grid + 1, dtype=boxes.dtype) / grid

    def along(low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
        inside = torch.minimum(high[..., None], edges[1:]) - torch.maximum(
            low[..., None], edges[:-1]
        )
        return inside.clamp(min=0.0) + 1e-6

    columns = along(boxes[..., 0], boxes[..., 2])
    rows = along(boxes[..., 1], boxes[..., 3])
    area = (rows[..., :, None] * columns[..., None, :]).flatten(-2)
    return area / area.sum(-1, keepdim=True)


def _places(ends: torch.Tensor) -> torch.Tensor:
    """Return (pairs, 12): both boxes, the step between middles, and the sizes' logarithms."""
    first, second = ends[:, 0], ends[:, 1]
    middles = (second[:, :2] + second[:, 2:] - first[:, :2] - first[:, 2:]) / 2
    sizes = (second[:, 2:] - second[:, :2]) / (first[:, 2:] - first[:, :2])
    return torch.cat([first, second, middles, sizes.clamp(1e-3, 1e3).log()], 1)


def _shares(picture: Relations, pairs: Sequence[tuple[int, int]]) -> torch.Tensor:
    scale = torch.tensor([*picture.image.size, *picture.image.size], dtype=torch.float32)
    boxes = torch.tensor(picture.boxes, dtype=torch.float32) / scale
    return torch.stack([torch.stack([boxes[a], boxes[b]]) for a, b in pairs])


def learn_relations(
    folder: Path,
    examples: Sequence[Relations],
    predicates: Sequence[str],
    *,
    recipe: Recipe,
    epochs: int,
    seed: int,
) -> PairClassifier:
    """Train on the relations of ``examples`` (cross-entropy over ``predicates``).

    A batch holds ``recipe.batch`` pictures with all their relations. Pictures without a relation
    teach nothing but take their place in the batches. Raises ``AugmentationError`` if no picture
    has a relation, or one has a predicate that is not among ``predicates``.
    """
    known = {predicate: at for at, predicate in enumerate(predicates)}
    strange = sorted({p for e in examples for _, p, _ in e.triplets} - set(known))
    if strange:
        raise AugmentationError(f"{', '.join(strange)} is not among the predicates to learn")
    if not any(example.triplets for example in examples):
        raise AugmentationError("no picture has a relation: there is nothing to learn")
    model = PairClassifier(folder, predicates, seed)
    pixels = pixels_of([example.image for example in examples], model.side)

    def loss_of(members: torch.Tensor) -> torch.Tensor:
        chosen = [examples[at] for at in members.tolist()]
        given = [(n, s, p, o) for n, e in enumerate(chosen) for s, p, o in e.triplets]
        if not given:
            return sum((p.sum() * 0.0 for p in model.parameters()), torch.zeros(()))
        owners = torch.tensor([n for n, *_ in given])
        ends = torch.cat([_shares(chosen[n], [(s, o)]) for n, s, _, o in given])
        wanted = torch.tensor([known[p] for _, _, p, _ in given])
        return functional.cross_entropy(model(pixels[members], owners, ends), wanted)

    steps = list(batches(len(examples), recipe.batch, epochs, seed))
    descend(model, steps, loss_of, recipe)
    return model


def proposals(model: PairClassifier, picture: Relations) -> Array:
    """Return probabilities (n_pairs, n_predicates) for :func:`ordered_pairs` of the objects."""
    pairs = ordered_pairs(len(picture.boxes))
    with torch.inference_mode():
        owners = torch.zeros(len(pairs), dtype=torch.long)
        logits = model(pixels_of([picture.image], model.side), owners, _shares(picture, pairs))
        found: Array = logits.softmax(-1).double().numpy()
    return found


def mean_recall(
    tests: Sequence[Relations],
    given: Sequence[Array],
    predicates: Sequence[str],
    k: int,
) -> float:
    """Return mean recall at ``k`` of proposals, one array of :func:`proposals` a picture.

    Equal probabilities are ordered by pair, then by predicate. Raises ``AugmentationError`` if
    ``k`` is below 1, the test has no relation, or an array has another shape.
    """
    if k < 1 or len(tests) != len(given):
        raise AugmentationError(f"k is {k} for {len(given)} proposals of {len(tests)} pictures")
    known = {predicate: at for at, predicate in enumerate(predicates)}
    hits: dict[str, list[bool]] = {}
    for picture, table in zip(tests, given, strict=True):
        pairs = {pair: at for at, pair in enumerate(ordered_pairs(len(picture.boxes)))}
        if table.shape != (len(pairs), len(known)):
            raise AugmentationError(
                f"proposals of shape {table.shape} for {len(pairs)} pairs and {len(known)} "
                "predicates"
            )
        first = set(np.argsort(-table.ravel(), kind="stable")[:k].tolist())
        for subject, predicate, target in picture.triplets:
            place = pairs[subject, target] * len(known) + known[predicate]
            hits.setdefault(predicate, []).append(place in first)
    if not hits:
        raise AugmentationError("the test has no relation: nothing can be recalled")
    return math.fsum(sum(found) / len(found) for found in hits.values()) / len(hits)


@dataclass(frozen=True, slots=True)
class Annotated:
    """A picture for a query, with the relations that it is said to show."""

    relations: Relations
    """Picture, boxes and relations."""
    label: str
    """The query within which the picture is ranked."""


def compare_relations(
    study: AugmentationStudy,
    real: Sequence[Sequence[Annotated]],
    pool: Mapping[str, Relations],
    ranked: Sequence[Ranked],
    test: Sequence[Relations],
    predicates: Sequence[str],
    ks: Sequence[int],
    *,
    sets: Sequence[How] = SETS,
    on_progress: OnProgress = lambda done, of: None,
) -> dict[int, Comparison]:
    """Return k → mean recall at k of every set on ``test`` (Table 4).

    The arguments are those of :func:`compare_classifiers`.
    """
    labelled = [[(one.relations, one.label) for one in some] for some in real]
    learned = [one.image for some in labelled for one, _ in some]
    check_independence(
        [one.image for one in test], [*learned, *(one.image for one in pool.values())]
    )

    def content(one: Relations, label: str = "") -> tuple[Any, ...]:
        return hash_of_image(one.image), one.boxes, one.triplets

    def train(
        examples: Sequence[tuple[Relations, str]], epochs: int, seed: int
    ) -> dict[str, float]:
        shown = [one for one, _ in examples]
        model = learn_relations(
            study.start, shown, predicates, recipe=study.recipe, epochs=epochs, seed=seed
        )
        tables = [proposals(model, one) for one in test]
        return {str(k): mean_recall(test, tables, predicates, k) for k in ks}

    key = {
        "task": "relations",
        "predicates": list(predicates),
        "ks": list(ks),
        "test": digest_of_rows([content(one) for one in test]),
    }
    found: dict[int, dict[How, list[float]]] = {k: {how: [] for how in sets} for k in ks}
    results = trained_sets(study, key, labelled, pool, ranked, sets, on_progress, content, train)
    for how, result in results:
        for k in ks:
            found[k][how].append(float(result[str(k)]))
    return {k: Comparison(f"mR@{k}", found[k], len(test)) for k in ks}
