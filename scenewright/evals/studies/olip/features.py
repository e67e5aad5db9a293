"""Features of rated objects by a frozen BLIP, computed once and kept."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from scenewright.core.images import ImageError, load_image
from scenewright.core.ports.vision import RealismError
from scenewright.evals.human_ratings.objects.data import FILE, RatedObject
from scenewright.tools.vision.realism.olip import BlipEncoder
from scenewright.tools.vision.realism.olip_training import Features
from scenewright.tools.vision.realism.pictures import object_crop

PART = 128
"""Objects in one file: what an interruption loses at most."""
OnFeatures = Callable[[int, int], None]
"""Is told how many objects are done, and how many there are."""


async def features_of(
    folder: str | os.PathLike[str],
    objects: Sequence[RatedObject],
    encoder: BlipEncoder,
    cache: str | os.PathLike[str] | None = None,
    on_features: OnFeatures | None = None,
) -> Features:
    """Features of ``objects``, whose pictures lie in ``folder``, in their order.

    ``cache``: a folder of safetensors files, one for :data:`PART` objects, that hang on nothing but
    the encoder, the pictures' bytes, the boxes and the categories: an interrupted run goes on, and
    new ratings need no new features. Raises ``RealismError`` with file and line for a picture that
    cannot be read or a box outside of it, or if the model fails.
    """
    if not objects:
        raise RealismError("there are no objects to compute features of")
    root, kept = Path(folder), Path(cache) if cache is not None else None
    hashes: dict[str, str] = {}
    parts: list[tuple[torch.Tensor, torch.Tensor]] = []
    whole = hashlib.sha256()
    for start in range(0, len(objects), PART):
        some = objects[start : start + PART]
        key = await asyncio.to_thread(_key, root, some, encoder.fingerprint, hashes)
        whole.update(key.encode())
        file = kept / f"{key}.safetensors" if kept is not None else None
        found = _kept(file)
        if found is None:
            found = await _encode(root, some, encoder)
            if file is not None:
                _keep(file, found)
        parts.append(found)
        if on_features is not None:
            on_features(start + len(some), len(objects))
    full, crop = (torch.cat([part[side] for part in parts]) for side in (0, 1))
    return Features(full, crop, whole.hexdigest())


def _key(root: Path, objects: Sequence[RatedObject], encoder: str, hashes: dict[str, str]) -> str:
    rows: list[object] = [encoder]
    for item in objects:
        if item.image not in hashes:
            try:
                content = (root / item.image).read_bytes()
            except OSError as error:
                raise _unreadable(root, item, error.strerror or str(error)) from error
            hashes[item.image] = hashlib.sha256(content).hexdigest()
        rows.append((hashes[item.image], item.category, item.box))
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


async def _encode(
    root: Path, objects: Sequence[RatedObject], encoder: BlipEncoder
) -> tuple[torch.Tensor, torch.Tensor]:
    # By picture, so that each is opened and looked at once.
    order = sorted(range(len(objects)), key=lambda at: objects[at].image)
    sorted_objects = [objects[at] for at in order]
    full, crops = await asyncio.to_thread(_views, root, sorted_objects)
    names = [item.category for item in sorted_objects]
    found = [await encoder.features(images, names) for images in (full, crops)]
    back = np.argsort(order)
    return torch.from_numpy(found[0][back]), torch.from_numpy(found[1][back])


def _views(
    root: Path, objects: Sequence[RatedObject]
) -> tuple[list[Image.Image], list[Image.Image]]:
    opened: dict[str, Image.Image] = {}
    full: list[Image.Image] = []
    crops: list[Image.Image] = []
    for item in objects:
        try:
            if item.image not in opened:
                opened[item.image] = load_image(root / item.image)
            full.append(opened[item.image])
            crops.append(object_crop(opened[item.image], item.box))
        except (ImageError, ValueError) as error:
            raise _unreadable(root, item, str(error)) from error
    return full, crops


def _unreadable(root: Path, item: RatedObject, reason: str) -> RealismError:
    return RealismError(f"{line_of(root, item)}: {reason}")


def targets_of(objects: Sequence[RatedObject]) -> torch.Tensor:
    """Ratings of 1 to 5, float32 (objects, 3): shape, texture, joint."""
    rows = [(item.shape, item.texture, item.joint) for item in objects]
    return torch.tensor(rows, dtype=torch.float32).reshape(-1, 3)


def line_of(folder: Path, item: RatedObject) -> str:
    """``set/objects.jsonl, line 7``: where the list of the set in ``folder`` names ``item``."""
    path = folder / FILE
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if line.strip() and json.loads(line).get("id") == item.id:
                return f"{path}, line {number}"
    except (OSError, ValueError):
        pass
    return f"object {item.id!r}"


def _kept(file: Path | None) -> tuple[torch.Tensor, torch.Tensor] | None:
    if file is None or not file.is_file():
        return None
    try:
        found = load_file(file)
        return found["full"], found["crop"]
    except (SafetensorError, KeyError, OSError):
        # Half a file is computed again.
        return None


def _keep(file: Path, features: tuple[torch.Tensor, torch.Tensor]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.name}.tmp")
        draft.write_bytes(save({"full": features[0], "crop": features[1]}))
        os.replace(draft, file)
    except OSError as error:
        raise RealismError(
            f"features cannot be kept in {file.parent}: {error.strerror or error}"
        ) from error
