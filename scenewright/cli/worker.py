"""``scenewright worker``: drives the service's runs beside others, without HTTP."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scenewright.cli.console import Exit, clear_errors, console, debugging, fail, quiet_libraries
from scenewright.cli.service_options import DatabaseOption, DataOption

if TYPE_CHECKING:
    from scenewright.service.core.service import Service
    from scenewright.service.core.settings import ServiceSettings


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
                out.print(_welcome(settings, service.worker.owner, url), soft_wrap=True)
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


def _welcome(settings: ServiceSettings, owner: str, url: str | None) -> str:
    host, process, *_ = owner.split("|")
    return f"""\
scenewright works as process {process} on {host}: up to {settings.running} runs at once.  \
(Ctrl-C ends it.)

Runs are kept in      {settings.data.resolve()}
{"" if url is None else f"How it is             {url}/readyz"}"""
