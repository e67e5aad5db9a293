"""Parts of one service that its core and its worker share: settings, database, files, models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from scenewright.config.profiles import Profile
from scenewright.config.settings import Settings, load_settings
from scenewright.service.core.artifacts.base import Artifacts, LocalArtifacts
from scenewright.service.core.artifacts.uploads import UPLOADS_FOLDER, UploadStore
from scenewright.service.core.disclosure import Disclosure
from scenewright.service.core.event_broadcast import EventBroadcaster
from scenewright.service.core.jobs.base import Jobs, RowJobs
from scenewright.service.core.observing.observers import Observability
from scenewright.service.core.requests import profile_of, profiles_of
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.core.storage import Storage
from scenewright.service.core.store import RunStore

Models = Callable[[RefinementRequest], Mapping[str, Any]]
"""Models that replace those of a request's profile: arguments of ``refine`` such as ``backend``."""


class ServiceParts:
    """Parts of one service. One event loop uses them."""

    def __init__(
        self,
        settings: ServiceSettings,
        engine: AsyncEngine,
        *,
        base: Settings | None = None,
        models: Models | None = None,
        checkpoints: Any = None,
        observing: Observability | None = None,
        jobs: Jobs | None = None,
        artifacts: Artifacts | None = None,
        uploads: UploadStore | None = None,
        storage: Storage | None = None,
    ) -> None:
        """Serve the runs of a database.

        ``base``: accounts and profiles, by default those of this machine; ``models`` replaces
        models of a request's profile; ``checkpoints`` the SQLite file in a run folder, as the
        argument of ``refine`` does; ``observing`` is told what happens; ``jobs`` bring runs to
        workers; ``artifacts`` and ``uploads`` keep files of runs and pictures for them, by default
        below ``settings.data``; ``storage`` says whether there is room.
        """
        self.settings = settings
        self.engine = engine
        self.base = base or load_settings()
        self.models = models
        self.checkpoints = checkpoints
        self.observing = observing or Observability()
        self.jobs = jobs or RowJobs()
        self.artifacts = artifacts or LocalArtifacts(self.folder)
        """The files of runs, for all who read them."""
        self.uploads = uploads or UploadStore(settings.data / UPLOADS_FOLDER)
        """Pictures that people have sent for their runs to begin with."""
        self.storage = storage or Storage(settings, engine)
        """The state of disk and database."""
        self.store = RunStore(engine, queue=settings.queue)
        self.broadcaster = EventBroadcaster(0.5 if settings.shared else 5.0, marks=settings.shared)
        self.disclosure = Disclosure(settings.data)
        """Texts of errors that a client may read."""

    def folder(self, run: str) -> Path:
        """Return the folder in which a run of an id that the store gave is driven here."""
        return self.settings.runs / run

    @property
    def drives(self) -> bool:
        """Whether runs are driven here alone: workers elsewhere have models and keys too."""
        return self.settings.work and not self.settings.shared

    def replaced(self, request: RefinementRequest) -> dict[str, Any]:
        """Return the models that take the places of those of the request's profile."""
        return {} if self.models is None else dict(self.models(request))

    def profiles(self) -> dict[str, Profile]:
        """Return the profiles that may be asked for, by name."""
        return profiles_of(self.base, self.settings.profiles)

    def profile(self, request: RefinementRequest) -> Profile:
        """Return the profile of a request, as :func:`profile_of`."""
        return profile_of(request, self.base, self.settings.profiles)
