"""The two sides of the GPU benchmark: what a user's script does, and what our backend does.

Both draw the same refinement: a base picture, a reference picture of what is missing, and the
picture that both enter by Eq. 5. The script is the one the documentation of diffusers leads to
(text-to-image, then IP-Adapter with several adapters): load, call, call, load the adapter once
for each reference, set the scales, call.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from scenewright.core.ports.backend import GenerationRequest, Reference
from scenewright.tools.backends.adapter import IPAdapterSource
from scenewright.tools.backends.diffusers import DiffusersBackend
from scenewright.tools.backends.pipeline import quiet

WEIGHTS = (0.5, 0.5)
"""λ0 and λ1 of the paper."""
GUIDANCE = 5.0
NAMES = {torch.bfloat16: "bfloat16", torch.float32: "float32", torch.float16: "float16"}


@dataclass(frozen=True, slots=True)
class Job:
    """One refinement of one scene."""

    prompt: str
    missing: str
    """Prompt of the reference picture."""
    seed: int
    pixels: int
    steps: int


@dataclass(slots=True)
class Times:
    """What some refinements took, in seconds."""

    first: float
    """The first refinement, loading and compiling included."""
    later: float
    """Mean of the later ones; the pipeline stays loaded."""
    drawing: float
    """Mean of the three calls alone, of the later ones."""


@dataclass(slots=True)
class Outcome:
    """What one side took in one process."""

    wall: Times
    """On the clock."""
    cpu: Times
    """Of processor time, all threads together, which other work disturbs less."""
    peak_mib: float
    """Device memory at the peak; without a GPU, what the process grew by."""
    pictures: list[np.ndarray] = field(repr=False)
    """Three of each refinement, ``[height, width, 3]`` of bytes."""


class Clock:
    """Adds up the time spent inside of it."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def __enter__(self) -> None:
        self._begun = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter() - self._begun[0]
        self.cpu += time.process_time() - self._begun[1]


def jobs(count: int, pixels: int, steps: int) -> list[Job]:
    """``count`` refinements of different scenes."""
    return [
        Job(
            prompt=f"a photo of scene {at}: a red car left of a tall tree, a dog under the tree",
            missing=f"a photo of scene {at}: a small brown dog",
            seed=10 * at,
            pixels=pixels,
            steps=steps,
        )
        for at in range(count)
    ]


class Script:
    """What a user writes, with nothing left out and nothing clever."""

    def __init__(self, folder: Path, device: str, dtype: torch.dtype) -> None:
        """``folder`` holds ``model`` and ``adapter``."""
        from diffusers import AutoPipelineForText2Image

        self._adapter = str(folder / "adapter")
        pipe = AutoPipelineForText2Image.from_pretrained(
            folder / "model", dtype=dtype, local_files_only=True
        )
        self._pipe = pipe.to(device)
        self._pipe.set_progress_bar_config(disable=True)
        self._adapted = False

    def refine(self, job: Job) -> tuple[list[Image.Image], Clock]:
        """The three pictures and the time of the three calls."""
        if self._adapted:
            self._pipe.unload_ip_adapter()
        calls = Clock()
        base = self._draw(job, job.prompt, 0, calls)
        reference = self._draw(job, job.missing, 1, calls)
        self._pipe.load_ip_adapter(
            [self._adapter] * 2,
            subfolder=["", ""],
            weight_name=["ip.safetensors"] * 2,
            image_encoder_folder="image_encoder",
        )
        self._adapted = True
        self._pipe.set_ip_adapter_scale(list(WEIGHTS))
        better = self._draw(job, job.prompt, 2, calls, ip_adapter_image=[base, reference])
        return [base, reference, better], calls

    def _draw(self, job: Job, prompt: str, place: int, calls: Clock, **more: Any) -> Image.Image:
        with calls:
            picture: Image.Image = self._pipe(
                prompt,
                num_inference_steps=job.steps,
                guidance_scale=GUIDANCE,
                width=job.pixels,
                height=job.pixels,
                generator=torch.Generator("cpu").manual_seed(job.seed + place),
                **more,
            ).images[0]
        return picture

    def close(self) -> None:
        """Forget the pipeline."""
        del self._pipe


