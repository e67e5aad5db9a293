"""Encoders of pictures and texts: protocol, local weights, and the thread that owns a model.

Encoders of metrics run in a thread of their own, so that the event loop stays free. Weights are
only read from this machine; nothing here uses the network.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable
from weakref import WeakValueDictionary

import numpy as np
from PIL import Image

from scenewright.evals.metrics.base import MetricError
from scenewright.evals.store.journal import Features
from scenewright.providers.device_gate import LOADING, Stop, gate_of
from scenewright.providers.hub.cache import PULL, about, survey
from scenewright.providers.hub.needs import HUB_ID, Need


@dataclass(frozen=True, slots=True)
class EncodedTexts:
    """Texts as vectors."""

    vectors: Features
    """One row a text, of length 1: (n, dimensions)."""
    cut: tuple[int, ...]
    """Tokens cut from the end of each text, for which the encoder has no room."""


@runtime_checkable
class TextImageEncoder(Protocol):
    """Encoder of pictures and texts into unit vectors whose cosine measures how well they match."""

    @property
    def id(self) -> str:
        """Id, for example ``transformers:openai/clip-vit-base-patch16``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identity of weights and preparation: equal ones give equal vectors."""
        ...

    async def images(self, images: Sequence[Image.Image]) -> Features:
        """Return one row of length 1 a picture. Cancelling waits for the batch at work."""
        ...

    async def texts(self, texts: Sequence[str]) -> EncodedTexts:
        """Return one row of length 1 a text.

        Longer texts than the encoder takes are cut, and counted.
        """
        ...


def unit(vectors: Features, what: str) -> Features:
    """Return rows normalised to length 1. Raises ``MetricError`` if one is 0 or not finite."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(length).all() or not length.all():
        raise MetricError(f"the encoder gives vectors of {what} that have no direction")
    found: Features = (vectors / length).astype(np.float32)
    return found


MINIATURE = 'or take extractor = "miniature" (the encoder that ships with scenewright, for its own \
painted world only)'
"""The remedy that works without weights."""
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


def find_model(metric: str, model: str) -> Path:
    """Return the local folder of ``model``: in transformers layout, or a fetched repository.

    Raises ``MetricError`` with the remedies if it is not on this machine.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise MetricError(
                f"{metric}: {folder} lacks config.json: give a folder in transformers layout "
                "(config.json, model.safetensors, preprocessor_config.json)"
            )
        return folder
    if HUB_ID.fullmatch(model) is None:
        raise MetricError(
            f"{metric}: no extractor {model!r}: name inception, miniature, a folder, a repository "
            "as OWNER/NAME, or your own as module:function"
        )
    present = survey(Need(model, ("metric",), "model"))
    if present.folder is not None and (present.complete or _usable(present.folder)):
        return present.folder
    raise MetricError(
        f"{metric}: {model} is not on this machine ({about(present.bytes_needed)}, licence "
        f"{present.licence or 'unknown'}; {present.state()}): get it with `{PULL} local:{model}` "
        f"(where it has no safetensors, with `hf download {model}`), give the folder it is in as "
        f"extractor, {MINIATURE}"
    )


def digest(folder: Path) -> str:
    """Return SHA-256 (hex) of a model's files, as in judges' fingerprints."""
    # Imported here: its module loads torch and transformers.
    from scenewright.agents.judges.vlm import digest_folder

    return digest_folder(folder)


def digest_file(file: Path) -> str:
    """Return SHA-256 (hex) of a file."""
    found = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(2**20):
            found.update(block)
    return found.hexdigest()


def fingerprint(*parts: object) -> str:
    """Return SHA-256 (hex) of ``parts``, and of the versions of torch and transformers."""
    import torch
    import transformers

    whole = [*map(str, parts), torch.__version__, transformers.__version__]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()


def _usable(folder: Path) -> bool:
    """Return whether transformers can load a folder that ``models pull`` did not fetch."""
    weights = any(any(folder.glob(pattern)) for pattern in _WEIGHTS)
    return weights and (folder / "config.json").is_file()


@contextmanager
def quiet() -> Iterator[None]:
    """Run the block without the progress bars of transformers."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


Model = TypeVar("Model")
Thing = TypeVar("Thing")


