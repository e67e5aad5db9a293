"""Detections that somebody made before, by picture."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from PIL import Image

from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.images import hash_of_image, load_image
from scenewright.core.ports.detector import Detection, DetectionError
from scenewright.tools.vision.detection.boxes import by_score
from scenewright.tools.vision.detection.files import Listed, read_detections
from scenewright.tools.vision.detection.labels import among, wanted_of
from scenewright.tools.vision.detection.rle import compress, encode

_HASH = re.compile(r"[0-9a-f]{64}")


class RecordedDetector:
    """Implements :class:`~scenewright.core.ports.detector.Detector` for a file of detections.

    A picture is found by its content hash: that which the file names, or that of a picture that
    the file names by file name and that lies in the folder of pictures. Else it is found by the
    name of the file it was opened from, if Pillow still knows it. A picture that the file does not
    name raises ``DetectionError``: no record is not the same as nothing seen, which is an empty
    list.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        threshold: float = 0.0,
        images: str | os.PathLike[str] | None = None,
    ) -> None:
        """``path``: see :mod:`scenewright.tools.vision.detection.files`. ``threshold``: least score
        of a detection. ``images``: the folder that file names are relative to, by default that of
        ``path``. Raises ``DetectionError`` for what cannot be read."""
        if not 0 <= threshold <= 1:
            raise DetectionError(f"threshold {threshold}: use a number from 0 to 1")
        self._path = Path(path).expanduser()
        self._threshold = threshold
        self._listed = read_detections(self._path)
        self._folder = self._path.parent if images is None else Path(images).expanduser()
        self._hashing = threading.Lock()
        self._hashed: dict[str, str] | None = None
        self._by_name: dict[str, str | None] = {}
        for key in self._listed:
            last = _last(key)
            # A name that two folders share says nothing alone.
            self._by_name[last] = None if last in self._by_name else key

    @property
    def id(self) -> str:
        """``json:`` and the file's name."""
        return f"json:{self._path.name}"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the file's content and the threshold."""
        digest = hashlib.sha256(f"recorded@1 {self._threshold} ".encode())
        digest.update(self._path.read_bytes())
        return digest.hexdigest()

    @property
    def vocabulary(self) -> ClosedVocabulary | None:
        """None: a record does not say which classes were looked for."""
        return None

    @property
    def pictures(self) -> tuple[str, ...]:
        """File names or content hashes of the pictures that it knows."""
        return tuple(self._listed)

    async def detect(self, image: Image.Image, labels: Sequence[str] = ()) -> tuple[Detection, ...]:
        """As the port says. Raises ``DetectionError`` for a picture that the file does not name,
        and for a mask or box that does not fit it."""
        return await asyncio.to_thread(self._detect, image, tuple(labels))

    async def aclose(self) -> None:
        """Nothing to free."""

    def _detect(self, image: Image.Image, labels: tuple[str, ...]) -> tuple[Detection, ...]:
        wanted = wanted_of(labels)
        found = []
        for listed in self._of(image):
            if listed.score >= self._threshold and among(listed.name, wanted):
                box, mask = listed.placed(image.size)
                found.append(Detection(listed.name, box, listed.score, mask, listed.stuff))
        return tuple(by_score(found))

    def _of(self, image: Image.Image) -> tuple[Listed, ...]:
        digest = hash_of_image(image)
        named = self._pictures_here().get(digest, digest)
        if named in self._listed:
            return self._listed[named]
        opened = str(getattr(image, "filename", "") or "")
        if opened in self._listed:
            return self._listed[opened]
        key = self._by_name.get(_last(opened)) if opened else None
        if key is not None:
            return self._listed[key]
        told = f"{_last(opened)} ({digest})" if opened else f"the picture {digest}"
        raise DetectionError(
            f"{self._path} has no detections of {told}: add it by file name or content hash, with "
            "an empty list if nothing is seen in it"
        )

    def _pictures_here(self) -> dict[str, str]:
        """Content hash → name in the file, of the pictures that lie in the folder."""
        with self._hashing:
            if self._hashed is None:
                self._hashed = {}
                for name in self._listed:
                    file = self._folder / name
                    if _HASH.fullmatch(name) is None and file.is_file():
                        self._hashed[hash_of_image(load_image(file))] = name
            return self._hashed


def as_record(found: Mapping[str, Sequence[Detection]]) -> dict[str, Any]:
    """A document in the plain form, of detections by picture; ``json.dump`` writes it.

    >>> as_record({"a.png": [Detection("dog", (1, 2, 3, 4), 0.5)]})["images"]["a.png"]
    [{'name': 'dog', 'box': [1, 2, 3, 4], 'score': 0.5}]
    """
    images = {picture: [_entry(one) for one in listed] for picture, listed in found.items()}
    return {"box": "xyxy", "unit": "pixels", "images": images}


def write_detections(path: Path, found: Mapping[str, Sequence[Detection]]) -> None:
    """Write :func:`as_record` to ``path``."""
    path.write_text(json.dumps(as_record(found)) + "\n", encoding="utf-8")


def _entry(one: Detection) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": one.name, "box": list(one.box), "score": one.score}
    if one.stuff:
        entry["stuff"] = True
    if one.mask is not None:
        entry["mask"] = {"size": list(one.mask.shape), "counts": compress(encode(one.mask))}
    return entry


def _last(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).name
