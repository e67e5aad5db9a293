"""Trains an image classifier on one training set and reads it on held-out pictures.

Any classifier in transformers layout, or any image encoder (CLIP's vision tower, ViT, …) under a
new head: the start is a folder, and the same for every set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from scenewright.evals.studies.real.augmentation import AugmentationError, Example

if TYPE_CHECKING:
    import torch

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


OnStep = Callable[[int, int], None]
"""Is told the steps that are done, and of how many."""


def load_config(folder: Path) -> Any:
    """The configuration of the model in ``folder``; ``AugmentationError`` if there is none."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise AugmentationError(
            f"{folder} holds no model in transformers layout: {error}"
        ) from error


def new_classifier(folder: Path, labels: Sequence[str], seed: int) -> torch.nn.Module:
    """The model in ``folder`` with a new head for ``labels``; ``seed`` draws the head.

    A CLIP vision tower gets the head of ``CLIPForImageClassification``: one linear layer on the
    mean of its patch tokens. Single precision. Raises ``AugmentationError`` for a folder without a
    usable model, fewer than two labels, or a label that stands twice.
    """
    import torch
    from transformers import AutoModelForImageClassification, CLIPConfig, CLIPForImageClassification

    if len(labels) < 2 or len(set(labels)) != len(labels):
        raise AugmentationError(f"labels {list(labels)}: give two or more, each once")
    config = load_config(folder)
    torch.manual_seed(seed)
    if config.model_type == CLIP_TOWER:
        whole = CLIPConfig(vision_config=config.to_dict(), num_labels=len(labels))
        model: Any = CLIPForImageClassification(whole).float()
        model.vision_model.load_state_dict(vision_tower(folder).state_dict())
        return _typed(model)
    try:
        model = AutoModelForImageClassification.from_pretrained(
            folder,
            local_files_only=True,
            num_labels=len(labels),
            ignore_mismatched_sizes=True,
            dtype=torch.float32,
        )
    except (OSError, ValueError) as error:
        raise AugmentationError(f"{folder} is no image classifier or encoder: {error}") from error
    return _typed(model)


def vision_tower(folder: Path) -> Any:
    """CLIP's vision transformer of the model in ``folder``, in single precision."""
    import torch
    from transformers import CLIPVisionModelWithProjection

    found = CLIPVisionModelWithProjection.from_pretrained(
        folder, local_files_only=True, dtype=torch.float32
    )
    return found.vision_model


def _typed(model: Any) -> torch.nn.Module:
    found: torch.nn.Module = model
    return found


def pixels_of(images: Sequence[Image.Image], side: int) -> torch.Tensor:
    """(n, 3, side, side) float: squeezed to a square, normalised as CLIP's pictures are."""
    import torch

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
    """The side of the pictures that a model takes, in pixels; 224 where it takes any."""
    inner = getattr(config, "vision_config", None) or config
    side = getattr(inner, "image_size", None) or 224
    return int(side[0] if isinstance(side, (tuple, list)) else side)


def batches(size: int, batch: int, epochs: int, seed: int) -> Iterator[torch.Tensor]:
    """Shuffled indices of ``epochs`` passes over ``size`` examples; the same for the same seed."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        order = torch.randperm(size, generator=generator)
        yield from (order[at : at + batch] for at in range(0, size, batch))


def descend(
    model: torch.nn.Module,
    steps: Sequence[torch.Tensor],
    loss_of: Callable[[torch.Tensor], torch.Tensor],
    recipe: Recipe,
    on_step: OnStep = lambda done, steps: None,
) -> None:
    """AdamW with a linearly falling rate over ``steps`` (indices of examples each).

    Raises ``AugmentationError`` if the loss is no longer a number.
    """
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    model.train()
    for done, members in enumerate(steps):
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate * (1 - done / len(steps))
        loss = loss_of(members)
        if not torch.isfinite(loss):
            raise AugmentationError(
                f"the loss is {loss.item()} at step {done}: lower the rate {recipe.rate}"
            )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        on_step(done + 1, len(steps))
    model.eval()


def classify(
    folder: Path,
    examples: Sequence[Example],
    test: Sequence[Image.Image],
    *,
    recipe: Recipe,
    epochs: int,
    seed: int,
    on_step: OnStep = lambda done, steps: None,
) -> list[str]:
    """Train on ``examples`` for ``epochs``; the predicted class of each picture of ``test``.

    The same arguments give the same predictions on one machine with one number of threads. Raises
    ``AugmentationError`` as :func:`new_classifier` and :func:`descend`.
    """
    import torch
    from torch.nn import functional

    labels = sorted({example.label for example in examples})
    model = new_classifier(folder, labels, seed)
    side = side_of(model.config)
    given = pixels_of([example.image for example in examples], side)
    wanted = torch.tensor([labels.index(example.label) for example in examples])

    def loss_of(members: torch.Tensor) -> torch.Tensor:
        logits = model(pixel_values=given[members]).logits
        return functional.cross_entropy(logits, wanted[members])

    steps = list(batches(len(examples), recipe.batch, epochs, seed))
    descend(model, steps, loss_of, recipe, on_step)
    found: list[str] = []
    with torch.inference_mode():
        for start in range(0, len(test), _AT_ONCE):
            pixels = pixels_of(test[start : start + _AT_ONCE], side)
            best = model(pixel_values=pixels).logits.argmax(-1)
            found += [labels[at] for at in best.tolist()]
    return found
