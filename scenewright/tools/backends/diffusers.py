"""Draws with any diffusers text-to-image pipeline, with or without an IP-Adapter."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import json
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from PIL import Image

from scenewright.tools.backends.adapter import AdapterFolder, IPAdapterSource
from scenewright.tools.backends.base import (
    BackendError,
    BackendFeatures,
    Cancelled,
    GeneratedImage,
    GenerationRequest,
    GenerationStep,
)
from scenewright.tools.backends.inpaint import Inpainter, Kept, image_to_image_class
from scenewright.tools.backends.model_folder import ModelFolder, find
from scenewright.tools.backends.pipeline import (
    Dtype,
    Recent,
    build,
    call_options,
    choose_device,
    choose_dtype,
    quiet,
    remember_prompts,
    tokens_dropped,
)
from scenewright.tools.backends.references import References

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

PROMPTS_KEPT = 64


class DiffusersBackend:
    """One pipeline and the one thread that uses it.

    The thread is the line in which requests wait: adapter weights and schedulers are
    state of the pipeline, so nothing else may touch it. The model is loaded at the first
    request, or by :meth:`load`.
    """

    def __init__(
        self,
        model: str,
        *,
        name: str | None = None,
        ip_adapter: IPAdapterSource | None = None,
        max_references: int = 2,
        device: str = "auto",
        dtype: Dtype = "auto",
        default_steps: int | None = None,
        default_guidance: float | None = None,
        default_size: tuple[int, int] | None = None,
        scheduler: str | None = None,
        variant: str | None = None,
    ) -> None:
        """``model`` is a folder in the diffusers layout or a hub id.

        ``name`` is what the id shows (default: the model's last part). ``max_references``
        bounds the references of a request, if an ``ip_adapter`` is given. The defaults
        (steps, guidance scale, (width, height) in pixels) go before those in the model's
        ``scenewright.json`` and those of its pipeline class. ``scheduler`` names a
        diffusers class; ``variant`` a weights variant such as ``"fp16"``.
        """
        if max_references < 1:
            raise BackendError(f"max_references is {max_references}: it must be at least 1")
        self._model = model
        self._name = name or Path(model).name or model
        self._source = ip_adapter
        self._max_references = max_references
        self._device_name = device
        self._dtype_name = dtype
        self._steps, self._guidance, self._size = default_steps, default_guidance, default_size
        self._scheduler = scheduler
        self._variant = variant
        self._closed = False
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=f"diffusers-{self._name}")
        self._pipe: Any = None
        self._references: References | None = None
        self._inpainter: Inpainter | None = None
        self._prompts: Recent[Any] = Recent(1)

    @property
    def id(self) -> str:
        """``diffusers:<name>``."""
        return f"diffusers:{self._name}"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the model's and the adapter's files, versions, device, dtype and defaults.

        The first reading hashes the files (about a second a gigabyte outside a hub cache).
        """
        features, device = self.features, self._device
        parts = {
            "model": self._folder.digest(),
            "adapter": self._adapter.digest() if self._adapter else None,
            "versions": {name: version(name) for name in ("torch", "diffusers", "transformers")},
            "device": device.type,
            "dtype": str(choose_dtype(self._dtype_name, device)),
            "scheduler": self._scheduler,
            "variant": self._variant,
            "steps": features.default_steps,
            "guidance": features.default_guidance,
            "size": features.default_size,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @cached_property
    def features(self) -> BackendFeatures:
        """What it can do, read from the model's folder; the weights are not loaded for it."""
        folder = self._folder
        with quiet():
            options = call_options(folder.pipeline_class)
        references = self._max_references if self._adapter else 0
        defaults = folder.defaults
        steps = self._steps or defaults.steps or options.get("num_inference_steps") or 50
        guidance = self._guidance if self._guidance is not None else defaults.guidance
        if guidance is None:
            guidance = options.get("guidance_scale") or 0.0
        return BackendFeatures(
            references=references,
            reference_maths="exact" if references else "none",
            masks=bool(references),
            edit=self._image_to_image is not None,
            negative_prompt="negative_prompt" in options,
            seeds=True,
            sizes=None,
            default_size=self._size or defaults.size or folder.native_size,
            default_steps=int(steps),
            default_guidance=float(guidance),
        )

    @cached_property
    def _folder(self) -> ModelFolder:
        with quiet():
            return ModelFolder.open(find(self._model, self._variant))

    @cached_property
    def _image_to_image(self) -> str | None:
        return image_to_image_class(self._folder.pipeline_class, self._folder.parts)

    @cached_property
    def _adapter(self) -> AdapterFolder | None:
        if self._source is None:
            return None
        if "unet" not in self._folder.parts:
            raise BackendError(
                f"{self._folder.pipeline_class} has no UNet, and references are exact only there: "
                "leave 'ip_adapter' out, or use a Stable Diffusion 1.5, SDXL or Kolors model"
            )
        return AdapterFolder.open(self._source)

    @cached_property
    def _device(self) -> torch.device:
        return choose_device(self._device_name)

    async def load(self) -> None:
        """Loads the model now and takes its fingerprint. Raises ``BackendError`` if it cannot."""

        def prepare(stop: threading.Event) -> str:
            self._loaded()
            return self.fingerprint

        await self._in_line(prepare)

    async def generate(
        self,
        request: GenerationRequest,
        load: Callable[[str], Image.Image],
        on_step: Callable[[GenerationStep], None] | None = None,
    ) -> GeneratedImage:
        """Draws ``request``; waits in line if another one is being drawn.

        ``load`` gives the image of a content hash and is called from the backend's thread;
        ``on_step`` is called on the event loop after each denoising step. Raises
        ``BackendError`` for what cannot be served. Cancelling the awaiting task stops after
        the current step, and returns when the pipeline is free again.
        """
        loop = asyncio.get_running_loop()

        def draw(stop: threading.Event) -> GeneratedImage:
            def done(step: int, of: int) -> None:
                if stop.is_set():
                    raise Cancelled(f"{self.id} was stopped after step {step} of {of}")
                if on_step is not None:
                    try:
                        loop.call_soon_threadsafe(on_step, GenerationStep(step, of))
                    except RuntimeError:
                        # The loop is closed: nobody waits for this picture any more.
                        raise Cancelled(f"{self.id} was stopped: its event loop ended") from None

            self._check(request)
            return self._draw(request, load, done)

        return await self._in_line(draw)

    async def aclose(self) -> None:
        """Waits for the request being drawn, frees the model and ends the thread."""
        if self._closed:
            return
        self._closed = True
        freed = self._worker.submit(self._free)
        self._worker.shutdown(wait=False)
        await asyncio.wrap_future(freed)

    def _free(self) -> None:
        self._pipe = self._references = self._inpainter = None
        self._prompts = Recent(1)
        gc.collect()
        if "_device" in self.__dict__ and self._device.type == "cuda":
            import torch

            torch.cuda.empty_cache()

    async def _in_line(self, job: Callable[[threading.Event], T]) -> T:
        """Runs ``job`` in the pipeline's thread after those before it.

        On cancellation the job is dropped from the line, or told to stop and waited for.
        """
        if self._closed:
            raise BackendError(f"{self.id} was closed: make a new one")
        stop = threading.Event()
        running = self._worker.submit(job, stop)
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            stop.set()
            if not running.cancel():
                with contextlib.suppress(Exception):
                    await asyncio.shield(asyncio.wrap_future(running))
            raise

    def _check(self, request: GenerationRequest) -> None:
        features, multiple = self.features, self._folder.multiple
        count = len(request.references)
        if count and not features.references:
            raise BackendError(
                f"{self.id} takes no references: give it an IP-Adapter or leave them out"
            )
        if count > features.references:
            raise BackendError(
                f"{count} references were given, {self.id} takes at most {features.references}: "
                "give fewer or raise max_references"
            )
        if not all(math.isfinite(reference.weight) for reference in request.references):
            raise BackendError("the weight of a reference is not a finite number: give one")
        if request.start is not None and not features.edit:
            raise BackendError(
                f"{self._folder.pipeline_class} cannot start from a picture: leave 'start' out, "
                "or use a Stable Diffusion 1.5, SDXL or Kolors model"
            )
        width, height = request.width, request.height
        if (width is None) != (height is None):
            raise BackendError("only one of width and height is given: give both or none")
        for side, which in ((width, "width"), (height, "height")):
            if side is not None and side % multiple:
                raise BackendError(
                    f"the {which} {side} is no multiple of {multiple} pixels, which {self.id} "
                    f"needs: use {-(-side // multiple) * multiple}"
                )

    def _loaded(self) -> Any:
        if self._pipe is None:
            with quiet():
                device = self._device
                dtype = choose_dtype(self._dtype_name, device)
                adapter = self._adapter
                pipe = build(
                    self._folder, device, dtype, scheduler=self._scheduler, variant=self._variant
                )
                if adapter is not None:
                    self._references = References(pipe, adapter)
            self._prompts = remember_prompts(pipe, PROMPTS_KEPT)
            self._pipe = pipe
        return self._pipe

    def _inpainting(self, pipe: Any) -> Inpainter:
        if self._inpainter is None:
            assert self._image_to_image is not None
            self._inpainter = Inpainter(pipe, self._image_to_image)
        return self._inpainter

    def _draw(
        self,
        request: GenerationRequest,
        load: Callable[[str], Image.Image],
        done: Callable[[int, int], None],
    ) -> GeneratedImage:
        import torch

        pipe, features = self._loaded(), self.features
        references = self._references
        reused = self._prompts.hits, references.reused if references else 0
        started = time.perf_counter()
        width, height = request.width, request.height
        if width is None or height is None:
            width, height = features.default_size
        steps = request.steps or features.default_steps
        guidance = features.default_guidance if request.guidance is None else request.guidance
        options: dict[str, Any] = {
            "prompt": request.prompt,
            # Some pipelines have their own way of "no negative prompt", which None asks for.
            "negative_prompt": request.negative_prompt or None,
            "width": width,
            "height": height,
            "num_inference_steps": steps,
            "guidance_scale": guidance,
            "guidance_rescale": self._folder.defaults.guidance_rescale,
            # Noise from the CPU is the same whatever device denoises it.
            "generator": torch.Generator("cpu").manual_seed(request.seed),
            "output_type": "np",
        }
        kept: Kept | None = None
        with quiet(), torch.no_grad():
            if request.start is not None:
                inpainter = self._inpainting(pipe)
                pipe = inpainter.pipe
                begun, kept = inpainter.begin(
                    request.start, load, (width, height), steps, request.seed
                )
                options |= begun
            options["callback_on_step_end"] = _reporter(done, steps, kept)
            accepted = call_options(type(pipe).__name__)
            options = {key: value for key, value in options.items() if key in accepted}
            if references is not None:
                options |= references.options(request.references, load, guidance, (width, height))
            try:
                pixels = pipe(**options).images[0]
            except Cancelled:
                raise
            except torch.cuda.OutOfMemoryError as error:
                torch.cuda.empty_cache()
                raise BackendError(
                    f"{self.id} ran out of memory at {width}×{height} pixels: "
                    "ask for a smaller size or use a smaller dtype"
                ) from error
            except Exception as error:
                raise BackendError(
                    f"{self.id} could not draw this ({type(error).__name__}: "
                    f"{str(error).strip()[:400]}): check steps, size and guidance"
                ) from error
            dropped = tokens_dropped(pipe, request.prompt)
        if not np.isfinite(pixels).all():
            raise BackendError(
                f"{self.id} computed values that are no numbers: its weights are damaged or "
                f"{pipe.dtype} is too narrow for them (try dtype='float32')"
            )
        image = Image.fromarray((pixels * 255).round().astype(np.uint8)).convert("RGB")
        if kept is not None:
            image = kept.put_back(image)
        return GeneratedImage(
            image,
            seconds=time.perf_counter() - started,
            details={
                "device": str(pipe.device),
                "dtype": str(pipe.dtype).removeprefix("torch."),
                "scheduler": type(pipe.scheduler).__name__,
                "steps": steps,
                "prompt_tokens_dropped": dropped,
                "prompts_reused": self._prompts.hits - reused[0],
                "references_reused": (references.reused if references else 0) - reused[1],
            },
        )


def _reporter(
    done: Callable[[int, int], None], steps: int, kept: Kept | None
) -> Callable[..., dict[str, Any]]:
    def report(pipe: Any, step: int, timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        # Schedulers of higher order take more steps than were asked for.
        done(step + 1, getattr(pipe, "num_timesteps", None) or steps)
        if kept is not None:
            tensors["latents"] = kept.hold(step, tensors["latents"])
        return tensors

    return report
