"""Flaws of drawn pictures, put into paintings: what judges must not take for the thing itself.

A generator leaves heads off, melts small things to blobs, grows two things into one and lets things
hover. A flawed thing is there no more: a person who sees the picture would not name it, or not call
it whole. What hovers is whole, and touches nothing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from PIL import Image, ImageChops, ImageDraw, ImageFilter

from scenewright.miniature.painter import Layer, compose, layers_of, scale_of
from scenewright.miniature.pens import INK
from scenewright.miniature.sampler import GROUNDS, sample_alike, sample_ground, sample_painting
from scenewright.miniature.truth import Painting, Truth
from scenewright.miniature.world import COLORS

_HEADS: Mapping[str, tuple[float, float, float, float]] = {
    "person": (0.0, 0.0, 1.0, 0.34),
    "cat": (0.0, 0.0, 1.0, 0.57),
    "dog": (0.55, 0.0, 1.0, 0.55),
}
"""Kind → its head as shares of its box: left, top, right, bottom."""
_LIFTED = ("on", "riding", "wearing", "holding")
"""Contacts that end when one of the two is moved away."""
_GAP = (3, 10)
"""Pixels of a gap between things that should touch, at least and at most."""


@dataclass(frozen=True, slots=True)
class Flawed:
    """A painting with flaws."""

    image: Image.Image
    """RGB."""
    truth: Truth
    """Boxes and contacts as they are drawn."""
    gone: frozenset[str] = frozenset()
    """Ids of things of which nothing is left."""
    broken: frozenset[str] = frozenset()
    """Ids of things of which something is left, but not the thing."""
    unsure: frozenset[str] = frozenset()
    """Ids of things that are whole to some eyes: nothing is asked about them."""

    @property
    def lacking(self) -> frozenset[str]:
        """Ids of things that are not there."""
        return self.gone | self.broken


def sample_training_painting(rng: random.Random, crowded: float = 0.0) -> Painting:
    """Return a painting; things in contact are more frequent than in the sampler.

    One in three shows several of a kind; of the others a share of ``crowded`` is of the levels in
    ``GROUNDS``.
    """
    if rng.random() < 1 / 3:
        return sample_alike(rng)
    if crowded and rng.random() < crowded:
        return sample_ground(rng, rng.choice(GROUNDS))
    painting = sample_painting(rng)
    if not painting.truth.contacts and rng.random() < 0.5:
        return sample_painting(rng)
    return painting


def flawed(rng: random.Random, painting: Painting, share: float) -> Flawed:
    """Return ``painting``, in ``share`` of the cases with one to three flaws."""
    truth = painting.truth
    if rng.random() >= share:
        return Flawed(painting.image, truth)
    gone: set[str] = set()
    broken: set[str] = set()
    if rng.random() < 0.35:
        truth = _parted(rng, truth)
    layers = {layer.object_id: layer for layer in layers_of(truth)}
    names = {item.id: item.name for item in truth.scene.objects}
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3) if truth is not painting.truth else (1, 1, 2, 3))):
        ids = [key for key in layers if key not in broken]
        if not ids:
            break
        chosen = _chosen(rng, ids, names, truth)
        draw = rng.random()
        if draw < 0.2 and not _carries(chosen, truth):
            del layers[chosen]
            gone.add(chosen)
        elif draw < 0.35 and (other := _neighbour(chosen, [i for i in ids if i != chosen], truth)):
            layers[chosen], layers[other] = _merged(rng, layers[chosen], layers[other])
            broken |= {chosen, other}
        else:
            scale = scale_of(truth.scene.object(chosen), truth.boxes[chosen])
            color = truth.scene.object(chosen).attributes["color"]
            layers[chosen] = _spoiled(rng, layers[chosen], names[chosen], scale, color)
            broken.add(chosen)
            for s, p, t in truth.contacts:
                if (s, p) == (chosen, "wearing") and t in layers and t not in broken:
                    # Without a head the hat sinks to the shoulders.
                    sunk = rng.choice((0.0, rng.uniform(0.1, 0.34))) * truth.boxes[s].height
                    layers[t] = replace(layers[t], top=layers[t].top + round(sunk))
    image = compose(truth, layers.values())
    return Flawed(image, truth, frozenset(gone), frozenset(broken))


def _chosen(rng: random.Random, ids: Sequence[str], names: Mapping[str, str], truth: Truth) -> str:
    """Return a thing, more often one with a head or in contact: there generators fail."""
    touching = {one for s, _, t in truth.contacts for one in (s, t)}
    failing = {one for one, predicate, _ in truth.contacts if predicate in ("wearing", "under")}
    weights = [
        1 + 2 * (one in touching) + (names[one] in _HEADS) + 4 * (one in failing) for one in ids
    ]
    return rng.choices(ids, weights)[0]


def _carries(object_id: str, truth: Truth) -> bool:
    """Return whether something would hang in the air without it."""
    return any(
        (t if p in ("on", "riding") else s) == object_id
        for s, p, t in truth.contacts
        if p in ("on", "riding", "wearing", "holding")
    )


def _neighbour(object_id: str, others: Sequence[str], truth: Truth) -> str | None:
    """Return the nearest other thing, if it is near enough to grow into; None if none is."""
    x, y = truth.boxes[object_id].center

    def distance(other: str) -> float:
        a, b = truth.boxes[other].center
        return math.hypot(a - x, b - y)

    near = min(others, key=distance, default=None)
    return near if near is not None and distance(near) < 40 else None


def _parted(rng: random.Random, truth: Truth) -> Truth:
    """Return ``truth`` with a gap between two things that touched, if any did."""
    able = sorted(one for one in truth.contacts if one[1] in _LIFTED)
    if not able:
        return truth
    source, predicate, target = contact = rng.choice(able)
    moved = {target} if predicate in ("wearing", "holding") else {source}
    # Whatever rests on what is moved goes with it.
    for _ in able:
        for s, p, t in able:
            if (s, p, t) == contact:
                continue
            if p in ("on", "riding") and t in moved:
                moved.add(s)
            if p in ("wearing", "holding") and s in moved:
                moved.add(t)
    gap = rng.randint(*_GAP)
    across, up = (gap, 0) if predicate == "holding" else (0, gap + 13 * (predicate == "riding"))
    boxes = {
        key: replace(box, left=box.left + across, top=box.top - up) if key in moved else box
        for key, box in truth.boxes.items()
    }
    if any(boxes[key].top < -2 or boxes[key].left + boxes[key].width > 130 for key in moved):
        return truth
    return replace(truth, boxes=boxes, contacts=truth.contacts - {contact})


def _spoiled(rng: random.Random, layer: Layer, kind: str, scale: float, color: str) -> Layer:
    """Return a layer on which the thing is no longer whole."""
    ways: list[Callable[[], Layer]] = [
        # Without lines, smeared until it shows a patch of colour.
        lambda: _soft(layer, rng.uniform(6.0, 10.0) * max(scale, 0.7)),
        lambda: replace(layer, image=_halved(rng, layer.image)),
        lambda: _soft(replace(layer, image=_blob(rng, layer.image, color)), _sharp(rng)),
        lambda: _soft(replace(layer, image=_shuffled(rng, layer.image)), _sharp(rng)),
        lambda: _soft(_doubled(rng, layer), rng.uniform(0.0, 0.6)),
        lambda: _soft(_twinned(rng, layer), rng.uniform(0.0, 0.6)),
        lambda: _soft(replace(layer, image=_lump(rng, layer.image, color)), _sharp(rng)),
    ]
    lump = ways[-1]
    if kind in _HEADS:
        ways += [lambda: replace(layer, image=_headless(rng, layer.image, kind))] * 5
    if kind in ("cat", "dog"):
        ways += [lambda: replace(layer, image=_faceless(rng, layer.image, kind, color))] * 3
    if scale < 1:
        # What is drawn small melts.
        ways += [lump] * len(ways)
    return rng.choice(ways)()


def _sharp(rng: random.Random) -> float:
    return rng.uniform(0.2, 1.2)


def _soft(layer: Layer, radius: float) -> Layer:
    """Return a layer smeared over ``radius`` pixels, beyond its edges too."""
    pad = round(2 * radius) + 1
    width, height = layer.image.size
    sheet = Image.new("RGBA", (width + 2 * pad, height + 2 * pad))
    sheet.paste(layer.image, (pad, pad))
    # Colours weigh as much as they cover, or transparent black would bleed in.
    soft = sheet.convert("RGBa").filter(ImageFilter.GaussianBlur(radius)).convert("RGBA")
    return replace(layer, image=soft, left=layer.left - pad, top=layer.top - pad)


def _without(image: Image.Image, area: tuple[float, float, float, float]) -> Image.Image:
    """Return a drawing without what lies in ``area``, in shares of its sides."""
    width, height = image.size
    left, top, right, bottom = area
    alpha = image.getchannel("A").copy()
    ImageDraw.Draw(alpha).rectangle(
        (left * width, top * height, right * width - 1, bottom * height - 1), fill=0
    )
    found = image.copy()
    found.putalpha(alpha)
    return found


def _headless(rng: random.Random, image: Image.Image, kind: str) -> Image.Image:
    left, top, right, bottom = _HEADS[kind]
    cut = _without(image, (left, top, right, bottom * rng.uniform(0.75, 1.0)))
    if rng.random() < 0.3:
        # The neck grows into whatever is above: the rest is drawn longer.
        width, height = image.size
        rest = cut.crop((0, round(bottom * height), width, height))
        cut = Image.new("RGBA", image.size)
        above = round(rng.uniform(0.4, 1.0) * bottom * height)
        cut.paste(rest.resize((width, rest.height + above)), (0, height - rest.height - above))
    return cut


def _faceless(rng: random.Random, image: Image.Image, kind: str, color: str) -> Image.Image:
    """Return an animal whose head is a lump without ears or face."""
    left, top, right, bottom = _HEADS[kind]
    width, height = image.size
    found = _without(image, (left, top, right, bottom * rng.uniform(0.8, 1.0)))
    across, down = (right - left) * width, (bottom - top) * height
    high = rng.uniform(0.35, 0.75) * down
    low = bottom * height + rng.uniform(0.0, 0.15) * down
    wide = rng.uniform(0.6, 1.0) * across
    middle = (left + right) / 2 * width + rng.uniform(-0.15, 0.05) * across
    ImageDraw.Draw(found).ellipse(
        (middle - wide / 2, low - high, min(middle + wide / 2, width - 1), min(low, height - 1)),
        (*COLORS[color], 255),
        INK if rng.random() < 0.7 else None,
    )
    return found


def _doubled(rng: random.Random, layer: Layer) -> Layer:
    """Return a layer with the thing grown into half of a second one of its kind."""
    width, height = layer.image.size
    dx = round(rng.choice((-1, 1)) * rng.uniform(0.3, 0.6) * width)
    dy = round(rng.uniform(-0.3, 0.3) * height)
    if rng.random() < 0.3:
        dx, dy = round(rng.uniform(-0.2, 0.2) * width), round(rng.uniform(0.3, 0.6) * height)
    left, top = min(0, dx), min(0, dy)
    sheet = Image.new("RGBA", (width + abs(dx), height + abs(dy)))
    sheet.alpha_composite(_halved(rng, layer.image), (dx - left, dy - top))
    sheet.alpha_composite(layer.image, (-left, -top))
    sheet.alpha_composite(_halved(rng, layer.image), (dx - left, dy - top))
    return replace(layer, image=sheet, left=layer.left + left, top=layer.top + top)


def _twinned(rng: random.Random, layer: Layer) -> Layer:
    """Return a layer with the thing twice, the two melting into each other where they overlap."""
    width, height = layer.image.size
    dx, dy = rng.choice((-1, 1)) * rng.uniform(0.55, 0.85) * width, rng.uniform(-0.3, 0.3) * height
    if rng.random() < 0.3:
        dx, dy = (
            rng.uniform(-0.3, 0.3) * width,
            rng.choice((-1, 1)) * rng.uniform(0.5, 0.8) * height,
        )
    x, y = round(dx), round(dy)
    left, top = min(0, x), min(0, y)
    size = (width + abs(x), height + abs(y))
    one, other = Image.new("RGBA", size), Image.new("RGBA", size)
    one.paste(layer.image, (-left, -top))
    other.paste(layer.image, (x - left, y - top))
    both = ImageChops.multiply(one.getchannel("A"), other.getchannel("A"))
    sheet = Image.alpha_composite(one, other)
    sheet.paste(Image.blend(one, other, 0.5).filter(ImageFilter.GaussianBlur(1.5)), mask=both)
    return replace(layer, image=sheet, left=layer.left + left, top=layer.top + top)


def _halved(rng: random.Random, image: Image.Image) -> Image.Image:
    share = rng.uniform(0.42, 0.62)
    areas = (
        *((0.0, 0.0, share, 1.0), (1 - share, 0.0, 1.0, 1.0)),
        *((0.0, 0.0, 1.0, share), (0.0, 1 - share, 1.0, 1.0)),
    )
    return _without(image, rng.choice(areas))


def _blob(rng: random.Random, image: Image.Image, color: str) -> Image.Image:
    """Return a shapeless patch with an outline, in the thing's colour."""
    width, height = image.size
    found = Image.new("RGBA", image.size)
    draw = ImageDraw.Draw(found)
    inset_x, inset_y = rng.uniform(0.05, 0.25) * width, rng.uniform(0.05, 0.25) * height
    box = (inset_x, inset_y, width - 1 - inset_x, height - 1 - inset_y)
    line = INK if rng.random() < 0.7 else None
    if rng.random() < 0.5:
        draw.ellipse(box, (*COLORS[color], 255), line)
    else:
        draw.rounded_rectangle(box, rng.uniform(2, 6), (*COLORS[color], 255), line)
    for _ in range(rng.randint(0, 3)):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        draw.ellipse((x - 2, y - 2, x + 2, y + 2), rng.choice((INK, (0, 0, 0, 0))))
    return found


