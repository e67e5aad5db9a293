"""What every tool gets: the service, who calls, and how to tell how far it is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from mcp.types import CallToolResult

from scenewright.service.core.errors import NotFound
from scenewright.service.core.identity import Identity
from scenewright.service.core.service import Service
from scenewright.service.core.store import Run
from scenewright.service.mcp.agent_sessions import AgentSessions
from scenewright.service.mcp.replies import RunStatus, links_of, reply, small, told_of
from scenewright.service.mcp.waiting import Report, watch


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool."""

    service: Service
    """The core."""
    sessions: AgentSessions
    """The runs that agents have open."""
    identity: Identity
    """Who calls; its scope for the tool was checked."""
    report: Report
    """Tells the client how far it is."""

    async def run(self, run: str) -> Run:
        """The caller's run of that id; ``NotFound`` otherwise."""
        return await self.service.run(self.identity, run)

    async def wait(self, run: Run, seconds: float) -> Run:
        """The run once it stands still, or after ``seconds``; reported meanwhile."""
        await watch(self.service, self.identity, run, self.report, seconds)
        return await self.run(run.id)

    async def told(self, run: Run, round: int | None = None) -> RunStatus:
        """The run as tools tell of it. ``NotFound`` if there is no such round."""
        result = await self.service.result(run)
        position = await self.service.store.position(run)
        warnings = await self.service.warnings(run, result)
        try:
            return await asyncio.to_thread(told_of, run, result, position, round, warnings)
        except LookupError as error:
            raise NotFound(str(error.args[0])) from error

    async def shown(self, run: Run, round: int | None = None) -> CallToolResult:
        """The run with a small picture of the round and links to the whole ones."""
        told = await self.told(run, round)
        return reply(told, await self.preview(told), links_of(told))

    async def preview(self, told: RunStatus) -> str | None:
        """The picture that ``told`` tells of as a small JPEG in base64."""
        image = None if told.image is None else told.image.rpartition("/")[2]
        if image is None:
            return None
        return await asyncio.to_thread(small, await self.service.artifacts.image(told.run, image))
