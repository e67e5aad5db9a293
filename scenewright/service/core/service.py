"""Core of the service, shared by all doors.

One core that takes runs in, shows them and goes on with them.

The HTTP API, the pages, the OpenAI and AUTOMATIC1111 routes and the MCP server call the same
methods; each only translates.

A run taken away for good: its row, its folder, its checkpoints, the pictures sent for it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import Any

from PIL import Image
from sqlalchemy import and_, func, or_, select

from scenewright.agents.parsers.unread import CaptionError
from scenewright.config.options import SentenceReader
from scenewright.config.profiles import DIRECTOR, Profile, SettingsError
from scenewright.core.facts import missing_graph
from scenewright.core.scene import SceneError, SceneGraph
from scenewright.graphs.correcting import edited
from scenewright.graphs.errors import EditError, LogError
from scenewright.graphs.eventlog import read_events
from scenewright.graphs.events import Edit
from scenewright.graphs.record import LoopRecord
from scenewright.providers.clients.base import RequestError
from scenewright.providers.retry import CallError
from scenewright.providers.usage import metered
from scenewright.runs.coverage import Coverage, coverage_of
from scenewright.runs.folder import EVENTS, RunError, RunFolder
from scenewright.runs.known_words import drawn_as_known
from scenewright.runs.reading import ReadingError, ReadScene, read_words
from scenewright.runs.result import RunResult, load_run
from scenewright.runs.scoring import score
from scenewright.service.core.artifacts.base import LocalArtifacts
from scenewright.service.core.database import RUNS
from scenewright.service.core.errors import (
    Busy,
    Conflict,
    DamagedRun,
    ServiceError,
    Unavailable,
    Unprocessable,
)
from scenewright.service.core.event_broadcast import BroadcastEvent, count_lines
from scenewright.service.core.identity import Identity
from scenewright.service.core.keys import KeyStore
from scenewright.service.core.parts import ServiceParts
from scenewright.service.core.requests import (
    AGENT,
    check_prompt,
    check_run,
    model_that_reads,
    parse_request,
    profile_of,
    reading_warnings,
    scene_of,
    title_of,
    triplets,
)
from scenewright.service.core.schemas import (
    Door,
    EditRequest,
    Refinement,
    RefinementRequest,
    SceneInput,
    ScoreResponse,
    Status,
)
from scenewright.service.core.store import Run, refinement_of
from scenewright.service.core.worker import Worker
from scenewright.service.core.worker_thread import WorkerThread, size_of, size_of_request

log = logging.getLogger(__name__)

STANDS_STILL: tuple[Status, ...] = ("paused", "finished", "failed", "cancelled")


class Service(ServiceParts):
    """The service without a door. One event loop uses it; see ``lifespan.running``."""

    def __init__(self, *given: Any, **named: Any) -> None:
        """Take what :class:`ServiceParts` takes."""
        super().__init__(*given, **named)
        self.keys = KeyStore(self.engine)
        self.worker_thread = WorkerThread()
        self.worker = Worker(self)
        self._scoring = asyncio.Semaphore(self.settings.scoring)
        self._scores = 0

    async def submit(
        self,
        identity: Identity,
        request: RefinementRequest,
        door: Door = "api",
        *,
        agent: bool = False,
        body: str = "",
    ) -> tuple[Run, bool]:
        """Take a run in; whether it is new. Raises ``ServiceError``: see ``errors.py``.

        What would fail later is refused, see :mod:`.admission`. ``body``: as
        :meth:`RunStore.create` has it.
        A run that an outside ``agent`` directs does not get in line: it waits for its first tool.
        """
        if self.worker.draining:
            raise Unavailable("the service is shutting down: send the request again in a moment")
        self.storage.check_available()
        if request.director is not None and not agent:
            raise Unprocessable(
                "director names the model of an agent that directs a run over MCP: leave it out, "
                "or call open_scene there"
            )
        taken = await asyncio.to_thread(parse_request, request, self.base, self.settings.profiles)
        scene = taken.scene
        assert isinstance(scene, SceneGraph)
        find = self.uploads.find
        files = [
            None if digest is None else await asyncio.to_thread(find, identity.tenant, digest)
            for digest in (request.start, request.mask)
        ]
        if agent:
            covered = await self.covered(taken)
            if not taken.awaits_reading and covered.nothing:
                raise Unprocessable(covered.text)
        else:
            await self.worker_thread.compute(
                size_of(scene), check_run, taken, self.base, self.replaced(taken), files=files,
                allowed=self.settings.profiles, here=self.drives,
            )  # fmt: skip
        # The default may be another one by the time that somebody reads the run.
        named = {"profile": taken.profile or self.base.profile}
        taken = taken.model_copy(update={"idempotency_key": None, **named})
        if agent:
            taken = taken.model_copy(update={"strategy": AGENT})
        run, new = await self.store.create(
            identity.tenant,
            await self.worker_thread.compute(size_of(scene), taken.model_dump, mode="json"),
            title=await self.worker_thread.compute(size_of(scene), title_of, taken),
            door=door,
            key_id=identity.key_id,
            idempotency_key=request.idempotency_key,
            body=body,
            status="paused" if agent else "queued",
        )
        return await self._waits(run), new

    async def covered(self, request: RefinementRequest, *, taken: bool = False) -> Coverage:
        """Return how much of a request's scene its models know.

        Raises ``Busy`` if too many large scenes wait, unless the request was ``taken`` in already,
        and ``Unprocessable``.
        """

        def cover() -> Coverage:
            profile, replaced = self.profile(request), self.replaced(request)
            return coverage_of(
                profile,
                profile.form().facts(self.as_drawn(request)),
                judges=replaced.get("judges"),
                report_judges=replaced.get("report_judges"),
                backend=replaced.get("backend"),
                settings=self.base,
                here=self.drives,
            )

        compute = self.worker_thread.submit if taken else self.worker_thread.compute
        return await compute(0 if request.scene is None else size_of(request.scene), cover)

    def as_drawn(self, request: RefinementRequest) -> SceneGraph:
        """Return a request's scene in the words that its image model knows."""
        assert isinstance(request.scene, SceneGraph)
        backend = self.replaced(request).get("backend")
        return drawn_as_known(request.scene, self.profile(request), backend)

    async def warnings(self, run: Run, result: RunResult | None) -> tuple[str, ...]:
        """Return what of a run's text was not read or is doubtful, and what its models do not know.

        ``result`` as :meth:`result` gives it.
        """
        if result is not None:
            return (*reading_warnings(run.request, result.scene), *result.warnings)
        read = RefinementRequest.model_validate
        asked = await self.worker_thread.submit(size_of_request(run.request), read, run.request)
        if asked.awaits_reading:
            return ()
        text = (await self.covered(asked, taken=True)).text
        told = reading_warnings(run.request, self.as_drawn(asked))
        return (*told, *((text,) if text else ()))

    async def within_budget(self, identity: Identity) -> None:
        """Raise ``Forbidden`` (or ``Busy``) if the identity's key has no dollars left.

        For calls outside runs: the store caps the budget of a run as it takes the run in.
        """
        if identity.key_id is not None:
            await self.store.check_spendable(identity.key_id)

    async def run(self, identity: Identity, run: str) -> Run:
        """Return a run of the tenant; ``NotFound`` for any other."""
        return await self.store.get(run, identity.tenant)

    async def image(self, identity: Identity, run: str, digest: str) -> Path:
        """Return the file of an image of a tenant's run; it may not be there.

        ``digest`` is 64 hex digits. Raises ``NotFound`` for any other run.
        """
        return await self.artifacts.image((await self.run(identity, run)).id, digest)

    async def kept_of(self, run: Run) -> tuple[Path, Path] | None:
        """Return the files of the picture that a run with a mask began with, and of the mask."""
        start, mask = run.request.get("start"), run.request.get("mask")
        if start is None or mask is None:
            return None
        return await self.artifacts.image(run.id, start), await self.artifacts.image(run.id, mask)

    async def view(self, run: Run) -> Refinement:
        """Return a run with all that is known of it."""
        position = await self.store.position(run)
        result = await self.result(run)
        warnings = await self.warnings(run, result)
        size = size_of_request(run.request)
        return await self.worker_thread.submit(size, refinement_of, run, result, position, warnings)

    async def result(self, run: Run) -> RunResult | None:
        """Return the result in the run's folder; None before the run has begun.

        Raises ``DamagedRun`` if its log cannot be read.
        """
        folder = await self.artifacts.log(run.id)

        def read() -> RunResult | None:
            log = folder / EVENTS
            if not log.is_file() or not log.stat().st_size:
                return None
            with reading(run.id):
                return load_run(folder)

        return await asyncio.to_thread(read)

    def follow(
        self, identity: Identity, run: Run, after: int = -1, *, watching: bool = False
    ) -> AsyncGenerator[BroadcastEvent | None, None]:
        """Yield the events of a run after event ``after``, until it ends or pauses.

        Pictures are shown while they are drawn only where somebody follows who is ``watching``.
        """

        async def look() -> tuple[str, bool]:
            found = await self.store.get(run.id, identity.tenant)
            told = {
                "status": found.status,
                "error": found.error,
                "queue_position": await self.store.position(found),
            }
            return json.dumps(told), found.status in STANDS_STILL

        async def status() -> tuple[str, bool]:
            # A query that is cut off as its client leaves would leave its connection behind.
            return await asyncio.shield(look())

        in_place = isinstance(self.artifacts, LocalArtifacts)
        folder = self.folder(run.id) if in_place else lambda: self.artifacts.log(run.id)
        return self.broadcaster.follow(run.id, folder, status, after, watching=watching)

    async def stored_events(self, run: Run) -> int:
        """Return how many events the log of a run has."""
        path = await self.artifacts.log(run.id) / EVENTS
        return await asyncio.to_thread(count_lines, path)

    async def finished(self, identity: Identity, run: Run) -> Run:
        """Return the run once it stands still; other doors wait for their pictures with it."""
        async with aclosing(self.follow(identity, run, 2**62)) as told:
            async for _ in told:
                pass
        return await self.store.get(run.id, identity.tenant)

    async def pause(self, identity: Identity, run: str) -> Run:
        """Have a running run wait for a person before its next round."""
        found = await self.store.want(run, identity.tenant, "pause")
        self.worker.request(run, pause=True)
        return found

    async def cancel(self, identity: Identity, run: str) -> Run:
        """Stop a run at once; what it has is kept, and it can be resumed."""
        found = await self.store.want(run, identity.tenant, "cancel")
        self.worker.request(run, cancel=True)
        self.broadcaster.tell(run, BroadcastEvent("status", ""))
        return found

    async def resume(self, identity: Identity, run: str) -> Run:
        """Go on with a paused, failed or cancelled run."""
        self.storage.check_available()
        return await self._waits(await self.store.requeue(run, identity.tenant, None))

    async def edit(self, identity: Identity, run: str, given: EditRequest) -> Run:
        """Go on with a paused or ended run as a person has corrected it."""
        self.storage.check_available()
        found = await self.store.get(run, identity.tenant)
        scene = given.scene
        if given.add is not None:
            if scene is None:
                result = await self.result(found)
                known = RefinementRequest.model_validate(found.request).scene
                scene = result.scene if result is not None else known
            assert scene is not None
            scene = merge_scenes(scene, triplets(given.add))
        edit = Edit(
            key=given.idempotency_key or secrets.token_hex(8),
            base=given.base,
            missing=given.missing,
            verdicts=given.verdicts,
            scene=scene,
            rounds=given.rounds,
            note=given.note,
        )
        if found.status in ("paused", "finished"):
            folder = await self.artifacts.log(run)
            await asyncio.to_thread(self._check_edit, found, edit, folder)
        sent = given.model_dump_json(exclude={"idempotency_key"}).encode()
        digest = hashlib.sha256(sent).hexdigest() if given.idempotency_key is not None else ""
        told = edit.model_dump(mode="json")
        return await self._waits(
            await self.store.requeue(run, identity.tenant, told, digest=digest)
        )

    async def _waits(self, run: Run) -> Run:
        """Have a worker take up ``run``, which is in line."""
        self.observing.submitted(run.id)
        await self.jobs.waits(run.id)
        return run

    def _check_edit(self, run: Run, edit: Edit, folder: Path) -> None:
        """``Unprocessable`` for an edit that does not fit the run as it stands."""
        if run.request.get("strategy") == AGENT:
            raise Unprocessable("an agent directs this run over MCP: it takes no edits")
        request = RefinementRequest.model_validate(run.request)
        profile = profile_of(request, self.base)
        if profile.strategy == DIRECTOR:
            raise Unprocessable(
                "a director's run takes no edits: ask for a new run with another strategy"
            )
        with reading(run.id):
            events = read_events(folder / EVENTS)
        if edit.scene is not None:
            check_prompt(edit.scene, request.seed, profile, self.base, self.replaced(request))
        try:
            record = LoopRecord(events)
            if edit.key not in {event.edit_key for event in record.edits}:
                form = profile.form(request.realism)
                edited(edit, record, form, len(record.edits), time.time())
        except EditError as error:
            raise Unprocessable(str(error)) from error

    async def score(
        self,
        identity: Identity,
        picture: Image.Image,
        given: SceneInput,
        request: RefinementRequest,
    ) -> ScoreResponse:
        """Return the verdicts of the judges of ``request``'s profile on a picture.

        Raises ``Busy`` if as many pictures as allowed are being scored or waiting.
        """
        profile = self.profile(request)
        await self.within_budget(identity)
        if self._scores >= 2 * self.settings.scoring:
            raise Busy(
                "too many pictures are being scored at once: try again in a few seconds",
                retry_after=5,
            )
        replaced = self.replaced(request)
        self._scores += 1
        try:
            async with self._scoring:
                read = await self.read(identity, given, profile, request.reader)
                found = await score(
                    picture,
                    read,
                    profile,
                    **{name: model for name, model in replaced.items() if name.endswith("judges")},
                    realism=request.realism,
                    settings=self.base,
                )
        finally:
            self._scores -= 1
        judging = sum(answer.usd for said in found.answers for answer in said.answers)
        if judging:
            await self.store.charge(identity.tenant, identity.key_id, judging)
        missing = missing_graph(found.scene, found.facts, found.loop.verdicts)
        best = found.report if found.report is not None else found.loop
        return ScoreResponse.model_validate(
            dict(found)
            | {
                "sgscore": best.sgscore,
                "missing": missing if missing else None,
                "warnings": (*found.scene.warnings, *found.warnings),
                "usd": found.usd,
            }
        )

    async def read(
        self, identity: Identity, given: SceneInput, profile: Profile, reader: SentenceReader | None
    ) -> ReadScene:
        """Return the scene that is given outside of a run.

        A sentence is read by ``reader``, else as ``profile`` says; what that costs is charged to
        the identity's key. Raises ``Unprocessable`` for what cannot be read, and ``Unavailable``
        where a model that was asked for does not answer.
        """
        if given.text is None or not model_that_reads(profile, reader):
            size = 0 if given.scene is None else size_of(given.scene)
            return ReadScene(scene=await self.worker_thread.compute(size, scene_of, given))
        await self.within_budget(identity)
        with metered() as spent:
            try:
                return await read_words(given.text, profile, self.base, reader=reader)
            except CaptionError as error:
                raise Unprocessable(
                    f"the text cannot be read: {error}", unread=error.passages
                ) from error
            except (SceneError, SettingsError) as error:
                raise Unprocessable(f"the text cannot be read: {error}") from error
            except ReadingError as error:
                if isinstance(error.__cause__, CallError | RequestError):
                    raise Unavailable(str(error), retry_after=10) from error
                raise Unprocessable(f"{error}: say it in other words") from error
            finally:
                # A call that came to nothing was paid for too.
                if spent.usd:
                    await self.store.charge(identity.tenant, identity.key_id, spent.usd)


