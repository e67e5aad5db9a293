"""Runs in the database: taken in once, waiting in line, claimed by one server, ended.

How far a run has come, kept in the database beside the driving of it.

Runs as the HTTP API shows them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from sqlalchemy import and_, case, func, or_, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from scenewright.runs.result import RunResult
from scenewright.service.core import limits
from scenewright.service.core.database import EDITS, READING, RUNS, brief_run_of, run_of
from scenewright.service.core.database import Run as Run
from scenewright.service.core.errors import Busy, Conflict, KeyReused, NotFound
from scenewright.service.core.schemas import (
    ENDED,
    Door,
    Link,
    Links,
    Refinement,
    RefinementBrief,
    RefinementRequest,
    RoundInfo,
    Status,
    Summary,
)

MAX_LISTED = 200
FREE: tuple[Status, ...] = ("paused", "queued", "failed")
"""Statuses in which a run that an agent directs waits for its next tool: ``queued`` is on its way
to ``paused``."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")

log = logging.getLogger(__name__)


class RunStore:
    """The table of runs. All methods are one transaction each."""

    def __init__(
        self, engine: AsyncEngine, *, queue: int = 1000, clock: Callable[[], float] = time.time
    ) -> None:
        """``queue``: how many runs may wait."""
        self.engine = engine
        self._reading = engine.execution_options(**READING)
        self.queue = queue
        self._clock = clock
        # SQLite lets one write at a time and has the others look again and again.
        self._turn = asyncio.Lock() if engine.dialect.name == "sqlite" else None

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        """Return a transaction that writes; those of this process wait for one another in line."""
        async with self._turn or nullcontext(), self.engine.begin() as connection:
            yield connection

    async def create(
        self,
        tenant: str,
        request: Mapping[str, Any],
        *,
        title: str,
        door: Door = "api",
        key_id: str | None = None,
        idempotency_key: str | None = None,
        body: str = "",
        status: Status = "queued",
    ) -> tuple[Run, bool]:
        """Return a waiting run, and whether it is new.

        The same ``idempotency_key`` of the same tenant gives the run that is there. ``body`` is
        the digest of what was sent, where ``request`` is only a part of that. The run's budget is
        capped by what the API key ``key_id`` has left. Raises ``KeyReused`` if the key came with
        another request or body, ``Busy`` if the queue is full or the key has its runs,
        ``Forbidden`` if all that the key may spend is spent.
        """

        def digest_of() -> str:
            # The same scene in other words is the same request.
            told = {name: value for name, value in request.items() if name != "sentence"}
            text = f"{json.dumps(told, sort_keys=True)}{body}"
            return hashlib.sha256(text.encode()).hexdigest()

        digest = await asyncio.to_thread(digest_of)
        now = self._clock()
        values: dict[str, Any] = {
            "id": f"run_{secrets.token_hex(16)}",
            "tenant": tenant,
            "key_id": key_id,
            "door": door,
            "title": title,
            "idempotency_key": idempotency_key,
            "digest": digest,
            "request": dict(request),
            "status": status,
            "wants": "",
            "attempts": 0,
            "created": now,
            "queued": now,
            "updated": now,
        }
        async with self._writing() as connection:
            known = await self._known(connection, tenant, idempotency_key)
            if known is None:
                await self._room(connection)
                if key_id is not None:
                    values["request"] = await limits.capped_request(connection, key_id, request)
                # SQLite has one writer, so that nobody takes the key meanwhile; where its disk is
                # full it forgets the savepoint, and an error about that would hide the reason.
                nested: AbstractAsyncContextManager[Any] = nullcontext()
                if self._turn is None:
                    nested = connection.begin_nested()
                try:
                    async with nested:
                        await connection.execute(RUNS.insert().values(**values))
                except IntegrityError:
                    # Another server has taken the same key in meanwhile.
                    known = await self._known(connection, tenant, idempotency_key)
                    if known is None:
                        raise
            if known is None:
                return await self._get(connection, values["id"], tenant), True
        if known.digest != digest:
            raise KeyReused(idempotency_key, known.id)
        return known, False

    async def get(self, run: str, tenant: str | None = None) -> Run:
        """Return the run of that id; ``NotFound`` if there is none or it is not ``tenant``'s."""
        async with self._reading.connect() as connection:
            return await self._get(connection, run, tenant)

    async def list(
        self,
        tenant: str,
        *,
        status: Sequence[Status] = (),
        words: str = "",
        missing: bool = False,
        before: str | None = None,
        limit: int = 50,
        brief: bool = False,
    ) -> tuple[list[Run], str | None]:
        """Return the tenant's runs, newest first, and the cursor of what follows.

        ``words`` must occur in the title, whatever their case; ``missing``: only runs whose
        judges did not find every fact. ``brief``: of their requests the runs have the profile
        alone; reading those of large scenes takes long.
        """
        limit = max(1, min(limit, MAX_LISTED))
        if "\0" in words:
            # No title holds it, and PostgreSQL takes it for an error.
            return [], None
        columns: list[Any] = list(RUNS.c)
        if brief:
            profile = RUNS.c.request["profile"].as_string().label("profile")
            columns = [one for one in RUNS.c if one.name not in ("request", "edit")] + [profile]
        wanted = select(*columns).where(RUNS.c.tenant == tenant)
        if status:
            wanted = wanted.where(RUNS.c.status.in_(status))
        for word in words.split():
            wanted = wanted.where(RUNS.c.title.icontains(word, autoescape=True))
        if missing:
            wanted = wanted.where(RUNS.c.summary["satisfied"].as_boolean().is_(False))
        async with self._reading.connect() as connection:
            if before is not None:
                last = await self._get(connection, before, tenant)
                wanted = wanted.where(
                    or_(
                        RUNS.c.created < last.created,
                        and_(RUNS.c.created == last.created, RUNS.c.id < last.id),
                    )
                )
            wanted = wanted.order_by(RUNS.c.created.desc(), RUNS.c.id.desc()).limit(limit + 1)
            rows = (await connection.execute(wanted)).all()
        runs = [(brief_run_of if brief else run_of)(row) for row in rows[:limit]]
        return runs, runs[-1].id if len(rows) > limit else None

    async def position(self, run: Run) -> int | None:
        """Return how many runs wait before this one; none if it does not wait."""
        if run.status != "queued":
            return None
        earlier = or_(
            RUNS.c.queued < run.queued, and_(RUNS.c.queued == run.queued, RUNS.c.id < run.id)
        )
        before = select(func.count()).where(RUNS.c.status == "queued", earlier)
        async with self._reading.connect() as connection:
            return await connection.scalar(before) or 0

    async def counts(self) -> dict[str, int]:
        """Run by status, of all tenants."""
        async with self._reading.connect() as connection:
            rows = await connection.execute(
                select(RUNS.c.status, func.count()).group_by(RUNS.c.status)
            )
            return {str(status): int(count) for status, count in rows}

    async def claim(
        self, owner: str, lease: float, run: str | None = None, *, agent: bool = False
    ) -> Run | None:
        """Return the oldest waiting run (or ``run``), now ``owner``'s for ``lease`` seconds.

        None if none waits. ``agent``: it is opened for its director, which counts as no attempt.
        """
        waiting = select(RUNS.c.id).where(RUNS.c.status.in_(FREE if agent else ("queued",)))
        if run is None:
            waiting = waiting.order_by(RUNS.c.queued, RUNS.c.id).limit(1)
        else:
            waiting = waiting.where(RUNS.c.id == run)
        # A certain run is waited for: who puts it in line may not have committed yet.
        waiting = waiting.with_for_update(skip_locked=run is None)
        async with self._writing() as connection:
            found = (await connection.execute(waiting)).scalar_one_or_none()
            if found is None:
                return None
            own = {"wants": ""} if agent else {"attempts": RUNS.c.attempts + 1}
            await self._change(
                connection,
                found,
                status="running",
                owner=owner,
                lease=self._clock() + lease,
                error=None,
                ended=None,
                **own,
            )
            return await self._get(connection, found, None)

    async def hold(self, owner: str, lease: float) -> dict[str, str]:
        """Say that ``owner`` is alive; its runs by id, with what is wanted of each."""
        mine = and_(RUNS.c.owner == owner, RUNS.c.status == "running")
        async with self._writing() as connection:
            await connection.execute(update(RUNS).where(mine).values(lease=self._clock() + lease))
            rows = await connection.execute(select(RUNS.c.id, RUNS.c.wants).where(mine))
            return {str(run): str(wants) for run, wants in rows}

    async def recover(self, dead: Callable[[str], bool], silent: float = 0.0) -> Sequence[str]:
        """Put runs whose server is gone back in line; their ids.

        Gone is a server whose lease ran out ``silent`` seconds ago, or of which ``dead`` says so.
        """
        now = self._clock()
        async with self._writing() as connection:
            rows = await connection.execute(
                select(RUNS.c.id, RUNS.c.owner, RUNS.c.lease).where(RUNS.c.status == "running")
            )
            lost = [
                (run, owner)
                for run, owner, lease in rows
                if owner is None or (lease or 0.0) < now - silent or dead(owner)
            ]
            freed = []
            for run, owner in lost:
                theirs = RUNS.c.owner.is_(None) if owner is None else RUNS.c.owner == owner
                done = await connection.execute(
                    update(RUNS)
                    .where(RUNS.c.id == run, RUNS.c.status == "running", theirs)
                    .values(status="queued", owner=None, lease=None, updated=now)
                )
                freed += [run] * done.rowcount
            return freed

    async def want(self, run: str, tenant: str, wants: str) -> Run:
        """Note what a person wants of a run: ``pause`` or ``cancel``.

        A waiting or paused run is cancelled at once. Raises ``Conflict`` if it has ended, or if
        a run that is not driven is to pause.
        """
        async with self._writing() as connection:
            found = await self._get(connection, run, tenant, lock=True)
            if found.status == "running":
                await self._change(connection, run, wants=wants)
            elif wants == "cancel" and found.status in ("queued", "paused"):
                await self._change(
                    connection, run, status="cancelled", wants="", ended=self._clock()
                )
            elif wants == "cancel" and found.status == "cancelled":
                return found
            else:
                raise Conflict(
                    f"the run is {found.status}: only a running one can be asked to {wants}"
                    if wants == "pause"
                    else f"the run is {found.status} already: there is nothing to cancel"
                )
            return await self._get(connection, run, tenant)

    async def requeue(
        self, run: str, tenant: str, edit: Mapping[str, Any] | None, *, digest: str = ""
    ) -> Run:
        """Put a paused or ended run back in line, with an edit or (to resume it) without.

        ``digest``: of what was sent as the edit, where it came with a key; the same again changes
        nothing, and anything else with that key is a ``Conflict``.
        Raises ``Conflict`` for a run at work, for one that was cut off with an edit and for a
        finished one without; ``Busy`` if the queue is full.
        """
        now = self._clock()
        async with self._writing() as connection:
            found = await self._get(connection, run, tenant, lock=True)
            if edit is not None:
                known = found.edits.get(edit["key"])
                if known is not None and digest and known != digest:
                    raise Conflict(
                        f"the idempotency key {edit['key']!r} was used for another edit of this "
                        "run: use a new key for a new edit"
                    )
                if known is not None or (found.edit or {}).get("key") == edit["key"]:
                    return found
            if found.status in ("queued", "running"):
                raise Conflict(
                    f"the run is {found.status}: pause it first, or wait for its end, then edit it"
                )
            if edit is not None and found.status in ("failed", "cancelled"):
                raise Conflict(
                    f"the run is {found.status}, cut off at work: resume it, and edit it when it "
                    "is paused or finished"
                )
            if edit is None and found.status == "finished":
                raise Conflict("the run is finished: post an edit to go on with it")
            await self._room(connection)
            if found.key_id is not None:
                await limits.readmit(connection, run, found.key_id, found.request)
            values: dict[str, Any] = {
                "status": "queued", "queued": now, "ended": None, "error": None, "wants": "",
                "attempts": 0,
            }  # fmt: skip
            if edit is not None:
                digests = {**found.edits, **({edit["key"]: digest} if digest else {})}
                values["edit"] = {**edit, EDITS: digests}
            await self._change(connection, run, **values)
            return await self._get(connection, run, tenant)

    async def told(self, run: Run, summary: Mapping[str, Any]) -> None:
        """Keep how far a run has come, and what it has cost."""
        async with self._writing() as connection:
            await self._change(connection, run.id, summary=dict(summary), attempts=0)
            await limits.keep(connection, run.id, run.tenant, run.key_id, summary, self._clock())

    async def end(
        self,
        run: Run,
        status: Status,
        *,
        summary: Mapping[str, Any] | None = None,
        error: str | None = None,
        tried: bool = True,
    ) -> bool:
        """Tell how a run ended, or that it waits again; False if it is no longer the owner's.

        ``tried``: whether that counts among the attempts to drive it.
        """
        now = self._clock()
        if error is not None:
            # As every database takes it: without NUL and halves of characters.
            error = error.replace("\0", "").encode(errors="replace").decode()
        values: dict[str, Any] = {
            "status": status, "owner": None, "lease": None, "error": error, "wants": "",
            "updated": now, "ended": now if status in ENDED else None,
        }  # fmt: skip
        if summary is not None:
            values["summary"] = dict(summary)
        if not tried:
            values["attempts"] = case((RUNS.c.attempts > 0, RUNS.c.attempts - 1), else_=0)
        mine = and_(RUNS.c.id == run.id, RUNS.c.owner == run.owner, RUNS.c.status == "running")
        async with self._writing() as connection:
            done = await connection.execute(update(RUNS).where(mine).values(**values))
            if summary is not None:
                await limits.keep(connection, run.id, run.tenant, run.key_id, summary, now)
            return bool(done.rowcount)

    async def charge(self, tenant: str, key_id: str | None, usd: float) -> None:
        """Keep what a call outside a run has cost."""
        call, now = f"call_{secrets.token_hex(16)}", self._clock()
        async with self._writing() as connection:
            await limits.keep(connection, call, tenant, key_id, {"usd": usd}, now)

    async def check_spendable(self, key_id: str) -> None:
        """Raise ``Busy`` or ``Forbidden`` if an API key has no dollars left."""
        async with self._reading.connect() as connection:
            await limits.remaining(connection, key_id, drawing=False)

    async def _room(self, connection: AsyncConnection) -> None:
        queued = select(func.count()).where(RUNS.c.status == "queued")
        waiting = await connection.scalar(queued) or 0
        if waiting >= self.queue:
            raise Busy(
                f"the queue is full, {waiting} runs wait in it: try again later",
                retry_after=min(60.0, 1.0 + waiting / 50),
            )

    async def _known(self, connection: AsyncConnection, tenant: str, key: str | None) -> Run | None:
        if key is None:
            return None
        same = select(RUNS).where(RUNS.c.tenant == tenant, RUNS.c.idempotency_key == key)
        row = (await connection.execute(same)).one_or_none()
        return None if row is None else run_of(row)

    async def _get(
        self, connection: AsyncConnection, run: str, tenant: str | None, lock: bool = False
    ) -> Run:
        wanted = select(RUNS).where(RUNS.c.id == run)
        if tenant is not None:
            wanted = wanted.where(RUNS.c.tenant == tenant)
        wanted = wanted.with_for_update() if lock else wanted
        # PostgreSQL takes no NUL in a text: what cannot be an id is not asked of the database.
        row = (await connection.execute(wanted)).one_or_none() if _ID.fullmatch(run) else None
        if row is None:
            raise NotFound(f"there is no run {run[:60]!r}: look at the list of your runs")
        return run_of(row)

    async def _change(self, connection: AsyncConnection, run: str, **values: Any) -> None:
        values["updated"] = self._clock()
        await connection.execute(update(RUNS).where(RUNS.c.id == run).values(**values))


