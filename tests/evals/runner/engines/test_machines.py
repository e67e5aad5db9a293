"""Workers who die in a row: because of what they do, or because their machine was lost."""

from __future__ import annotations

from typing import Any

import pytest

from scenewright.evals.errors import EvalError
from scenewright.evals.runner.engines.worker_pool import MOST_LOST, Machines, _Place

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'scenewright[ray]'")


class Told(Machines):
    """Machines of which one is lost at each of the first looks."""

    def __init__(self, losses: int) -> None:
        super().__init__()
        self.losses = losses
        self.looks = 0

    async def look(self) -> None:
        self.looks += 1
        self.lost += self.looks <= self.losses


def place(machines: Machines, deaths: int) -> _Place:
    """Where so many workers die before one begins."""
    left = deaths

    async def hire() -> tuple[Any, str]:
        nonlocal left
        if left:
            left -= 1
            raise ConnectionError("the actor died")
        return "worker", "name"

    async def lose(worker: Any, name: str) -> None:
        return

    return _Place(hire, lose, machines)


async def test_workers_who_died_with_their_machine_do_not_count() -> None:
    machines = Told(losses=2)
    assert await place(machines, 2 * MOST_LOST).filled() == "worker"
    assert machines.looks == 2


async def test_workers_who_die_on_machines_that_answer_end_it() -> None:
    machines = Told(losses=1)
    with pytest.raises(EvalError, match="3 workers in a row died"):
        await place(machines, 2 * MOST_LOST).filled()


async def test_a_few_deaths_ask_nobody() -> None:
    machines = Told(losses=0)
    assert await place(machines, MOST_LOST - 1).filled() == "worker"
    assert not machines.looks


@pytest.mark.slow
async def test_a_machine_that_left_the_cluster_is_lost() -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        other = cluster.add_node(num_cpus=1)
        ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
        machines = Machines()
        await machines.look()
        assert machines.lost == 0
        cluster.remove_node(other, allow_graceful=False)
        await machines.look()
        assert machines.lost == 1
        await machines.look()
        assert machines.lost == 1
    finally:
        ray.shutdown()
        cluster.shutdown()
