"""One model of a rehearsal in a process of its own: ``python -m benchmarks.rehearse.child``.

A :class:`Job` comes on standard input as JSON. What is done goes to standard output, one JSON
object a line: ``{"doing": …}``, and at the end ``{"result": …}`` or ``{"problem": …}``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from PIL import Image

from benchmarks.rehearse.tensors import RehearsalError
from scenewright.config.profiles import Profile, SettingsError
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.backend import (
    BackendError,
    BackendFeatures,
    GenerationRequest,
    Reference,
    Start,
)
from scenewright.core.ports.judge import JudgeError
from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneGraph
from scenewright.core.validation import FrozenModel
from scenewright.runs.model_factory.profiles import backend_of, build_judge

if TYPE_CHECKING:
    import torch

SCENE = SceneGraph.model_validate(
    {
        "objects": [
            {"id": "dog", "name": "dog", "attributes": {"color": "black"}},
            {"id": "ball", "name": "ball", "attributes": {"color": "red"}},
        ],
        "relations": [{"source": "dog", "predicate": "left of", "target": "ball"}],
    }
)
PROMPT = "A black dog to the left of a red ball."
INSTRUCTION = "Keep image 1 as it is; add the red ball of image 2 to the right of the dog."


class Job(FrozenModel):
    """What a process rehearses."""

    profile: Profile
    judge: str | None = None
    """One of the profile's judges; None: its image model."""
    size: tuple[int, int]
    """(width, height) in pixels."""
    steps: int
    device: str
    dtype: str
    random: bool = True
    """Whether weights get random values in place of those in their files."""


class Shape(FrozenModel):
    """One thing that the loop asks of a model."""

    name: str
    seconds: float
    peak: int
    """Peak bytes on the device; 0: not measured."""


class RehearsedModel(FrozenModel):
    """A model that was loaded and used."""

    model: str
    """``diffusers:NAME`` or ``local:NAME``."""
    parameters: int
    """Number of weights."""
    device: str
    dtype: str
    plan: str
    """How it lies in memory, in words."""
    planned: int
    """Bytes that the memory plan expects at the peak."""
    peak: int
    """Peak bytes on the device over loading and all shapes; 0: not measured."""
    loading: float
    """Seconds that loading took."""
    shapes: tuple[Shape, ...]

    @property
    def ratio(self) -> float | None:
        """Peak over plan; None where no peak was measured."""
        return self.peak / self.planned if self.peak and self.planned else None


def shapes_of(
    features: BackendFeatures, steps: int
) -> Iterator[tuple[str, list[GenerationRequest]]]:
    """Yield the requests that the loop makes of a backend with ``features``, each with a name."""

    def asked(**more: Any) -> GenerationRequest:
        return GenerationRequest(**{"prompt": PROMPT, "seed": 1, "steps": steps} | more)

    def shown(count: int, **more: Any) -> tuple[Reference, ...]:
        names = ("reference", "picture")[:count]
        return tuple(Reference(image=name, weight=0.5, **more) for name in names)

    yield "prompt", [asked()]
    yield "two pictures together", [asked(), asked(seed=2)]
    count = min(2, features.references)
    if count:
        words = "one reference" if count == 1 else "two references"
        yield words, [asked(references=shown(count))]
    if features.masks:
        yield f"{words} with masks", [asked(references=shown(count, mask="mask"))]
    if features.instructions:
        start = Start(image="picture", strength=1.0, instruct=True)
        yield "edit by instruction", [asked(prompt=INSTRUCTION, start=start)]
        if features.edit_references:
            yield (
                "edit with a reference",
                [asked(prompt=INSTRUCTION, start=start, references=shown(1))],
            )
    if features.edit:
        start = Start(image="picture", strength=0.8, mask="mask")
        yield "region repair", [asked(start=start)]
        beside = features.start_references or features.reference_maths in ("exact", "joined")
        if count and beside:
            yield "region repair with a reference", [asked(start=start, references=shown(1))]


async def rehearse_backend(job: Job, doing: Callable[[str], None]) -> RehearsedModel:
    """Load the image model of the profile and draw every shape."""
    doing("importing libraries")
    changed = {"size": job.size, "dtype": job.dtype, "device": job.device}
    backend: Any = backend_of(job.profile.backend.model_copy(update=changed))
    features = backend.features
    try:
        plan = backend.plan
    except BackendError as error:
        raise RehearsalError(
            f"{error}; or rehearse it with a shorter part, for example "
            "--set text_encoder.num_hidden_layers=4"
        ) from error
    if not plan.fits:
        raise RehearsalError(f"{backend.id}: {plan.describe()}")
    from scenewright.tools.backends.pipeline import choose_device

    pictures = {name: _picture(name, job.size) for name in ("picture", "reference", "mask")}
    shapes = [
        (name, partial(backend.generate_many, requests, pictures.__getitem__))
        for name, requests in shapes_of(features, job.steps)
    ]
    planned = _Plan(plan.dtype, plan.describe(), plan.need)
    return await _used(job, backend, planned, choose_device(job.device), shapes, doing)


