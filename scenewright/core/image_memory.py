"""Decoded pictures kept in memory, each for as long as its file stays as it was."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

from PIL import Image

_Mark = tuple[int, int, int]


class ImageMemory:
    """The pictures last kept or asked for, up to a number of bytes; safe for many threads."""

    def __init__(self, limit: int) -> None:
        """``limit`` is in bytes of RGB pixels; with 0 nothing is kept."""
        self.limit = limit
        self._pictures: OrderedDict[Path, tuple[Image.Image, _Mark]] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, file: Path, image: Image.Image) -> None:
        """Keep ``image``, which the caller leaves alone, as what ``file`` holds now."""
        mark = _mark(file) if _size(image) <= self.limit else None
        if mark is None:
            return
        with self._lock:
            self._pictures[file] = (image, mark)
            self._pictures.move_to_end(file)
            while sum(_size(kept) for kept, _ in self._pictures.values()) > self.limit:
                self._pictures.popitem(last=False)

    def get(self, file: Path) -> Image.Image | None:
        """The caller's own copy of what ``file`` holds; None if it changed or is not known."""
        with self._lock:
            found = self._pictures.get(file)
            if found is None:
                return None
            image, mark = found
            if _mark(file) != mark:
                del self._pictures[file]
                return None
            self._pictures.move_to_end(file)
        return image.copy()


def _mark(file: Path) -> _Mark | None:
    """What changes when a file does."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _size(image: Image.Image) -> int:
    return 3 * image.width * image.height
