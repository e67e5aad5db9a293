"""``scenewright serve`` and ``scenewright worker``: the service and its background workers."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
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
    say,
    stop_on_signal,
)

if TYPE_CHECKING:
    from scenewright.config.settings import Settings
    from scenewright.service.api.socket_server import Server
    from scenewright.service.core.service import Service
    from scenewright.service.core.settings import ServiceSettings

DataOption = Annotated[
    Path | None, typer.Option(help="Folder of the runs and the database.", file_okay=False)
]
ProfilesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--profile",
        "-p",
        help="Only these profiles, the first is the default; can be given several times.",
    ),
]
RunningOption = Annotated[int | None, typer.Option(min=1, help="Most runs executed at once.")]
LogFormatOption = Annotated[
    str | None, typer.Option(help="Format of the log: text for people, json for machines.")
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        help="postgresql://USER:PASSWORD@HOST/NAME; by default SQLite in the data folder."
    ),
]


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
    Address="host port trusted_host keys",
    Storage="data database",
    Runs="profile running work queue",
    Log="log_format",
)
def serve(
    host: str | None = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535)] = None,
    data: DataOption = None,
    database: DatabaseOption = None,
    running: RunningOption = None,
    work: bool | None = None,
    queue: options.OptionalPositive = None,
    profile: ProfilesOption = None,
    keys: bool | None = None,
    trusted_host: list[str] | None = None,
    log_format: LogFormatOption = None,
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
        trusted_host: Another host name of this service, as a reverse proxy sends it.
    """
    # Loading creates no garbage; the server enables collection when it has started.
    gc.disable()
    from scenewright.service.core.observing.logs import set_up
    from scenewright.service.core.settings import check, service_settings

    settings = service_settings(
        host=host,
        port=port,
        data=data,
        database=database,
        running=running,
        work=work,
        queue=queue,
        keys=keys,
        log_format=log_format,
        profiles=tuple(profile) if profile else None,
        trusted_hosts=tuple(trusted_host) if trusted_host else None,
    )
    # Settings that cannot work are refused before anything is loaded.
    check(settings)
    set_up(settings.log_format, debugging=debugging())
    run_and_free(_serve(settings))


async def _serve(settings: ServiceSettings) -> None:
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
        await _until_signal(
            server, lambda: _welcome(address_of(settings, listening), settings), listening
        )
    finally:
        listening.close()


async def _until_signal(server: Server, welcome: Callable[[], str], place: socket.socket) -> None:
    stop = stop_on_signal()
    task = asyncio.create_task(server.serve(sockets=[place]))
    ready = asyncio.create_task(server.ready.wait())
    await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        ready.cancel()
        await task
        return
    _announce(welcome())
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


def _announce(text: str) -> None:
    say(text)
    sys.stdout.flush()


def _welcome(url: str, settings: ServiceSettings) -> str:
    keys = "API keys are required." if settings.demands_keys else "Only this machine can reach it."
    return f"""\
scenewright serves at {url}  ({keys} Ctrl-C ends it.)

Pages                 {url}/
API                   {url}/openapi.json
OpenAI's SDK          export OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=mine
AUTOMATIC1111         {url}/sdapi/v1/txt2img
MCP                   {url}/mcp

A run                 curl {url}/v1/refinements -H 'content-type: application/json' \\
                        -d '{{"text": "A red ball is on a table."}}'
Runs are kept in      {settings.data.resolve()}
"""


@resumable("The runs are kept: start it again, and they continue.")
def worker(
    data: DataOption = None,
    database: DatabaseOption = None,
    running: RunningOption = None,
    health_port: Annotated[int | None, typer.Option(min=0, max=65535)] = None,
    log_format: LogFormatOption = None,
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

    settings = service_settings(
        data=data,
        database=database,
        running=running,
        log_format=log_format,
        health_port=health_port,
        work=True,
    )
    if not settings.shared:
        raise fail(
            "a worker needs the PostgreSQL that the servers use: give --database "
            "postgresql://USER:PASSWORD@HOST/NAME (with SQLite, scenewright serve executes the "
            "runs itself)"
        )
    set_up(settings.log_format, debugging=debugging())
    run_and_free(_worker(settings))
    logging.shutdown()
    note("stopped; the runs are kept.")


async def _worker(settings: ServiceSettings) -> None:
    # Loading takes seconds: wrong options are reported before that.
    from scenewright.config.settings import load_settings
    from scenewright.service.core.lifespan import running

    stop = stop_on_signal()
    async with running(settings, base=load_settings()) as service:
        ready = asyncio.create_task(service.worker.ready.wait())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((ready, stopping), return_when=asyncio.FIRST_COMPLETED)
        async with _health(service) as url:
            _announce(_worker_welcome(settings, service.worker.owner, url))
            await stopping
            ready.cancel()
            note("finishing the current steps …")
            # A second signal ends the process at once: the runs are kept all the same.
            restore_signals()
            # Inside the block, so that the health port still answers.
            await service.worker.drain(settings.drain_seconds)


@asynccontextmanager
async def _health(service: Service) -> AsyncIterator[str | None]:
    """Serve the worker's health if a port is set; yield its address, or None."""
    settings = service.settings
    if settings.health_port is None:
        yield None
        return
    from scenewright.core.servers import running as serving
    from scenewright.service.api.socket_server import Server, address_of, bind
    from scenewright.service.app import create_health_app

    place = bind(settings.model_copy(update={"port": settings.health_port}))
    try:
        async with serving(Server(create_health_app(service), settings), place):
            yield address_of(settings, place)
    finally:
        place.close()


def _worker_welcome(settings: ServiceSettings, owner: str, url: str | None) -> str:
    host, process, *_ = owner.split("|")
    return f"""\
scenewright works as process {process} on {host}: up to {settings.running} runs at once.  \
(Ctrl-C ends it.)

Runs are kept in      {settings.data.resolve()}
{"" if url is None else f"How it is             {url}/readyz"}"""