@contextmanager
def reading(run: str) -> Iterator[None]:
    """Raise ``DamagedRun`` for whatever keeps the record of ``run`` from being read within."""
    try:
        yield
    except ServiceError:
        raise
    except (RunError, LogError) as error:
        cause = error if isinstance(error, LogError) else error.__cause__
        raise DamagedRun(run, cause.line if isinstance(cause, LogError) else None) from error
    except (LookupError, ValueError, TypeError, AttributeError, AssertionError) as error:
        # Events that are sound one by one need not make sense together.
        log.warning("the events of run %s make no sense together", run, exc_info=True)
        raise DamagedRun(run) from error


def merge_scenes(scene: SceneGraph, more: SceneGraph) -> SceneGraph:
    """``scene`` with the objects, attributes and relations of ``more``.

    An object of ``more`` is the scene's of the same id, else its only one of the same name, else
    a new one. Raises ``Unprocessable`` where several have the name.
    """
    objects = {item.id: item for item in scene.objects}
    same: dict[str, str] = {}
    for item in more.objects:
        alike = [known.id for known in scene.objects if known.name == item.name]
        if item.id in objects and objects[item.id].name == item.name:
            found = item.id
        elif len(alike) == 1:
            found = alike[0]
        elif alike:
            raise Unprocessable(
                f"the scene has several of {item.name!r} ({', '.join(alike)}): write one of these "
                "ids, or give the whole scene"
            )
        else:
            found = item.id
            number = 2
            while found in objects:
                found, number = f"{item.name}.{number}", number + 1
        same[item.id] = found
        known = objects.get(found, item.model_copy(update={"id": found}))
        attributes = {**known.attributes, **item.attributes}
        objects[found] = known.model_validate(known.model_dump() | {"attributes": attributes})
    relations = [*scene.relations]
    for relation in more.relations:
        moved = relation.model_copy(
            update={"source": same[relation.source], "target": same[relation.target]}
        )
        if moved not in relations:
            relations.append(moved)
    return scene.model_copy(
        update={"objects": tuple(objects.values()), "relations": tuple(relations)}
    )


