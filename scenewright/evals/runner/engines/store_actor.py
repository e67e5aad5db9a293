"""What workers on other machines share: the driver's pictures, answers and finished units.

A worker on the driver's machine opens the folder itself. One elsewhere asks the desk, an actor on
the driver's machine, so that no shared file system is needed (SQLite would not be safe on one), and
what it has paid for is kept before it goes on.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from scenewright.core.facts import Answer
from scenewright.core.flushing import Flusher
from scenewright.core.images import ImageStore
from scenewright.evals.store.journal import Journal, Unit
from scenewright.evals.store.paths import ANSWERS, JOURNAL
from scenewright.evals.store.results import IMAGES
from scenewright.providers import AnswerStore, StoreBusy

Pairs = Sequence[tuple[str, Answer]]


class AnswerStoreActor:
    """Serves a file of answers."""

    def __init__(self, path: Path | None, flusher: Flusher) -> None:
        """``path``: the file, made if it is not there; none: no file, where nobody is to answer."""
        self._flusher = flusher
        self.answers = AnswerStore(path, flusher=flusher)

    def get_answers(
        self, judge: str, image: str, digests: Sequence[str]
    ) -> dict[str, tuple[Answer, str]]:
        """As :meth:`AnswerStore.get`."""
        return self.answers.get(judge, image, digests)

    def put_answers(self, judge: str, image: str, answers: Pairs, origin: str) -> None:
        """As :meth:`AnswerStore.put`."""
        self.answers.put(judge, image, answers, origin)

    def noted_versions(self, judge: str) -> tuple[str, str]:
        """As :meth:`AnswerStore.noted_versions`."""
        return self.answers.noted_versions(judge)

    def note_version(self, judge: str, version: str) -> None:
        """As :meth:`AnswerStore.note_version`."""
        self.answers.note_version(judge, version)

    def count_answers(self) -> int:
        """How many answers are kept."""
        return len(self.answers)

    def flush(self) -> None:
        """Return when all that was kept is on the disk."""
        self._flusher.flush()

    def close(self) -> None:
        """Flush and close the answers."""
        self.answers.close()
        self._flusher.close()


class StoreActor(AnswerStoreActor):
    """Serves the stores of one folder; runs as an actor. The journal is only read."""

    def __init__(self, place: Path) -> None:
        """``place``: the evaluation's folder."""
        flusher = Flusher()
        super().__init__(place / ANSWERS, flusher)
        self.images = ImageStore(place / IMAGES, flusher=flusher)
        self._journal = Journal(place / JOURNAL)

    def unit(self, key: str) -> Unit | None:
        """The unit of ``key``, if it was finished."""
        return self._journal.get(key)

    def has_image(self, name: str) -> bool:
        """Whether the picture ``name`` is there."""
        return name in self.images

    def image(self, name: str) -> bytes:
        """The file of the picture ``name``. Raises ``ImageError``."""
        if not self.images.sound(name):
            self.images.get(name)
        return self.images.path(name).read_bytes()

    def keep_image(self, data: bytes) -> None:
        """Keep the file of a picture."""
        self.images.put_bytes(data)

    def recall(self, key: str) -> tuple[str, dict[str, Any]] | None:
        """As :meth:`ImageStore.recall`."""
        return self.images.recall(key)

    def remember(self, key: str, name: str, meta: dict[str, Any]) -> None:
        """As :meth:`ImageStore.remember`."""
        self.images.remember(key, name, meta)


def call_actor(method: Any, *args: Any) -> Any:
    """What the actor's ``method`` gives; called in threads that may wait."""
    import ray

    try:
        return ray.get(method.remote(*args))
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, Exception):
            raise error.cause from None
        raise


