"""A loaded pipeline and everything that draws with it: checks of requests, batches, drawings."""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from PIL import Image

from scenewright.config.local_images import CacheSpec
from scenewright.core.error_text import error_text
from scenewright.core.layout import crop_around
from scenewright.core.ports.backend import (
    BackendError,
    BackendFeatures,
    Cancelled,
    GeneratedImage,
    GenerationRequest,
    LoadImage,
    PromptCount,
    Start,
    always,
)
from scenewright.tools.backends.adapter import ReferenceForm
from scenewright.tools.backends.checks import check_request
from scenewright.tools.backends.denoiser_work import DenoiserWork
from scenewright.tools.backends.editing import (
    Editor,
    Inpainter,
    picture_of,
    pipeline_of_parts,
)
from scenewright.tools.backends.families import Family
from scenewright.tools.backends.model_folder import ModelFolder
from scenewright.tools.backends.modular import layout_rows, run_pipeline
from scenewright.tools.backends.pipeline import call_options, quiet, remember_prompts
from scenewright.tools.backends.previews import Previews
from scenewright.tools.backends.prompts import (
    PromptReader,
    chunk_count,
    read_in_chunks,
)

MAX_BATCH = 4
"""Most pictures in one batch: beyond it a device that is kept busy gains nothing."""
PROMPTS_KEPT = 64
"""Encoded prompts in memory."""
Done = Callable[[int, int, bytes], None]
"""Called after each step with its number from 1, the steps in all, and a preview or nothing."""


def check_local_request(
    request: GenerationRequest, features: BackendFeatures, folder: ModelFolder, name: str
) -> None:
    """Raise ``BackendError`` if a backend of such ``features`` cannot serve ``request``.

    ``name`` is the backend's id and ``folder`` its model's.
    """
    advice = "give fewer or raise max_references"
    check_request(
        request,
        features,
        name,
        references_advice=advice if features.references else "give it an IP-Adapter",
        boxes_advice=", or give a FLUX 3 model a prompt_upsampler",
    )
    if not all(math.isfinite(reference.weight) for reference in request.references):
        raise BackendError("the weight of a reference is not a finite number: give one")
    if request.start is not None:
        _check_start(request.start, request, features, folder)
    multiple = folder.multiple
    for side, which in ((request.width, "width"), (request.height, "height")):
        if side is not None and side % multiple:
            raise BackendError(
                f"the {which} {side} is not a multiple of {multiple} pixels, which {name} "
                f"needs: use {-(-side // multiple) * multiple}"
            )


def _check_start(
    start: Start, request: GenerationRequest, features: BackendFeatures, folder: ModelFolder
) -> None:
    if start.instruct and not features.instructions:
        raise BackendError(
            f"{folder.pipeline_class} does not edit by instruction: leave 'instruct' out, "
            "or use a Flux Kontext or Qwen-Image-Edit model"
        )
    if start.crop and not features.crops:
        raise BackendError(f"{folder.pipeline_class} draws no crops: leave 'crop' out of 'start'")
    if not start.instruct and not features.edit:
        raise BackendError(
            f"{folder.pipeline_class} cannot start from a picture: leave 'start' out, "
            "or use a Stable Diffusion 1.5, SDXL, Kolors, SD3 or Flux model"
        )
    if start.instruct or features.reference_maths != "pictures":
        return
    shown = sum(one.weight != 0 for one in request.references)
    if shown and not features.start_references:
        raise BackendError(
            f"{folder.pipeline_class} sees references only where the prompt is an instruction: "
            "set 'instruct' in 'start', or leave the references out"
        )
    if shown > 1:
        raise BackendError(
            f"{folder.pipeline_class} sees one reference beside a start picture, {shown} were "
            "given: set 'instruct' in 'start', or leave the others out"
        )


