"""Draws with any diffusers text-to-image or image-edit pipeline; see ``docs/local-models.md``."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from scenewright.config.local_images import AdapterSpec, CacheSpec, LoraSpec, QuantizationSpec
from scenewright.core.ports.backend import (
    BackendError,
    BackendFeatures,
    Cancelled,
    GeneratedImage,
    GenerationRequest,
    GenerationStep,
    LoadImage,
    OnStep,
    PromptCount,
    watched_by,
)
from scenewright.providers.device_gate import LOADING, DeviceGate, Stop, gate_of, limit_threads
from scenewright.providers.hub.needs import UPSAMPLER, replaced_parts
from scenewright.providers.hub.single_file import is_file
from scenewright.tools.backends.adapter import AdapterFolder
from scenewright.tools.backends.families import Family, FewStepLora, family_of
from scenewright.tools.backends.loaded import (
    MAX_BATCH,
    LoadedPipeline,
    check_local_request,
    count_read_tokens,
    group_into_batches,
    has_unlimited_prompt,
)
from scenewright.tools.backends.lora import Lora, Triggers, load_loras, open_loras
from scenewright.tools.backends.memory import (
    MemoryPlan,
    Needs,
    OffloadChoice,
    dtypes_for,
    free_memory,
    needs_of,
    plan_memory,
)
from scenewright.tools.backends.model_folder import (
    ModelFolder,
    content_files,
    digest_files,
    find,
)
from scenewright.tools.backends.pipeline import (
    Dtype,
    build,
    call_options,
    check_parts,
    choose_device,
    choose_dtype,
    quiet,
)
from scenewright.tools.backends.prompts import PromptReader, prompt_reader_of
from scenewright.tools.backends.quantization import Quantized
from scenewright.tools.backends.single_file import load_parts, open_file
from scenewright.tools.backends.transformer_references import references_of

if TYPE_CHECKING:
    import torch

T = TypeVar("T")


@dataclass(eq=False, repr=False)
class DiffusersBackend:
    """One pipeline and the one thread that uses it.

    The thread is the line in which requests wait: adapter weights and schedulers are
    state of the pipeline, so nothing else may touch it. Each batch waits for the turn of its
    device as well, if that is an accelerator. The model is loaded at the first request, or by
    :meth:`load`.
    """

    model: str
    """A folder in the diffusers layout, a hub id, or a file with weights."""
    _: KW_ONLY
    name: str | None = None
    """Shown in the id (default: the model's last part)."""
    ip_adapter: AdapterSpec | None = None
    """Adapter for references."""
    max_references: int = 2
    """Most references of a request, where there are any: with an ``ip_adapter``, or of an edit
    model that takes several pictures."""
    device: str = "auto"
    dtype: Dtype = "auto"
    default_steps: int | None = None
    """Steps that go before those of the model's ``scenewright.json`` and its pipeline class."""
    default_guidance: float | None = None
    """The same of the guidance scale."""
    default_size: tuple[int, int] | None = None
    """The same of (width, height) in pixels."""
    scheduler: str | None = None
    """A class of diffusers."""
    variant: str | None = None
    """A variant of the weights such as ``"fp16"``."""
    offload: OffloadChoice = "auto"
    """Precedes the choice of :attr:`plan`."""
    compile: bool = False
    """Whether the denoiser's repeated blocks are compiled."""
    slicing: bool | None = None
    """Precedes the choice of :attr:`plan`."""
    cache: CacheSpec | None = None
    """Lets the denoiser reuse computations between steps."""
    partial_images: int = 0
    """Previews that the steps of a picture carry."""
    loras: Sequence[LoraSpec] = ()
    """They change the weights, and add their trigger words to every prompt."""
    quantization: QuantizationSpec | None = None
    """Stores weights in few bits."""
    prompt_upsampler: str | None = None
    """A folder or hub id of a model that writes each prompt in full first."""
    base_model: str | None = None
    """A folder or hub id that has what a file lacks."""

    def __post_init__(self) -> None:
        """Check the bound on references; no file is read."""
        if self.max_references < 1:
            raise BackendError(f"max_references is {self.max_references}: it must be at least 1")
        place = Path(self.model)
        stem = place.stem if is_file(self.model) else place.name
        self._name = self.name or stem or self.model
        self._closed = False
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=f"diffusers-{self._name}")
        self._ready: LoadedPipeline | None = None
        self._tried = False
        self._compiled = False

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
        parts: dict[str, Any] = {
            "model": self._folder.digest(),
            "adapter": self._adapter.digest() if self._adapter else None,
            "versions": {name: version(name) for name in ("torch", "diffusers", "transformers")},
            "device": device.type,
            "dtype": f"torch.{self.plan.dtype}",
            "scheduler": self._scheduler[0],
            "variant": self.variant,
            "steps": features.default_steps,
            "guidance": features.default_guidance,
            "size": features.default_size,
        }
        optional = {
            # Tiles and compiled blocks round differently; a plain placement changes no name.
            "slicing": self.plan.slicing,
            "compile": self.compile,
            "cache": self.cache and self.cache.model_dump(),
            "scheduler_options": dict(self._scheduler[1]),
            "loras": [lora.identity() for lora in self._loras],
            "quantization": self._quantized and self._quantized.identity(),
            "inpaint": self._family.inpaint,
        }
        parts |= {name: value for name, value in optional.items() if value}
        if (upsampler := self._folder.upsampler) is not None:
            files = [*content_files(upsampler), *upsampler.glob("*.jinja")]
            parts[UPSAMPLER] = digest_files(upsampler, files)
        # Where long prompts are read in full that the pipeline alone would cut.
        parts |= self._reader.named(call_options(self._folder.pipeline_class))
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def loading(self) -> str:
        """Unusual settings of its weights, in words; empty if there are none."""
        words = [lora.describe() for lora in self._loras]
        if self._quantized is not None:
            words.insert(0, self._quantized.describe())
        if self.prompt_upsampler is not None:
            words.append(f"prompts written in full by {Path(self.prompt_upsampler).name}")
        return ", ".join(words if self.cache is None else [*words, f"cache {self.cache.kind}"])

    @cached_property
    def plan(self) -> MemoryPlan:
        """Placement of the model in memory, from what is free there at the first look.

        Raises ``BackendError`` if it does not fit in any form.
        """
        device = self._device
        return plan_memory(
            self._needs(self.features.default_size),
            free_memory(device),
            dtypes=dtypes_for(self.dtype, device),
            offload=self.offload,
            slicing=self.slicing,
            accelerator=device.type not in ("cpu", "mps"),
        )

    def _needs(self, size: tuple[int, int]) -> Needs:
        quantized = self._quantized
        # Elsewhere LoRAs are added to the weights.
        beside = () if quantized is None or quantized.fuses else self._loras
        needs = needs_of(
            self._folder, size, self._adapter, self._device.type, [one.file for one in beside]
        )
        return needs if quantized is None else quantized.applied(needs)

    @cached_property
    def features(self) -> BackendFeatures:
        """Its abilities by the model's folder; the weights are not loaded for it."""
        folder = self._folder
        with quiet():
            options = call_options(folder.pipeline_class)
            check_parts(folder)
            if self.cache is not None:
                from scenewright.tools.backends.placing import check_cache

                check_cache(folder, self.cache)
        _ = self._quantized
        family, defaults = self._family, folder.defaults
        usual_steps, usual_guidance = family.recommended(options, folder.distilled)
        few = self._few_lora
        steps = self.default_steps or (few and few.steps) or defaults.steps or usual_steps or 50
        few_guidance = None if few is None else few.guidance
        named = (self.default_guidance, few_guidance, defaults.guidance, usual_guidance, 0.0)
        guidance = next(one for one in named if one is not None)
        adapter = self._adapter is not None
        references = family.references(self.max_references) if adapter or family.edits else 0
        return BackendFeatures(
            references=references,
            reference_maths=family.maths if references else "none",
            masks=adapter and family.masks,
            edit=family.image_to_image is not None or family.inpaint is not None,
            edit_references=family.edit_references(self.max_references),
            start_references=family.inpaint is not None,
            instructions=family.edits is not None,
            crops=family.image_to_image is not None or family.inpaint is not None,
            boxes=folder.upsampler is not None,
            negative_prompt="negative_prompt" in options and family.negative_prompt,
            languages=family.languages,
            seeds=True,
            sizes=None,
            default_size=self.default_size or defaults.size or folder.native_size,
            default_steps=int(steps),
            default_guidance=float(guidance),
            vocabulary=folder.vocabulary,
            prompt_tokens=self._triggers.reader.budget,
        )

    def count_prompt(self, prompt: str) -> PromptCount:
        """Count ``prompt`` with the model's tokenizers; the weights are not loaded for it."""
        return self._triggers.reader.count(prompt)

    @cached_property
    def _reader(self) -> PromptReader:
        return prompt_reader_of(self._folder)

    @cached_property
    def _loras(self) -> tuple[Lora, ...]:
        return open_loras(self.loras, self._folder)

    @cached_property
    def _quantized(self) -> Quantized | None:
        if self.quantization is None:
            return None
        return Quantized.open(self.quantization, self._folder, self._device.type)

    @cached_property
    def _few_lora(self) -> FewStepLora | None:
        return self._family.few_lora(lora.name for lora in self._loras)

    @property
    def _scheduler(self) -> tuple[str | None, Mapping[str, Any]]:
        """Class and settings of a scheduler that replaces the model's own."""
        few = self._few_lora
        if self.scheduler is not None or few is None:
            return self.scheduler, {}
        return few.scheduler, few.scheduler_options

    @cached_property
    def _triggers(self) -> Triggers:
        return Triggers(self._loras, self._reader)

    @cached_property
    def _folder(self) -> ModelFolder:
        with quiet():
            without = replaced_parts(self.quantization)
            if (file := Path(self.model).expanduser()).is_file():
                folder = open_file(file, self.base_model, self.variant)
            else:
                if self.base_model is not None and not is_file(self.model):
                    raise BackendError(
                        f"{self.model} is no single file, and only these have a 'base_model': "
                        "leave it out"
                    )
                place = find(self.model, self.variant, without)
                folder = ModelFolder.open(place, without=without)
            return (
                folder
                if self.prompt_upsampler is None
                else folder.with_upsampler(self.prompt_upsampler)
            )

    @cached_property
    def _family(self) -> Family:
        return family_of(self._folder.pipeline_class, self._folder.parts)

    @cached_property
    def _adapter(self) -> AdapterFolder | None:
        if self.ip_adapter is None:
            return None
        if self._family.adapter == "none":
            instead = "references are pictures there" if self._family.edits else "none is known"
            raise BackendError(
                f"{self._folder.pipeline_class} takes no IP-Adapter ({instead}): leave "
                "'ip_adapter' out, or use a Stable Diffusion 1.5, SDXL, Kolors, SD3 or Flux model"
            )
        adapter = AdapterFolder.open(self.ip_adapter)
        adapter.check_fits(self._family.adapter, self._folder)
        return adapter

    @cached_property
    def _device(self) -> torch.device:
        return choose_device(self.device)

    @property
    def _gate(self) -> DeviceGate:
        return gate_of(str(self._device))

    async def load(self, change: Callable[[torch.nn.Module], None] | None = None) -> None:
        """Load the model now and take its fingerprint.

        ``change`` is called with every part before it is placed, the adapter's modules included: it
        may give the weights other values. Raises ``BackendError`` if it cannot.
        """

        def prepare(stop: Stop) -> str:
            with self._gate.turn(stop):
                self._load_pipeline(change)
            return self.fingerprint

        await self._run_in_thread(prepare)

    async def generate(
        self,
        request: GenerationRequest,
        load: LoadImage,
        on_step: OnStep | None = None,
    ) -> GeneratedImage:
        """Draws ``request``; waits in line if another one is being drawn.

        ``load`` gives the image of a content hash and is called from the backend's thread;
        ``on_step`` is called on the event loop after each denoising step. Raises
        ``BackendError`` for what cannot be served. Cancelling the awaiting task stops after
        the current step, and returns when the pipeline is free again.
        """
        return (await self.generate_many([request], load, on_step))[0]

    async def generate_many(
        self,
        requests: Sequence[GenerationRequest],
        load: LoadImage,
        on_step: OnStep | None = None,
    ) -> list[GeneratedImage]:
        """Draws all ``requests``, in their order; as :meth:`generate` otherwise.

        Those that need nothing but their prompts share batches, as far as memory allows: faster
        where one picture leaves the device idle. Their pictures are those that
        :meth:`generate` draws, up to rounding. Nothing is drawn if one of them cannot be served.
        ``on_step`` tells the steps of each batch.
        """
        loop = asyncio.get_running_loop()

        def draw(stop: Stop) -> list[GeneratedImage]:
            def done(step: int, of: int, preview: bytes) -> None:
                if stop.is_set():
                    raise Cancelled(f"{self.id} was stopped after step {step} of {of}")
                if on_step is not None:
                    try:
                        loop.call_soon_threadsafe(on_step, GenerationStep(step, of, preview))
                    except RuntimeError:
                        # The loop is closed: nobody waits for this picture any more.
                        raise Cancelled(f"{self.id} was stopped: its event loop ended") from None

            for request in requests:
                check_local_request(request, self.features, self._folder, self.id)
            triggers = self._triggers
            sent = []
            for one in requests:
                whole = has_unlimited_prompt(one, self._family)
                prompt = triggers.added(one.prompt, whole=whole)
                sent.append(one.model_copy(update={"prompt": prompt}))
            drawn: dict[int, GeneratedImage] = {}
            # An autoencoder that waits in main memory would trade places with the denoiser.
            shown = on_step is not None and self.plan.offload == "none"
            previews, watched = self.partial_images if shown else 0, watched_by(on_step)
            if len(sent) == 1:
                groups = [[0]]
            else:
                # The largest picture decides for all.
                sizes = [(one.width, one.height) for one in sent if one.width and one.height]
                largest = max([self.features.default_size, *sizes], key=lambda s: s[0] * s[1])
                most = self.plan.images_at_once(self._needs(largest), MAX_BATCH)
                groups = group_into_batches(sent, self.features, self._family, self._reader, most)
            for places in groups:
                asked = [sent[place] for place in places]
                with self._gate.turn(stop):
                    together = self._load_pipeline().draw_together(
                        asked, load, done, previews, watched
                    )
                drawn |= zip(places, together, strict=True)
            return [
                self._with_details(request, sent[place].prompt, drawn[place])
                for place, request in enumerate(requests)
            ]

        return await self._run_in_thread(draw)

    async def aclose(self) -> None:
        """Wait for the request being drawn, free the model and end the thread."""
        if self._closed:
            return
        self._closed = True

        def free() -> None:
            if not self._tried:
                return
            self._ready = None
            # Parts of a pipeline refer to each other: those of half a model are freed so, too.
            gc.collect()
            if "_device" in self.__dict__ and self._device.type == "cuda":
                import torch

                torch.cuda.empty_cache()

        freed = self._worker.submit(free)
        self._worker.shutdown(wait=False)
        await asyncio.wrap_future(freed)

    async def _run_in_thread(self, job: Callable[[Stop], T]) -> T:
        """Run ``job`` in the pipeline's thread after those before it.

        On cancellation the job is dropped from the line, or told to stop and waited for.
        """
        if self._closed:
            raise BackendError(f"{self.id} was closed: make a new one")
        stop = Stop()
        running = self._worker.submit(job, stop)
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            stop.set()
            if not running.cancel():
                with contextlib.suppress(Exception):
                    await asyncio.shield(asyncio.wrap_future(running))
            raise

    def _with_details(
        self, request: GenerationRequest, prompt: str, drawn: GeneratedImage
    ) -> GeneratedImage:
        """Return ``drawn`` after ``request``, whose prompt went to the model as ``prompt``."""
        details = drawn.details | self.plan.details() | {"compiled": int(self._compiled)}
        optional = {
            "cache": self.cache and self.cache.kind,
            "loras": ", ".join(one.describe() for one in self._loras),
            "quantization": self._quantized and self._quantized.describe(),
        }
        details |= {name: words for name, words in optional.items() if words}
        drawn = replace(drawn, details=details | {"device": str(self._device)})
        if drawn.prompt or prompt == request.prompt:
            return drawn
        count = count_read_tokens(request, self._family, self._triggers.reader)
        return replace(drawn, prompt=prompt, count=count)

    def _load_pipeline(
        self, change: Callable[[torch.nn.Module], None] | None = None
    ) -> LoadedPipeline:
        if self._ready is None:
            self._tried = True
            with LOADING, quiet():
                device = self._device
                adapter = self._adapter
                plan = self.plan
                quantized = self._quantized
                dtype = choose_dtype(plan.dtype, device)
                given = load_parts(self._folder, dtype)
                if quantized is not None:
                    given |= quantized.options(dtype)
                pipe = build(
                    self._folder,
                    plan.home(device),
                    dtype,
                    scheduler=self._scheduler,
                    variant=self.variant,
                    loaded=given,
                )
                from scenewright.tools.backends.placing import (
                    change_parts,
                    enable_cache,
                    place,
                    slice_up,
                )

                if self._loras:
                    load_loras(pipe, self._loras, fused=quantized is None or quantized.fuses)
                if plan.slicing:
                    slice_up(pipe)
                references = None
                if adapter is not None:
                    references = references_of(self._family.adapter, pipe, adapter)
                if change is not None:
                    change_parts(pipe, references, change)
                if quantized is not None:
                    quantized.cast(pipe, dtype)
                if self.cache is not None:
                    enable_cache(pipe, self.cache)
                self._compiled = place(pipe, plan, device, references, compiled=self.compile)
            limit_threads(part for part in pipe.components.values() if hasattr(part, "parameters"))
            self._ready = LoadedPipeline(
                *(self.id, pipe, self._folder, self.features, self._family, self._reader),
                references=references,
                cache=self.cache,
            )
        return self._ready
