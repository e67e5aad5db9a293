"""Whether machines of a cluster were lost: then workers who died in a row are no bad sign.

Until the cluster has noticed that a machine is gone it sends new workers there, and each of them
dies at once.
"""

from __future__ import annotations

import asyncio
from typing import Any


class Machines:
    """The machines of a cluster, as they answer."""

    def __init__(self) -> None:
        """Asks nobody yet."""
        self._known: set[str] = set()
        self._turn = asyncio.Lock()
        self.lost = 0
        """Machines that were there once and did not answer later."""

    async def look(self) -> None:
        """Ask each for a sign of life. Returns when all have answered or the cluster has given
        them up."""
        async with self._turn:
            named = await asyncio.to_thread(_named)
            signs = await asyncio.gather(*(_answers(name) for name in named))
            here = {name for name, sign in zip(named, signs, strict=True) if sign}
            self.lost += len((self._known | set(named)) - here)
            self._known = here


def _named() -> list[str]:
    """The machines that the cluster believes to be there."""
    import ray

    nodes: Any = ray.nodes
    return [node["NodeID"] for node in nodes() if node["Alive"]]


async def _answers(name: str) -> bool:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(name, soft=False)
    asked = ray.remote(_sign).options(num_cpus=0, max_retries=0, scheduling_strategy=there)
    try:
        await asked.remote()
    except ray.exceptions.RayError:
        return False
    return True


def _sign() -> None:
    return
