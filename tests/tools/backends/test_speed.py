"""Compiled blocks: the same pictures, and no λ compiles anything again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch._dynamo.utils import counters

from scenewright.core.ports.backend import GenerationRequest
from scenewright.tools.backends.diffusers import DiffusersBackend
from scenewright.tools.backends.memory import MemoryPlan
from scenewright.tools.backends.placing import WeightTensors, compile_blocks
from scenewright.tools.backends.references import ReferenceAttention
from tests.tools.backends import tiny


class Pipe:
    """What the compiler looks at of a pipeline."""

    def __init__(self, **parts: Any) -> None:
        self.__dict__.update(parts)


class Bench:
    """A UNet that is compiled, its twin that is not, and inputs for both."""

    def __init__(self, held: bool) -> None:
        torch.manual_seed(5)
        self.plain, self.compiled = tiny.unet(), tiny.unet()
        self.compiled.load_state_dict(self.plain.state_dict())
        checkpoint = tiny.adapter_weights(self.plain)
        self.eager = ReferenceAttention(self.plain, checkpoint, "tiny")
        self.fast = ReferenceAttention(self.compiled, checkpoint, "tiny")
        # The step before code is made for a processor: what decides about compiling anew.
        compile_blocks(Pipe(unet=self.compiled), backend="eager")
        if held:
            self.fast.use_tensors(WeightTensors(torch.device("cpu")))
        self.sample = torch.randn(2, 4, 8, 8)
        self.text = torch.randn(2, 16, tiny.TEXT_WIDTH)
        self.embeds = [torch.randn(2, 1, tiny.IMAGE_WIDTH) for _ in range(3)]

    def forward(self, unet: Any, count: int) -> torch.Tensor:
        added = {"image_embeds": self.embeds[:count]} if count else None
        with torch.no_grad():
            found: torch.Tensor = unet(self.sample, 7, self.text, added_cond_kwargs=added).sample
        return found

    def compare(self, *weights: float) -> int:
        """Checks that both give the same, and returns how many programs there are now."""
        self.eager.use(weights)
        self.fast.use(weights)
        expected = self.forward(self.plain, len(weights))
        found = self.forward(self.compiled, len(weights))
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
        return int(counters["stats"]["unique_graphs"])


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Programs of other tests are forgotten."""
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


@pytest.mark.slow
def test_a_new_weight_compiles_nothing() -> None:
    bench = Bench(held=True)
    none = bench.compare()
    two = bench.compare(0.5, 0.5)
    assert 0 < none < two
    for weights in ((0.3, 0.7), (-0.25, 1.5), (0.5, 0.0), (0.0, 0.0), (4.0, 1e-3)):
        assert bench.compare(*weights) == two
    assert bench.compare() == two
    one = bench.compare(0.9)
    assert one > two
    assert [bench.compare(0.1), bench.compare(0.5, 0.1), bench.compare()] == [one] * 3


def test_weights_that_are_numbers_do_compile_anew() -> None:
    """What the tensors are for: the counter would tell."""
    bench = Bench(held=False)
    first = bench.compare(0.5, 0.5)
    assert bench.compare(0.3, 0.7) > first


@pytest.mark.slow
def test_many_kinds_of_requests_stay_compiled() -> None:
    """More programs than the compiler keeps by default before it gives up in silence."""
    bench = Bench(held=True)
    seen = [bench.compare(*[0.5] * count) for count in range(4)]
    bench.sample = torch.randn(2, 4, 16, 16)
    seen += [bench.compare(*[0.5] * count) for count in range(4)]
    last = seen[-1]
    assert last > 8
    assert [bench.compare(*[0.25] * count) for count in range(4)] == [last] * 4


def test_only_a_denoiser_with_repeated_blocks_is_compiled() -> None:
    assert compile_blocks(Pipe(unet=tiny.unet()))
    assert compile_blocks(Pipe(transformer=None, unet=tiny.unet()))
    assert not compile_blocks(Pipe(unet=torch.nn.Linear(2, 2)))
    assert not compile_blocks(Pipe())


async def test_layers_that_come_and_go_are_not_compiled(tiny_model: Path) -> None:
    backend = DiffusersBackend(str(tiny_model), device="cpu", compile=True)
    backend.__dict__["plan"] = MemoryPlan("float32", "layers", False, 0, 0)
    request = GenerationRequest(prompt="red dog", seed=1)
    drawn = await backend.generate(request, lambda name: Image.new("RGB", (8, 8)))
    assert drawn.details["compiled"] == 0
    await backend.aclose()
