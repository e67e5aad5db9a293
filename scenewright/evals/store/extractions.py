"""Store of graphs extracted from pictures: no picture is read twice by the same extractor.

::

    <folder>/<SHA-256 of the extractor's fingerprint>/journal.sqlite

Metrics and evaluations that read the same picture share its graph, within a process and, with a
folder, between processes and days. A graph that cannot be read is made anew. Failures are not kept.
A graph with an unread part is not a result yet: it is extracted again each time, and its known
parts are kept so that only what failed is asked.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args
from weakref import WeakValueDictionary

from PIL import Image
from pydantic import ValidationError

from scenewright.core.images import hash_of_image
from scenewright.core.ports.vision import (
    DetectionError,
    Dropped,
    Extraction,
    ExtractionError,
    GraphExtractor,
    Part,
    Resumable,
    Unread,
)
from scenewright.core.scene import SceneGraph
from scenewright.evals.store.pictures import PictureValues
from scenewright.tools.vision.detection.masks import data_of_detection, detection_of


class Extractions:
    """Graphs that one extractor reads from pictures, each picture once."""

    def __init__(self, extractor: GraphExtractor, folder: str | os.PathLike[str] | None = None):
        """Use ``extractor``; its graphs are kept in ``folder``, or in memory only."""
        self.extractor = extractor
        name = hashlib.sha256(extractor.fingerprint.encode()).hexdigest()
        self._kept = PictureValues(
            None if folder is None else Path(folder) / name,
            lambda kept: extraction_of(kept["extraction"]),
            what="the extraction",
            wrong=ExtractionError,
        )
        self.made = 0
        """Calls of the extractor, failures included."""

    @property
    def folder(self) -> Path | None:
        """Folder of this extractor's graphs; made with the first one."""
        return self._kept.folder

    async def of(self, image: Image.Image, image_hash: str | None = None) -> Extraction:
        """Return the graph of ``image``; concurrent callers share one extraction.

        Parts that were unread before are asked for again. ``image_hash``: its content hash
        (:func:`scenewright.core.images.hash_of_image`) if it is known. Raises what
        :meth:`~scenewright.core.ports.vision.GraphExtractor.extract` raises, and
        ``ExtractionError`` if the extraction cannot be written.
        """
        name = await asyncio.to_thread(hash_of_image, image) if image_hash is None else image_hash
        async with self._kept.lock(name):
            found = await self._kept.get(name)
            data = None
            if found is None or not found.complete:
                self.made += 1
                found = await self._look(image, found)
                if found.complete or found.answered:
                    data = {"extractor": self.extractor.id, "extraction": data_of(found)}
            await self._kept.put(name, found, data)
            return found

    async def _look(self, image: Image.Image, before: Extraction | None) -> Extraction:
        if before is not None and before.answered and isinstance(self.extractor, Resumable):
            return await self.extractor.resume(image, before)
        return await self.extractor.extract(image)

    def forget(self, image_hash: str) -> None:
        """Forget the graph of a picture, for example after a provider failed on part of it."""
        self._kept.forget(image_hash)

    async def aclose(self) -> None:
        """Free the extractor and close the journal."""
        self._kept.clear()
        await self.extractor.aclose()


_SHARED: WeakValueDictionary[tuple[str, str], Extractions] = WeakValueDictionary()
_SHARED_LOCK = threading.Lock()


def shared_extractions(
    extractor: GraphExtractor, folder: str | os.PathLike[str] | None = None
) -> Extractions:
    """Return the extractions of ``extractor`` in ``folder``, shared while they are in use.

    Extractors of one fingerprint get the same.
    """
    key = (extractor.fingerprint, "" if folder is None else str(Path(folder).resolve()))
    with _SHARED_LOCK:
        found = _SHARED.get(key)
        if found is None:
            found = _SHARED[key] = Extractions(extractor, folder)
        return found


def data_of(extraction: Extraction) -> dict[str, Any]:
    """Return ``extraction`` as data for JSON; masks in COCO's run-length code."""
    return {
        "scene": extraction.scene.model_dump(mode="json"),
        "things": {name: data_of_detection(thing) for name, thing in extraction.things.items()},
        "confidence": dict(extraction.confidence),
        "dropped": [
            {"what": one.what, "stage": one.stage, "reason": one.reason}
            for one in extraction.dropped
        ],
        "unread": [asdict(one) for one in extraction.unread],
        "answered": dict(extraction.answered),
    }


def extraction_of(data: Mapping[str, Any]) -> Extraction:
    """Return the extraction in ``data`` of :func:`data_of`. Raises ``ExtractionError``."""
    try:
        return Extraction(
            scene=SceneGraph.model_validate(data["scene"]),
            things={name: detection_of(thing) for name, thing in data["things"].items()},
            confidence={str(name): float(value) for name, value in data["confidence"].items()},
            dropped=tuple(
                Dropped(what=one["what"], stage=one["stage"], reason=one["reason"])
                for one in data["dropped"]
            ),
            unread=tuple(map(_unread, data["unread"])),
            answered=dict(data["answered"]),
        )
    except (
        KeyError,
        TypeError,
        AttributeError,
        ValidationError,
        ValueError,
        DetectionError,
    ) as error:
        raise ExtractionError(f"this is not an extraction: {error!r}") from error


def _unread(data: Mapping[str, Any]) -> Unread:
    if data["part"] not in get_args(Part):
        raise ValueError(f"{data['part']!r} is not a part of a graph")
    named = {name: tuple(map(str, data[name])) for name in ("objects", "words")}
    return Unread(data["part"], str(data["reason"]), **named)
