"""Graphs that were seen in pictures, kept: no picture is read twice by the same extractor.

::

    <folder>/<fingerprint of the extractor>/<hash of the picture>.json

Metrics and evaluations that look at one picture share what was seen in it, within a process and,
with a folder, between processes and days. A file is written whole or not at all; one that is
damaged is made anew. Failures are not kept. A graph of which a part is unread is no result yet: it
is looked for again each time, and what is known of it is kept so that only what failed is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import secrets
import threading
from collections import OrderedDict
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
from scenewright.tools.vision.detection.files import data_of_detection, detection_of

_FORMAT = 1
_REMEMBERED = 512
"""Extractions that are held in memory at most; masks make them large."""
_NAME = re.compile(r"[0-9a-f]{16,128}")


class Extractions:
    """What one extractor sees in pictures, each picture once."""

    def __init__(self, extractor: GraphExtractor, folder: str | os.PathLike[str] | None = None):
        """``folder``: where extractions are kept for other processes; None: in memory only."""
        self.extractor = extractor
        """Who looks."""
        self.folder = None if folder is None else Path(folder) / _file_name(extractor.fingerprint)
        """Where this extractor's extractions lie; made with the first one."""
        self.made = 0
        """How many times the extractor was asked, failures included."""
        self._memory: OrderedDict[str, Extraction] = OrderedDict()
        # A lock lives as long as somebody waits for it, so that no event loop meets another's.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def of(self, image: Image.Image, image_hash: str | None = None) -> Extraction:
        """What is seen in ``image``; callers that ask for it at the same time share one look. What
        was unread before is asked for again.

        ``image_hash``: its content hash (:func:`scenewright.core.images.hash_of_image`) if it is
        known. Raises what :meth:`~scenewright.core.ports.vision.GraphExtractor.extract` raises,
        and ``ExtractionError`` if the extraction cannot be written.
        """
        name = await asyncio.to_thread(hash_of_image, image) if image_hash is None else image_hash
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            found = self._memory.get(name)
            if found is None:
                found = await asyncio.to_thread(self._read, name)
            if found is None or not found.complete:
                self.made += 1
                found = await self._look(image, found)
                self._remember(name, found)
                if found.complete or found.answered:
                    await asyncio.to_thread(self._write, name, found)
            self._remember(name, found)
            return found

    async def _look(self, image: Image.Image, before: Extraction | None) -> Extraction:
        if before is not None and before.answered and isinstance(self.extractor, Resumable):
            return await self.extractor.resume(image, before)
        return await self.extractor.extract(image)

    def forget(self, image_hash: str) -> None:
        """Let the picture be read anew, for example after a provider failed on part of it."""
        self._memory.pop(image_hash, None)
        place = self._place(image_hash)
        if place is not None:
            place.unlink(missing_ok=True)

    async def aclose(self) -> None:
        """Free the extractor."""
        await self.extractor.aclose()

    def _remember(self, name: str, found: Extraction) -> None:
        self._memory[name] = found
        self._memory.move_to_end(name)
        while len(self._memory) > _REMEMBERED:
            self._memory.popitem(last=False)

    def _place(self, name: str) -> Path | None:
        return None if self.folder is None else self.folder / f"{_file_name(name)}.json"

    def _read(self, name: str) -> Extraction | None:
        place = self._place(name)
        if place is None:
            return None
        try:
            kept = json.loads(place.read_text(encoding="utf-8"))
            if (kept["format"], kept["image"]) != (_FORMAT, name):
                return None
            return extraction_of(kept["extraction"])
        except (OSError, ValueError, KeyError, TypeError, ExtractionError):
            # Absent, or damaged by a crash of the machine: it is made anew.
            return None

    def _write(self, name: str, found: Extraction) -> None:
        place = self._place(name)
        if place is None:
            return
        draft = place.with_name(f".{place.stem}.{secrets.token_hex(8)}.tmp")
        kept = {
            "format": _FORMAT,
            "image": name,
            "extractor": self.extractor.id,
            "extraction": data_of(found),
        }
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                draft.write_text(json.dumps(kept, ensure_ascii=True), encoding="utf-8")
                os.replace(draft, place)
            except BaseException:
                with contextlib.suppress(OSError):
                    draft.unlink()
                raise
        except OSError as error:
            raise ExtractionError(
                f"the extraction cannot be kept in {place.parent}: {error.strerror or error}. "
                "Choose a folder that you may write in, or free some space"
            ) from error


_SHARED: WeakValueDictionary[tuple[str, str], Extractions] = WeakValueDictionary()
_SHARED_LOCK = threading.Lock()


def shared_extractions(
    extractor: GraphExtractor, folder: str | os.PathLike[str] | None = None
) -> Extractions:
    """The extractions of ``extractor`` in ``folder``, while anybody uses them: callers whose
    extractors have one fingerprint get the same."""
    key = (extractor.fingerprint, "" if folder is None else str(Path(folder).resolve()))
    with _SHARED_LOCK:
        found = _SHARED.get(key)
        if found is None:
            found = _SHARED[key] = Extractions(extractor, folder)
        return found


def data_of(extraction: Extraction) -> dict[str, Any]:
    """``extraction`` as data for JSON; masks in COCO's run-length code."""
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
    """The extraction of :func:`data_of`; ``ExtractionError`` for what is none."""
    try:
        return Extraction(
            scene=SceneGraph.model_validate(data["scene"]),
            things={name: detection_of(thing) for name, thing in data["things"].items()},
            confidence={str(name): float(value) for name, value in data["confidence"].items()},
            dropped=tuple(
                Dropped(what=one["what"], stage=one["stage"], reason=one["reason"])
                for one in data["dropped"]
            ),
            # Files of earlier versions hold complete graphs alone.
            unread=tuple(map(_unread, data.get("unread", ()))),
            answered=dict(data.get("answered", {})),
        )
    except (
        KeyError,
        TypeError,
        AttributeError,
        ValidationError,
        ValueError,
        DetectionError,
    ) as error:
        raise ExtractionError(f"this is no extraction: {error!r}") from error


def _unread(data: Mapping[str, Any]) -> Unread:
    if data["part"] not in get_args(Part):
        raise ValueError(f"{data['part']!r} is not a part of a graph")
    named = {name: tuple(map(str, data[name])) for name in ("objects", "words")}
    return Unread(data["part"], str(data["reason"]), **named)


def _file_name(text: str) -> str:
    """``text`` if it is a hash, else its hash: names of files hold nothing else."""
    if _NAME.fullmatch(text):
        return text
    return hashlib.sha256(text.encode()).hexdigest()