class RemoteImages(ImageStore):
    """Pictures at the desk, with a folder here for those in use."""

    def __init__(self, folder: Path, stores: Any) -> None:
        """``folder``: on this machine, for as long as an item lasts."""
        super().__init__(folder)
        self._desk = stores
        self._there: set[str] = set()

    def put(self, image: Image.Image) -> str:
        """As :meth:`ImageStore.put`, at the desk too."""
        return self._sent(super().put(image))

    def put_bytes(self, data: bytes) -> str:
        """As :meth:`ImageStore.put_bytes`, at the desk too."""
        return self._sent(super().put_bytes(data))

    def get(self, image_hash: str) -> Image.Image:
        """As :meth:`ImageStore.get`, of the desk if it is not here."""
        self._fetch(image_hash)
        return super().get(image_hash)

    def sound(self, image_hash: str) -> bool:
        """As :meth:`ImageStore.sound`."""
        if image_hash not in self:
            return False
        self._fetch(image_hash)
        return super().sound(image_hash)

    def __contains__(self, image_hash: object) -> bool:
        """Whether it is here or at the desk."""
        return super().__contains__(image_hash) or (
            isinstance(image_hash, str) and bool(call_actor(self._desk.has_image, image_hash))
        )

    def remember(self, request_key: str, image_hash: str, meta: dict[str, Any]) -> None:
        """As :meth:`ImageStore.remember`, at the desk."""
        call_actor(self._desk.remember, request_key, image_hash, meta)

    def noted(self, request_key: str) -> bool:
        """Whether the desk has the note."""
        return self.recall(request_key) is not None

    def recall(self, request_key: str) -> tuple[str, dict[str, Any]] | None:
        """As :meth:`ImageStore.recall`, of the desk."""
        found: tuple[str, dict[str, Any]] | None = call_actor(self._desk.recall, request_key)
        return found

    def _fetch(self, name: str) -> None:
        if not super().__contains__(name):
            super().put_bytes(call_actor(self._desk.image, name))
            self._there.add(name)

    def _sent(self, name: str) -> str:
        if name not in self._there:
            call_actor(self._desk.keep_image, self.path(name).read_bytes())
            self._there.add(name)
        return name


class RemoteAnswers:
    """Answers at the desk; implements :class:`~scenewright.providers.Answers`. Turns are taken in
    this worker alone: should two workers ask the same, the first answer stays."""

    def __init__(self, stores: Any) -> None:
        """Opens no file."""
        self._desk = stores
        self._turns = weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock]()

    def get(
        self, judge: str, image: str, digests: Sequence[str], *, wait: bool = True
    ) -> dict[str, tuple[Answer, str]]:
        """As :meth:`AnswerStore.get`."""
        if not wait:
            raise StoreBusy("the answers are at the driver's")
        found: dict[str, tuple[Answer, str]] = call_actor(
            self._desk.get_answers, judge, image, list(digests)
        )
        return found

    def put(
        self,
        judge: str,
        image: str,
        answers: Pairs,
        origin: str,
        *,
        wait: bool = True,
    ) -> None:
        """As :meth:`AnswerStore.put`."""
        if not wait:
            raise StoreBusy("the answers are at the driver's")
        call_actor(self._desk.put_answers, judge, image, list(answers), origin)

    def noted_versions(self, judge: str, *, wait: bool = True) -> tuple[str, str]:
        """As :meth:`AnswerStore.noted_versions`."""
        if not wait:
            raise StoreBusy("the answers are at the driver's")
        found: tuple[str, str] = call_actor(self._desk.noted_versions, judge)
        return found

    def note_version(self, judge: str, version: str, *, wait: bool = True) -> None:
        """As :meth:`AnswerStore.note_version`."""
        if not wait:
            raise StoreBusy("the answers are at the driver's")
        call_actor(self._desk.note_version, judge, version)

    def __len__(self) -> int:
        """How many answers the desk keeps."""
        return int(call_actor(self._desk.count_answers))

    def turn(self, judge: str, image: str) -> asyncio.Lock:
        """The lock that makes this worker's tasks go one by one."""
        return self._turns.setdefault((judge, image), asyncio.Lock())

    def close(self) -> None:
        """Nothing is open here."""


class RemoteUnits:
    """Finished units at the desk."""

    def __init__(self, stores: Any) -> None:
        """``stores``: the actor."""
        self._desk = stores

    def get(self, key: str) -> Unit | None:
        """The unit of ``key``, if it was finished."""
        found: Unit | None = call_actor(self._desk.unit, key)
        return found
