"""Which cluster an evaluation without an address uses."""

from __future__ import annotations

import pytest

from scenewright.evals.runner.engines.cluster import reached

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'scenewright[ray]'")
pytestmark = pytest.mark.slow


async def test_a_cluster_that_others_have_started_here_is_not_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ray.cluster_utils import Cluster

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    others = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        async with reached("", 1):
            assert ray.get_runtime_context().gcs_address != others.address
    finally:
        others.shutdown()
