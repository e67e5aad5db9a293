"""A Ray cluster of several nodes on this machine, whose workers and nodes are killed."""

from __future__ import annotations

import os
import random
import tempfile
from contextlib import suppress
from typing import Any

import psutil

_TITLE = "ray::Worker"
"""How Ray calls the process of a worker of the engine."""


class MortalCluster:
    """A head and ``nodes`` others with one CPU each."""

    def __init__(self, nodes: int, cpus: int = 1) -> None:
        """``cpus``: those of the head. Starts in a temporary folder of its own: other clusters of
        the machine see nothing of it. Keys of accounts must be in the environment by now."""
        self._folder = tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)
        self._before = os.environ.get("RAY_TMPDIR")
        os.environ |= {
            "RAY_TMPDIR": self._folder.name,
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONPATH": os.pathsep.join(
                filter(None, (os.getcwd(), os.environ.get("PYTHONPATH")))
            ),
        }
        from ray.cluster_utils import Cluster

        self._cluster: Any = Cluster(
            initialize_head=True, head_node_args={"num_cpus": cpus, "include_dashboard": False}
        )
        for _ in range(nodes):
            self._cluster.add_node(num_cpus=1)
        self.address: str = self._cluster.address
        """``HOST:PORT``."""

    def workers(self) -> list[int]:
        """The ids of the processes of workers."""
        found = []
        for raylet in self._raylets():
            for process in raylet.children(recursive=True):
                with suppress(psutil.Error):
                    if " ".join(process.cmdline()).startswith(_TITLE):
                        found.append(process.pid)
        return sorted(found)

    def kill_worker(self, rng: random.Random) -> bool:
        """Kill one worker (SIGKILL); whether there was one."""
        found = self.workers()
        if not found:
            return False
        with suppress(psutil.NoSuchProcess):
            psutil.Process(rng.choice(found)).kill()
            return True
        return False

    def kill_node(self, rng: random.Random) -> None:
        """Kill a node that is not the head (SIGKILL to its processes), and add another."""
        nodes = sorted(self._cluster.worker_nodes, key=lambda node: str(node.unique_id))
        self._cluster.remove_node(rng.choice(nodes), allow_graceful=False)
        self._cluster.add_node(num_cpus=1)

    def stop(self) -> None:
        """End all of it."""
        self._cluster.shutdown()
        self._folder.cleanup()
        if self._before is None:
            del os.environ["RAY_TMPDIR"]
        else:
            os.environ["RAY_TMPDIR"] = self._before

    def _raylets(self) -> list[psutil.Process]:
        found = []
        for node in self._cluster.list_all_nodes():
            for started in node.all_processes.get("raylet", ()):
                with suppress(psutil.NoSuchProcess):
                    found.append(psutil.Process(started.process.pid))
        return found
