"""Needs of a model of a device's memory, and the plan by which it is placed there.

A plan is made before the weights are loaded, from the headers of their files. The estimates of
what a drawing needs besides the weights are in units of its largest feature map. The factors
come from counting the live tensors of the real classes at their published sizes (SD 1.5, SDXL,
SD3 and Flux at 1024×1024 pixels), rounded up. diffusers' and accelerate's own device maps know the
weights alone; they do the placing, and the plan chooses among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from scenewright.core.ports.backend import BackendError
from scenewright.providers.hub.needs import UPSAMPLER
from scenewright.tools.backends.families import family_of
from scenewright.tools.backends.model_folder import (
    ModelFolder,
    block_widths,
    pixels_per_latent,
    read_config,
    tensor_shapes,
)
from scenewright.tools.backends.pipeline import choose_dtype

if TYPE_CHECKING:
    import torch

    from scenewright.tools.backends.adapter import AdapterFolder

Placement = Literal["none", "parts", "layers"]
OffloadChoice = Literal["auto", "none", "parts", "layers"]

ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
USABLE = 0.9
"""Share of the free memory that a plan may use: allocators and libraries take the rest."""
UNET_MAPS = 32
"""Live feature maps of a UNet's first width at its peak (26 in SD 1.5, 16 in SDXL)."""
TOKEN_MAPS = 20
"""Live token maps of a transformer at its peak (17 in Flux, 13 in SD3)."""
DECODER_MAPS = 4
"""Live maps of an autoencoder's last block at its peak (3), and one for the convolutions."""
TEXT_TOKENS = 512
TILE = 512
"""Side in pixels of what a tiled autoencoder decodes at once."""
_FUSED_ATTENTION = ("cpu", "cuda")


