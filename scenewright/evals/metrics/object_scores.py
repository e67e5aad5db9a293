"""A scorer of realism that scores each object once: a retry asks for what failed alone.

::

    <folder>/<fingerprint of the scorer>/<hash of the picture>.json

A file holds the scores of a picture's objects by place. It is written whole or not at all, and one
that is damaged is made anew. Objects without a score are not kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from weakref import WeakValueDictionary

from PIL import Image

from scenewright.core.images import hash_of_image
from scenewright.core.ports.vision import Detection, ObjectRealism, RealismError, RealismScorer
from scenewright.tools.vision.detection.files import data_of_detection

REMEMBERED = 512
"""Pictures whose scores are held in memory."""
_FORMAT = 1
_Scores = dict[str, ObjectRealism]


class CachedScorer:
    """Implements :class:`~scenewright.core.ports.vision.RealismScorer` over another, which
    stays its owner's."""

    def __init__(self, scorer: RealismScorer, folder: str | Path | None = None) -> None:
        """``folder``: where scores are kept for other processes and days; None: in memory only."""
        self.scorer = scorer
        """Who scores."""
        name = hashlib.sha256(scorer.fingerprint.encode()).hexdigest()[:32]
        self.folder = None if folder is None else Path(folder) / name
        """Where this scorer's scores lie; made with the first one."""
        self._memory: OrderedDict[str, _Scores] = OrderedDict()
        # A lock lives as long as somebody waits for it, so that no event loop meets another's.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def id(self) -> str:
        """The other's."""
        return self.scorer.id

    @property
    def fingerprint(self) -> str:
        """The other's."""
        return self.scorer.fingerprint

    async def score(self, image: Image.Image, objects: Sequence[Detection]) -> list[ObjectRealism]:
        """As the port says; objects that have their scores are not asked about again. Raises
        ``RealismError`` as well if the scores cannot be written."""
        picture = await asyncio.to_thread(hash_of_image, image)
        keys = await asyncio.to_thread(lambda: [_key(item) for item in objects])
        lock = self._locks.setdefault(picture, asyncio.Lock())
        async with lock:
            known = self._memory.get(picture)
            if known is None:
                known = await asyncio.to_thread(self._read, picture)
            asked = {key: item for key, item in zip(keys, objects, strict=True) if key not in known}
            fresh: _Scores = {}
            if asked:
                said = await self.scorer.score(image, list(asked.values()))
                fresh = dict(zip(asked, said, strict=True))
                whole = {key: one for key, one in fresh.items() if one.average is not None}
                known = {**known, **whole}
                if whole:
                    await asyncio.to_thread(self._write, picture, known)
            self._remember(picture, known)
            return [known.get(key) or fresh[key] for key in keys]

    async def aclose(self) -> None:
        """Forget what is held in memory."""
        self._memory.clear()

    def _remember(self, picture: str, known: _Scores) -> None:
        self._memory[picture] = known
        self._memory.move_to_end(picture)
        while len(self._memory) > REMEMBERED:
            self._memory.popitem(last=False)

    def _read(self, picture: str) -> _Scores:
        if self.folder is None:
            return {}
        try:
            kept = json.loads((self.folder / f"{picture}.json").read_text(encoding="utf-8"))
            if (kept["format"], kept["image"]) != (_FORMAT, picture):
                return {}
            return {key: ObjectRealism(**one) for key, one in kept["objects"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            # Absent, or damaged by a crash of the machine: it is made anew.
            return {}

    def _write(self, picture: str, known: _Scores) -> None:
        if self.folder is None:
            return
        objects = {key: asdict(one) for key, one in known.items()}
        kept = {"format": _FORMAT, "image": picture, "objects": objects}
        draft = self.folder / f".{picture}.{secrets.token_hex(8)}.tmp"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                draft.write_text(json.dumps(kept), encoding="utf-8")
                os.replace(draft, self.folder / f"{picture}.json")
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise RealismError(
                f"the scores of objects cannot be kept in {self.folder}: "
                f"{error.strerror or error}. Choose a folder that you may write in, or free some "
                "space"
            ) from error


def _key(item: Detection) -> str:
    """What an object of a picture is known by: its class, and where it is."""
    data = {name: value for name, value in data_of_detection(item).items() if name != "score"}
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