@asynccontextmanager
async def save_run_progress(
    store: RunStore,
    run: Run,
    summary: Callable[[], Mapping[str, Any]],
    note: Callable[[BaseException], bool],
) -> AsyncIterator[Callable[[], None]]:
    """Return a function that says that ``run`` has come further; ``summary`` is kept soon after.

    What comes while the database is at work is kept together. The run does not wait for it, nor
    does it end with it: its folder knows more, and the next to be kept holds all of it.
    """
    changed = asyncio.Event()
    ending = False

    async def work() -> None:
        while True:
            await changed.wait()
            changed.clear()
            if ending:
                return
            try:
                await store.told(run, await asyncio.to_thread(summary))
            except (SQLAlchemyError, OSError) as error:
                if note(error):
                    continue
                log.warning("how far run %s has come cannot be kept now: %s", run.id, error)

    task = asyncio.create_task(work(), name=f"keeping {run.id}")
    try:
        yield changed.set
    finally:
        ending = True
        changed.set()
        # What is being written is written to its end: nothing older may come after the run's end.
        await asyncio.shield(task)


def link_of(run: str, image: str) -> Link:
    """Return where an image of a run is."""
    url = f"/v1/refinements/{run}/images/{image}"
    return Link(hash=image, url=url, preview=f"{url}/preview")


