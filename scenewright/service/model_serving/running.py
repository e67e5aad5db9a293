"""A Ray Serve application that is started, watched while its models load, and ended."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from scenewright.config.profiles import SettingsError
from scenewright.core.sockets import listening, url_of
from scenewright.providers.model_serving import connected_to_ray, is_remote_cluster
from scenewright.service.model_serving.app import build, deployment_names
from scenewright.service.model_serving.args import ServedSpec, ServingArgs, specs_of

APPLICATION = "scenewright"
_LOOK_SECONDS = 0.5


class ServingFailed(RuntimeError):
    """Models that could not be served; says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where models are served."""

    address: str = ""
    """The Ray cluster (``auto``, ``HOST:PORT``); empty: the one of ``RAY_ADDRESS``, or else one
    of this machine, which ends with the serving."""
    host: str = "127.0.0.1"
    """Address that the machines listen on."""
    port: int = 8001
    """Their port; 0: a free one, on a cluster of this machine alone."""


@asynccontextmanager
async def serving(
    args: ServingArgs,
    place: Place,
    told: Callable[[str, str], None] = lambda *_: None,
    connected: Callable[[], None] = lambda: None,
) -> AsyncIterator[str]:
    """``args`` served until the block is left; gives the address for clients.

    ``told`` hears of each model what its replicas do, whenever that changes; ``connected`` is
    called once Ray has started and put its own handlers of signals into place. On leaving,
    requests under way are finished. Raises ``SettingsError`` for what is wrong in the arguments,
    ``ServingFailed`` if the cluster cannot be reached or a model cannot be loaded.
    """
    specs = specs_of(args)
    app = build(args)
    port = place.port or _free(place)
    # What is asked for on one machine runs there, if slower.
    cpus = math.ceil(sum(spec.cpus * (spec.max_replicas or spec.replicas) for spec in specs))
    async with connected_to_ray(place.address, cpus, ServingFailed):
        from ray import serve

        connected()
        logging.getLogger("ray.serve").setLevel(logging.WARNING)
        options = {"host": place.host, "port": port}
        # Every machine with a replica answers, so that clients may be spread over them.
        where = "EveryNode" if is_remote_cluster(place.address) else "HeadOnly"
        await asyncio.to_thread(lambda: serve.start(proxy_location=where, http_options=options))
        started = asyncio.create_task(asyncio.to_thread(_deploy, serve, app))
        # Who leaves while models load does not hear how that ends.
        started.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            await _watched(serve, started, specs, told)
            yield url_of(*_listens(options))
        finally:
            # Replicas finish what they have; Serve itself ends where nothing else uses it.
            await asyncio.shield(asyncio.to_thread(_end, serve))


def _deploy(serve: Any, app: Any) -> None:
    serve.run(app, name=APPLICATION, route_prefix="/")


async def _watched(
    serve: Any,
    started: asyncio.Task[None],
    specs: Sequence[ServedSpec],
    told: Callable[[str, str], None],
) -> None:
    """Until the application runs."""
    names = deployment_names(specs)
    known: dict[str, str] = {}

    async def look() -> dict[str, str]:
        found = (await asyncio.to_thread(serve.status)).applications.get(APPLICATION)
        here = {} if found is None else found.deployments
        states: dict[str, str] = {}
        for model, name in names.items():
            if name in here:
                replicas = {
                    getattr(k, "value", str(k)): n for k, n in here[name].replica_states.items()
                }
                text = ", ".join(
                    f"{n} {state.lower()}" for state, n in sorted(replicas.items()) if n
                )
                states[model] = text or "waiting"
                if here[name].message:
                    states[model] += f" ({here[name].message.strip()[-600:]})"
        return states

    def tell(states: dict[str, str]) -> None:
        for model, text in states.items():
            if known.get(model) != text:
                known[model] = text
                told(model, text)

    while not started.done():
        tell(await look())
        await asyncio.wait((started,), timeout=_LOOK_SECONDS)
    try:
        started.result()
    except Exception as error:
        states = await look()
        tell(states)
        why = "; ".join(f"{model}: {text}" for model, text in states.items()) or str(error)
        raise ServingFailed(f"the models could not be served: {why}") from error
    tell(await look())


def _end(serve: Any) -> None:
    with suppress(Exception):
        serve.delete(APPLICATION)
        if not serve.status().applications:
            serve.shutdown()


def _listens(options: dict[str, Any]) -> tuple[str, int]:
    """Where Serve listens: a Serve that was there before keeps its own address."""
    from ray.serve.context import _get_global_client

    config = getattr(_get_global_client(), "http_config", None)
    host = getattr(config, "host", None) or options["host"]
    return str(host), int(getattr(config, "port", None) or options["port"])


def _free(place: Place) -> int:
    if place.address:
        raise SettingsError("port 0 is only for a cluster of this machine: name a port")
    made = listening(place.host, 0, 1, SettingsError)
    with made:
        return int(made.getsockname()[1])
