"""A loaded pipeline and everything that draws with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from PIL import Image

from scenewright.core.ports.backend import (
    BackendError,
    BackendFeatures,
    Cancelled,
    GeneratedImage,
    GenerationRequest,
    PromptCount,
)
from scenewright.tools.backends.edit import Editor
from scenewright.tools.backends.emphasis import PromptWeights
from scenewright.tools.backends.families import Family
from scenewright.tools.backends.inpaint import Inpainter, Kept, of_same_parts
from scenewright.tools.backends.long_prompts import read_in_chunks
from scenewright.tools.backends.model_folder import ModelFolder
from scenewright.tools.backends.pipeline import (
    call_options,
    quiet,
    remember_prompts,
)
from scenewright.tools.backends.prompt_length import PromptReader
from scenewright.tools.backends.reference_form import ReferenceForm

T = TypeVar("T")

PROMPTS_KEPT = 64


class Loaded:
    """One pipeline with its references, its other forms and its memory of prompts.

    Not thread-safe: adapter weights and schedulers are state of the pipeline.
    """

    def __init__(
        self,
        name: str,
        pipe: Any,
        folder: ModelFolder,
        features: BackendFeatures,
        family: Family,
        reader: PromptReader,
        *,
        references: ReferenceForm | None = None,
    ) -> None:
        """``name`` is the backend's id, for errors; ``family`` that of ``pipe``, and ``reader``
        how it reads prompts."""
        self.pipe = pipe
        self._name = name
        self._folder = folder
        self._features = features
        self._family = family
        self._reader = reader
        self._references = references
        self._inpainter: Inpainter | None = None
        self._drawing = pipe
        read_in_chunks(pipe, reader)
        self._prompts = [remember_prompts(pipe, PROMPTS_KEPT)]
        self._editor: Editor | None = None
        if family.edits is not None:
            if family.edits.drawing is not None:
                with quiet():
                    self._drawing = of_same_parts(pipe, family.edits.drawing)
                self._prompts.append(remember_prompts(self._drawing, PROMPTS_KEPT))
            self._editor = Editor(
                pipe, self._drawing, family.edits, family.latents, folder.multiple
            )
        self._weights = PromptWeights(self._drawing, family.text, reader)

    @property
    def _prompts_reused(self) -> int:
        return sum(memory.hits for memory in self._prompts)

    def _inpainting(self) -> Inpainter:
        if self._inpainter is None:
            assert self._family.image_to_image is not None
            self._inpainter = Inpainter(
                self._drawing, self._family.image_to_image, self._family.latents
            )
        return self._inpainter

    def _begin(
        self,
        request: GenerationRequest,
        load: Callable[[str], Image.Image],
        size: tuple[int, int],
        steps: int,
    ) -> tuple[Any, dict[str, Any], Kept | None]:
        """The pipeline to call, what it is called with beside the prompt, and what stays."""
        start = request.start
        if start is not None and not start.instruct:
            inpainter = self._inpainting()
            options, kept = inpainter.begin(start, load, size, steps, request.seed)
            return inpainter.pipe, options, kept
        if self._editor is not None:
            return self._editor.begin(start, request.references, load, size, request.seed)
        return self._drawing, {}, None

    def draw(
        self,
        request: GenerationRequest,
        load: Callable[[str], Image.Image],
        done: Callable[[int, int], None],
    ) -> GeneratedImage:
        """The picture of ``request``, which was checked; ``done`` is called after each step.

        Raises ``BackendError`` if it cannot be drawn, and what ``load`` and ``done`` raise.
        """
        return self.draw_together([request], load, done)[0]

    def draw_together(
        self,
        requests: Sequence[GenerationRequest],
        load: Callable[[str], Image.Image],
        done: Callable[[int, int], None],
    ) -> list[GeneratedImage]:
        """As :meth:`draw`, of requests that :mod:`batches` puts together; each picture takes its
        share of the time."""
        import torch

        request = requests[0]

        features, references, family = self._features, self._references, self._family
        reused = self._prompts_reused, references.reused if references else 0
        started = time.perf_counter()
        width, height = request.width, request.height
        if width is None or height is None:
            width, height = features.default_size
        steps = request.steps or features.default_steps
        guidance = features.default_guidance if request.guidance is None else request.guidance
        options: dict[str, Any] = {
            "prompt": _one_or_all([one.prompt for one in requests]),
            # Some pipelines have their own way of "no negative prompt", which None asks for.
            "negative_prompt": _one_or_all(
                [one.negative_prompt or family.no_negative for one in requests]
            ),
            "width": width,
            "height": height,
            "num_inference_steps": steps,
            family.guidance: guidance,
            "guidance_rescale": self._folder.defaults.guidance_rescale,
            # Noise from the CPU is the same whatever device denoises it.
            "generator": _one_or_all(
                [torch.Generator("cpu").manual_seed(one.seed) for one in requests]
            ),
            "output_type": "np",
        }
        prompts = [text for one in requests for text in (one.prompt, one.negative_prompt)]
        if (length := self._reader.length(prompts)) is not None:
            options["max_sequence_length"] = length
        with quiet(), torch.no_grad():
            missing = self._weights.use(request.prompt, request.emphasis)
            pipe, begun, kept = self._begin(request, load, (width, height), steps)
            options |= begun
            options["callback_on_step_end"] = _reporter(done, steps, kept, references)
            accepted = call_options(type(pipe).__name__)
            options = {key: value for key, value in options.items() if key in accepted}
            if references is not None:
                options |= references.options(request.references, load, guidance, (width, height))
            try:
                pixels = pipe(**options).images
            except Cancelled:
                raise
            except torch.cuda.OutOfMemoryError as error:
                torch.cuda.empty_cache()
                raise BackendError(
                    f"{self._name} ran out of memory at {width}×{height} pixels: "
                    "ask for a smaller size or use a smaller dtype"
                ) from error
            except Exception as error:
                raise BackendError(
                    f"{self._name} could not draw this ({type(error).__name__}: "
                    f"{str(error).strip()[:400]}): check steps, size and guidance"
                ) from error
            counts = [self._count(one) for one in requests]
        if not np.isfinite(pixels).all():
            raise BackendError(
                f"{self._name} computed values that are no numbers: its weights are damaged or "
                f"{pipe.dtype} is too narrow for them (try dtype='float32')"
            )
        images = [
            Image.fromarray((one * 255).round().astype(np.uint8)).convert("RGB") for one in pixels
        ]
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
        if missing:
            details["emphasis_not_found"] = "; ".join(missing)
        seconds = (time.perf_counter() - started) / len(requests)
        done_steps = int(getattr(pipe, "num_timesteps", None) or steps)
        return [
            GeneratedImage(image, seconds, count=count, steps=done_steps, details=dict(details))
            for image, count in zip(images, counts, strict=True)
        ]

    def _count(self, request: GenerationRequest) -> PromptCount:
        """How much of its prompt was read."""
        edits, start = self._family.edits, request.start
        shown = any(one.weight != 0 for one in request.references)
        pictures = shown or (start is not None and start.instruct)
        if edits is not None and edits.unbounded and pictures:
            return PromptCount(self._reader.tokens(request.prompt))
        return self._reader.count(request.prompt)


def _one_or_all(values: list[T]) -> T | list[T] | None:
    if len(values) == 1:
        return values[0]
    return None if values[0] is None else values


def _reporter(
    done: Callable[[int, int], None],
    steps: int,
    kept: Kept | None,
    references: ReferenceForm | None,
) -> Callable[..., dict[str, Any]]:
    def report(pipe: Any, step: int, timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        # Schedulers of higher order take more steps than were asked for.
        of = getattr(pipe, "num_timesteps", None) or steps
        done(step + 1, of)
        if kept is not None:
            tensors["latents"] = kept.hold(step, tensors["latents"])
        if references is not None and step + 1 < of:
            references.at((step + 1) / (of - 1))
        return tensors

    return report
