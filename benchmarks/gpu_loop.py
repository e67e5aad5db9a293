"""A two-round refinement with our backend against the script a user writes from the docs.

``python -m benchmarks.gpu_loop [--quick]``. On a GPU: SDXL and its IP-Adapter in their real sizes
with random weights, 1024×1024 pixels, 30 steps, bfloat16. Without one, the same with a small
pipeline of the same classes. Each side runs in processes of its own, in turn, at equal steps,
seeds and guidance; the pictures are compared.

``speedup`` is that of one refinement from the model's folder to the last picture, libraries
imported; ``speedup_next`` that of the refinements after it, while both sides keep what they have
loaded; ``speedup_drawing`` that of the three calls alone. ``*_cpu`` are the same in processor
time, which other work on the machine disturbs less (of little use with a GPU). ``*_together`` are
those with base and reference picture in one batch, ``*_compiled`` those of compiled blocks, whose
first refinement includes the compiling. ``max_abs_diff`` is the largest difference of a pixel, of
255, and ``mean_abs_diff`` the mean one.

Both draw the same refinement: a base picture, a reference picture of what is missing, and the
picture that both enter by Eq. 5. The script is the one the documentation of diffusers leads to
(text-to-image, then IP-Adapter with several adapters): load, call, call, load the adapter once
for each reference, set the scales, call.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
from argparse import BooleanOptionalAction, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from benchmarks._gpu_models import FULL, SMALL, Sizes, build
from benchmarks._harness import Clock, Option, benchmark, folder, interval, work_folder
from benchmarks._mock import apart
from scenewright.config.local_images import AdapterSpec
from scenewright.core.ports.backend import GenerationRequest, Reference
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
    guidance: float = GUIDANCE
    seeds: tuple[int, int, int] | None = None
    """Of the three pictures; none: ``seed`` and the two after it."""


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


def jobs(count: int, pixels: int, steps: int) -> list[Job]:
    """Return ``count`` refinements of different scenes."""
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

    def __init__(
        self,
        model: Path,
        device: str,
        dtype: torch.dtype,
        *,
        adapter: Path,
        weights: str = "ip.safetensors",
    ) -> None:
        """Load ``model``; ``adapter`` is the folder of the IP-Adapter's ``weights``."""
        from diffusers import AutoPipelineForText2Image

        self._adapter, self._weights = str(adapter), weights
        pipe = AutoPipelineForText2Image.from_pretrained(model, dtype=dtype, local_files_only=True)
        self._pipe = pipe.to(device)
        self._pipe.set_progress_bar_config(disable=True)
        self._adapted = False

    def refine(self, job: Job) -> tuple[list[Image.Image], Clock]:
        """Return the three pictures and the time of the three calls."""
        if self._adapted:
            self._pipe.unload_ip_adapter()
        calls = Clock()
        base = self._draw(job, job.prompt, 0, calls)
        reference = self._draw(job, job.missing, 1, calls)
        self._pipe.load_ip_adapter(
            [self._adapter] * 2,
            subfolder=["", ""],
            weight_name=[self._weights] * 2,
            image_encoder_folder="image_encoder",
        )
        self._adapted = True
        self._pipe.set_ip_adapter_scale(list(WEIGHTS))
        better = self._draw(job, job.prompt, 2, calls, ip_adapter_image=[base, reference])
        return [base, reference, better], calls

    def _draw(self, job: Job, prompt: str, place: int, calls: Clock, **more: Any) -> Image.Image:
        seeds = job.seeds or tuple(job.seed + after for after in range(3))
        with calls:
            picture: Image.Image = self._pipe(
                prompt,
                num_inference_steps=job.steps,
                guidance_scale=job.guidance,
                width=job.pixels,
                height=job.pixels,
                generator=torch.Generator("cpu").manual_seed(seeds[place]),
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
        """Load ``model`` and ``adapter`` from ``folder``.

        ``together``: draw base and reference picture in one batch.
        """
        self._together = together
        self._backend = DiffusersBackend(
            str(folder / "model"),
            ip_adapter=AdapterSpec(
                repository=str(folder / "adapter"), weight_name="ip.safetensors"
            ),
            device=device,
            dtype=NAMES[dtype],
            compile=compiled,
        )
        self._loop = asyncio.new_event_loop()

    def refine(self, job: Job) -> tuple[list[Image.Image], Clock]:
        """Return the three pictures and the time of the three calls."""
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
        """Free the model."""
        self._loop.run_until_complete(self._backend.aclose())
        self._loop.close()


def _script(folder: Path, device: str, dtype: torch.dtype) -> Script:
    return Script(folder / "model", device, dtype, adapter=folder / "adapter")


def measure(side: str, folder: Path, device: str, dtype: torch.dtype, work: list[Job]) -> Outcome:
    """Return what ``work`` takes one side: ``script``, ``ours``, ``together`` or ``compiled``.

    The first of ``work`` loads the model.

    Raises ``ValueError`` for fewer than two pieces of ``work``.
    """
    if len(work) < 2:
        raise ValueError("one refinement tells nothing of the later ones: give two or more")
    makers: dict[str, Callable[..., Script | Ours]] = {
        "script": _script,
        "ours": Ours,
        "together": partial(Ours, together=True),
        "compiled": partial(Ours, compiled=True),
    }
    loading = Clock()
    wholes: list[Clock] = []
    drawings: list[Clock] = []
    pictures: list[np.ndarray] = []
    with quiet(), _peak(device) as peak:
        with loading:
            one = makers[side](folder, device, dtype)
        for job in work:
            wholes.append(Clock())
            with wholes[-1]:
                drawn, calls = one.refine(job)
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


REPEATS = 5
LATER = 2
"""Refinements after the first one in each process."""
QUICK = replace(SMALL, pixels=128, steps=4)
LIMIT = 8.0
"""Mean difference, of 255, from which on the pictures are not the same ones."""

SUFFIXES = {"ours": "", "together": "_together", "compiled": "_compiled"}
"""How the figures of our sides end."""

Runner = Callable[..., Outcome]


def in_process(side: str, folder: Path, device: str, *given: Any) -> Outcome:
    """Return ``measure`` in a process that has imported everything before the clock runs."""
    # One thread on a CPU: the ratio then depends less on what else runs there.
    threads = 1 if device == "cpu" else torch.get_num_threads()
    return apart(
        measure, side, folder, device, *given, prepare=partial(torch.set_num_threads, threads)
    )


def compare(
    sizes: Sizes,
    device: str,
    dtype: torch.dtype,
    *,
    repeats: int,
    compiled: bool,
    folder: Path,
    run: Runner = in_process,
) -> dict[str, Any]:
    """Return all figures; the models are built in ``folder``.

    Raises ``RuntimeError`` if the sides do not draw the same pictures.
    """
    build(folder, sizes, device, dtype)
    work = jobs(1 + LATER, sizes.pixels, sizes.steps)
    sides = ["script", "ours", "together", *(["compiled"] if compiled else [])]
    outcomes: list[dict[str, Outcome]] = []
    for repeat in range(repeats):
        # Each side begins as often.
        order = sides[repeat % len(sides) :] + sides[: repeat % len(sides)]
        outcomes.append({side: run(side, folder, device, dtype, work) for side in order})
        print(f"repeat {repeat + 1} of {repeats}", file=sys.stderr, flush=True)
    return figures(outcomes)


def figures(outcomes: Sequence[Mapping[str, Outcome]]) -> dict[str, Any]:
    """Return the figures of repeats, each of which has an outcome of each side.

    Raises ``RuntimeError`` if the sides did not draw the same pictures.
    """
    found: dict[str, Any] = {}
    for side, suffix in SUFFIXES.items():
        pairs = [(one["script"], one[side]) for one in outcomes if side in one]
        if not pairs:
            continue
        for clock, kind in (("wall", ""), ("cpu", "_cpu")):
            for name, reading in READINGS.items():
                taken = [[getattr(getattr(o, clock), reading) for o in pair] for pair in pairs]
                found[f"{name}{kind}{suffix}"] = interval([a / b for a, b in taken])
        most, means = zip(*(_apart(*pair) for pair in pairs), strict=True)
        found[f"max_abs_diff{suffix}"] = max(most)
        found[f"mean_abs_diff{suffix}"] = mean = max(means)
        found[f"peak_mib{suffix}"] = max(ours.peak_mib for _, ours in pairs)
        if not mean <= LIMIT:
            raise RuntimeError(
                f"the pictures of script and {side} differ by {mean:.1f} of 255 in the mean: "
                "times of different pictures cannot be compared"
            )
    found["script_peak_mib"] = max(one["script"].peak_mib for one in outcomes)
    for side in ("script", *SUFFIXES):
        if runs := [one[side].wall for one in outcomes if side in one]:
            found[f"{side}_first_seconds"] = interval([wall.first for wall in runs])
            found[f"{side}_next_seconds"] = interval([wall.later for wall in runs])
    return found


READINGS = {"speedup": "first", "speedup_next": "later", "speedup_drawing": "drawing"}
"""Figure → the field of :class:`Times` that is compared."""


def _apart(one: Outcome, other: Outcome) -> tuple[int, float]:
    """Return largest and mean difference of the pictures' bytes."""
    differences = [
        np.abs(a.astype(int) - b.astype(int))
        for a, b in zip(one.pictures, other.pictures, strict=True)
    ]
    return int(max(d.max() for d in differences)), float(np.mean([d.mean() for d in differences]))


@benchmark(
    "small, once",
    repeats=Option(REPEATS, "repeats", least=1),
    compile=Option(
        None,
        "measure compiled blocks too (default: on a GPU)",
        more={"action": BooleanOptionalAction},
    ),
    folder=folder("for the models: 14 GB in full, kept"),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Compare the sides."""
    gpu = torch.cuda.is_available() and not options.quick
    repeats = 1 if options.quick else options.repeats
    with work_folder(options) as temporary:
        found = compare(
            QUICK if options.quick else FULL if gpu else SMALL,
            "cuda" if gpu else "cpu",
            torch.bfloat16 if gpu else torch.float32,
            repeats=repeats,
            compiled=gpu if options.compile is None else options.compile,
            folder=options.folder or temporary,
        )
    return repeats, found


if __name__ == "__main__":
    main()
