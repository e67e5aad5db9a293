"""Puts a pipeline where its memory plan says."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from diffusers.models.attention_processor import AttnProcessor2_0

from scenewright.tools.backends.memory import TILE, MemoryPlan
from scenewright.tools.backends.speed import compile_blocks

if TYPE_CHECKING:
    from scenewright.tools.backends.reference_form import ReferenceForm


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


def place(
    pipe: Any,
    plan: MemoryPlan,
    device: torch.device,
    references: ReferenceForm | None = None,
    *,
    compiled: bool = False,
) -> bool:
    """Moves what the plan wants on ``device`` there, now or whenever it is needed.

    To be called when ``references`` are loaded, because their weights are placed too.
    ``compiled`` asks for compiled blocks of the denoiser; returns whether they are, because
    layers that come and go, and denoisers that name no blocks, are not compiled.
    """
    if plan.offload != "none":
        _wait_elsewhere(pipe, plan, device, references)
    if not compiled or plan.offload == "layers" or not compile_blocks(pipe):
        return False
    if references is not None:
        references.hold_weights()
    return True


def _wait_elsewhere(
    pipe: Any, plan: MemoryPlan, device: torch.device, references: ReferenceForm | None
) -> None:
    with references.attached() if references is not None else contextlib.nullcontext():
        if plan.offload == "parts":
            pipe.enable_model_cpu_offload(device=device)
        else:
            pipe.enable_group_offload(onload_device=device, offload_type="leaf_level")