def brief_of(run: Run) -> RefinementBrief:
    """Return a run in a list."""
    summary = Summary.model_validate(run.summary or {})
    return RefinementBrief(
        id=run.id,
        title=run.title,
        status=run.status,
        door=run.door,
        profile=str(run.request.get("profile") or ""),
        created=run.created,
        updated=run.updated,
        ended=run.ended,
        error=run.error,
        summary=summary,
        image=link_of(run.id, summary.image) if summary.image is not None else None,
    )


def refinement_of(
    run: Run, result: RunResult | None, position: int | None, warnings: tuple[str, ...] = ()
) -> Refinement:
    """Return a run whole; ``result`` is what its folder tells, none before it has begun.

    ``warnings``: what of its scene its models do not know.
    """
    request = RefinementRequest.model_validate(run.request)
    assert request.scene is not None
    path = f"/v1/refinements/{run.id}"
    scene = result.scene if result is not None else request.scene
    rounds = []
    for record in result.rounds if result is not None else ():
        drawn, reference = link_of(run.id, record.image), record.reference_image
        links = {"image": drawn, "reference": reference and link_of(run.id, reference)}
        rounds.append(RoundInfo.model_validate(dict(record) | links))
    return Refinement(
        **brief_of(run).model_dump(),
        scene=scene,
        facts=result.facts if result is not None else (),
        request=request,
        queue_position=position,
        warnings=warnings,
        doubts=scene.doubts,
        rounds=tuple(rounds),
        best_round=result.best_round if result is not None else None,
        totals=result.totals if result is not None else {},
        reporting=result.reporting if result is not None else None,
        links=Links(
            self=path, events=f"{path}/events", page=f"/runs/{run.id}", edit=f"{path}/edits"
        ),
    )
