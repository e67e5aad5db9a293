"""Pictures of a study, without anything that tells where they come from.

Generators write prompts and model names into the files (text chunks of PNG, EXIF), and a browser
shows them to whoever saves the picture. What is kept for raters is pixels alone.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

from PIL import Image

from scenewright.core.images import ImageError, load_image, png_bytes
from scenewright.evals.human_ratings.files import put_file
from scenewright.evals.human_ratings.study import IMAGES, RatingError

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PIXELS = frozenset((b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"))


def bare_png(data: bytes) -> bytes | None:
    """The PNG file ``data`` without the chunks that pixels do not need; None if it is none."""
    if not data.startswith(_SIGNATURE):
        return None
    kept, at, ended = [_SIGNATURE], len(_SIGNATURE), False
    while at + 12 <= len(data) and not ended:
        size, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + size
        if end > len(data):
            return None
        if kind in _PIXELS:
            kept.append(data[at:end])
        elif kind[0] < 97:
            # Its first letter says that it must be understood: not ours to drop.
            return None
        elif kind in (b"eXIf", b"acTL"):
            # The picture may be turned by it, or move: it is drawn anew.
            return None
        ended, at = kind == b"IEND", end
    return b"".join(kept) if ended else None


class Pictures:
    """Puts pictures into a study's folder."""

    def __init__(self, folder: Path, side: int | None = None) -> None:
        """``side``: pixels of the longest side that all are scaled to; none: left as they are.

        Raises ``RatingError`` if the folder cannot be made.
        """
        self._folder = folder / IMAGES
        self._side = side
        self._known: dict[Path, str] = {}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RatingError(
                f"{self._folder} cannot be made: {error.strerror or error}"
            ) from error

    def put(self, file: Path) -> str:
        """Content hash of the picture of ``file``, which is then in the folder.

        Raises ``ImageError`` for a file that is no sound picture, ``RatingError`` if it cannot
        be kept.
        """
        if file not in self._known:
            self._known[file] = self._keep(self._bytes(file))
        return self._known[file]

    def put_image(self, image: Image.Image) -> str:
        """Content hash of ``image``, as it is and without metadata, which is then in the folder.

        Raises ``RatingError`` if it cannot be kept.
        """
        return self._keep(png_bytes(image))

    def _bytes(self, file: Path) -> bytes:
        # Read as a picture in any case: what is damaged must be found now, not by a rater.
        image = load_image(file)
        if self._side is not None and max(image.size) != self._side:
            from scenewright.runs.report.parts import fit

            return png_bytes(fit(image, self._side))
        try:
            bare = bare_png(file.read_bytes())
        except OSError as error:
            raise ImageError(f"{file} cannot be read: {error.strerror or error}") from error
        return png_bytes(image) if bare is None else bare

    def _keep(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        place = self._folder / f"{name}.png"
        if place.exists():
            return name
        put_file(place, data)
        return name