def _lump(rng: random.Random, image: Image.Image, color: str) -> Image.Image:
    """Return one to three lumps grown together, in the thing's colour."""
    width, height = image.size
    mask = Image.new("L", image.size)
    pen = ImageDraw.Draw(mask)
    for _ in range(rng.randint(1, 3)):
        across, down = rng.uniform(0.25, 0.6) * width, rng.uniform(0.3, 0.8) * height
        left, top = (
            rng.uniform(0.05, 0.95) * (width - across),
            rng.uniform(0.2, 1) * (height - down),
        )
        box = (left, top, left + across, top + down)
        if rng.random() < 0.5:
            pen.ellipse(box, 255)
        else:
            corners = [(left, top + down), (left + across, top + down)]
            corners += [(left + across * rng.uniform(0.5, 1), top), (left + across * 0.3, top)]
            pen.polygon(corners, 255)
    found = Image.new("RGBA", image.size)
    if rng.random() < 0.7:
        found.paste(INK, mask=mask)
        mask = mask.filter(ImageFilter.MinFilter(5 if min(width, height) > 24 else 3))
    found.paste((*COLORS[color], 255), mask=mask)
    for _ in range(rng.randint(0, 2)):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        ImageDraw.Draw(found).line((x, y, x + rng.uniform(-6, 6), y + 4), INK)
    return found


def _shuffled(rng: random.Random, image: Image.Image) -> Image.Image:
    """Return a drawing whose pieces are out of place."""
    width, height = image.size
    found = Image.new("RGBA", image.size)
    across, down = rng.choice(((2, 3), (3, 2), (3, 3)))
    boxes = [
        (
            x * width // across,
            y * height // down,
            (x + 1) * width // across,
            (y + 1) * height // down,
        )
        for x in range(across)
        for y in range(down)
    ]
    places = boxes[:]
    rng.shuffle(places)
    for (left, top, right, bottom), place in zip(boxes, places, strict=True):
        found.paste(image.crop((left, top, right, bottom)), place[:2])
    return found


def _merged(rng: random.Random, one: Layer, other: Layer) -> tuple[Layer, Layer]:
    """Return two layers grown into each other: moved together, their edges smeared."""
    pull = rng.uniform(0.25, 0.5)
    dx = (other.left + other.image.width / 2) - (one.left + one.image.width / 2)
    dy = (other.top + other.image.height / 2) - (one.top + one.image.height / 2)
    radius = rng.uniform(1.0, 2.5)
    moved = replace(one, left=one.left + round(pull * dx), top=one.top + round(pull * dy))
    return _soft(moved, radius), _soft(other, radius)
