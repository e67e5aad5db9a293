"""Files of pictures: which lie in a folder, and what two of them have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scenewright.core.images import ImageError, hash_of_image, load_image

ENDINGS = frozenset((".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff"))
"""Endings of the files of a folder that are taken for pictures."""
_THREADS = 4
_AHEAD = 16


def pictures_in(folder: Path) -> list[Path]:
    """The pictures of ``folder`` and the folders below it, sorted; hidden ones are left out.

    ``OSError`` if it cannot be read.
    """
    return sorted(
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in ENDINGS
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    )


def digests(files: Iterable[Path]) -> Iterator[tuple[Path, str | ImageError]]:
    """Each file with the content hash of its picture (that of rows of scores), or with why it
    cannot be read, in their order; a few are read at the same time."""
    with ThreadPoolExecutor(_THREADS) as threads:
        waiting = []
        for file in files:
            waiting.append((file, threads.submit(_digest, file)))
            if len(waiting) >= _AHEAD:
                first, found = waiting.pop(0)
                yield first, found.result()
        for first, found in waiting:
            yield first, found.result()


def _digest(file: Path) -> str | ImageError:
    try:
        return hash_of_image(load_image(file))
    except ImageError as error:
        return error
