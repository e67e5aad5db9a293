"""A generator and a judge on one accelerator take turns; what waits can be cancelled.

No accelerator is needed: both are told that their device has this gate.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from scenewright.agents.judges import local
from scenewright.agents.judges.local import LocalJudge
from scenewright.core.facts import Fact
from scenewright.core.ports.backend import GenerationRequest
from scenewright.providers.device_gate import DeviceGate, Stop
from scenewright.tools.backends import diffusers
from scenewright.tools.backends.diffusers import DiffusersBackend
from tests.agents.judges.tiny import save_tiny_llava

PICTURE = Image.new("RGB", (32, 32), (200, 40, 40))
FACTS = [
    Fact(id=f"o:{name}", kind="object", subject=name, statement=name, question=f"Is it {name}?")
    for name in ("dog", "cat", "tree", "ball", "house", "lamp")
]
Models = tuple[DiffusersBackend, LocalJudge]


class Busy:
    """Who computes at the same time, seen from inside the models."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now: set[str] = set()
        self.most = 0

    def watch(self, name: str, module: Any) -> None:
        def begin(*_: Any) -> None:
            with self.lock:
                self.now.add(name)
            # Whoever else may compute does so now.
            time.sleep(0.01)
            with self.lock:
                self.most = max(self.most, len(self.now))

        def end(*_: Any) -> None:
            with self.lock:
                self.now.discard(name)

        module.register_forward_pre_hook(begin)
        module.register_forward_hook(end)


@pytest.fixture
def gate(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> DeviceGate:
    made = DeviceGate(open=getattr(request, "param", False))
    for module in (diffusers, local):
        monkeypatch.setattr(module, "gate_of", lambda device: made)
    return made


@pytest.fixture
async def models(gate: DeviceGate, tiny_model: Path, tmp_path: Path) -> AsyncIterator[Models]:
    backend = DiffusersBackend(str(tiny_model), device="cpu")
    judge = LocalJudge(save_tiny_llava(tmp_path / "judge"), device="cpu")
    judge.batch = 1
    await asyncio.gather(backend.load(), judge.load())
    yield backend, judge
    await asyncio.gather(backend.aclose(), judge.aclose())


async def test_two_models_are_never_loaded_at_once(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, most = 0, 0

    def counted(load: Callable[..., Any]) -> Callable[..., Any]:
        def loaded(*args: Any, **more: Any) -> Any:
            nonlocal now, most
            now += 1
            most = max(most, now)
            try:
                # Whoever else may load does so now.
                time.sleep(0.05)
                return load(*args, **more)
            finally:
                now -= 1

        return loaded

    monkeypatch.setattr(diffusers, "build", counted(diffusers.build))
    monkeypatch.setattr(local, "VisionLanguageModel", counted(local.VisionLanguageModel))
    folder = save_tiny_llava(tmp_path / "judge")
    made = [
        DiffusersBackend(str(tiny_model), device="cpu"),
        *(LocalJudge(folder, device="cpu") for _ in range(3)),
    ]
    await asyncio.gather(*(model.load() for model in made))
    await asyncio.gather(*(model.aclose() for model in made))
    assert most == 1


async def drawn(backend: DiffusersBackend, seed: int = 1) -> None:
    request = GenerationRequest(prompt="a dog", seed=seed, steps=4, width=32, height=32)
    await backend.generate(request, lambda _: PICTURE)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(("gate", "most"), [(False, 1), (True, 2)], indirect=["gate"])
async def test_they_never_compute_at_once_but_behind_an_open_gate(
    models: Models, most: int
) -> None:
    backend, judge = models
    busy = Busy()
    assert backend._ready is not None
    assert judge._model is not None
    busy.watch("backend", backend._ready.pipe.unet)
    busy.watch("judge", judge._model.model)
    _, _, answers = await asyncio.gather(
        drawn(backend, 1), drawn(backend, 2), judge.answer(PICTURE, FACTS)
    )
    assert busy.most == most
    assert len(answers) == len(FACTS)


async def test_a_judge_comes_in_between_two_pictures(models: Models, gate: DeviceGate) -> None:
    """First come, first served: a judge does not wait for all the pictures that are ordered."""
    backend, judge = models
    order: list[str] = []

    async def noted(name: str, work: Any) -> None:
        await work
        order.append(name)

    with gate.turn(Stop()):
        tasks = [asyncio.create_task(noted("picture", drawn(backend)))]
        await until(lambda: gate.waiting == 1)
        tasks.append(asyncio.create_task(noted("answer", judge.answer(PICTURE, FACTS[:1]))))
        await until(lambda: gate.waiting == 2)
        tasks.append(asyncio.create_task(noted("picture", drawn(backend))))
    await asyncio.gather(*tasks)
    assert order.index("answer") <= 1


@pytest.mark.parametrize("who", ["backend", "judge"])
async def test_what_waits_for_the_device_can_be_cancelled(
    models: Models, gate: DeviceGate, who: str
) -> None:
    backend, judge = models

    def work() -> Any:
        return drawn(backend) if who == "backend" else judge.answer(PICTURE, FACTS)

    with gate.turn(Stop()):
        task = asyncio.create_task(work())
        await until(lambda: gate.waiting == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 60)
        await until(lambda: gate.waiting == 0)
    await asyncio.wait_for(work(), 60)
