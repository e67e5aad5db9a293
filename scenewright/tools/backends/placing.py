"""Placement of a pipeline by its memory plan, caches, and a compiled denoiser.

A compiler takes a Python number for a constant: each new λ of Eq. 5 would be another program.
Attention is linear in its values, ``λ · Attn(Q, K, V) = Attn(Q, K, λ · V)``, so λ can be a
tensor that multiplies the values, and a tensor may change: weights of references change without
compiling again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import diffusers
import torch
from diffusers.hooks.mag_cache import FLUX_MAG_RATIOS, MagCacheConfig, nearest_interp
from diffusers.models.attention_processor import AttnProcessor2_0
from diffusers.models.cache_utils import CacheMixin
from torch import nn

from scenewright.config.local_images import CacheSpec
from scenewright.core.ports.backend import BackendError
from scenewright.tools.backends.memory import TILE, MemoryPlan
from scenewright.tools.backends.model_folder import ModelFolder, index_of
from scenewright.tools.backends.modular import is_modular, offload_layers, offload_parts

if TYPE_CHECKING:
    from scenewright.tools.backends.adapter import ReferenceForm

PROGRAMS = 64
"""Programs kept for one kind of block: each of its widths with no, one, two, … references, and
once more when another size of picture is asked for."""


class WeightedValues(nn.Module):
    """A projection to values, times a weight that is a tensor."""

    def __init__(self, project: nn.Module, weight: torch.Tensor) -> None:
        """``weight`` has no dimensions; it is no parameter and stays where it is."""
        super().__init__()
        self.project = project
        self._weight = [weight]

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Return ``[…, values]``."""
        values: torch.Tensor = self.project(hidden_states) * self._weight[0]
        return values


class WeightTensors:
    """λ_0, λ_1, … as tensors that all layers share."""

    def __init__(self, device: torch.device) -> None:
        """``device`` is the one that computes."""
        self._device = device
        self._tensors: list[torch.Tensor] = []
        self._modules: dict[tuple[int, int], WeightedValues] = {}

    def set(self, weights: Sequence[float]) -> list[float]:
        """Take over the weights and return what is left for the layers to multiply by: ones."""
        for tensor, weight in zip(self._of(len(weights)), weights, strict=True):
            tensor.fill_(float(weight))
        return [1.0] * len(weights)

    def values(self, project: nn.Module, count: int) -> list[nn.Module]:
        """Return the projection ``project`` of one layer for each of ``count`` references."""
        found: list[nn.Module] = []
        for at, tensor in enumerate(self._of(count)):
            key = (id(project), at)
            if key not in self._modules:
                self._modules[key] = WeightedValues(project, tensor)
            found.append(self._modules[key])
        return found

    def _of(self, count: int) -> list[torch.Tensor]:
        while len(self._tensors) < count:
            self._tensors.append(torch.ones((), device=self._device))
        return self._tensors[:count]


def compile_blocks(pipe: Any, backend: str = "inductor") -> bool:
    """Compiles the repeated blocks of the denoiser of ``pipe``; False if it names none.

    The compiler runs when a block is first used. ``backend`` is one of ``torch.compile``.
    """
    denoiser = next(filter(None, (getattr(pipe, n, None) for n in ("transformer", "unet"))), None)
    names = getattr(denoiser, "_repeated_blocks", None) or ()
    if denoiser is None or not any(type(one).__name__ in names for one in denoiser.modules()):
        return False
    config = torch._dynamo.config
    config.recompile_limit = max(config.recompile_limit, PROGRAMS)
    denoiser.compile_repeated_blocks(backend=backend)
    return True


class OneByOneAttention:
    """Self-attention one sample at a time: the same numbers, a part of the memory.

    Unlike diffusers' own slices it can be made without arguments, as ``load_ip_adapter`` makes
    anew the processors of the layers that no reference enters.
    """

    def __init__(self) -> None:
        self._together = AttnProcessor2_0()

    def __call__(
        self,
        attn: Any,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        temb: torch.Tensor | None = None,
        **options: Any,
    ) -> torch.Tensor:
        """As the class above; all tensors begin with the samples."""
        draw = self._together
        if attention_mask is not None or len(hidden_states) == 1:
            whole: torch.Tensor = draw(
                attn, hidden_states, encoder_hidden_states, attention_mask, temb, **options
            )
            return whole
        rows = []
        for at in range(len(hidden_states)):
            one = slice(at, at + 1)
            text = None if encoder_hidden_states is None else encoder_hidden_states[one]
            time = None if temb is None else temb[one]
            rows.append(draw(attn, hidden_states[one], text, None, time, **options))
        return torch.cat(rows)


