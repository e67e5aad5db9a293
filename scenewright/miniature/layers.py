"""A painting as layers: one drawing an object, from back to front, on its setting."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.miniature.pencil import HANDS
from scenewright.miniature.sprites import backdrop, sprite
from scenewright.miniature.truth import Box, Contact, Truth
from scenewright.miniature.world import KINDS, SIZE, SMALL

Mask = NDArray[np.bool_]
"""(128, 128) by row and column."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One object's drawing."""

    object_id: str
    """Whose it is."""
    image: Image.Image
    """RGBA."""
    left: int
    """First column; may lie outside the picture."""
    top: int
    """First row; may lie outside the picture."""


def scale_of(item: SceneObject, box: Box) -> float:
    """How large ``item`` is drawn in ``box``."""
    return 1.0 if box.width == KINDS[item.name].width else SMALL


def strokes_of(box: Box) -> int:
    """How the hand moves for a thing in ``box``: given by its place, so it needs no record."""
    return (box.left + 3 * box.top) % HANDS


def draw_order(scene: SceneGraph, contacts: Iterable[Contact]) -> list[SceneObject]:
    """The objects from back to front.

    Riders go behind what they ride; what is worn, held, inside or under goes in front.
    """
    front: dict[str, int] = {item.id: 1 for item in scene.objects}
    for s, p, _ in contacts:
        if p == "riding":
            front[s] = 0
        elif p in ("inside", "under"):
            front[s] = 2
    for s, p, t in contacts:
        if p in ("holding", "wearing"):
            front[t] = front[s] + 1
    return sorted(scene.objects, key=lambda item: front[item.id])


def layers_of(truth: Truth) -> list[Layer]:
    """The layers that ``truth`` is drawn from, back to front."""
    found: list[Layer] = []
    for item in draw_order(truth.scene, truth.contacts):
        box = truth.boxes[item.id]
        strokes = 0 if truth.style == "flat" else strokes_of(box)
        drawing = sprite(
            item.name, item.attributes["color"], scale_of(item, box), truth.style, strokes
        )
        found.append(Layer(item.id, drawing, box.left, box.top))
    return found


def compose(truth: Truth, layers: Iterable[Layer]) -> Image.Image:
    """``layers`` on the setting of ``truth``: RGB, 128×128."""
    image = backdrop(truth.setting, truth.ground, truth.style)
    for layer in layers:
        image.paste(layer.image, (layer.left, layer.top), layer.image)
    return image


def silhouettes(layers: Iterable[Layer]) -> dict[str, Mask]:
    """Object id → the pixels it mostly covers and that nothing in front of it does.

    Objects of which nothing can be seen are left out.
    """
    found: dict[str, Mask] = {}
    for layer in layers:
        sheet = Image.new("L", (SIZE, SIZE))
        sheet.paste(layer.image.getchannel("A"), (layer.left, layer.top))
        covered = np.asarray(sheet) >= 128
        for behind in found.values():
            behind &= ~covered
        found[layer.object_id] = covered
    return {key: mask for key, mask in found.items() if mask.any()}
