"""Photos and answers for workers on machines that do not see the driver's files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from PIL import Image

from scenewright.core.flushing import Flusher
from scenewright.core.images import file_bytes, read_image
from scenewright.evals.runner.engines.store_actor import AnswerStoreActor, call_actor
from scenewright.evals.store.ledger import Photo


class PhotoStoreActor(AnswerStoreActor):
    """Serves the photos and answers of one set; runs as an actor on the driver's machine."""

    def __init__(self, answers: Path | None) -> None:
        """``answers``: the file of the answers; none: no judge is asked."""
        super().__init__(answers, Flusher())

    def photo(self, file: str) -> bytes:
        """The file of a photo. Raises ``ImageError``."""
        return file_bytes(file)


def fetch_photo(photo: Photo, stores: Any) -> Image.Image:
    """The photo, from this machine's file of the same path and content, or else of the driver's.

    Raises ``ImageError``, as :func:`~scenewright.core.images.load_image` does for the driver's
    file.
    """
    try:
        data = Path(photo.file).read_bytes()
    except OSError:
        data = b""
    if hashlib.sha256(data).hexdigest() != photo.digest:
        data = call_actor(stores.photo, photo.file)
    return read_image(data, photo.file)
