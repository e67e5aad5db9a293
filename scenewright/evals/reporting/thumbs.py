"""Small copies of pictures for pages: each written once, by content."""

from __future__ import annotations

import hashlib
import os
import secrets
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from PIL import Image

from scenewright.core.images import ImageError, load_image

SIDE = 320
"""Longest side in pixels: that of a picture in the list, for dense screens."""
_NAME = 20
"""Hex digits of a thumbnail's name."""


class Thumbs:
    """Thumbnails below ``folder``, made by threads.

    Those that are there already are kept, so that a report that was interrupted, or is made anew,
    makes only the new ones. A picture that is missing or damaged has no thumbnail and is counted.
    """

    def __init__(self, folder: Path, images: Path) -> None:
        """``images`` is the evaluation's image store."""
        self.folder = folder
        self.lost = 0
        """Pictures that are named in the tables and could not be read."""
        self._images = images
        self._pool = ThreadPoolExecutor(max_workers=max(1, min(4, os.cpu_count() or 1)))
        self._waiting: list[Future[bool]] = []
        self._tried: set[str] = set()
        folder.mkdir(parents=True, exist_ok=True)
        self._there = {file.stem for file in folder.glob("*.webp")}

    def of_hash(self, image: str) -> str:
        """Name of the thumbnail of a picture by its content hash; empty if there is no such file.

        The file itself may follow a little later: see :meth:`wait`.
        """
        if not image or not all(c in "0123456789abcdef" for c in image):
            return ""
        return self._of(image[:_NAME], self._images / f"{image}.png")

    def of_file(self, file: str) -> str:
        """The same for a photo by its path."""
        if not file:
            return ""
        path = Path(file)
        try:
            mark = f"{path.stat().st_size} {path.stat().st_mtime_ns}"
        except (OSError, ValueError):
            self.lost += 1
            return ""
        name = hashlib.sha256(f"{file} {mark}".encode()).hexdigest()[:_NAME]
        return self._of(name, path)

    def _of(self, name: str, path: Path) -> str:
        if name in self._there or name in self._tried:
            return name
        if not path.is_file():
            self.lost += 1
            return ""
        self._tried.add(name)
        self._waiting.append(self._pool.submit(_write, path, self.folder / f"{name}.webp"))
        return name

    def wait(self) -> None:
        """Wait for all that was asked for."""
        for future in self._waiting:
            self.lost += not future.result()
        self._waiting.clear()

    def close(self) -> None:
        """Wait, and let the threads go."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _write(path: Path, place: Path) -> bool:
    try:
        image = load_image(path)
    except ImageError:
        return False
    # A small picture is enlarged smoothly by the page, at no cost in bytes.
    image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS, reducing_gap=2.0)
    draft = place.with_name(f".{place.stem}.{secrets.token_hex(4)}.tmp")
    image.save(draft, "WEBP", quality=82, method=3)
    draft.replace(place)
    return True
