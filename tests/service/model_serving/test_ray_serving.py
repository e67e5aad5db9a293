"""Models behind Ray Serve: equal to those of this process, in batches, and when replicas die."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from scenewright.agents.judges.served import ServedJudge
from scenewright.agents.panel.panel import identity_of_judge
from scenewright.config.profiles import BackendSpec
from scenewright.core.formats import load_scene
from scenewright.core.ports.backend import GenerationRequest
from scenewright.core.questions import facts_of
from scenewright.miniature.world import JUDGE_VOCABULARY
from scenewright.providers.caller import Caller
from scenewright.providers.model_serving import ModelServer
from scenewright.providers.retry import Backoff
from scenewright.runs.model_factory.profiles import backend_of, judge_of
from scenewright.service.model_serving.args import serving_args
from scenewright.service.model_serving.running import Place, serving
from scenewright.tools.backends.served import ServedBackend
from tests.agents.judges.conformance import picture, scene

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'scenewright[ray]'")
pytest.importorskip(
    "ray.serve", reason="Ray Serve is not installed: pip install 'scenewright[ray]'"
)
pytestmark = pytest.mark.slow
JUDGE, BACKEND = "local:miniature/judge-weak", "diffusers:miniature"
ARGS = serving_args({"models": [{"model": JUDGE, "replicas": 2, "batch": 4}, BACKEND], "cpus": 0.5})
TOLD: list[tuple[str, str]] = []


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with asyncio.Runner() as runner:
        ray.init(
            "local", num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR"
        )
        block = serving(ARGS, Place(port=0), lambda model, text: TOLD.append((model, text)))
        try:
            yield runner.run(block.__aenter__())
        finally:
            runner.run(block.__aexit__(None, None, None))
            ray.shutdown()


def patient() -> Caller:
    return Caller("cluster", timeout=120.0, attempts=20, priced=False, backoff=Backoff(initial=0.1))


async def test_served_models_are_those_of_this_process(url: str) -> None:
    caller = patient()
    judge = ServedJudge(ModelServer(JUDGE, url), caller, account="cluster")
    here = judge_of(JUDGE)
    assert judge.fingerprint == here.fingerprint
    # Of few words here, it is of few words there, and its weights tell which model it is.
    assert judge.caps.vocabulary == here.caps.vocabulary == JUDGE_VOCABULARY
    assert judge.identity.weights == identity_of_judge(here).weights != ""
    (unknown,) = await judge.answer(picture(), facts_of(load_scene("astronaut")))
    assert "the class 'astronaut' is outside" in unknown.reason
    facts = facts_of(scene())
    shown = [picture((shade, 40, 200 - shade)) for shade in range(0, 200, 20)]
    found = await asyncio.gather(*(judge.answer(image, facts) for image in shown))
    for image, answers in zip(shown, found, strict=True):
        for there, same in zip(answers, await here.answer(image, facts), strict=True):
            assert (there.state, there.choice) == (same.state, same.choice)
            assert there.probability == pytest.approx(same.probability, abs=1e-5)
    await judge.aclose()

    backend = ServedBackend(ModelServer(BACKEND, url), caller, account="cluster")
    local = backend_of(BackendSpec.model_validate(BACKEND))
    assert (backend.fingerprint, backend.features) == (local.fingerprint, local.features)
    requests = [GenerationRequest(prompt="a red dog", seed=n, steps=4) for n in range(3)]
    drawn = await asyncio.gather(*(backend.generate(one, picture) for one in requests))
    for one, request in zip(drawn, requests, strict=True):
        same = await local.generate(request, picture)
        assert one.image.tobytes() == same.image.tobytes()
    await backend.aclose()
    await caller.aclose()


def test_who_waits_is_told_of_each_model(url: str) -> None:
    assert {model for model, _ in TOLD} == {JUDGE, BACKEND}
    assert (JUDGE, "2 running") in TOLD


async def test_a_replica_that_is_killed_loses_no_answer(url: str) -> None:
    caller = patient()
    judge = ServedJudge(ModelServer(JUDGE, url), caller, account="cluster")
    facts = facts_of(scene())
    await judge.answer(picture(), facts)
    replicas = await asyncio.to_thread(replicas_of, "judge-weak")
    assert len(set(replicas)) == 2
    asked = [asyncio.create_task(judge.answer(picture((n * 8, 40, 90)), facts)) for n in range(24)]
    await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    os.kill(replicas[0], signal.SIGKILL)
    found = await asyncio.gather(*asked)
    assert [a.reason for part in found for a in part if a.state == "unscored"] == []
    await judge.aclose()
    await caller.aclose()


def replicas_of(name: str) -> list[int]:
    """Process ids of the replicas of a deployment."""
    found = [
        ray.get_actor(one["name"], namespace=one["namespace"])
        for one in ray.util.list_named_actors(all_namespaces=True)
        if one["name"].startswith("SERVE_REPLICA") and name in one["name"]
    ]
    return [ray.get(actor.__ray_call__.remote(lambda _: os.getpid())) for actor in found]