class Ours:
    """The backend as the loop uses it."""

    def __init__(
        self,
        folder: Path,
        device: str,
        dtype: torch.dtype,
        *,
        compiled: bool = False,
        together: bool = False,
    ) -> None:
        """``folder`` holds ``model`` and ``adapter``. ``together``: base and reference picture in
        one batch, which a caller can ask for who wants both in any case."""
        self._together = together
        self._backend = DiffusersBackend(
            str(folder / "model"),
            ip_adapter=IPAdapterSource(str(folder / "adapter"), weight_name="ip.safetensors"),
            device=device,
            dtype=NAMES[dtype],
            compile=compiled,
        )
        self._loop = asyncio.new_event_loop()

    def refine(self, job: Job) -> tuple[list[Image.Image], Clock]:
        """The three pictures and the time of the three calls."""
        drawn: dict[str, Image.Image] = {}
        calls = Clock()

        def asked(
            prompt: str, place: int, references: tuple[Reference, ...] = ()
        ) -> GenerationRequest:
            return GenerationRequest(
                prompt=prompt,
                seed=job.seed + place,
                width=job.pixels,
                height=job.pixels,
                steps=job.steps,
                guidance=GUIDANCE,
                references=references,
            )

        def draw(names: Sequence[str], *requests: GenerationRequest) -> None:
            with calls:
                found = self._loop.run_until_complete(
                    self._backend.generate_many(requests, drawn.__getitem__)
                )
            drawn.update({name: one.image for name, one in zip(names, found, strict=True)})

        # Pictures go by the hash of their content: the same name would be the same picture.
        names = (f"{job.seed}-base", f"{job.seed}-reference")
        first, second = asked(job.prompt, 0), asked(job.missing, 1)
        if self._together:
            draw(names, first, second)
        else:
            draw(names[:1], first)
            draw(names[1:], second)
        both = tuple(
            Reference(image=name, weight=weight)
            for name, weight in zip(names, WEIGHTS, strict=True)
        )
        draw(["better"], asked(job.prompt, 2, both))
        return list(drawn.values()), calls

    def close(self) -> None:
        """Frees the model."""
        self._loop.run_until_complete(self._backend.aclose())
        self._loop.close()


def measure(side: str, folder: Path, device: str, dtype: torch.dtype, work: list[Job]) -> Outcome:
    """``side`` is ``script``, ``ours``, ``together`` or ``compiled``; the first of ``work``
    loads the model.

    Raises ``ValueError`` for fewer than two pieces of ``work``.
    """
    if len(work) < 2:
        raise ValueError("one refinement tells nothing of the later ones: give two or more")
    makers: dict[str, Callable[[], Script | Ours]] = {
        "script": lambda: Script(folder, device, dtype),
        "ours": lambda: Ours(folder, device, dtype),
        "together": lambda: Ours(folder, device, dtype, together=True),
        "compiled": lambda: Ours(folder, device, dtype, compiled=True),
    }
    wholes: list[Clock] = []
    drawings: list[Clock] = []
    pictures: list[np.ndarray] = []
    with quiet(), _peak(device) as peak:
        loading = Clock()
        with loading:
            one = makers[side]()
        for job in work:
            whole = Clock()
            with whole:
                drawn, calls = one.refine(job)
            wholes.append(whole)
            drawings.append(calls)
            pictures += [np.asarray(picture) for picture in drawn]
        one.close()

    def times(clock: str) -> Times:
        whole, calls = ([getattr(one, clock) for one in all_] for all_ in (wholes, drawings))
        return Times(
            first=getattr(loading, clock) + whole[0],
            later=float(np.mean(whole[1:])),
            drawing=float(np.mean(calls[1:])),
        )

    return Outcome(times("wall"), times("cpu"), peak[0], pictures)


@contextmanager
def _peak(device: str) -> Iterator[list[float]]:
    found = [0.0]
    gc.collect()
    if torch.device(device).type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        yield found
        found[0] = torch.cuda.max_memory_allocated(device) / 2**20
    else:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        yield found
        found[0] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
