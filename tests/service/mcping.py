"""The MCP server in a process, as the official client meets it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult

from scenewright.config.settings import Settings
from scenewright.graphs.eventlog import read_events
from scenewright.runs.folder import EVENTS
from scenewright.service.core.identity import LOCAL, Identity
from scenewright.service.core.lifespan import running
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.service import Service
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.mcp.agent_sessions import IDLE_SECONDS, AgentSessions, agent_sessions
from scenewright.service.mcp.server import mcp_server
from tests.doubles import CallBook, ScriptedBackend, ScriptedComposer, ScriptedJudge
from tests.graphs.directing import level, qualities
from tests.service.serving import Models

SCENE = "red ball on table; dog left of table"


class Held:
    """A service with the sittings of its MCP server."""

    def __init__(self, service: Service, found: AgentSessions) -> None:
        self.service = service
        self.sessions = found

    def server(self, identity: Identity = LOCAL) -> MCPServer[AgentSessions]:
        """The MCP server as ``identity`` meets it."""
        return mcp_server(lambda _: nullcontext(self.sessions), lambda context: identity)

    def client(self, identity: Identity = LOCAL) -> Client:
        """A client in memory that calls as ``identity``."""
        return Client(self.server(identity))


@asynccontextmanager
async def held(
    data: Path, models: Models, idle: float = IDLE_SECONDS, base: Settings | None = None
) -> AsyncIterator[Held]:
    """The service on ``data``, started and drained."""
    settings = ServiceSettings(data=data, drain_seconds=10)
    async with (
        running(settings, base=base, models=models) as service,
        agent_sessions(service, idle) as found,
    ):
        yield Held(service, found)


class Calls:
    """A client that connects anew for every call: a fixture cannot hold a connection open."""

    def __init__(self, held: Held) -> None:
        self._held = held

    def __getattr__(self, name: str) -> Any:
        async def called(*given: Any, **named: Any) -> Any:
            async with self._held.client() as client:
                try:
                    return await getattr(client, name)(*given, **named)
                except MCPError as error:
                    refused = error
            # Raised out of the client, whose task groups would wrap it.
            raise refused

        return called


class Gate:
    """Holds back every drawing from the ``after``-th on until it is opened: before it is drawn,
    or, if it is ``late``, once it is."""

    def __init__(self, after: int = 0, *, late: bool = False) -> None:
        self.late = late
        self.opened = asyncio.Event()
        self.reached = asyncio.Event()
        self.drawn = 0
        self.after = after

    def around(self, backend: Any) -> Any:
        """``backend`` behind the gate."""
        draw = backend.generate

        async def generate(*given: Any, **named: Any) -> Any:
            self.drawn += 1
            found = await draw(*given, **named) if self.late else None
            if self.drawn > self.after:
                self.reached.set()
                await self.opened.wait()
            return found if self.late else await draw(*given, **named)

        backend.generate = generate
        return backend

    def models(self, inner: Models) -> Models:
        """``inner`` with its backend behind the gate."""
        return lambda request: (lambda found: {**found, "backend": self.around(found["backend"])})(
            dict(inner(request))
        )


def text(result: CallToolResult) -> str:
    """The first text of a result."""
    return str(result.content[0].text)  # type: ignore[union-attr]


def data(result: CallToolResult) -> dict[str, Any]:
    """The structured content of a call that went well."""
    assert not result.is_error, text(result)
    assert result.structured_content is not None
    return result.structured_content


def refusal(result: CallToolResult) -> str:
    """What a call that was refused says."""
    assert result.is_error
    return text(result)


async def until(condition: Callable[[], Any], seconds: float = 10.0) -> Any:
    """What ``condition`` gives, once that is anything."""
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.01)


class Kit:
    """Models whose pictures have these qualities in turn, with one book of what they did."""

    def __init__(self, *wanted: int, masks: bool = True) -> None:
        self.book = CallBook()
        self.backend = ScriptedBackend(qualities(*wanted), book=self.book, masks=masks)

    def __call__(self, request: RefinementRequest) -> Mapping[str, Any]:
        return {
            "backend": self.backend,
            "judges": [ScriptedJudge("a", level=level), ScriptedJudge("b", level=level)],
            "report_judges": [ScriptedJudge("c", level=level)],
            "composer": ScriptedComposer(),
        }

    @property
    def drawn(self) -> int:
        """Pictures that were begun."""
        return sum(line.startswith("begin generate") for line in self.book.lines)


def events(at: Held, run: str) -> list[Any]:
    """What the run's log holds."""
    return list(read_events(at.service.folder(run) / EVENTS))


async def opened(client: Any, **given: Any) -> str:
    """A new run that the client directs."""
    return str(data(await client.call_tool("open_scene", {"triplets": SCENE, **given}))["run"])


async def status(at: Held, run: str) -> str:
    """Where the run's row says that it stands."""
    return (await at.service.store.get(run)).status


async def paused(at: Held, run: str) -> bool:
    """Whether the run waits."""
    return await status(at, run) == "paused"
