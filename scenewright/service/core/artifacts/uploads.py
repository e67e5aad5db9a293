"""Pictures that people have sent for their runs to begin with, each tenant's apart."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from scenewright.core.images import ImageError, ImageStore
from scenewright.service.core.artifacts.objects import Objects, StoreAway
from scenewright.service.core.errors import Unavailable, Unprocessable
from scenewright.service.core.storage import problem_of

log = logging.getLogger(__name__)

UPLOADS_FOLDER = "sent"
"""Folder below the service's data."""


class UploadStore:
    """Pictures by content hash; a tenant finds only what it has sent itself."""

    def __init__(self, folder: Path, objects: Objects | None = None) -> None:
        """``folder`` is made when the first picture comes. ``objects``: what all servers share."""
        self._folder = folder
        self._objects = objects

    def keep(self, tenant: str, picture: Image.Image) -> str:
        """Keep ``picture`` as PNG, safe from a power cut when this returns; its content hash."""
        folder = self._folder / _name(tenant)
        with _kept():
            digest = ImageStore(folder).put(picture)
            if self._objects is not None:
                data = (folder / f"{digest}.png").read_bytes()
                self._objects.put(_key(tenant, digest), data)
            return digest

    def find(self, tenant: str, digest: str) -> Path:
        """Return the file of a picture; it may be another server that has kept it.

        ``Unprocessable`` if the tenant has sent none of that hash.
        """
        folder = self._folder / _name(tenant)
        place = folder / f"{digest}.png"
        there = place.is_file()
        if not there and self._objects is not None:
            with _kept():
                data = self._objects.get(_key(tenant, digest))
                there = data is not None and ImageStore(folder).put_bytes(data) == digest
        if not there:
            raise Unprocessable(
                f"you have sent no picture {digest}: send it to /v1/images/edits, whose reply "
                "names it"
            )
        return place

    def forget(self, tenant: str, digest: str) -> None:
        """Remove a picture, if it is there."""
        if self._objects is not None:
            with _kept():
                self._objects.delete([_key(tenant, digest)])
        (self._folder / _name(tenant) / f"{digest}.png").unlink(missing_ok=True)


@contextmanager
def _kept() -> Iterator[None]:
    """Raise ``ServiceError`` for pictures that cannot be kept or had now."""
    try:
        yield
    except (ImageError, StoreAway) as error:
        if (problem := problem_of(error)) is not None:
            raise problem.error() from error
        log.warning("pictures that people send cannot be kept or had: %s", error)
        raise Unavailable(
            "pictures cannot be kept or had now: send it again in a moment"
        ) from error


def _key(tenant: str, digest: str) -> str:
    return f"{UPLOADS_FOLDER}/{_name(tenant)}/{digest}.png"


def _name(tenant: str) -> str:
    # A tenant's name may hold what no file name can.
    return hashlib.sha256(tenant.encode()).hexdigest()[:32]
