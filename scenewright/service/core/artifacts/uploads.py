"""Pictures that people have sent for their runs to begin with, each tenant's apart."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

from PIL import Image

from scenewright.core.images import ImageError, ImageStore
from scenewright.service.core.artifacts.objects import Objects, StoreAway
from scenewright.service.core.errors import ServiceError, Unavailable, Unprocessable
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
        try:
            digest = ImageStore(self._of(tenant)).put(picture)
            if self._objects is not None:
                self._objects.put(
                    self._key(tenant, digest), self._file(tenant, digest).read_bytes()
                )
            return digest
        except (ImageError, StoreAway) as error:
            raise _unkept(error) from error

    def find(self, tenant: str, digest: str) -> Path:
        """Return the file of a picture.

        ``Unprocessable`` if the tenant has sent none of that hash.
        """
        place = self._file(tenant, digest)
        if not place.is_file() and not self._fetched(tenant, digest):
            raise Unprocessable(
                f"you have sent no picture {digest}: send it to /v1/images/edits, whose reply "
                "names it"
            )
        return place

    def forget(self, tenant: str, digest: str) -> None:
        """Remove a picture, if it is there."""
        try:
            if self._objects is not None:
                self._objects.delete([self._key(tenant, digest)])
        except StoreAway as error:
            raise _unkept(error) from error
        self._file(tenant, digest).unlink(missing_ok=True)

    def _fetched(self, tenant: str, digest: str) -> bool:
        """Whether another server has kept the picture; it lies here then, too."""
        if self._objects is None:
            return False
        try:
            data = self._objects.get(self._key(tenant, digest))
            return data is not None and ImageStore(self._of(tenant)).put_bytes(data) == digest
        except (ImageError, StoreAway) as error:
            raise _unkept(error) from error

    def _file(self, tenant: str, digest: str) -> Path:
        return self._of(tenant) / f"{digest}.png"

    def _key(self, tenant: str, digest: str) -> str:
        return f"{UPLOADS_FOLDER}/{_name(tenant)}/{digest}.png"

    def _of(self, tenant: str) -> Path:
        return self._folder / _name(tenant)


def _unkept(error: Exception) -> ServiceError:
    """Return the error of a picture that cannot be kept or had now."""
    problem = problem_of(error)
    if problem is not None:
        return problem.error()
    log.warning("pictures that people send cannot be kept or had: %s", error)
    return Unavailable("pictures cannot be kept or had now: send it again in a moment")


def _name(tenant: str) -> str:
    # A tenant's name may hold what no file name can.
    return hashlib.sha256(tenant.encode()).hexdigest()[:32]
