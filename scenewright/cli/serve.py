"""``scenewright serve`` and ``scenewright worker``: the service, and the workers beside it."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scenewright.cli.console import Exit, clear_errors, console, debugging, fail, quiet_libraries

if TYPE_CHECKING:
    from fastapi import FastAPI

    from scenewright.config.settings import Settings
    from scenewright.service.core.service import Service
    from scenewright.service.core.settings import ServiceSettings

DataOption = Annotated[
    Path | None, typer.Option(help="Folder of the runs and the database.", file_okay=False)
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        help="postgresql://USER:PASSWORD@HOST/NAME; by default SQLite in the data folder."
    ),
]


def check_profiles(settings: ServiceSettings, base: Settings) -> None:
    """Exit with a clear error where a profile that is to be served cannot be used; one that
    nobody named is warned of."""
    from scenewright.config.settings import SettingsError, find_profile, read_profiles

    try:
        for name in settings.profiles:
            find_profile(name, base)
    except SettingsError as error:
        raise fail(str(error), Exit.USAGE) from None
    if not settings.profiles:
        for problem in read_profiles(base)[1].values():
            console(stderr=True).print(f"warning: {problem}. It is left out", soft_wrap=True)


def serve(
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on; one that others reach demands API keys."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = None,
    data: DataOption = None,
    database: DatabaseOption = None,
    running: Annotated[
        int | None, typer.Option(min=1, help="Runs that are driven at once.")
    ] = None,
    work: Annotated[
        bool | None,
        typer.Option(
            "--work/--no-work",
            help="Drive runs in this process too; if not, scenewright worker does elsewhere.",
        ),
    ] = None,
    queue: Annotated[int | None, typer.Option(min=1, help="Runs that may wait.")] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option("--profile", "-p", help="Only these profiles; can be given several times."),
    ] = None,
    keys: Annotated[
        bool | None, typer.Option("--keys/--no-keys", help="Demand API keys on loopback too.")
    ] = None,
    trusted_host: Annotated[
        list[str] | None,
        typer.Option(help="A further name of this service, as a reverse proxy gives it."),
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(help="text for people, json for machines.")
    ] = None,
) -> None:
    """Serve the API, the pages and the routes of other tools until Ctrl-C.

    Pages for people are at the address that it prints, the API's description at /openapi.json,
    OpenAI's image routes at /v1, AUTOMATIC1111's at /sdapi/v1, MCP at /mcp. Runs are kept in the
    data folder: a service that was killed goes on with them when it starts again, and draws and
    pays for nothing twice. SIGTERM or Ctrl-C lets the steps at work finish first.

    With PostgreSQL any number of servers share the runs; with --no-work a server leaves them to
    the processes of scenewright worker.

    Every option is also a variable of the environment: SCENEWRIGHT_SERVICE_PORT=8080, for example.
    """
    quiet_libraries()
    # Loading makes much and leaves nothing to collect; the server turns it on when it has started.
    gc.disable()
    with clear_errors(again="The runs are kept: start it again, and they go on."):
        from scenewright.service.core.observing.logs import set_up
        from scenewright.service.core.settings import check, service_settings

        given: dict[str, Any] = {
            "host": host, "port": port, "data": data, "database": database, "running": running,
            "work": work, "queue": queue, "keys": keys, "log_format": log_format,
            "profiles": tuple(profile) if profile else None,
            "trusted_hosts": tuple(trusted_host) if trusted_host else None,
        }  # fmt: skip
        settings = service_settings(**{k: v for k, v in given.items() if v is not None})
        # What cannot work is refused before anything is loaded.
        check(settings)
        set_up(settings.log_format, debugging=debugging())
        asyncio.run(_serve(settings))


async def _serve(settings: ServiceSettings) -> None:
    from scenewright.config.settings import load_settings
    from scenewright.service.api.socket_server import bind

    base = load_settings()
    check_profiles(settings, base)
    listening = bind(settings)
    try:
        await _checked(settings, base, listening)
    finally:
        listening.close()


async def _checked(settings: ServiceSettings, base: Settings, listening: socket.socket) -> None:
    # They take a few seconds to load: what is wrong with the options is said before that.
    from scenewright.runs.model_factory.local_models import SHARED
    from scenewright.service.app import create_app
    from scenewright.service.core.database import DatabaseError
    from scenewright.service.core.keys import demand_some

    try:
        if settings.demands_keys:
            await demand_some(settings)
        app = create_app(settings, base=base)
        await _until_told(app, settings, listening)
    except DatabaseError as error:
        raise fail(str(error), Exit.FAILED) from None
    finally:
        await SHARED.aclose()


async def _until_told(app: FastAPI, settings: ServiceSettings, listening: socket.socket) -> None:
    from scenewright.service.api.socket_server import Server, address_of

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    server = Server(app, settings)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    ready = asyncio.create_task(server.ready.wait())
    await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        ready.cancel()
        await task
        return
    out = console()
    out.print(_welcome(address_of(settings, listening), settings), soft_wrap=True)
    out.file.flush()
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
    console(stderr=True).print("finishing the steps at work …")
    for number in (signal.SIGINT, signal.SIGTERM):
        # A second one ends the process at once: the runs are kept all the same.
        loop.remove_signal_handler(number)
    stopping.cancel()
    server.should_exit = True
    await task
    logging.shutdown()
    console(stderr=True).print("stopped; the runs are kept.")


def _welcome(url: str, settings: ServiceSettings) -> str:
    keys = "API keys are demanded." if settings.demands_keys else "Only this machine can reach it."
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


def worker(
    data: DataOption = None,
    database: DatabaseOption = None,
    running: Annotated[
        int | None, typer.Option(min=1, help="Runs that are driven at once.")
    ] = None,
    health_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port of /healthz, /readyz and /metrics; by default it listens nowhere.",
        ),
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(help="text for people, json for machines.")
    ] = None,
) -> None:
    """Drive the runs of a service until Ctrl-C: a worker without HTTP.

    Any number of them may work beside any number of servers (scenewright serve --no-work), all
    with the same PostgreSQL and the same data folder. A run goes to whoever has room, at once;
    one whose worker dies is taken over by another, which goes on from its last step: nothing is
    drawn or paid for twice. SIGTERM or Ctrl-C lets the steps at work finish first, and leaves
    their runs to the others.

    Every option is also a variable of the environment: SCENEWRIGHT_SERVICE_DATABASE, for example.
    """
    quiet_libraries()
    with clear_errors(again="The runs are kept: start it again, and they go on."):
        from scenewright.service.core.observing.logs import set_up
        from scenewright.service.core.settings import service_settings

        given: dict[str, Any] = {
            "data": data, "database": database, "running": running, "log_format": log_format,
            "health_port": health_port, "work": True,
        }  # fmt: skip
        settings = service_settings(**{k: v for k, v in given.items() if v is not None})
        if not settings.shared:
            raise fail(
                "a worker needs the PostgreSQL that the servers use: give --database "
                "postgresql://USER:PASSWORD@HOST/NAME (with SQLite, scenewright serve drives the "
                "runs itself)",
                Exit.USAGE,
            )
        set_up(settings.log_format, debugging=debugging())
        asyncio.run(_worker(settings))


async def _worker(settings: ServiceSettings) -> None:
    # They take a few seconds to load: what is wrong with the options is said before that.
    from scenewright.config.settings import load_settings
    from scenewright.runs.model_factory.local_models import SHARED
    from scenewright.service.core.database import DatabaseError
    from scenewright.service.core.lifespan import running

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    errors = console(stderr=True)
    try:
        async with running(settings, base=load_settings()) as service:
            ready = asyncio.create_task(service.worker.ready.wait())
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait((ready, stopping), return_when=asyncio.FIRST_COMPLETED)
            out = console()
            async with _health(service) as url:
                out.print(_worker_welcome(settings, service.worker.owner, url), soft_wrap=True)
                out.file.flush()
                await stopping
                ready.cancel()
                errors.print("finishing the steps at work …")
                for number in (signal.SIGINT, signal.SIGTERM):
                    # A second one ends the process at once: the runs are kept all the same.
                    loop.remove_signal_handler(number)
                # Here, so that it still says how it is.
                await service.worker.drain(settings.drain_seconds)
    except DatabaseError as error:
        raise fail(str(error), Exit.FAILED) from None
    finally:
        await SHARED.aclose()
    logging.shutdown()
    errors.print("stopped; the runs are kept.")


@asynccontextmanager
async def _health(service: Service) -> AsyncIterator[str | None]:
    """Say on a port how the worker is, if that is wanted; the address."""
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