def group_into_batches(
    requests: Sequence[GenerationRequest],
    features: BackendFeatures,
    family: Family,
    reader: PromptReader,
    most: int,
) -> list[list[int]]:
    """Places of ``requests`` in batches of at most ``most``, every place once.

    Requests share a batch if size, steps and guidance are equal and each is drawn from its prompt
    alone: references of different prompts would blend, start pictures are state of the pipeline.
    Only of families that fill all prompts up to one length, and only prompts of which ``reader``
    makes equally much, because filling up shorter ones would change their pictures.
    """
    found: list[list[int]] = []
    open_ones: dict[object, list[int]] = {}
    for place, request in enumerate(requests):
        alone = request.references or request.start is not None or request.boxes
        if alone or not family.text or most < 2:
            found.append([place])
            continue
        key = (
            (request.width, request.height) if request.width else features.default_size,
            request.steps or features.default_steps,
            features.default_guidance if request.guidance is None else request.guidance,
            bool(request.negative_prompt),
            chunk_count(reader, (request.prompt, request.negative_prompt)),
            reader.length((request.prompt, request.negative_prompt)),
        )
        batch = open_ones.get(key)
        if batch is None or len(batch) == most:
            batch = open_ones[key] = []
            found.append(batch)
        batch.append(place)
    return found


