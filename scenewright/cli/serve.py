"""``scenewright serve``, ``worker`` and ``mcp``: the service, its workers, and its tools.

Args:
    data: Folder of the runs and the database.
    database: postgresql://USER:PASSWORD@HOST/NAME; by default SQLite in the data folder.
    profiles: Only these profiles, the first is the default; can be given several times.
    running: Most runs executed at once.
    log_format: Format of the log: text for people, json for machines.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scenewright.cli import options
from scenewright.cli.app import option_groups, resumable
from scenewright.cli.console import (
    debugging,
    fail,
    note,
    restore_signals,
    run_and_free,
    run_async,
    say,
    stop_on_signal,
    text_of,
)

if TYPE_CHECKING:
    from scenewright.config.settings import Settings
    from scenewright.service.core.settings import ServiceSettings

DataOption = Annotated[Path | None, typer.Option(file_okay=False)]
ProfilesOption = Annotated[list[str] | None, typer.Option("--profile", "-p")]


def check_profiles(settings: ServiceSettings, base: Settings) -> None:
    """Refuse profiles of ``settings`` that cannot be used, and warn of others in ``base``."""
    from scenewright.config.settings import find_profile, read_profiles

    for name in settings.profiles:
        find_profile(name, base)
    if not settings.profiles:
        for problem in read_profiles(base)[1].values():
            note(f"warning: {problem}. It is left out")


@resumable("The runs are kept: start it again, and they continue.")
@option_groups(
    Address="host port trusted_hosts keys",
    Storage="data database",
    Runs="profiles running work queue",
    Log="log_format",
)
def serve(
    context: typer.Context,
    host: str | None = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535)] = None,
    data: DataOption = None,
    database: str | None = None,
    running: options.OptionalPositive = None,
    work: bool | None = None,
    queue: options.OptionalPositive = None,
    profiles: ProfilesOption = None,
    keys: bool | None = None,
    trusted_hosts: Annotated[list[str] | None, typer.Option("--trusted-host")] = None,
    log_format: str | None = None,
) -> None:
    """Serve the API, the web pages and the routes of other tools until Ctrl-C.

    The web pages are at the address that it prints, the API's description at /openapi.json,
    OpenAI's image routes at /v1, AUTOMATIC1111's at /sdapi/v1, MCP at /mcp. Runs are kept in the
    data folder: after a crash the service continues them when it starts again, and draws and pays
    for nothing twice. SIGTERM or Ctrl-C lets the current steps finish first.

    With PostgreSQL any number of servers share the runs; with --no-work a server leaves them to
    the processes of `scenewright worker`.

    Every option is also an environment variable: SCENEWRIGHT_SERVICE_PORT=8080, for example.

    Args:
        host: Address to listen on; public addresses require API keys.
        port: Port to listen on; 0 takes a free one.
        work: Execute runs in this process too; if not, `scenewright worker` does elsewhere.
        queue: Most runs that may wait.
        keys: Require API keys on loopback too.
        trusted_hosts: Another host name of this service, as a reverse proxy sends it.
    """
    # Loading creates no garbage; the server enables collection when it has started.
    gc.disable()
    from scenewright.service.core.observing.logs import set_up
    from scenewright.service.core.settings import check, service_settings

    settings = service_settings(**context.params)
    # Settings that cannot work are refused before anything is loaded.
    check(settings)
    set_up(settings.log_format, debugging=debugging())
    run_and_free(serve_until_signal(settings))


async def serve_until_signal(settings: ServiceSettings) -> None:
    """Serve until a signal; the current steps end first."""
    from scenewright.config.settings import load_settings
    from scenewright.service.api.socket_server import Server, address_of, bind

    base = load_settings()
    check_profiles(settings, base)
    listening = bind(settings)
    try:
        # Loading takes seconds: wrong options are reported before that.
        from scenewright.service.app import create_app
        from scenewright.service.core.keys import demand_some

        if settings.demands_keys:
            await demand_some(settings)
        server = Server(create_app(settings, base=base), settings)
        stop = stop_on_signal()
        task = asyncio.create_task(server.serve(sockets=[listening]))
        ready = asyncio.create_task(server.ready.wait())
        await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            ready.cancel()
            await task
            return
        needed = "API keys are required."
        keys = needed if settings.demands_keys else "Only this machine can reach it."
        url, data = address_of(settings, listening), settings.data.resolve()
        say(text_of("serve", url=url, keys=keys, data=data))
        sys.stdout.flush()
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
        note("finishing the current steps …")
        # A second signal ends the process at once: the runs are kept all the same.
        restore_signals()
        stopping.cancel()
        server.should_exit = True
        await task
        logging.shutdown()
        note("stopped; the runs are kept.")
    finally:
        listening.close()


@resumable("The runs are kept: start it again, and they continue.")
def worker(
    context: typer.Context,
    data: DataOption = None,
    database: str | None = None,
    running: options.OptionalPositive = None,
    health_port: Annotated[int | None, typer.Option(min=0, max=65535)] = None,
    log_format: str | None = None,
) -> None:
    """Run a background worker, which executes the runs of a service until Ctrl-C.

    Any number of workers and servers (scenewright serve --no-work) can share the same PostgreSQL
    and data folder. A run starts at once on a worker with room; if its worker dies, another one
    continues it from its last step, and nothing is drawn or paid for twice. SIGTERM or Ctrl-C
    lets the current steps finish first, and leaves the runs to the other workers.

    Every option is also an environment variable: SCENEWRIGHT_SERVICE_DATABASE, for example.

    Args:
        health_port: Port of /healthz, /readyz and /metrics; by default none.
    """
    from scenewright.service.core.observing.logs import set_up
    from scenewright.service.core.settings import service_settings

    settings = service_settings(**context.params, work=True)
    if not settings.shared:
        raise fail(
            "a worker needs the PostgreSQL that the servers use: give --database "
            "postgresql://USER:PASSWORD@HOST/NAME (with SQLite, scenewright serve executes the "
            "runs itself)"
        )
    set_up(settings.log_format, debugging=debugging())
    run_and_free(work_until_signal(settings))
    logging.shutdown()
    note("stopped; the runs are kept.")


async def work_until_signal(settings: ServiceSettings) -> None:
    """Execute runs until a signal, with a health port if one is set."""
    # Loading takes seconds: wrong options are reported before that.
    from scenewright.config.settings import load_settings
    from scenewright.core.servers import running as serving
    from scenewright.service.api.socket_server import Server, address_of, bind
    from scenewright.service.app import create_health_app
    from scenewright.service.core.lifespan import running

    stop = stop_on_signal()
    async with running(settings, base=load_settings()) as service, AsyncExitStack() as opened:
        ready = asyncio.create_task(service.worker.ready.wait())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((ready, stopping), return_when=asyncio.FIRST_COMPLETED)
        health = ""
        if settings.health_port is not None:
            place = bind(settings.model_copy(update={"port": settings.health_port}))
            opened.callback(place.close)
            server = Server(create_health_app(service), settings)
            await opened.enter_async_context(serving(server, place))
            health = f"How it is             {address_of(settings, place)}/readyz"
        host, process, *_ = service.worker.owner.split("|")
        data, most = settings.data.resolve(), settings.running
        say(text_of("worker", process=process, host=host, running=most, data=data, health=health))
        sys.stdout.flush()
        await stopping
        ready.cancel()
        note("finishing the current steps …")
        # A second signal ends the process at once: the runs are kept all the same.
        restore_signals()
        # Inside the block, so that the health port still answers.
        await service.worker.drain(settings.drain_seconds)


def mcp(
    data: DataOption = None, database: str | None = None, profiles: ProfilesOption = None
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

    run_async(serve_tools(service_settings(data=data, database=database, profiles=profiles)))


async def serve_tools(settings: ServiceSettings) -> None:
    """Serve MCP on standard input and output until the client or a signal ends it."""
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
