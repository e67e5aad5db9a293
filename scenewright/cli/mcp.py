"""``scenewright mcp``: the MCP server on standard input and output."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from scenewright.cli.console import debugging, run_async, stop_on_signal
from scenewright.cli.serve import DatabaseOption, DataOption, ProfilesOption, check_profiles

if TYPE_CHECKING:
    from scenewright.service.core.settings import ServiceSettings


def mcp(
    data: DataOption = None, database: DatabaseOption = None, profile: ProfilesOption = None
) -> None:
    """Serve MCP on standard input and output, for an agent's client that starts it.

    Register it in a client whose configuration is JSON:

    \b
      {"mcpServers": {"scenewright": {
        "command": "scenewright",
        "args": ["mcp", "--data", "/data/scenewright"]}}}

    or with one command:

    \b
      claude mcp add scenewright -- scenewright mcp --data /data/scenewright

    The client may start it in any folder: give the data folder by its absolute path. Runs are kept
    there; unfinished ones continue when the client starts it again. A shared service has the same
    tools at its address /mcp (scenewright serve).
    """
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if debugging() else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
    )
    from scenewright.service.core.settings import service_settings

    profiles = tuple(profile) if profile else None
    run_async(_serve(service_settings(data=data, database=database, profiles=profiles)))


async def _serve(settings: ServiceSettings) -> None:
    from scenewright.config.settings import load_settings
    from scenewright.runs.model_factory.local_models import SHARED
    from scenewright.service.core.lifespan import running
    from scenewright.service.mcp.agent_sessions import AgentSessions, agent_sessions
    from scenewright.service.mcp.server import mcp_server

    base = load_settings()
    check_profiles(settings, base)
    if settings.profiles:
        base = base.model_copy(update={"profile": settings.profiles[0]})

    @asynccontextmanager
    async def opened(_: object) -> AsyncIterator[AgentSessions]:
        async with running(settings, base=base) as service, agent_sessions(service) as found:
            yield found

    # The service starts inside: by then only the protocol is written to standard output.
    serving = asyncio.ensure_future(mcp_server(opened).run_stdio_async())
    stopping = asyncio.create_task(stop_on_signal().wait())
    try:
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not serving.done():
            serving.cancel()
            await asyncio.wait([serving])
        elif not serving.cancelled():
            serving.result()
    finally:
        await SHARED.aclose()