@dataclass(frozen=True, slots=True)
class Needs:
    """Memory needs of a model, in numbers (not bytes) of its dtype."""

    weights: Mapping[str, int]
    """Weights of each part; those of the adapter belong to the denoiser."""
    denoiser: str
    """The part that runs in every step."""
    largest: int
    """The largest tensor of all weights."""
    steps: int
    """Largest sum of what a step of one picture, with guidance, holds at once."""
    decoding: int
    """The same of decoding one picture."""
    tile: int
    """The same of decoding one tile of it."""
    matrix: int = 0
    """Numbers of the attention matrices of one half of the guidance in the layer with most; 0 on
    devices that compute attention without writing its matrix down."""

    narrow: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """Of a part: how many of its weights are stored in a format of their own, and bytes of each."""

    def stored(self, dtype: str) -> Needs:
        """Return the needs with quantized weights counted in numbers of ``dtype``."""
        if not self.narrow:
            return self
        weights = dict(self.weights)
        for part, (count, size) in self.narrow.items():
            weights[part] += math.ceil(count * size / ITEM_BYTES[dtype]) - count
        return replace(self, weights=weights, narrow={})

    @property
    def total(self) -> int:
        """Weights of all parts."""
        return sum(self.weights.values())

    def peak(self, offload: Placement, sliced: bool, images: int = 1) -> int:
        """Most numbers on the device at once while ``images`` pictures are drawn in one batch.

        ``sliced``: attention one by one, and the autoencoder tile by tile.
        """
        steps = images * self.steps + (self.matrix if sliced else 2 * images * self.matrix)
        decoding = min(self.tile, self.decoding) if sliced else images * self.decoding
        acting = max(steps, decoding)
        match offload:
            case "none":
                return self.total + acting
            case "layers":
                # One layer computes while the next one may already be on its way.
                return 2 * self.largest + acting
        own = self.weights.get(self.denoiser, 0)
        vae = self.weights.get("vae", 0)
        # It is done before a text encoder begins.
        upsampler = self.weights.get(UPSAMPLER, 0)
        # The text encoders wait for each other, but an image encoder may still be there.
        encoders = self.total - own - vae - upsampler
        return max(own + steps, vae + decoding, encoders, upsampler)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Placement of a model in memory."""

    dtype: str
    """Number format of the weights."""
    offload: Placement
    """Part of the model that waits in main memory: none, whole parts, or layers."""
    slicing: bool
    """Self-attention one sample at a time, the autoencoder tile by tile."""
    need: int
    """Estimated bytes on the device at the peak."""
    free: int
    """Bytes that were free on the device when the plan was made."""

    @property
    def fits(self) -> bool:
        """Whether the estimate fits; without it an override of yours was followed all the same."""
        return self.need <= usable(self.free)

    def home(self, device: torch.device) -> torch.device:
        """Return the device that the weights are loaded to; ``device`` is the one that computes."""
        import torch

        return device if self.offload == "none" else torch.device("cpu")

    def images_at_once(self, needs: Needs, most: int) -> int:
        """Return how many pictures, at most ``most``, may be drawn in one batch; at least 1."""
        for images in range(most, 1, -1):
            peak = needs.stored(self.dtype).peak(self.offload, self.slicing, images)
            if peak * ITEM_BYTES[self.dtype] <= usable(self.free):
                return images
        return 1

    def describe(self) -> str:
        """Return the plan in one line for people."""
        placed = {"none": "all on the device", "parts": "parts in turn", "layers": "layer by layer"}
        slices = ", in slices" if self.slicing else ""
        doubt = "" if self.fits else ", more than fits by the estimate"
        return (
            f"{self.dtype}, {placed[self.offload]}{slices}: about {gib(self.need)} "
            f"of {gib(self.free)} free{doubt}"
        )

    def details(self) -> dict[str, str | int | float]:
        """Return the memory plan's part of a picture's details."""
        return {
            "offload": self.offload,
            "slicing": int(self.slicing),
            "memory_estimate_mib": self.need >> 20,
        }


def usable(free: int) -> int:
    """Return the bytes that a plan may use of ``free`` ones."""
    return int(free * USABLE)


def gib(count: int) -> str:
    """``count`` bytes for people."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def plan_memory(
    needs: Needs,
    free: int,
    *,
    dtypes: tuple[str, ...],
    offload: OffloadChoice = "auto",
    slicing: bool | None = None,
    accelerator: bool = True,
) -> MemoryPlan:
    """Return the first plan that fits in ``free`` bytes, from the fastest to the smallest.

    ``dtypes`` are those allowed, the preferred one first. ``offload`` and ``slicing`` are
    overrides. Without an ``accelerator`` there is nowhere to wait, so nothing is offloaded.
    With ``offload`` given the smallest plan that it allows is made even if it does not fit: an
    estimate must not stop who knows better. Raises ``BackendError`` if nothing fits.
    """
    if not accelerator and offload not in ("auto", "none"):
        raise BackendError(
            f"offload is {offload!r}, but the model runs in main memory, where nothing can wait "
            "elsewhere: use 'auto', or a device such as 'cuda'"
        )
    placements: tuple[Placement, ...]
    if offload != "auto":
        placements = (offload,)
    else:
        placements = ("none", "parts", "layers") if accelerator else ("none",)

    def peak(dtype: str, placed: Placement, sliced: bool) -> int:
        return needs.stored(dtype).peak(placed, sliced) * ITEM_BYTES[dtype]

    plans = [
        MemoryPlan(dtype, placed, sliced, peak(dtype, placed, sliced), free)
        for placed in placements
        for dtype in dtypes
        for sliced in ((False, True) if slicing is None else (slicing,))
    ]
    for plan in plans:
        if plan.fits:
            return plan
    smallest = min(plans, key=lambda plan: plan.need)
    if offload != "auto":
        return smallest
    raise BackendError(
        f"the model needs about {gib(smallest.need)} of memory even in its smallest form "
        f"({smallest.dtype}), and {gib(usable(free))} can be used: end other programs, ask for a "
        "smaller size, or use a smaller model, dtype or device"
    )


