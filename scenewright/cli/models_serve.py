"""``scenewright models serve``: backends and local judges for other processes and machines."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from scenewright.cli.console import Exit, clear_errors, console, fail, quiet_libraries

if TYPE_CHECKING:
    from scenewright.service.model_serving.args import ServingArgs
    from scenewright.service.model_serving.running import Place


def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help="local:MODEL (a judge) or diffusers:MODEL (what draws); a folder or a fetched "
            "repository, or miniature/judge-a and miniature.",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        str, typer.Option("--profile", "-p", help="Also what draws and judges in this profile.")
    ] = "",
    replicas: Annotated[
        int, typer.Option(min=0, help="Replicas of each model; 0 with --max-replicas: on demand.")
    ] = 1,
    max_replicas: Annotated[
        int | None, typer.Option(min=1, help="Start as many as this while there is work for them.")
    ] = None,
    gpus: Annotated[float, typer.Option(min=0, help="GPUs of a replica; 0.5 shares one.")] = 0.0,
    cpus: Annotated[float, typer.Option(min=0, help="Processors of a replica.")] = 1.0,
    batch: Annotated[
        int, typer.Option(min=1, max=256, help="Pictures that a judge answers about at once.")
    ] = 8,
    address: Annotated[
        str, typer.Option(help="The Ray cluster, as HOST:PORT or auto; empty: this machine.")
    ] = "",
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 for other machines.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8001,
) -> None:
    """Serve models on this machine or a Ray cluster, for any number of runs and services.

    Needs the extra "ray" of the package. Each model is a Ray Serve deployment with replicas of its
    own. When all are loaded it prints an account for scenewright.toml; with it a
    profile names them as judges = ["cluster:local:miniature/judge-a"] and
    backend = "cluster:diffusers:miniature". They answer and draw as in one process.

    Serves until Ctrl-C or SIGTERM; requests under way are finished first. Whoever reaches the
    port may use the models, unless SCENEWRIGHT_SERVE_KEY is set on both sides (docs/serving.md).

    Exit codes: 0 ended as asked; 2 wrong input; 3 could not serve.

    Example: scenewright models serve local:miniature/judge-a diffusers:miniature --replicas 2
    """
    quiet_libraries()
    with clear_errors():
        from scenewright.service.model_serving.args import serving_args
        from scenewright.service.model_serving.running import Place

        placing = {
            "replicas": replicas, "max_replicas": max_replicas, "gpus": gpus, "cpus": cpus,
            "batch": batch,
        }  # fmt: skip
        args = serving_args({**placing, "profile": profile, "models": models or []})
        asyncio.run(_serve(args, Place(address, host, port)))


async def _serve(args: ServingArgs, place: Place) -> None:
    from scenewright.service.model_serving.args import specs_of
    from scenewright.service.model_serving.running import ServingFailed, serving

    where = console(stderr=True)
    ending, up = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def listen() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ending.set)

    def told(model: str, text: str) -> None:
        where.print(Text(f"{model}: {text}"), soft_wrap=True)

    async def served() -> None:
        async with serving(args, place, told, listen) as url:
            up.set()
            _print_account(url, [spec.model for spec in specs_of(args)])
            where.print("serving; Ctrl-C ends it")
            await ending.wait()
            where.print("ending: requests under way are finished first")

    listen()
    work = asyncio.create_task(served())
    told_to_end = asyncio.create_task(ending.wait())
    try:
        await asyncio.wait((work, told_to_end), return_when=asyncio.FIRST_COMPLETED)
        if not up.is_set():
            # Nobody was served so far: what loads need not end.
            work.cancel()
        await work
    except ServingFailed as error:
        raise fail(str(error), Exit.FAILED) from None
    finally:
        told_to_end.cancel()


def _print_account(url: str, models: list[str]) -> None:
    lines: list[Any] = [
        "# for scenewright.toml; more in docs/serving.md",
        "[accounts.cluster]",
        'provider = "serve"',
        f'base_url = "{url}"',
        "timeout = 600",
        "",
        "# models there, for profiles:",
        *(f"#   cluster:{model}" for model in models),
    ]
    console().print(Text("\n".join(lines)), soft_wrap=True)
