"""Photos of a set as a task: models are asked about them in this process or on a cluster.

Each reply goes to the process that owns the set's folder as soon as it is there; only that one
writes the ledger. A piece of work is a photo with its missing replies, or with the claims that
judges verify.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from PIL import Image

from scenewright.config.profiles import SettingsError, split_judge
from scenewright.config.settings import Settings, load_settings
from scenewright.core.flushing import Flusher
from scenewright.core.images import load_image, read_image
from scenewright.core.ports.judge import Judge
from scenewright.evals.annotation.config import AnnotateConfig
from scenewright.evals.annotation.consensus import Claimed, Verified, verify
from scenewright.evals.annotation.panel_queries import (
    ReceivedReply,
    Sheet,
    TextModel,
    Voter,
    ask_about,
    reply_key,
    tries_of,
    voters_of,
)
from scenewright.evals.runner.engines.cluster import load_reference
from scenewright.evals.runner.engines.store_actor import RemoteAnswers, call_actor
from scenewright.evals.runner.task import Finished, Tell, WorkerSpec
from scenewright.evals.store.ledger import Ledger, Photo
from scenewright.evals.store.results import ANSWERS
from scenewright.providers import Answers, AnswerStore
from scenewright.providers.caller import Caller
from scenewright.providers.sdk_clients import paying
from scenewright.runs.model_factory.profiles import build_judge, get_caller

OnProgress = Callable[[str, int, int | None], None]
"""Called with a stage, the pieces done, and all pieces (None: not known)."""

Piece = Sheet | Claimed


@dataclass(frozen=True, slots=True)
class Models:
    """The models that are asked about photos."""

    voters: tuple[Voter, ...]
    """The panel, in the order of the configuration."""
    judges: tuple[Judge, ...] = ()
    """Judges that verify what the panel names."""

    def manifest(self) -> dict[str, dict[str, str]]:
        """Return name → fingerprint, of the panel and of the judges; it may read weights."""
        return {
            "panel": {voter.name: voter.fingerprint for voter in self.voters},
            "judges": {judge.id: judge.fingerprint for judge in self.judges},
        }


def models_of(config: AnnotateConfig, settings: Settings) -> Models:
    """Return the models that ``config`` names.

    Raises as :func:`~scenewright.evals.annotation.panel_queries.voters_of` and
    :func:`~scenewright.runs.model_factory.profiles.build_judge`.
    """
    voters = voters_of(config.panel, settings)
    return Models(voters, tuple(build_judge(spec, settings) for spec in config.judges))


@dataclass(frozen=True, slots=True)
class AnnotationWorker:
    """Models of one process that are asked about photos."""

    given: Models
    answers: Answers | None
    """Answers of judges; None: there are no judges."""
    load: Callable[[Photo], Image.Image]
    """Loads a photo, in a thread."""
    nonce: str
    """Random name of the set, which pays for what is asked."""

    @property
    def models(self) -> dict[str, dict[str, str]]:
        """Manifest of the models."""
        return self.given.manifest()

    async def do(self, piece: Piece, tell: Tell) -> Finished | Verified:
        """Have the panel reply to a sheet, each reply told at once, or the judges verify claims.

        Raises ``ImageError`` and ``StoreError`` for claims.
        """
        load = partial(self.load, piece.photo)
        with paying(self.nonce):
            if isinstance(piece, Sheet):
                await ask_about(piece, self.given.voters, load, tell)
                return Finished([])
            assert self.answers is not None
            return await verify(piece, self.given.judges, self.answers, load)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationWorkerSpec(WorkerSpec):
    """Start-up arguments of a worker of a building."""

    config: AnnotateConfig
    folder: Path
    """The set's folder on the driver's machine, absolute."""
    nonce: str

    async def open(self, here: bool, stack: ExitStack) -> AnnotationWorker:
        """Return a worker with models of its own; see :class:`WorkerSpec`."""
        given = await asyncio.to_thread(load_reference, self.given, self.folder, Models)
        if given is None:
            given = await asyncio.to_thread(models_of, self.config, self.settings)
        for judge in given.judges:
            load = getattr(judge, "load", None)
            if load is not None:
                await load()
        answers: Answers | None = None
        if self.answers is not None:
            answers = RemoteAnswers(self.stores)
            if here:
                flusher = Flusher()
                stack.callback(flusher.close)
                answers = AnswerStore(self.answers, flusher=flusher)
            stack.callback(answers.close)
        return AnnotationWorker(given, answers, partial(self._photo, here), self.nonce)

    def _photo(self, here: bool, photo: Photo) -> Image.Image:
        return load_image(photo.file) if here else fetch_photo(photo, self.stores)


def fetch_photo(photo: Photo, stores: Any) -> Image.Image:
    """Return the photo from this machine's file of the same path and content, else the driver's.

    ``stores`` is the handle of a :class:`StoreActor`. Raises ``ImageError`` as
    :func:`~scenewright.core.images.load_image` does for the driver's file.
    """
    try:
        data = Path(photo.file).read_bytes()
    except OSError:
        data = b""
    if hashlib.sha256(data).hexdigest() != photo.digest:
        data = call_actor(stores.photo, photo.file)
    return read_image(data, photo.file)


class AnnotationTask:
    """The photos of a set as a :class:`~scenewright.evals.runner.task.Task`.

    ``heard`` and ``found`` receive the replies and the verdicts in this process's event loop.
    """

    heard: Callable[[ReceivedReply], None]
    found: Callable[[Claimed, Verified], None]

    def __init__(
        self,
        config: AnnotateConfig,
        folder: Path,
        given: Models,
        ledger: Ledger,
        stack: ExitStack,
        *,
        told: OnProgress,
        text: TextModel | None = None,
        settings: Settings | None = None,
    ) -> None:
        """Set up the work.

        Args:
            config: configuration of the set.
            folder: the set's folder.
            given: the models as this process built them; no weights are loaded yet.
            ledger: replies that are there.
            stack: what is opened is closed with it.
            told: called with the progress.
            text: model that reads lists, which this process asks meanwhile.
            settings: of this process and of workers; None: those of this machine.
        """
        self.concurrency = config.concurrency
        self._config, self._folder, self._given, self._ledger = config, folder, given, ledger
        self._stack, self._told, self._text, self._chosen = stack, told, text, settings

    @cached_property
    def _settings(self) -> Settings:
        return self._chosen or load_settings()

    @cached_property
    def models(self) -> dict[str, dict[str, str]]:
        """Manifest of the models."""
        return self._given.manifest()

    @property
    def spec(self) -> AnnotationWorkerSpec:
        """Start-up arguments of workers in other processes."""
        folder = self._folder.resolve()
        return AnnotationWorkerSpec(
            settings=self._settings,
            answers=folder / ANSWERS if self._given.judges else None,
            config=self._config,
            folder=folder,
            nonce=self._ledger.nonce(),
        )

    @property
    def callers(self) -> tuple[Caller, ...]:
        """Caller of the text model, whose calls count together with those of the workers."""
        if self._text is None:
            return ()
        try:
            return (get_caller(split_judge(self._text.name)[0], self._settings),)
        except SettingsError:
            # A model that the caller built: it has no account that others share.
            return ()

    async def here(self) -> AnnotationWorker:
        """Return a worker with the models of this process."""
        answers: AnswerStore | None = None
        if self._given.judges:
            answers = AnswerStore(self._folder / ANSWERS)
            self._stack.callback(answers.close)
        nonce = self._ledger.nonce()
        return AnnotationWorker(self._given, answers, lambda photo: load_image(photo.file), nonce)

    def ready(self, workers: int, of: int) -> None:
        """Report how many workers are ready; ``of`` is 0 while the cluster is being reached."""
        self._told("workers" if of else "cluster", workers, of or None)

    def begin(self, position: int, piece: Piece) -> AnnotationListener:
        """Return the listener for a worker that begins with ``piece``.

        Of a sheet that a dead worker left, the next one gets the rest.
        """
        # For a process with another working directory.
        photo = replace(piece.photo, file=str(Path(piece.photo.file).absolute()))
        if isinstance(piece, Claimed):
            return AnnotationListener(replace(piece, photo=photo), partial(self.found, piece))
        keys = (reply_key(photo, self._given.voters[one.voter], one.sample) for one in piece.wanted)
        replies = map(self._ledger.get, keys)
        rest = tuple(
            one
            for one, reply in zip(piece.wanted, replies, strict=True)
            if reply is None or (reply.state == "failed" and tries_of(reply) == one.tries)
        )
        return AnnotationListener(Sheet(photo, rest), self.heard)


@dataclass(frozen=True, slots=True)
class AnnotationListener:
    """Listener for a worker at one photo."""

    given: Piece
    keep: Callable[[Any], None]
    """Receives each reply, or the verdicts."""

    def hear(self, event: ReceivedReply | Finished | Verified) -> bool:
        """Keep the reply or verdicts of ``event``; return whether the photo is done."""
        if not isinstance(event, Finished):
            self.keep(event)
        return not isinstance(event, ReceivedReply)

    def lost(self) -> None:
        """Do nothing: replies and the judges' answers are kept."""