def needs_of(
    model: ModelFolder,
    size: tuple[int, int],
    adapter: AdapterFolder | None = None,
    device: str = "cpu",
    beside: Iterable[Path] = (),
) -> Needs:
    """Return the memory needs of ``model`` for pictures of ``size`` on a kind of device.

    ``size`` is (width, height) in pixels. ``beside`` are files of weights that compute beside the
    denoiser's own. Only headers and configurations are read.
    """
    denoiser = model.denoiser or ""
    counts = {part: [prod(shape) for shape in model.shapes(part).values()] for part in model.parts}
    files = [] if adapter is None else [adapter.weights]
    for file in (*files, *beside):
        counts.setdefault(denoiser, []).extend(map(prod, tensor_shapes([file]).values()))
    if adapter is not None:
        shapes = tensor_shapes(adapter.encoder.glob("*.safetensors"))
        counts["image_encoder"] = [prod(shape) for shape in shapes.values()]
    width, height = size
    decoder = read_config(model.place("vae"))
    step, matrix = _step_needs(model, pixels_per_latent(decoder), size)

    def decoded(pixels: int) -> int:
        # The last block takes what the one before it, twice as wide, has made larger.
        blocks = block_widths(decoder)
        return DECODER_MAPS * (blocks[min(1, len(blocks) - 1)] if blocks else 256) * pixels

    return Needs(
        weights={part: sum(numbers) for part, numbers in counts.items() if numbers},
        denoiser=denoiser,
        largest=max((number for numbers in counts.values() for number in numbers), default=0),
        steps=2 * step,
        decoding=decoded(width * height),
        tile=decoded(min(width, TILE) * min(height, TILE)) + 3 * width * height,
        matrix=0 if device in _FUSED_ATTENTION else matrix,
    )


def _step_needs(model: ModelFolder, pixels: int, size: tuple[int, int]) -> tuple[int, int]:
    """Return the numbers that one pass of the denoiser over one sample holds.

    The second one is those of its largest attention matrices. ``pixels`` of a side are one latent.
    """
    config = read_config(model.place(model.denoiser)) if model.denoiser else {}
    cells = -(-size[0] // pixels) * -(-size[1] // pixels)
    if model.denoiser == "transformer":
        # A model that edits sees the picture, and a reference beside it, as tokens of their own.
        edits = family_of(model.pipeline_class, model.parts).edits
        pictures = 1 if edits is None else 2 + edits.listed
        # Latents are put together two by two, inside the transformer or before it.
        tokens = pictures * cells // 4 + TEXT_TOKENS
        heads = int(config.get("num_attention_heads") or config.get("n_heads") or 24)
        wide = int(config.get("dim") or heads * int(config.get("attention_head_dim") or 128))
        return TOKEN_MAPS * tokens * wide, heads * tokens**2
    widths = config.get("block_out_channels") or [320]
    kinds = config.get("down_block_types") or []
    heads = config.get("num_attention_heads") or config.get("attention_head_dim") or 8
    each = heads if isinstance(heads, list) else [heads] * len(kinds)
    matrices = [
        count * (cells // 4**level) ** 2
        for level, (kind, count) in enumerate(zip(kinds, each, strict=False))
        if "Attn" in kind
    ]
    return UNET_MAPS * cells * widths[0], max(matrices, default=0)


def dtypes_for(wanted: str, device: torch.device) -> tuple[str, ...]:
    """Return the number formats that a plan may choose from, the preferred one first.

    ``"auto"``: on the CPU bfloat16 where float32 does not fit; ``choose_dtype`` elsewhere.
    Raises ``BackendError`` for an unknown one.
    """
    first = str(choose_dtype(wanted, device)).removeprefix("torch.")
    return (first, "bfloat16") if wanted == "auto" and device.type == "cpu" else (first,)


def free_memory(device: torch.device) -> int:
    """Bytes that may still be taken on ``device``; of main memory where it has none of its own."""
    import torch

    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # What the allocator holds but does not use is free for this process.
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    import psutil

    return int(psutil.virtual_memory().available)
