"""Runs that an agent directs: each is open while the agent works on it.

An open run is a director's run with the agent in the place of the language model
(:class:`AgentChat`): the director (``graphs/director.py``) asks it what to do next, and it answers
with the tool that the agent calls next, however long that takes. So limits, replay and what is left
behind are those of any director. The run holds its folder's lock, and its row is ``running`` with
an owner of its own, so that no worker takes it. After a while without a call, at the end of the
service, and after a kill it is ``paused``; the next call opens it again, and the director replays
the events of its log.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from sqlalchemy.exc import SQLAlchemyError

from scenewright.config.model_identity import UNKNOWN
from scenewright.config.profiles import DIRECTOR
from scenewright.graphs.director_record import replayable
from scenewright.graphs.errors import LogError, RunInterrupted
from scenewright.graphs.eventlog import read_events
from scenewright.graphs.events import Replied, ToolCalled
from scenewright.graphs.record import LoopRecord
from scenewright.runs.folder import EVENTS, RunBusy
from scenewright.service.core.errors import Conflict, Unavailable
from scenewright.service.core.event_broadcast import BroadcastEvent
from scenewright.service.core.identity import Identity
from scenewright.service.core.observing.observers import Observability
from scenewright.service.core.requests import AGENT
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.service import Service
from scenewright.service.core.store import FREE, Run, RunStore
from scenewright.service.core.worker import Driver, DriveResult, RunControl

log = logging.getLogger(__name__)
IDLE_SECONDS = 600.0
"""Seconds without a call after which a run is no longer held open."""
BEAT_SECONDS = 2.0
"""Seconds between two looks at the requests to the open runs."""
_PATIENCE = 5.0
_LOOK = 0.1


@dataclass(frozen=True, slots=True)
class AgentToolCall:
    """A tool that the agent calls."""

    tool: str
    """Its name."""
    arguments: dict[str, Any]
    """Its arguments as JSON data."""


@dataclass(frozen=True, slots=True)
class ToolReply:
    """The reply of a tool."""

    text: str
    """One line of JSON, or what went wrong."""
    picture: str | None = None
    """A small JPEG beside it, in base64."""
    ok: bool = True
    """Whether the tool did what it was asked."""


class AgentChat(BaseChatModel):
    """The chat model whose words are an agent's tool calls."""

    call_source: Any
    """Gives the agent's next call: ``async turn(task, reply) -> AgentToolCall``. ``task`` is the
    director's description of the scene, ``reply`` the result of the call before; None at first."""
    model_name: str = UNKNOWN
    """The language model that the agent says it is."""

    @property
    def _llm_type(self) -> str:
        return "agent"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Return itself: the agent knows the tools from MCP."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise RuntimeError("an agent answers asynchronously only: use ainvoke")

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        task = next((str(m.text) for m in messages if m.type == "human"), "")
        last, reply = messages[-1], None
        if isinstance(last, ToolMessage):
            blocks = last.content if isinstance(last.content, list) else []
            images = [b for b in blocks if isinstance(b, dict) and b.get("type") == "image"]
            picture = str(images[-1]["base64"]) if images else None
            reply = ToolReply(str(last.text), picture, last.status != "error")
        asked = await self.call_source.turn(task, reply)
        call = {"name": asked.tool, "args": asked.arguments, "id": f"call_{secrets.token_hex(8)}"}
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=[call]))])


def is_agents(run: Run) -> bool:
    """Return whether an agent directs the run with the director's tools."""
    return run.request.get("strategy") == AGENT


async def take(store: RunStore, run: str, tenant: str, owner: str, lease: float) -> Run:
    """Return the run as ``owner``'s, at work for ``lease`` seconds.

    Raises ``NotFound``, and ``Conflict`` for a run that no agent directs, that has ended, or that
    another server has open.
    """
    waited = 0.0
    while True:
        found = await store.get(run, tenant)
        if not is_agents(found):
            raise Conflict(
                "no agent directs this run, its strategy does: use edit_run for it, or begin a run "
                "of your own with open_scene"
            )
        if found.status == "finished":
            raise Conflict(
                "the run is over: look at it with get_run, or begin another one with open_scene"
            )
        if found.status == "cancelled":
            raise Conflict("the run was cancelled: call resume_run first to go on with it")
        if found.status in FREE:
            taken = await store.claim(owner, lease, run, agent=True)
            if taken is not None:
                return taken
        # A server that was killed owned it: its lease runs out, or it is seen to be gone.
        if waited >= _PATIENCE:
            raise Conflict(
                "another server has this run open: send the call there, or try again when it "
                "has closed it"
            )
        await asyncio.sleep(_LOOK)
        waited += _LOOK


class _PendingCall:
    """A call and its reply to come."""

    def __init__(self, asked: AgentToolCall) -> None:
        self.asked = asked
        self.reply: asyncio.Future[ToolReply] = asyncio.get_running_loop().create_future()

    def answer(self, reply: ToolReply) -> None:
        """Set the reply, unless there is one."""
        if not self.reply.done():
            self.reply.set_result(reply)


