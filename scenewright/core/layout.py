"""Layout of a scene on a small grid, and regions and masks of a picture.

Relations such as *left of* or *on* are turned into cells of a 3×3 grid. Composers say these places
in words, and the painter of the miniature world draws them. The planner satisfies every relation or
names a smallest set of relations that contradict each other. Regions are shares of a picture's
sides.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

from PIL import Image, ImageChops, ImageDraw

from scenewright.core.errors import ScenewrightError
from scenewright.core.scene import Relation, SceneGraph
from scenewright.core.vocabulary import canonical, first_known

COLUMNS = 3
ROWS = 3
_MAX_NODES = 20_000
_MAX_TENANTS = 3
"""Most objects in one cell."""
_MANY = 64
"""Relations beyond which a step of the search counts for more than one, and not every number of
them is tried."""

Cell = tuple[int, int]
"""(column, row), from the top left."""

# Those that the grid can show.
_PREDICATES = (
    *("left of", "right of", "above", "below", "near", "on", "riding", "under", "holding"),
    *("wearing", "inside"),
)
_ROOMY = frozenset({"table", "desk", "bench", "chair", "bed"})
_DIRECTIONS = {"left of": (1, 0), "right of": (-1, 0), "above": (0, 1), "below": (0, -1)}
"""Step from the source towards the target."""
_SHARED = (0, 0)
_CONTACTS = {
    **{"on": (0, -1), "riding": (0, -1), "under": (0, 1), "holding": (-1, 0)},
    **{"wearing": _SHARED, "inside": _SHARED},
}
"""Cell of the source relative to the target, for predicates that put them in contact."""


class PlacementError(ScenewrightError, ValueError):
    """The relations of a scene cannot hold together on the grid; names those that clash."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Objects with fixed positions relative to each other."""

    offsets: Mapping[str, Cell]
    """Object id → offset from the group's corner."""
    cells: frozenset[Cell]
    """Offsets that the group fills."""


@lru_cache(maxsize=4096)
def canonical_predicate(predicate: str) -> str:
    """Return the planner's word for ``predicate``, or ``predicate`` itself.

    A predicate that the planner does not know by name is placed like what it entails: who sits on a
    bench is on it. *near* follows from too many predicates to be of use.
    """
    found = first_known(predicate, _PREDICATES)
    if found == "near" and canonical(predicate) not in ("near", "next to"):
        found = None
    return predicate if found is None else found


def is_allowed(predicate: str, source: Cell, target: Cell, *, clear: bool = True) -> bool:
    """Return whether the planner lets ``predicate`` (its own word) hold between two cells.

    Predicates of contact are not decided by the cells alone: they are allowed everywhere. A
    direction counts on its own axis; with ``clear`` it is also the one in which the two are
    farther apart.
    """
    dx, dy = target[0] - source[0], target[1] - source[1]
    if predicate == "near":
        return abs(dx) + abs(dy) == 1
    if predicate not in _DIRECTIONS:
        return True
    across, down = _DIRECTIONS[predicate]
    along = dx * across + dy * down
    return along >= 1 and (not clear or abs(dx * down) + abs(dy * across) < along)


def _groups(scene: SceneGraph, relations: Sequence[Relation]) -> list[_Group] | None:
    """Return objects joined by contact relations; None if these contradict each other."""
    names = {item.id: item.name for item in scene.objects}
    links: dict[str, list[tuple[str, Cell]]] = {item.id: [] for item in scene.objects}
    shared: set[frozenset[str]] = set()
    for relation in relations:
        predicate = canonical_predicate(relation.predicate)
        if predicate not in _CONTACTS:
            continue
        beneath = predicate == "under" and names[relation.target] in _ROOMY
        dx, dy = _SHARED if beneath else _CONTACTS[predicate]
        links[relation.target].append((relation.source, (dx, dy)))
        links[relation.source].append((relation.target, (-dx, -dy)))
        if (dx, dy) == _SHARED:
            shared.add(frozenset((relation.source, relation.target)))
    groups: list[_Group] = []
    done: set[str] = set()
    for item in scene.objects:
        if item.id in done:
            continue
        places: dict[str, Cell] = {item.id: (0, 0)}
        queue = [item.id]
        while queue:
            here = queue.pop()
            for other, (dx, dy) in links[here]:
                cell = (places[here][0] + dx, places[here][1] + dy)
                if places.setdefault(other, cell) != cell:
                    return None
                if other not in done and other not in queue:
                    queue.append(other)
            done.add(here)
        at: dict[Cell, list[str]] = {}
        for object_id, cell in places.items():
            at.setdefault(cell, []).append(object_id)
        for tenants in at.values():
            hosts = [t for t in tenants if all(t == o or {t, o} in shared for o in tenants)]
            if len(tenants) > 1 and not hosts:
                return None
            if len(tenants) > _MAX_TENANTS:
                return None
        left = min(x for x, _ in places.values())
        top = min(y for _, y in places.values())
        offsets = {key: (x - left, y - top) for key, (x, y) in places.items()}
        groups.append(_Group(offsets, frozenset(offsets.values())))
    return groups


