"""Pipelines of the SDXL classes with random weights, and an IP-Adapter in the published layout.

``FULL`` has the sizes of ``stabilityai/stable-diffusion-xl-base-1.0`` and of
``h94/IP-Adapter/sdxl_models/ip-adapter_sdxl.safetensors`` with its ViT-bigG image encoder.
``SMALL`` is of the same classes, and draws in seconds on a CPU.
"""

from __future__ import annotations

import string
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    EulerDiscreteScheduler,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)
from safetensors.torch import save_file
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
    CLIPVisionConfig,
    CLIPVisionModelWithProjection,
)

from scenewright.tools.backends.pipeline import quiet

ADAPTER_TOKENS = 4
LENGTH = 77


@dataclass(frozen=True, slots=True)
class Sizes:
    """Configurations of all parts."""

    pixels: int
    """Side of a picture."""
    steps: int
    """Denoising steps."""
    unet: Mapping[str, Any]
    vae: Mapping[str, Any]
    text: Mapping[str, Any]
    text_2: Mapping[str, Any]
    vision: Mapping[str, Any]


_SIZES = tomllib.loads((Path(__file__).parent / "gpu_sizes.toml").read_text(encoding="utf-8"))
FULL, SMALL = (Sizes(**_SIZES[name]) for name in ("full", "small"))


def build(folder: Path, sizes: Sizes, device: str, dtype: torch.dtype, seed: int = 0) -> Path:
    """Save ``model`` and ``adapter`` with random weights into ``folder`` and return it.

    The weights are made on ``device``; the full sizes take about 14 GB of disk in 16 bits.
    """
    with quiet(), torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(seed)
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            unet = _save_model(folder / "model", sizes)
            _save_adapter(folder / "adapter", sizes, unet)
        finally:
            torch.set_default_dtype(before)
    return folder


def unet_options(sizes: Sizes) -> dict[str, Any]:
    """Return the configuration of the denoiser."""
    pooled = sizes.text_2["hidden_size"]
    return {
        **sizes.unet,
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        "layers_per_block": 2,
        # Tokens of both text encoders side by side.
        "cross_attention_dim": sizes.text["hidden_size"] + pooled,
        "addition_embed_type": "text_time",
        "projection_class_embeddings_input_dim": 6 * sizes.unet["addition_time_embed_dim"] + pooled,
        "use_linear_projection": True,
    }


def _save_model(folder: Path, sizes: Sizes) -> UNet2DConditionModel:
    words = _tokenizer()
    text = CLIPTextModel(_text_config(sizes.text, words))
    text_2 = CLIPTextModelWithProjection(_text_config(sizes.text_2, words))
    unet = UNet2DConditionModel(**unet_options(sizes))
    blocks = len(sizes.vae["block_out_channels"])
    vae = AutoencoderKL(
        **sizes.vae,
        down_block_types=("DownEncoderBlock2D",) * blocks,
        up_block_types=("UpDecoderBlock2D",) * blocks,
        latent_channels=4,
        scaling_factor=0.13025,
        force_upcast=False,
    ).eval()
    _stretch(vae, sizes.vae["sample_size"] // 2 ** (blocks - 1))
    pipe = StableDiffusionXLPipeline(
        vae=vae,
        text_encoder=text,
        text_encoder_2=text_2,
        tokenizer=words,
        tokenizer_2=words,
        unet=unet,
        scheduler=EulerDiscreteScheduler(
            beta_schedule="scaled_linear",
            beta_start=0.00085,
            beta_end=0.012,
            steps_offset=1,
            timestep_spacing="leading",
        ),
        add_watermarker=False,
    )
    pipe.save_pretrained(folder, safe_serialization=True)
    return unet


def _stretch(vae: AutoencoderKL, side: int) -> None:
    # Weights straight from their random start decode everything to one grey, and a comparison of
    # grey pictures would find nothing.
    weight = vae.decoder.conv_out.weight
    with torch.no_grad():
        latents = torch.randn(1, 4, min(side, 32), min(side, 32), device=weight.device)
        spread = vae.decode(latents.to(weight.dtype)).sample.float().std()
        weight.mul_(float(0.5 / spread))


def _save_adapter(folder: Path, sizes: Sizes, unet: UNet2DConditionModel) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    width, given = unet.config.cross_attention_dim, sizes.vision["projection_dim"]

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(*shape) / shape[-1] ** 0.5

    weights = {
        "image_proj.proj.weight": noise(ADAPTER_TOKENS * width, given),
        "image_proj.proj.bias": torch.zeros(ADAPTER_TOKENS * width),
        "image_proj.norm.weight": torch.ones(width),
        "image_proj.norm.bias": torch.zeros(width),
    }
    # The checkpoints number all attention layers, and the adapter's are every second one.
    layers = [name for name in unet.attn_processors if "attn2" in name]
    for at, name in enumerate(layers):
        inner = unet.get_submodule(name.removesuffix(".processor")).inner_dim
        for which in ("to_k_ip", "to_v_ip"):
            weights[f"ip_adapter.{2 * at + 1}.{which}.weight"] = noise(inner, width)
    save_file({name: one.contiguous() for name, one in weights.items()}, folder / "ip.safetensors")
    encoder = CLIPVisionModelWithProjection(CLIPVisionConfig(**sizes.vision))
    encoder.save_pretrained(folder / "image_encoder", safe_serialization=True)


def _text_config(options: Mapping[str, Any], words: CLIPTokenizer) -> CLIPTextConfig:
    return CLIPTextConfig(
        **options,
        max_position_embeddings=LENGTH,
        projection_dim=options["hidden_size"],
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )


def _tokenizer() -> CLIPTokenizer:
    """Letters, digits and marks: the text encoders do not mind which numbers they are."""
    letters = string.ascii_lowercase + string.digits + ",.;:'-"
    pieces = [mark for letter in letters for mark in (letter, f"{letter}</w>")]
    names = ["<|startoftext|>", "<|endoftext|>", *pieces]
    return CLIPTokenizer(
        vocab={name: at for at, name in enumerate(names)}, merges=[], model_max_length=LENGTH
    )
