"""What a model needs of a device's memory, and how it is placed there.

A plan is made before the weights are loaded, from the headers of their files. The estimates of
what a drawing needs besides the weights are in units of its largest feature map. The factors
come from counting the live tensors of the real classes at their published sizes (SD 1.5, SDXL,
SD3 and Flux at 1024×1024 pixels), rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from scenewright.core.ports.backend import BackendError
from scenewright.providers.hub.needs import UPSAMPLER
from scenewright.tools.backends.families import family_of
from scenewright.tools.backends.model_folder import ModelFolder, read_json, tensor_shapes
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
    """What a model needs of memory, in numbers (not bytes) of its dtype."""

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
    """How a model lies in memory."""

    dtype: str
    """Number format of the weights."""
    offload: Placement
    """What waits in main memory: nothing, whole parts, or layers."""
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
        """Where the weights are loaded to; ``device`` is the one that computes."""
        import torch

        return device if self.offload == "none" else torch.device("cpu")

    def describe(self) -> str:
        """One line for people."""
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
    """Bytes that a plan may use of ``free`` ones."""
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


def images_at_once(needs: Needs, plan: MemoryPlan, most: int) -> int:
    """How many pictures, at most ``most``, may be drawn in one batch; at least 1."""
    for images in range(most, 1, -1):
        peak = needs.stored(plan.dtype).peak(plan.offload, plan.slicing, images)
        if peak * ITEM_BYTES[plan.dtype] <= usable(plan.free):
            return images
    return 1


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
    tensors = {part: _counts(model.shapes(part)) for part in model.parts}
    if adapter is not None:
        added = _counts(tensor_shapes([adapter.weights]))
        tensors[denoiser] = {**tensors.get(denoiser, {}), **added}
        tensors["image_encoder"] = _counts(tensor_shapes(adapter.encoder.glob("*.safetensors")))
    for at, file in enumerate(beside):
        added = {f"{at}:{name}": count for name, count in _counts(tensor_shapes([file])).items()}
        tensors[denoiser] = {**tensors.get(denoiser, {}), **added}
    width, height = size
    tile_width, tile_height = min(width, TILE), min(height, TILE)
    config = _config(model, denoiser)
    decoder = _config(model, "vae")
    # A model that edits sees the picture, and a reference beside it, as tokens of their own.
    edits = family_of(model.pipeline_class, model.parts).edits
    pictures = 1 if edits is None else 2 + edits.listed
    shape = _Shape.of(config, denoiser, _pixels_per_latent(decoder), width, height, pictures)
    return Needs(
        weights={part: sum(found.values()) for part, found in tensors.items() if found},
        denoiser=denoiser,
        largest=max((count for found in tensors.values() for count in found.values()), default=0),
        steps=2 * shape.step,
        decoding=_decode(decoder, width, height),
        tile=_decode(decoder, tile_width, tile_height) + 3 * width * height,
        matrix=0 if device in _FUSED_ATTENTION else shape.matrix,
    )


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
    return main_memory()


def main_memory(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Bytes of main memory that programs may still take."""
    import os

    try:
        for line in meminfo.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    # Elsewhere only the whole is told; half of it is a careful guess of what is free.
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _counts(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Return how many numbers each tensor has."""
    return {name: prod(shape) for name, shape in shapes.items()}


def _config(model: ModelFolder, part: str) -> dict[str, Any]:
    path = model.place(part) / "config.json"
    return read_json(path) if part and path.is_file() else {}


@dataclass(frozen=True, slots=True)
class _Shape:
    """What one pass of a denoiser over one sample holds, in numbers."""

    step: int
    matrix: int

    @classmethod
    def of(
        cls,
        config: Mapping[str, Any],
        denoiser: str,
        pixels: int,
        width: int,
        height: int,
        pictures: int = 1,
    ) -> _Shape:
        cells = -(-width // pixels) * -(-height // pixels)
        if denoiser == "transformer":
            # Latents are put together two by two, inside the transformer or before it.
            tokens = pictures * cells // 4 + TEXT_TOKENS
            heads = int(config.get("num_attention_heads") or config.get("n_heads") or 24)
            wide = int(config.get("dim") or heads * int(config.get("attention_head_dim") or 128))
            return cls(TOKEN_MAPS * tokens * wide, heads * tokens**2)
        widths = config.get("block_out_channels") or [320]
        kinds = config.get("down_block_types") or []
        heads = config.get("num_attention_heads") or config.get("attention_head_dim") or 8
        each = heads if isinstance(heads, list) else [heads] * len(kinds)
        matrices = [
            count * (cells // 4**level) ** 2
            for level, (kind, count) in enumerate(zip(kinds, each, strict=False))
            if "Attn" in kind
        ]
        return cls(UNET_MAPS * cells * widths[0], max(matrices, default=0))


def _pixels_per_latent(decoder: Mapping[str, Any]) -> int:
    blocks = _blocks(decoder)
    return int(2 ** (len(blocks) - 1)) if blocks else 8


def _blocks(decoder: Mapping[str, Any]) -> list[int]:
    blocks = decoder.get("block_out_channels", decoder.get("decoder_block_out_channels"))
    return blocks if isinstance(blocks, list) else []


def _decode(decoder: Mapping[str, Any], width: int, height: int) -> int:
    blocks = _blocks(decoder)
    # The last block takes what the one before it, twice as wide, has made larger.
    wide = blocks[min(1, len(blocks) - 1)] if blocks else 256
    return DECODER_MAPS * wide * width * height
