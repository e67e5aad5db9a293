"""The connection of this process to a Ray cluster. Ray is imported when one is asked for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any


def is_elsewhere(address: str) -> bool:
    """Whether the cluster is one that others have started; else it is this process's own."""
    return bool(address or os.environ.get("RAY_ADDRESS"))


@asynccontextmanager
async def joined(
    address: str, cpus: int, failed: Callable[[str], Exception]
) -> AsyncIterator[None]:
    """Connected to the cluster at ``address``; empty: the one of ``RAY_ADDRESS``, or else one of
    this machine with ``cpus`` CPUs or more, which ends with the block.

    A connection that is there already is used, and stays. Raises what ``failed`` makes of the
    reason for a cluster that cannot be reached.
    """
    import ray

    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if is_elsewhere(address):
        options["address"] = address or None
    else:
        # Not one that others have started here, which Ray would join without being asked.
        options |= {"address": "local", "include_dashboard": False}
        options["num_cpus"] = max(os.cpu_count() or 1, cpus)
    try:
        await asyncio.to_thread(lambda: ray.init(**options))
    except Exception as error:
        raise failed(
            f"no Ray cluster at {address or 'this machine'}: {error}. Check `ray status`, or leave "
            "--address out to work on this machine alone"
        ) from error
    try:
        yield
    finally:
        with suppress(Exception):
            await asyncio.shield(asyncio.to_thread(ray.shutdown))