def slice_up(pipe: Any) -> None:
    """Attention one sample at a time, where the denoiser is a UNet, and a tiled autoencoder.

    To be called before references are loaded, which keep the processors they find.
    """
    unet = getattr(pipe, "unet", None)
    if unet is not None:
        unet.set_attn_processor(
            {
                name: OneByOneAttention() if type(processor) is AttnProcessor2_0 else processor
                for name, processor in unet.attn_processors.items()
            }
        )
    vae: Any = getattr(pipe, "vae", None)
    # Not every autoencoder can.
    for able, switch in (("use_slicing", "enable_slicing"), ("use_tiling", "enable_tiling")):
        if hasattr(vae, able):
            getattr(vae, switch)()
    if hasattr(vae, "tile_latent_min_size") and hasattr(vae, "tile_sample_min_size"):
        # An autoencoder tiles only above its native size, at which it already needs the most.
        factor = max(1, int(vae.tile_sample_min_size) // TILE)
        vae.tile_sample_min_size //= factor
        vae.tile_latent_min_size //= factor


def check_cache(model: ModelFolder, cache: CacheSpec) -> None:
    """Raise ``BackendError`` if the denoiser of ``model`` cannot reuse its computations.

    Only the model's index is read.
    """
    entry = index_of(model.folder).get("transformer")
    kind = getattr(diffusers, entry[1], None) if isinstance(entry, list) else None
    if not (isinstance(kind, type) and issubclass(kind, CacheMixin)):
        raise BackendError(
            f"the denoiser of {model.pipeline_class} has no cache {cache.kind!r}: leave 'cache' "
            "out; Flux, FLUX.2, Qwen-Image, Chroma, HunyuanImage, GLM-Image and LongCat have one"
        )
    if cache.kind == "mag" and not cache.ratios and model.pipeline_class != "FluxPipeline":
        raise BackendError(
            f"the cache 'mag' needs the ratios of {model.pipeline_class}, and only those of FLUX.1 "
            "are published: measure them with diffusers' MagCacheConfig(calibrate=True) and name "
            "them as ratios, or use 'first-block'"
        )


def enable_cache(pipe: Any, cache: CacheSpec) -> None:
    """Let the denoiser of ``pipe`` reuse its computations between steps.

    Raises ``BackendError`` if its blocks are unknown to the library.
    """
    made: diffusers.FirstBlockCacheConfig | diffusers.TaylorSeerCacheConfig | MagCacheConfig
    if cache.kind == "first-block":
        made = diffusers.FirstBlockCacheConfig(threshold=cache.threshold)
    elif cache.kind == "mag":
        made = MagCacheConfig(
            threshold=cache.threshold,
            max_skip_steps=cache.skips,
            num_inference_steps=len(_ratios(cache)),
            mag_ratios=_ratios(cache),
        )
    else:
        made = diffusers.TaylorSeerCacheConfig(
            cache_interval=cache.interval, taylor_factors_dtype=pipe.transformer.dtype
        )
    try:
        pipe.transformer.enable_cache(made)
    except (ValueError, AttributeError, KeyError) as error:
        raise BackendError(
            f"{type(pipe.transformer).__name__} cannot use the cache {cache.kind!r} "
            f"({str(error)[:200]}): leave 'cache' out"
        ) from error


def change_parts(
    pipe: Any, references: ReferenceForm | None, change: Callable[[nn.Module], None]
) -> None:
    """Call ``change`` with every part of ``pipe`` that has weights, those of references included.

    Call it before :func:`place`, which may leave the parts without their weights.
    """
    with references.attached() if references is not None else contextlib.nullcontext():
        for part in pipe.components.values():
            if isinstance(part, nn.Module):
                change(part)


def fit_cache(pipe: Any, cache: CacheSpec, steps: int, started: bool) -> None:
    """Fit the cache of ``pipe`` to a drawing in so many ``steps``.

    One that ``started`` from a picture leaves out the first steps, of which ratios tell nothing: it
    is computed in full.
    """
    if cache.kind != "mag":
        return
    config: MagCacheConfig = pipe.transformer._cache_config
    config.num_inference_steps = steps
    config.mag_ratios = nearest_interp(_ratios(cache), steps)
    config.retention_ratio = 1.0 if started else MagCacheConfig.retention_ratio


def _ratios(cache: CacheSpec) -> torch.Tensor:
    return torch.tensor(cache.ratios) if cache.ratios else FLUX_MAG_RATIOS


def place(
    pipe: Any,
    plan: MemoryPlan,
    device: torch.device,
    references: ReferenceForm | None = None,
    *,
    compiled: bool = False,
) -> bool:
    """Move what the plan wants on ``device`` there, now or whenever it is needed.

    Call it when ``references`` are loaded, because their weights are placed too. ``compiled`` asks
    for compiled blocks of the denoiser; returns whether they are, because layers that are
    offloaded, and denoisers that name no blocks, are not compiled.
    """
    if plan.offload != "none":
        with references.attached() if references is not None else contextlib.nullcontext():
            if is_modular(type(pipe)):
                (offload_parts if plan.offload == "parts" else offload_layers)(pipe, device)
            elif plan.offload == "parts":
                pipe.enable_model_cpu_offload(device=device)
            else:
                pipe.enable_group_offload(onload_device=device, offload_type="leaf_level")
    if not compiled or plan.offload == "layers" or not compile_blocks(pipe):
        return False
    if references is not None:
        references.use_weight_tensors()
    return True