@dataclass(eq=False, repr=False)
class LoadedPipeline:
    """One pipeline with its references, its other forms and its memory of prompts.

    Not thread-safe: adapter weights and schedulers are state of the pipeline.
    """

    name: str
    """The backend's id, for errors."""
    pipe: Any
    folder: ModelFolder
    features: BackendFeatures
    family: Family
    reader: PromptReader
    """Reader of its prompts."""
    references: ReferenceForm | None
    cache: CacheSpec | None
    """That of its denoiser."""

    def __post_init__(self) -> None:
        """Build the other forms of the pipeline."""
        pipe, edits = self.pipe, self.family.edits
        self._drawing = pipe
        read_in_chunks(pipe, self.reader)
        self._prompts = [remember_prompts(pipe, PROMPTS_KEPT)]
        if edits is not None and edits.drawing is not None:
            with quiet():
                self._drawing = pipeline_of_parts(pipe, edits.drawing)
            self._prompts.append(remember_prompts(self._drawing, PROMPTS_KEPT))
        self._editor = (
            None
            if edits is None
            else Editor(pipe, self._drawing, edits, self.family.latents, self.folder.multiple)
        )
        self._work = DenoiserWork(pipe, self.family)

    @property
    def _prompts_reused(self) -> int:
        return sum(memory.hits for memory in self._prompts)

    @cached_property
    def _plain_step(self) -> float:
        """Pixels that the denoiser works through in a step of a plain picture."""
        features, family, pipe = self.features, self.family, self._drawing
        if family.guider:
            guided = not self.folder.distilled
        elif hasattr(type(pipe), "do_classifier_free_guidance"):
            pipe._guidance_scale = features.default_guidance
            guided = bool(pipe.do_classifier_free_guidance)
        else:
            # Without a negative prompt these do not guide.
            scale = features.default_guidance if family.no_negative else 0.0
            guided = family.guidance == "true_cfg_scale" and scale > 1
        return float(math.prod(features.default_size) * (2 if guided else 1))

    @cached_property
    def _inpainter(self) -> Inpainter:
        return Inpainter(self._drawing, self.family, self.folder.multiple)

    def draw(
        self,
        request: GenerationRequest,
        load: LoadImage,
        done: Done,
    ) -> GeneratedImage:
        """Return the picture of ``request``, which was checked; ``done`` is called after each step.

        Raises ``BackendError`` if it cannot be drawn, and what ``load`` and ``done`` raise.
        """
        return self.draw_together([request], load, done)[0]

    def draw_together(
        self,
        requests: Sequence[GenerationRequest],
        load: LoadImage,
        done: Done,
        previews: int = 0,
        watched: Callable[[], bool] = always,
    ) -> list[GeneratedImage]:
        """As :meth:`draw`, of requests that :mod:`batches` puts together.

        Each picture takes its share of the time. ``previews``: how many are given to ``done`` of a
        picture that is drawn alone, while it is ``watched``.
        """
        import torch

        request = requests[0]
        if request.start is not None and request.start.crop:
            return [self._draw_in_crop(request, request.start, load, done)]
        features, references, family = self.features, self.references, self.family
        reused = self._prompts_reused, references.reused if references else 0
        started = time.perf_counter()
        width, height = self._size_of(request)
        steps = request.steps or features.default_steps
        guidance = features.default_guidance if request.guidance is None else request.guidance
        columns: dict[str, list[Any]] = {
            "prompt": [one.prompt for one in requests],
            # Some pipelines have their own way of "no negative prompt", which None asks for.
            "negative_prompt": [one.negative_prompt or family.no_negative for one in requests],
            # Noise from the CPU is the same whatever device denoises it.
            "generator": [torch.Generator("cpu").manual_seed(one.seed) for one in requests],
        }
        single = len(requests) == 1
        options: dict[str, Any] = {
            **{
                name: values[0] if single or values[0] is None else values
                for name, values in columns.items()
            },
            "width": width,
            "height": height,
            "num_inference_steps": steps,
            family.guidance: guidance,
            "guidance_rescale": self.folder.defaults.guidance_rescale,
            "output_type": "np",
            **family.options,
        }
        prompts = [text for one in requests for text in (one.prompt, one.negative_prompt)]
        if (length := self.reader.length(prompts)) is not None:
            options["max_sequence_length"] = length
        with quiet(), torch.no_grad():
            start, shown = request.start, request.references
            pipe, kept, size = self._drawing, None, (width, height)
            if start is not None and not start.instruct:
                pipe = self._inpainter.pipe
                begun, kept = self._inpainter.begin(start, load, size, steps, request.seed, shown)
                options |= begun
            elif self._editor is not None:
                pipe, begun, kept = self._editor.begin(start, shown, load, size, request.seed)
                options |= begun
            plain = self._plain_step
            pictures = Previews(previews if single else 0, family.latents, size, watched)

            def report(
                pipe: Any, step: int, timestep: Any, tensors: dict[str, Any]
            ) -> dict[str, Any]:
                # Schedulers of higher order take more steps than were asked for.
                of = getattr(pipe, "num_timesteps", None) or steps
                if kept is not None:
                    tensors["latents"] = kept.hold(step, tensors["latents"])
                latents = tensors.get("latents")
                preview = b"" if latents is None else pictures.after(pipe, step + 1, of, latents)
                done(step + 1, of, preview)
                return tensors

            options["callback_on_step_end"] = report
            accepted = call_options(type(pipe).__name__)
            options = {key: value for key, value in options.items() if key in accepted}
            if references is not None:
                options |= references.options(shown, load, guidance, size)
            if request.boxes:
                options["boxes"] = layout_rows(request.boxes, edited="image" in options)
            if family.guider and not self.folder.distilled and pipe.guider is not None:
                pipe.guider = pipe.guider.new(guidance_scale=guidance)
            if self.cache is not None:
                from scenewright.tools.backends.placing import fit_cache

                continued = start is not None and not start.instruct
                fit_cache(pipe, self.cache, steps, continued)
            try:
                with (
                    self._work.counted(),
                    _report_steps(pipe, None if "callback_on_step_end" in accepted else report),
                ):
                    pixels, written = run_pipeline(pipe, options)
            except Cancelled:
                raise
            except torch.cuda.OutOfMemoryError as error:
                torch.cuda.empty_cache()
                raise BackendError(
                    f"{self.name} ran out of memory at {width}×{height} pixels: "
                    "ask for a smaller size or use a smaller dtype"
                ) from error
            except Exception as error:
                raise BackendError(
                    f"{self.name} could not draw this ({error_text(error)}): "
                    "check steps, size and guidance"
                ) from error
            counts = [count_read_tokens(one, family, self.reader) for one in requests]
        if not np.isfinite(pixels).all():
            raise BackendError(
                f"{self.name} computed values that are not numbers: its weights are damaged or "
                f"{pipe.dtype} is too narrow for them (try dtype='float32')"
            )
        images = [_picture(one, size) for one in pixels]
        if kept is not None:
            images = [kept.put_back(image) for image in images]
        details: dict[str, str | int | float] = {
            "device": str(pipe.device),
            "dtype": str(pipe.dtype).removeprefix("torch."),
            "scheduler": type(pipe.scheduler).__name__,
            "drawn_together": len(requests),
            "prompts_reused": self._prompts_reused - reused[0],
            "references_reused": (references.reused if references else 0) - reused[1],
        }
        seconds = (time.perf_counter() - started) / len(requests)
        done_steps = int(getattr(pipe, "num_timesteps", None) or steps)
        work = self._work.pixels / plain / len(requests)
        return [
            GeneratedImage(
                image,
                seconds,
                prompt=written,
                count=count,
                steps=done_steps,
                work=work,
                details=dict(details),
            )
            for image, count in zip(images, counts, strict=True)
        ]

    def _draw_in_crop(
        self,
        request: GenerationRequest,
        start: Start,
        load: LoadImage,
        done: Done,
    ) -> GeneratedImage:
        """Draw the surroundings of what may change alone, and put them back into the picture."""
        size = self._size_of(request)
        within = start.model_copy(update={"crop": False})
        mask = None if start.mask is None else load(start.mask).convert("L").resize(size)
        usual = self.features.default_size
        box = None if mask is None else crop_around(mask, self.folder.multiple, usual)
        if box is None:
            return self.draw(request.model_copy(update={"start": within}), load, done)
        left, top, right, bottom = box
        # The memory of encoded references goes by name: a part of a picture has one of its own.
        part = f"@{','.join(map(str, box))}"

        def named(image: str | None) -> str | None:
            return image and image + part

        def load_part(image: str) -> Image.Image:
            return load(image.removesuffix(part)).resize(size).crop(box)

        inside = {"image": named(start.image), "mask": named(start.mask)}
        drawn = self.draw(
            request.model_copy(
                update={
                    "width": right - left,
                    "height": bottom - top,
                    "start": within.model_copy(update=inside),
                    "references": tuple(
                        one.model_copy(update={"image": named(one.image), "mask": named(one.mask)})
                        for one in request.references
                    ),
                }
            ),
            load_part,
            done,
        )
        whole = picture_of(start.image, load, size).copy()
        whole.paste(drawn.image, (left, top))
        crop = f"{right - left}x{bottom - top}"
        return replace(drawn, image=whole, details=drawn.details | {"crop": crop})

    def _size_of(self, request: GenerationRequest) -> tuple[int, int]:
        """Return the (width, height) of ``request`` in pixels."""
        if request.width is None or request.height is None:
            return self.features.default_size
        return request.width, request.height


