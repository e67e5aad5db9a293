"""The photos of a set, looked at once: size, hash, boxes, and which are left out and why."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from PIL import Image

from scenewright.core.formats.base import numbered
from scenewright.evals.datasets.base import Item
from scenewright.evals.datasets.stream import file_digest
from scenewright.evals.store.ledger import Ledger, Photo

_LEAST_SIDE = 1.0


def photos_of(
    items: Iterable[Item],
    ledger: Ledger,
    least_objects: int,
    on_photo: Callable[[int], None] = lambda count: None,
) -> Iterator[Photo]:
    """A photo for each of ``items``, those left out too, with the reason as their state.

    Boxes are clipped to the picture; what then has no side of a pixel is no detection. Files that
    an earlier run has read and that did not change are not read again. ``on_photo`` is told how
    many there are so far.
    """
    for position, item in enumerate(items):
        yield _photo(position, item, ledger, least_objects)
        on_photo(position + 1)


def _photo(position: int, item: Item, ledger: Ledger, least: int) -> Photo:
    lost = Photo(position, item.id, item.image or "", "", (0, 0), (), state="no photo")
    if item.image is None:
        return lost
    if len(item.detections) < least:
        return _left_out(lost, f"fewer than {least} objects")
    try:
        about = Path(item.image).stat()
        stamp = f"{about.st_size} {about.st_mtime_ns}"
        known = ledger.digest_of(item.image, stamp)
        if known is None:
            with Image.open(item.image) as image:
                known = (file_digest(Path(item.image)), image.width, image.height)
    # Pillow raises whatever a broken file makes its decoders stumble over.
    except Exception:
        return _left_out(lost, "photo cannot be read")
    digest, width, height = known
    found = []
    for seen in item.detections:
        left, right = (min(max(v, 0.0), float(width)) for v in (seen.box[0], seen.box[2]))
        top, bottom = (min(max(v, 0.0), float(height)) for v in (seen.box[1], seen.box[3]))
        if right - left >= _LEAST_SIDE and bottom - top >= _LEAST_SIDE:
            found.append((seen.name, (left, top, right, bottom)))
    if len(found) < least:
        return _left_out(lost, f"fewer than {least} objects")
    ids = numbered(name for name, _ in found)
    objects = tuple((id_, name, box) for id_, (name, box) in zip(ids, found, strict=True))
    told = json.dumps([digest, objects], ensure_ascii=False)
    key = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()
    return Photo(position, item.id, item.image, key, (width, height), objects, digest, stamp)


def _left_out(photo: Photo, why: str) -> Photo:
    return Photo(photo.position, photo.id, photo.file, "", (0, 0), (), state=why)