class AgentSession:
    """One open run and the calls of its agent."""

    def __init__(self, run: Run, folder: Path) -> None:
        self.run = run
        self.control = RunControl()
        self.task: asyncio.Task[None] | None = None
        self.driven: DriveResult | None = None
        """The outcome, once the run is no longer open."""
        self.words = ""
        """The director's description of the scene."""
        self.last_used = time.monotonic()
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the first call can be made, or the run is no longer open."""
        self._folder = folder
        self._calls: asyncio.Queue[_PendingCall] = asyncio.Queue(1)
        self._line = asyncio.Lock()
        self._pending: _PendingCall | None = None
        self._stopped = False

    @property
    def busy(self) -> bool:
        """Whether a call is at work or waits for its turn."""
        at_work = self._pending is not None and not self._pending.reply.done()
        return at_work or self._line.locked()

    async def restore_call(self, folder: Path) -> None:
        """Find the call at which the run was cut off, before the director plays what it has.

        ``folder`` holds the event log so far.
        """
        past = replayable(await asyncio.to_thread(_record_in, folder)).events
        last = past[-1] if past else None
        # It is made again at once, without a client.
        calls = last.message.get("tool_calls") if isinstance(last, Replied) else None
        if calls:
            self._pending = _PendingCall(AgentToolCall(calls[0]["name"], calls[0]["args"]))

    async def turn(self, task: str, reply: ToolReply | None) -> AgentToolCall:
        """Return the agent's next call, for the director.

        What the call before told is the agent's.
        """
        self.words = task
        if self._pending is not None and reply is not None:
            self._pending.answer(reply)
        if not self.ready.done():
            self.ready.set_result(None)
        return (await self._calls.get()).asked

    async def use(self, asked: AgentToolCall) -> ToolReply | None:
        """Return the result of a tool; calls run one at a time, in their order.

        None if the run is no longer open. A client that stops waiting stops nothing: the same call
        again waits for the one under way and gets its result if nobody has.
        """
        async with self._line:
            self.last_used = time.monotonic()
            call = self._pending
            if call is not None and call.asked != asked:
                await asyncio.shield(call.reply)
                call = None
            if call is None:
                if self.driven is not None:
                    return None
                call = self._pending = _PendingCall(asked)
                self._calls.put_nowait(call)
            reply = await asyncio.shield(call.reply)
            self._pending, self.last_used = None, time.monotonic()
            return reply

    async def wait_for_call(self) -> None:
        """Wait for the call at work, if there is one; its caller still gets the reply."""
        if self._pending is not None:
            await asyncio.shield(self._pending.reply)

    def ended(self, driven: DriveResult) -> None:
        """Note that the run is no longer open, and answer the call at work."""
        self.driven = driven
        if self._pending is not None and not self._pending.reply.done():
            over = driven.status == "finished"
            done = _record_in(self._folder).all(ToolCalled) if over else []
            why = driven.error or (
                "the service closed the run; call again"
                if driven.status == "paused"
                else f"the run is {driven.status}; call resume_run first"
            )
            self._pending.answer(
                ToolReply(done[-1].outcome, None, done[-1].ok)
                if done
                else ToolReply(f"{self._pending.asked.tool} was not done: {why}", None, False)
            )
        if not self.ready.done():
            self.ready.set_result(None)

    def stop(self, *, cancel: bool = False) -> None:
        """Let go of the run; with ``cancel`` it ends so."""
        self.control.cancel |= cancel
        # Once only: a second time would cut short how it is let go of.
        if self.task is not None and not self._stopped:
            self._stopped = True
            self.task.cancel()


class AgentSessions:
    """All runs that agents have open here. One event loop uses it; see :func:`agent_sessions`."""

    def __init__(self, service: Service, idle: float = IDLE_SECONDS) -> None:
        """``idle``: seconds without a call after which a run is let go of."""
        self.service = service
        self.idle = idle
        # Read by workers of this machine as theirs is: host, process, its token, a name.
        parts = service.worker.owner.split("|")
        self.owner = "|".join([*parts[:3], secrets.token_hex(4)])
        self._open: dict[str, AgentSession] = {}
        self._opening = asyncio.Lock()
        self._tasks: set[asyncio.Task[AgentSession]] = set()
        self._closing = False

    async def open(
        self, identity: Identity, request: RefinementRequest
    ) -> tuple[Run, AgentSession]:
        """Return a new run for the identity's agent.

        ``request`` as for any run, but for its strategy and its ``director``.

        The same idempotency key gives the run that is there. Raises ``ServiceError``.
        """
        director = request.director or UNKNOWN
        request = request.model_copy(update={"strategy": DIRECTOR, "director": director})
        run, _ = await self.service.submit(identity, request, "mcp", agent=True)
        return run, await self.get_or_open(identity, run.id)

    async def get_or_open(self, identity: Identity, run: str) -> AgentSession:
        """Return the open run of that id; it is opened if it is not.

        Raises ``NotFound``, ``Conflict`` (ended, or open elsewhere) and ``Unavailable``.
        """
        if self._closing:
            raise Unavailable("the service is shutting down: call again in a moment")

        async def open_once() -> AgentSession:
            async with self._opening:
                if (found := self.here(identity, run)) is not None:
                    return found
                lease = self.service.settings.lease_seconds
                taken = await take(self.service.store, run, identity.tenant, self.owner, lease)
                session = self._open[run] = AgentSession(taken, self.service.folder(run))
                session.task = asyncio.create_task(self._drive(session), name=f"director of {run}")
                return session

        found = self.here(identity, run)
        if found is None:
            # A client that gives up meanwhile must not leave a row behind that nobody minds.
            opening = asyncio.create_task(open_once())
            self._tasks.add(opening)
            opening.add_done_callback(self._tasks.discard)
            found = await asyncio.shield(opening)
        await asyncio.shield(found.ready)
        if found.driven is not None and found.driven.error is not None:
            raise Conflict(f"the run cannot go on: {found.driven.error}")
        return found

    def here(self, identity: Identity, run: str) -> AgentSession | None:
        """Return the identity's run of that id, if it is open here."""
        found = self._open.get(run)
        return found if found is not None and found.run.tenant == identity.tenant else None

    async def _drive(self, session: AgentSession) -> None:
        run, service = session.run, self.service

        def models(request: RefinementRequest) -> dict[str, Any]:
            chat = AgentChat(call_source=session, model_name=request.director or UNKNOWN)
            return {**service.replaced(request), "chat": chat}

        service.broadcaster.tell(run.id, BroadcastEvent("status", ""))
        driven = DriveResult("paused")
        try:
            await session.restore_call(await service.artifacts.log(run.id))
            driver = Driver(service, models, Observability())
            request = {**run.request, "strategy": DIRECTOR}
            driven = await driver.drive(replace(run, request=request, edit=None), session.control)
            if driven.status == "queued":
                driven = replace(driven, status="paused")
        except asyncio.CancelledError:
            driven = DriveResult("cancelled" if session.control.cancel else "paused")
        except (RunBusy, RunInterrupted, Unavailable) as error:
            driven = DriveResult("paused", service.disclosure.text(error))
        except Exception as error:
            log.warning("a director's run fails", extra={"run": run.id}, exc_info=True)
            driven = DriveResult("failed", service.disclosure.text(error))
        finally:
            self._open.pop(run.id, None)
            try:
                await service.store.end(run, driven.status, error=driven.error)
            except (SQLAlchemyError, OSError):
                # The lease runs out, and the run waits as after a kill.
                log.exception("run %s cannot be kept", run.id)
            finally:
                session.ended(driven)
                service.broadcaster.tell(run.id, BroadcastEvent("status", ""))

    async def beat(self) -> None:
        """Renew the leases of the open runs, follow requests about them, close idle ones."""
        agent_sessions = list(self._open.values())
        if not agent_sessions:
            return
        store = self.service.store
        owned = await store.hold(self.owner, self.service.settings.lease_seconds)
        if not self._opening.locked():
            for run in set(owned) - set(self._open):
                # Where it stands could not be kept when it was let go of.
                await store.end(await store.get(run), "paused")
        for session in agent_sessions:
            if session.run.id not in self._open:
                continue
            wants = owned.get(session.run.id)
            idle = time.monotonic() - session.last_used > self.idle or wants == "pause"
            if wants is None or wants == "cancel":
                session.stop(cancel=wants == "cancel")
            elif idle and not session.busy:
                session.stop()

    async def watch(self) -> None:
        """:meth:`beat`, over and over."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            try:
                await self.beat()
            except (SQLAlchemyError, OSError):
                log.exception("the database cannot be used; the open runs are looked up again")

    async def aclose(self, seconds: float) -> None:
        """Let go of all runs; calls at work have that many seconds to end."""
        self._closing = True
        agent_sessions = list(self._open.values())
        if not agent_sessions:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(session.wait_for_call() for session in agent_sessions))
        for session in agent_sessions:
            session.stop()
        tasks = [session.task for session in agent_sessions if session.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def agent_sessions(
    service: Service, idle: float = IDLE_SECONDS
) -> AsyncIterator[AgentSessions]:
    """Return the runs that agents open of ``service``; all are let go of at the end."""
    found = AgentSessions(service, idle)
    watching = asyncio.create_task(found.watch(), name="agent sessions")
    try:
        yield found
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await found.aclose(service.settings.drain_seconds)


def _record_in(folder: Path) -> LoopRecord:
    """Return the record of a run's folder; an empty one where its log cannot be read."""
    try:
        return LoopRecord(read_events(folder / EVENTS))
    except LogError:
        return LoopRecord()
