"""``scenewright mcp``: the MCP server on standard input and output."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scenewright.cli.console import clear_errors, debugging, quiet_libraries
from scenewright.cli.serve import DatabaseOption, DataOption, check_profiles

if TYPE_CHECKING:
    from scenewright.service.core.settings import ServiceSettings

HELP = """\
Serve MCP on standard input and output, for an agent's client that starts it.

Register it in a client whose configuration is JSON:

\b
  {"mcpServers": {"scenewright": {
    "command": "scenewright",
    "args": ["mcp", "--data", "/data/scenewright"]}}}

or with one command:

\b
  claude mcp add scenewright -- scenewright mcp --data /data/scenewright

The client may start it in any folder: name the data folder by its whole path. Runs are kept there;
what is not done when the client ends goes on when it starts again. A service that others share
has the same tools at its address /mcp (scenewright serve).
"""


def mcp(
    data: DataOption = None,
    database: DatabaseOption = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            "--profile",
            "-p",
            help="Only these profiles, the first by default; can be given several times.",
        ),
    ] = None,
) -> None:
    """Serve MCP on standard input and output."""
    quiet_libraries()
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if debugging() else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
    )
    with clear_errors():
        from scenewright.service.core.settings import service_settings

        given: dict[str, Any] = {
            "data": data, "database": database, "profiles": tuple(profile) if profile else None,
        }  # fmt: skip
        asyncio.run(_serve(service_settings(**{k: v for k, v in given.items() if v is not None})))


async def _serve(settings: ServiceSettings) -> None:
    from mcp.server.stdio import stdio_server

    from scenewright.config.settings import load_settings
    from scenewright.runs.model_factory.local_models import SHARED
    from scenewright.service.core.lifespan import running
    from scenewright.service.mcp.agent_sessions import agent_sessions
    from scenewright.service.mcp.server import mcp_server

    base = load_settings()
    check_profiles(settings, base)
    if settings.profiles:
        base = base.model_copy(update={"profile": settings.profiles[0]})
    async with AsyncExitStack() as stack:
        stack.push_async_callback(SHARED.aclose)
        # First of all: from here on nothing but the protocol reaches standard output.
        reading, writing = await stack.enter_async_context(stdio_server())
        service = await stack.enter_async_context(running(settings, base=base))
        server = mcp_server(service, await stack.enter_async_context(agent_sessions(service)))
        serving = asyncio.ensure_future(
            server.run(reading, writing, server.create_initialization_options())
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, serving.cancel)
        await asyncio.wait([serving])
        if not serving.cancelled():
            serving.result()