async def rehearse_judge(job: Job, doing: Callable[[str], None]) -> RehearsedModel:
    """Load a judge of the profile and ask it every fact of a scene."""
    from scenewright.config.settings import load_settings, settings_with

    assert job.judge is not None
    doing("importing libraries")
    settings = load_settings()
    settings = settings_with(job.profile, settings) or settings
    how = settings.local_judges.model_copy(update={"dtype": job.dtype})
    judge: Any = build_judge(job.judge, settings.model_copy(update={"local_judges": how}))
    from scenewright.agents.judges.vlm import device_of
    from scenewright.tools.backends.memory import free_memory, gib, usable

    device = device_of("auto")
    kept = judge.memory
    if kept.weights > usable(free := free_memory(device)):
        raise RehearsalError(
            f"{judge.id} has {kept.describe()}, and {gib(usable(free))} can be used: end other "
            "programs, or load its linear layers in 4 bit ([profiles.NAME.local_judges] "
            'quantization = "4bit")'
        )
    facts = facts_of(SCENE)
    shown = _picture("picture", job.size)

    async def ask(asked: Sequence[Fact]) -> None:
        _check_answers(judge.id, await judge.answer(shown, asked))

    shapes = [
        ("one question", partial(ask, facts[:1])),
        ("all questions of a picture", partial(ask, facts)),
    ]
    planned = _Plan(kept.dtype, kept.describe(), kept.weights)
    return await _used(job, judge, planned, device, shapes, doing)


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a model is to lie in memory."""

    dtype: str
    words: str
    bytes: int


async def _used(
    job: Job,
    model: Any,
    plan: _Plan,
    device: torch.device,
    shapes: Sequence[tuple[str, Callable[[], Awaitable[object]]]],
    doing: Callable[[str], None],
) -> RehearsedModel:
    """Load ``model``, a backend or a judge, with random weights and run ``shapes``."""
    from benchmarks.rehearse.measuring import PeakMemory
    from benchmarks.rehearse.weights import fill

    peak = PeakMemory(device)
    parameters = 0

    def change(part: torch.nn.Module) -> None:
        nonlocal parameters
        parameters += sum(one.numel() for one in part.parameters())
        if job.random:
            fill(part)

    async def timed(work: Callable[[], Awaitable[object]]) -> float:
        started = time.perf_counter()
        with peak:
            await work()
        return time.perf_counter() - started

    doing(f"loading {model.id}: {plan.words}")
    loading = await timed(lambda: model.load(change))
    done = []
    for name, work in shapes:
        doing(name)
        seconds = await timed(work)
        done.append(Shape(name=name, seconds=seconds, peak=peak.last))
    await model.aclose()
    return RehearsedModel(
        model=model.id,
        parameters=parameters,
        device=str(device),
        dtype=plan.dtype,
        plan=plan.words,
        planned=plan.bytes,
        peak=peak.highest,
        loading=loading,
        shapes=tuple(done),
    )


def _check_answers(judge: str, answers: Sequence[Answer]) -> None:
    """Raise ``RehearsalError`` if the judge failed on one.

    Random weights spread the next token over the whole vocabulary, so that an answer may be
    unscored for its small probability: it was computed all the same, and has tokens.
    """
    failed = [one for one in answers if one.state == "unscored" and not one.tokens_in]
    if failed:
        raise RehearsalError(f"{judge} failed on a question: {failed[0].reason}")


def _picture(name: str, size: tuple[int, int]) -> Image.Image:
    """Return a gradient, or of the name ``mask`` a mask whose right half is white."""
    if name == "mask":
        mask = Image.new("L", size)
        mask.paste(255, (size[0] // 2, 0, *size))
        return mask
    ramp = Image.linear_gradient("L").resize(size)
    turned = ramp.transpose(Image.Transpose.ROTATE_90).resize(size)
    channels = (ramp, turned, ramp) if name == "picture" else (turned, ramp, turned)
    return Image.merge("RGB", channels)


async def rehearse_model(job: Job, doing: Callable[[str], None]) -> RehearsedModel:
    """Rehearse the model of ``job``; raises its error."""
    work = rehearse_backend if job.judge is None else rehearse_judge
    return await work(job, doing)


def main() -> None:
    """Rehearse the job on standard input."""

    def say(**message: Any) -> None:
        print(json.dumps(message), flush=True)

    job = Job.model_validate_json(sys.stdin.read())
    try:
        found = asyncio.run(rehearse_model(job, lambda text: say(doing=text)))
    except (BackendError, JudgeError, SettingsError) as error:
        say(problem=str(error))
    except MemoryError:
        say(problem="there was not enough memory: end other programs, or use a smaller --size")
    else:
        say(result=found.model_dump(mode="json"))


if __name__ == "__main__":
    main()
