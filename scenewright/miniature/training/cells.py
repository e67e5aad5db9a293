"""What each latent cell of a painting shows: the truth that the autoencoder's codes must tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from scenewright.miniature.painter import layers_of, scale_of, silhouettes
from scenewright.miniature.truth import Truth
from scenewright.miniature.world import COLORS, KINDS, SIZE

NOTHING_KIND, NOTHING_COLOR = len(KINDS), len(COLORS)
"""Labels of cells that show the ground alone."""
UNTOLD = -100
"""Label of cells that an object hardly touches: cross-entropy leaves them out."""
SMALL_WEIGHT = 4.0
"""Weight of the pixels of a thing that is drawn small: its parts are a pixel or two wide."""
_MOSTLY, _HARDLY = 0.3, 0.03
_KINDS, _COLORS = list(KINDS), list(COLORS)


@dataclass(frozen=True, slots=True)
class Cells:
    """Labels of a painting's cells, and where its objects are."""

    kinds: torch.Tensor
    """int64 (side, side): index of the kind, :data:`NOTHING_KIND` or :data:`UNTOLD`."""
    colors: torch.Tensor
    """int64 (side, side): index of the colour, :data:`NOTHING_COLOR` or :data:`UNTOLD`."""
    objects: torch.Tensor
    """float (128, 128): 1 on the pixels of objects, :data:`SMALL_WEIGHT` on those drawn small."""


def cells_of_painting(truth: Truth, factor: int) -> Cells:
    """Return the cells, each of ``factor``×``factor`` pixels.

    A cell shows the object that covers most of it, if that is at least three tenths.
    """
    side = SIZE // factor
    items = {item.id: item for item in truth.scene.objects}
    most = np.zeros((side, side))
    kinds = np.full((side, side), NOTHING_KIND)
    colors = np.full((side, side), NOTHING_COLOR)
    objects = np.zeros((SIZE, SIZE), np.float32)
    for object_id, mask in silhouettes(layers_of(truth)).items():
        share = mask.reshape(side, factor, side, factor).mean((1, 3))
        wins = share > most
        kinds[wins] = _KINDS.index(items[object_id].name)
        colors[wins] = _COLORS.index(items[object_id].attributes["color"])
        most = np.maximum(most, share)
        small = scale_of(items[object_id], truth.boxes[object_id]) < 1
        objects[mask] = SMALL_WEIGHT if small else 1.0
    kinds[most < _MOSTLY] = NOTHING_KIND
    colors[most < _MOSTLY] = NOTHING_COLOR
    untold = (most >= _HARDLY) & (most < _MOSTLY)
    kinds[untold] = colors[untold] = UNTOLD
    return Cells(
        torch.from_numpy(kinds).long(),
        torch.from_numpy(colors).long(),
        torch.from_numpy(objects),
    )