_AT_WORK = ("queued", "running")


async def remove(service: Service, identity: Identity, run: str) -> None:
    """Take a run of the tenant away. What it has cost stays charged to its key.

    Raises ``NotFound`` for any other run, ``Conflict`` for one that waits or is at work. Cut off
    in the middle, the run is still listed, and can be taken away again.
    """
    found = await service.store.get(run, identity.tenant)
    # One writer at a time: while the folder goes, nobody puts the run back in line.
    async with service.engine.begin() as connection:
        status = await connection.scalar(
            select(RUNS.c.status).where(RUNS.c.id == run).with_for_update()
        )
        if status in _AT_WORK:
            raise Conflict(f"the run is {status}: cancel it first, then take it away")
        folder = RunFolder(service.folder(run))
        if service.checkpoints is not None:
            # They are beside the rows; those of a run folder go with it.
            begun = False
            with suppress(RunError):
                begun = folder.manifest() is not None
            if begun:
                async with service.checkpoints(folder, lambda: 0) as saver:
                    await saver.adelete_thread(saver.thread)
        await service.artifacts.remove(run)
        asked = RUNS.c.request
        sent = {found.request.get("start"), found.request.get("mask")} - {None}
        for digest in sorted(map(str, sent)):
            # Another run of the tenant may begin with the picture.
            others = and_(
                RUNS.c.tenant == found.tenant,
                RUNS.c.id != run,
                or_(asked["start"].as_string() == digest, asked["mask"].as_string() == digest),
            )
            if not await connection.scalar(select(func.count()).where(others)):
                await asyncio.to_thread(service.uploads.forget, found.tenant, digest)
        await connection.execute(RUNS.delete().where(RUNS.c.id == run))