def _search(scene: SceneGraph, relations: Sequence[Relation], seed: int) -> dict[str, Cell] | None:
    """Return cells in which ``relations`` hold, clearly if that is possible; None if none are."""
    for clear in (True, False):
        found = _searched(scene, tuple(relations), seed, clear)
        if found is not None:
            return dict(found)
    return None


# A run asks for the places of one scene several times a round.
@lru_cache(maxsize=128)
def _searched(
    scene: SceneGraph, relations: tuple[Relation, ...], seed: int, clear: bool
) -> Mapping[str, Cell] | None:
    groups = _groups(scene, relations)
    if groups is None or sum(len(g.cells) for g in groups) > COLUMNS * ROWS:
        return None
    checks = [(r.source, canonical_predicate(r.predicate), r.target) for r in relations]
    degree = {
        id(g): (len(g.cells), sum((s in g.offsets) + (t in g.offsets) for s, _, t in checks))
        for g in groups
    }
    order = sorted(groups, key=lambda g: degree[id(g)], reverse=True)
    rng = random.Random(seed)
    spots: list[list[Cell]] = []
    for group in order:
        wide = 1 + max(x for x, _ in group.cells)
        high = 1 + max(y for _, y in group.cells)
        free = [(x, y) for x in range(COLUMNS - wide + 1) for y in range(ROWS - high + 1)]
        rng.shuffle(free)
        spots.append(free)
    budget = [_MAX_NODES]
    cost = max(1, len(checks) // _MANY)

    def place(at: int, placed: dict[str, Cell], taken: set[Cell]) -> dict[str, Cell] | None:
        if at == len(order):
            return placed
        for x, y in spots[at]:
            budget[0] -= cost
            if budget[0] < 0:
                return None
            cells = {(x + cx, y + cy) for cx, cy in order[at].cells}
            if cells & taken:
                continue
            trial = dict(placed)
            trial.update({k: (x + cx, y + cy) for k, (cx, cy) in order[at].offsets.items()})
            if all(
                is_allowed(predicate, trial[source], trial[target], clear=clear)
                for source, predicate, target in checks
                if source in trial and target in trial
            ):
                found = place(at + 1, trial, taken | cells)
                if found is not None:
                    return found
        return None

    return place(0, {}, set())


def fits_grid(scene: SceneGraph, seed: int = 0) -> bool:
    """Return whether every object finds a cell so that all relations hold clearly."""
    return _searched(scene, scene.relations, seed, True) is not None


def place_objects(scene: SceneGraph, seed: int = 0) -> dict[str, Cell]:
    """Return a cell for every object such that all relations hold.

    The same seed gives the same cells. Objects share a cell only where one wears, holds inside or
    stands over the other. Predicates unknown to the planner put no constraint. Raises
    ``PlacementError``.
    """
    found = _search(scene, scene.relations, seed)
    if found is not None:
        return found
    # A smallest set of relations that contradict each other.
    clash = list(scene.relations)
    for relation in scene.relations:
        fewer = [r for r in clash if r != relation]
        if _search(scene, fewer, seed) is None:
            clash = fewer
    if not clash:
        raise PlacementError(
            f"{len(scene.objects)} objects do not fit on a {COLUMNS}×{ROWS} grid: "
            f"use at most {COLUMNS * ROWS}"
        )
    said = "; ".join(f"{r.source} {r.predicate} {r.target}" for r in clash)
    raise PlacementError(
        f"these relations cannot hold together on a {COLUMNS}×{ROWS} grid: {said}: "
        "change or drop one of them"
    )


def place_what_fits(scene: SceneGraph, seed: int = 0) -> dict[str, Cell]:
    """Place objects like :func:`place_objects`, dropping relations from the end until it fits.

    Empty if even the objects alone do not fit.
    """
    if len(scene.objects) > _MAX_TENANTS * COLUMNS * ROWS:
        return {}
    many, most = len(scene.relations), min(_MANY, len(scene.relations))
    best = _search(scene, scene.relations[:most], seed)
    if best is None:
        tried = (_search(scene, scene.relations[:kept], seed) for kept in reversed(range(most)))
        return next((found for found in tried if found is not None), {})
    # Of further ones the number that fits is searched for in halves.
    fits, fails = most, many + 1
    while fails - fits > 1:
        kept = (fits + fails) // 2
        found = _search(scene, scene.relations[:kept], seed)
        if found is None:
            fails = kept
        else:
            best, fits = found, kept
    return best


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle, in shares (0–1) of the picture's width and height."""

    left: float
    """Of the width."""
    top: float
    """Of the height."""
    right: float
    """Of the width; more than ``left``."""
    bottom: float
    """Of the height; more than ``top``."""


def region_of_cell(cell: Cell, margin: float = 0.02) -> Region:
    """Return the part of a picture that ``cell`` of the planner's grid means, ``margin`` wider."""
    column, row = cell
    return Region(
        max(0.0, column / COLUMNS - margin),
        max(0.0, row / ROWS - margin),
        min(1.0, (column + 1) / COLUMNS + margin),
        min(1.0, (row + 1) / ROWS + margin),
    )


def cell_at(region: Region) -> Cell:
    """Return the cell of the planner's grid that holds the middle of ``region``."""
    column = math.floor((region.left + region.right) / 2 * COLUMNS)
    row = math.floor((region.top + region.bottom) / 2 * ROWS)
    return min(max(column, 0), COLUMNS - 1), min(max(row, 0), ROWS - 1)


def region_within(region: Region, crop: Region) -> Region:
    """Return ``region`` in shares of ``crop``; what lies outside is beyond 0 to 1."""
    wide, high = crop.right - crop.left, crop.bottom - crop.top
    return Region(
        (region.left - crop.left) / wide,
        (region.top - crop.top) / high,
        (region.right - crop.left) / wide,
        (region.bottom - crop.top) / high,
    )


def region_between(
    boxes: Sequence[tuple[float, float, float, float]], size: tuple[int, int]
) -> Region | None:
    """Return the median of ``boxes`` (pixels) in shares of ``size`` (width, height).

    None without boxes, or if nothing of it is inside.
    """
    if not boxes:
        return None
    width, height = size
    left, top, right, bottom = (median(box[side] for box in boxes) for side in range(4))
    shares = (left / width, top / height, right / width, bottom / height)
    left, top, right, bottom = (min(1.0, max(0.0, share)) for share in shares)
    return Region(left, top, right, bottom) if left < right and top < bottom else None


def mask_of(regions: Iterable[Region], size: tuple[int, int]) -> Image.Image:
    """Return white where any of ``regions`` is, else black: mode L, ``size`` is (width, height)."""
    width, height = size
    mask = Image.new("L", size)
    draw = ImageDraw.Draw(mask)
    for region in regions:
        corners = (
            *(round(region.left * width), round(region.top * height)),
            *(round(region.right * width) - 1, round(region.bottom * height) - 1),
        )
        draw.rectangle(corners, fill=255)
    return mask


def keep_outside(
    drawn: Image.Image, kept: Image.Image, mask: Image.Image
) -> tuple[Image.Image, float]:
    """Return ``drawn`` with the pixels of ``kept`` where ``mask`` is black, and what changed.

    That is the share (0 to 1) of all pixels that differ from ``kept``. ``kept`` and ``mask`` are
    scaled to the size of ``drawn``; grey of the mask mixes both.
    """
    drawn, size = drawn.convert("RGB"), drawn.size
    kept = kept.convert("RGB")
    if kept.size != size:
        kept = kept.resize(size, Image.Resampling.LANCZOS)
        mask = mask.convert("L").resize(size, Image.Resampling.NEAREST)
    found = Image.composite(drawn, kept, mask.convert("L"))
    red, green, blue = ImageChops.difference(found, kept).split()
    differs = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    return found, 1 - differs.histogram()[0] / (size[0] * size[1])


CONTEXT = 0.25
"""Margin of a crop around the area that may change, as a share of its longer side."""
SMALLEST = 0.5
"""Shortest side of a crop, as a share of the default size: models draw badly far below it."""
WORTH = 0.8
"""A crop of a larger share of the picture saves too little."""


def crop_around(
    mask: Image.Image, multiple: int, usual: tuple[int, int]
) -> tuple[int, int, int, int] | None:
    """Return left, top, right and bottom of a crop around the white of ``mask``, in pixels.

    Its sides are multiples of ``multiple`` and at least half of ``usual``, the (width, height) that
    the model draws. None if nothing is white, or the crop would be most of the picture.
    """
    white = mask.point(lambda value: 255 * (value >= 128)).getbbox()
    if white is None:
        return None
    context = CONTEXT * max(white[2] - white[0], white[3] - white[1])
    sides: list[tuple[int, int]] = []
    for side, whole in enumerate(mask.size):
        first, last = white[side], white[side + 2]
        wanted = max(last - first + 2 * context, SMALLEST * usual[side])
        length = min(whole, math.ceil(wanted / multiple) * multiple)
        begin = round((first + last - length) / 2 / multiple) * multiple
        begin = max(0, min(begin, first // multiple * multiple, whole - length))
        if begin + length < last:
            length = -(-(last - begin) // multiple) * multiple
        sides.append((begin, begin + length))
    (left, right), (top, bottom) = sides
    if (right - left) * (bottom - top) > WORTH * mask.width * mask.height:
        return None
    return left, top, right, bottom