def count_read_tokens(
    request: GenerationRequest, family: Family, reader: PromptReader
) -> PromptCount:
    """Return how much of its prompt a model of ``family`` reads."""
    if has_unlimited_prompt(request, family):
        return PromptCount(reader.tokens(request.prompt))
    return reader.count(request.prompt)


def has_unlimited_prompt(request: GenerationRequest, family: Family) -> bool:
    """Return whether a model of ``family`` reads the prompt of any length."""
    edits, start = family.edits, request.start
    shown = any(one.weight != 0 for one in request.references)
    pictures = shown or (start is not None and start.instruct)
    return edits is not None and edits.unbounded and pictures


def _picture(pixels: np.ndarray, size: tuple[int, int]) -> Image.Image:
    """Return ``pixels`` (height, width, channels in 0 to 1) in RGB at ``size``, over white."""
    image = Image.fromarray((pixels * 255).round().astype(np.uint8))
    if image.mode == "RGBA":
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    image = image.convert("RGB")
    # Some pipelines draw at a size of their own.
    return image if image.size == size else image.resize(size, Image.Resampling.LANCZOS)


@contextlib.contextmanager
def _report_steps(pipe: Any, report: Callable[..., dict[str, Any]] | None) -> Iterator[None]:
    """Inside, call ``report`` after each step of the scheduler, for pipelines that do not."""
    if report is None:
        yield
        return
    scheduler, taken = pipe.scheduler, itertools.count()
    plain = scheduler.step

    def step(*args: Any, **kwargs: Any) -> Any:
        first, *rest = plain(*args, **kwargs | {"return_dict": False})
        return (report(pipe, next(taken), None, {"latents": first})["latents"], *rest)

    scheduler.step = step
    try:
        yield
    finally:
        del scheduler.step