class Worker(Generic[Model]):
    """Thread with a model, which is loaded with the first work.

    Work is done batch by batch; on an accelerator each batch waits for the device's turn, as that
    of judges and backends does.
    """

    def __init__(self, name: str, device: str, load: Callable[[str], Model]) -> None:
        """Prepare the thread; the model is loaded with the first work.

        Args:
            name: name in error messages.
            load: makes the model for the device.
            device: ``auto``, ``cpu``, ``cuda:1``, ….
        """
        self._name = name
        self._wanted = device
        self._load = load
        self._model: Model | None = None
        self._failure: MetricError | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metric")

    @property
    def device(self) -> str:
        """Where the model works, with ``auto`` resolved; ``MetricError`` if it has no such name."""
        # Imported here: torch takes long to load.
        from scenewright.agents.judges.vlm import device_of

        try:
            return str(device_of(self._wanted))
        except RuntimeError as error:
            raise MetricError(
                f"{self._name}: no device {self._wanted!r} ({str(error).splitlines()[0]}): use "
                "auto, cpu, cuda or cuda:1"
            ) from error

    async def rows(
        self,
        things: Sequence[Thing],
        batch: int,
        work: Callable[[Model, Sequence[Thing]], Features],
    ) -> Features:
        """Return the rows that ``work`` makes of ``things``, ``batch`` at a time, stacked.

        Cancelling ends the work after the current batch, and waits for that. Raises ``MetricError``
        if the model cannot be loaded, and what ``work`` raises.
        """
        stop = Stop()
        done = asyncio.get_running_loop().run_in_executor(
            self._thread, self._rows, tuple(things), batch, work, stop
        )
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait([done])
            # Asked for, so that the loop does not report it as forgotten.
            done.exception()
            raise

    async def ready(self) -> Model:
        """Return the model, loaded."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._loaded, Stop())

    def _rows(
        self,
        things: Sequence[Thing],
        batch: int,
        work: Callable[[Model, Sequence[Thing]], Features],
        stop: Stop,
    ) -> Features:
        model = self._loaded(stop)
        gate = gate_of(self.device)
        found: list[Features] = []
        for part in _parts(things, batch):
            if stop.is_set():
                break
            with gate.turn(stop):
                found.append(work(model, part))
        return np.concatenate(found) if found else np.zeros((0, 0), np.float32)

    def _loaded(self, stop: Stop) -> Model:
        if self._failure is not None:
            raise self._failure
        if self._model is None:
            device = self.device
            try:
                with gate_of(device).turn(stop), LOADING:
                    self._model = self._load(device)
            except MetricError as error:
                self._failure = error
                raise
        return self._model


_WORKERS: WeakValueDictionary[tuple[object, ...], Worker[object]] = WeakValueDictionary()
_WORKERS_LOCK = threading.Lock()


def shared(key: tuple[object, ...], make: Callable[[], Worker[Model]]) -> Worker[Model]:
    """Return the worker of ``key``, shared while it is in use, so that metrics share a network."""
    with _WORKERS_LOCK:
        found: Worker[Model] | None = _WORKERS.get(key)  # type: ignore[assignment]
        if found is None:
            found = make()
            _WORKERS[key] = found  # type: ignore[assignment]
        return found


@dataclass(eq=False)
class _OfNetwork:
    id: str
    """As in :class:`TextImageEncoder`."""
    worker: Worker[Any]
    """The network in its thread."""
    batch: int
    """Pictures or texts in one pass."""
    identity: Callable[[], Sequence[object]]
    """Gives what decides the vectors, besides the device and the versions of libraries."""
    see: Callable[[Any, Sequence[Image.Image]], Features]
    """Makes the rows of pictures with the loaded network."""

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of weights, preparation, output, device and library versions."""
        return fingerprint(*self.identity(), self.worker.device)


@dataclass(eq=False)
class NetworkExtractor(_OfNetwork):
    """Vectors of pictures by a network of this machine.

    Implements :class:`~scenewright.evals.metrics.base.FeatureExtractor`.
    """

    length: Callable[[], int]
    """Gives the length of a vector."""

    @cached_property
    def dimensions(self) -> int:
        """Length of a vector."""
        return self.length()

    async def features(self, images: Sequence[Image.Image]) -> Features:
        """Return one row a picture.

        Raises ``MetricError`` if the model cannot be loaded or lacks the output.
        """
        if not images:
            return np.zeros((0, self.dimensions), np.float32)
        return await self.worker.rows(images, self.batch, self.see)


@dataclass(eq=False)
class NetworkEncoder(_OfNetwork):
    """Unit vectors of pictures and texts by a network; implements :class:`TextImageEncoder`."""

    read: Callable[[Any, Sequence[str]], Features]
    """Makes the rows of texts; the last column is the number of cut tokens."""

    async def images(self, images: Sequence[Image.Image]) -> Features:
        """Return one row of length 1 a picture."""
        return unit(await self.worker.rows(images, self.batch, self.see), "pictures")

    async def texts(self, texts: Sequence[str]) -> EncodedTexts:
        """Return one row of length 1 a text, cut after the tokens that the model reads."""
        rows = await self.worker.rows(texts, self.batch, self.read)
        return EncodedTexts(unit(rows[:, :-1], "texts"), tuple(int(n) for n in rows[:, -1]))


def _parts(things: Sequence[Thing], batch: int) -> Iterator[Sequence[Thing]]:
    for begin in range(0, len(things), batch):
        yield things[begin : begin + batch]
