"""Stores that workers on other machines share: the driver's pictures, answers and finished units.

A worker on the driver's machine opens the folder itself. One elsewhere asks an actor on the
driver's machine, so that no shared file system is needed (SQLite would not be safe on one), and
what it has paid for is kept before it goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from scenewright.core.flushing import Flusher
from scenewright.core.images import ImageStore, file_bytes
from scenewright.evals.store.journal import Journal, Unit
from scenewright.evals.store.results import IMAGES, JOURNAL
from scenewright.providers import Answers, AnswerStore


class StoreActor:
    """Actor that serves the stores of one folder. The journal is only read."""

    def __init__(self, answers: Path | None, place: Path | None = None) -> None:
        """Open the stores.

        Args:
            answers: file of answers, made if it is not there; None: no judge is asked.
            place: folder of an evaluation whose pictures and units are served as well.
        """
        self._flusher = Flusher()
        self._stores: dict[str, Any] = {"answers": AnswerStore(answers, flusher=self._flusher)}
        if place is not None:
            self._stores["images"] = ImageStore(place / IMAGES, flusher=self._flusher)
            self._stores["units"] = Journal(place / JOURNAL)

    def call(self, store: str, method: str, *args: Any) -> Any:
        """Return the result of a method of ``answers``, ``images`` or ``units``."""
        return getattr(self._stores[store], method)(*args)

    def image(self, name: str) -> bytes:
        """Return the file of the picture ``name``. Raises ``ImageError``."""
        images: ImageStore = self._stores["images"]
        if not images.sound(name):
            images.get(name)
        return images.path(name).read_bytes()

    def photo(self, file: str) -> bytes:
        """Return the content of a photo's file. Raises ``ImageError``."""
        return file_bytes(file)

    def flush(self) -> None:
        """Return when all data is on the disk."""
        self._flusher.flush()

    def close(self) -> None:
        """Flush and close the answers."""
        self._stores["answers"].close()
        self._flusher.close()


def call_actor(method: Any, *args: Any) -> Any:
    """Call an actor's ``method`` and wait; only for threads that may block."""
    import ray

    try:
        return ray.get(method.remote(*args))
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, Exception):
            raise error.cause from None
        raise


class RemoteImages(ImageStore):
    """Image store of the driver, with a local folder for the pictures in use."""

    def __init__(self, folder: Path, stores: Any) -> None:
        """Use ``folder`` on this machine and the actor whose handle is ``stores``."""
        super().__init__(folder)
        self._actor = stores
        self._sent: set[str] = set()

    def put(self, image: Image.Image) -> str:
        """Store ``image`` here and at the driver."""
        return self._send(super().put(image))

    def put_bytes(self, data: bytes) -> str:
        """Store a picture's file here and at the driver."""
        return self._send(super().put_bytes(data))

    def get(self, image_hash: str) -> Image.Image:
        """Return the picture, fetched from the driver if it is not here."""
        self._fetch(image_hash)
        return super().get(image_hash)

    def sound(self, image_hash: str) -> bool:
        """Return whether the picture exists and is not damaged."""
        if image_hash not in self:
            return False
        self._fetch(image_hash)
        return super().sound(image_hash)

    def __contains__(self, image_hash: object) -> bool:
        """Return whether the picture is here or at the driver."""
        return super().__contains__(image_hash) or (
            isinstance(image_hash, str) and bool(self._call("__contains__", image_hash))
        )

    def remember(self, request_key: str, image_hash: str, meta: dict[str, Any]) -> None:
        """Note the picture of a request at the driver."""
        self._call("remember", request_key, image_hash, meta)

    def noted(self, request_key: str) -> bool:
        """Return whether the driver has a note of this request."""
        return self.recall(request_key) is not None

    def recall(self, request_key: str) -> tuple[str, dict[str, Any]] | None:
        """Return the driver's note of a request."""
        found: tuple[str, dict[str, Any]] | None = self._call("recall", request_key)
        return found

    def _call(self, method: str, *args: Any) -> Any:
        return call_actor(self._actor.call, "images", method, *args)

    def _fetch(self, name: str) -> None:
        if not super().__contains__(name):
            super().put_bytes(call_actor(self._actor.image, name))
            self._sent.add(name)

    def _send(self, name: str) -> str:
        if name not in self._sent:
            self._call("put_bytes", self.path(name).read_bytes())
            self._sent.add(name)
        return name


class RemoteAnswers(Answers):
    """Answers of the driver.

    Turns are taken within this worker alone: if two workers ask the same, the first answer stays.
    """

    def __init__(self, stores: Any) -> None:
        """Use the actor whose handle is ``stores``."""
        super().__init__()
        self._actor = stores

    def read(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """Call :meth:`AnswerStore.read`."""
        found: list[tuple[Any, ...]] = call_actor(
            self._actor.call, "answers", "read", statement, values
        )
        return found

    def write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Call :meth:`AnswerStore.write`."""
        call_actor(self._actor.call, "answers", "write", statement, rows)

    def close(self) -> None:
        """Do nothing: no file is open here."""


class RemoteUnits:
    """Finished units of the driver, read only."""

    def __init__(self, stores: Any) -> None:
        """Use the actor whose handle is ``stores``."""
        self._actor = stores

    def get(self, key: str) -> Unit | None:
        """Return the unit of ``key`` if it is finished."""
        found: Unit | None = call_actor(self._actor.call, "units", "get", key)
        return found
