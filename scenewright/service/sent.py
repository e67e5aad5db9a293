"""Pictures that people have sent for their runs to begin with, each tenant's apart."""

from __future__ import annotations

import hashlib
from pathlib import Path

from PIL import Image

from scenewright.images import ImageError, ImageStore
from scenewright.service.errors import Unavailable, Unprocessable

SENT = "sent"
"""Folder below the service's data."""


class SentPictures:
    """Pictures by content hash; a tenant finds only what it has sent itself."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is made when the first picture comes."""
        self._folder = folder

    def keep(self, tenant: str, picture: Image.Image) -> str:
        """Keep ``picture`` as PNG, safe from a power cut when this returns; its content hash."""
        try:
            return ImageStore(self._of(tenant)).put(picture)
        except ImageError as error:
            raise Unavailable(str(error)) from error

    def find(self, tenant: str, digest: str) -> Path:
        """The file of a picture; ``Unprocessable`` if the tenant has sent none of that hash."""
        place = self._of(tenant) / f"{digest}.png"
        if not place.is_file():
            raise Unprocessable(
                f"you have sent no picture {digest}: send it to /v1/images/edits, whose reply "
                "names it"
            )
        return place

    def forget(self, tenant: str, digest: str) -> None:
        """Remove a picture, if it is there."""
        (self._of(tenant) / f"{digest}.png").unlink(missing_ok=True)

    def _of(self, tenant: str) -> Path:
        # A tenant's name may hold what no file name can.
        return self._folder / hashlib.sha256(tenant.encode()).hexdigest()[:32]
