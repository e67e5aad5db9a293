"""Tiny models of the real classes with random weights, built in a few hundred milliseconds.

``build_model`` saves a whole ``StableDiffusionPipeline`` that draws 32×32 pixels, and
``build_adapter`` an IP-Adapter for it in the layout of the published checkpoints. Their
pictures are noise; what is computed on the way is the same as in the large models.
"""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any, Literal

import torch
from diffusers import (
    AutoencoderKL,
    AutoencoderTiny,
    DDIMScheduler,
    DiffusionPipeline,
    ModularPipeline,
    StableDiffusionPipeline,
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

SIZE = (32, 32)
PIXELS_PER_LATENT = 4
TEXT_WIDTH = 32
IMAGE_WIDTH = 24
TOKENS = 4
Autoencoder = Literal["kl", "tiny"]


def tokenizer(length: int = 16) -> CLIPTokenizer:
    """A CLIP tokenizer of letters, digits and marks, ``length`` tokens long."""
    letters = string.ascii_lowercase + string.digits + ",.;:'-"
    pieces = [mark for letter in letters for mark in (letter, f"{letter}</w>")]
    merges = [("r", "e"), ("re", "d</w>"), ("d", "o"), ("do", "g</w>")]
    names = ["<|startoftext|>", "<|endoftext|>", *pieces, *("".join(pair) for pair in merges)]
    return CLIPTokenizer(
        vocab={name: at for at, name in enumerate(names)}, merges=merges, model_max_length=length
    )


def unet(**changes: Any) -> UNet2DConditionModel:
    """Two levels (8×8 and 4×4 latents), cross-attention at both."""
    options: dict[str, Any] = {
        "sample_size": SIZE[0] // PIXELS_PER_LATENT,
        "in_channels": 4,
        "out_channels": 4,
        "block_out_channels": (16, 32),
        "layers_per_block": 1,
        "down_block_types": ("CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        "cross_attention_dim": TEXT_WIDTH,
        "attention_head_dim": 8,
        "norm_num_groups": 8,
    }
    return UNet2DConditionModel(**options | changes).eval()


def xl_unet() -> UNet2DConditionModel:
    """As ``unet``, for two text encoders and the sizes that SDXL is told."""
    return unet(
        cross_attention_dim=2 * TEXT_WIDTH,
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=6 * 8 + TEXT_WIDTH,
    )


def text_config(words: CLIPTokenizer) -> CLIPTextConfig:
    """Two layers, as wide as ``TEXT_WIDTH``."""
    return CLIPTextConfig(
        vocab_size=len(words),
        hidden_size=TEXT_WIDTH,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=words.model_max_length,
        projection_dim=TEXT_WIDTH,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )


def _scheduler() -> DDIMScheduler:
    return DDIMScheduler(
        beta_schedule="scaled_linear",
        prediction_type="v_prediction",
        rescale_betas_zero_snr=True,
        timestep_spacing="trailing",
        clip_sample=False,
        steps_offset=1,
    )


def _autoencoder(kind: Autoencoder) -> AutoencoderKL | AutoencoderTiny:
    widths = (8, 8, 8)
    if kind == "tiny":
        return AutoencoderTiny(
            encoder_block_out_channels=widths,
            decoder_block_out_channels=widths,
            num_encoder_blocks=(1, 1, 1),
            num_decoder_blocks=(1, 1, 1),
            latent_channels=4,
            act_fn="relu",
        )
    return AutoencoderKL(
        block_out_channels=widths,
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=4,
        sample_size=SIZE[0],
    )


def build_model(
    folder: Path,
    autoencoder: Autoencoder = "kl",
    seed: int = 0,
    words: CLIPTokenizer | None = None,
) -> Path:
    """Saves a pipeline with random weights and its own defaults into ``folder``."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        words = words or tokenizer()
        pipe = StableDiffusionPipeline(
            vae=_autoencoder(autoencoder),
            text_encoder=CLIPTextModel(text_config(words)),
            tokenizer=words,
            unet=unet(),
            scheduler=_scheduler(),
            safety_checker=None,
            feature_extractor=None,
            requires_safety_checker=False,
        )
    return saved(pipe, folder)


def build_xl_model(folder: Path, seed: int = 0, words: CLIPTokenizer | None = None) -> Path:
    """As ``build_model``, a ``StableDiffusionXLPipeline``."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        words = words or tokenizer()
        pipe = StableDiffusionXLPipeline(
            vae=_autoencoder("kl"),
            text_encoder=CLIPTextModel(text_config(words)),
            text_encoder_2=CLIPTextModelWithProjection(text_config(words)),
            tokenizer=words,
            tokenizer_2=words,
            unet=xl_unet(),
            scheduler=_scheduler(),
        )
    return saved(pipe, folder)


def saved(pipe: DiffusionPipeline | ModularPipeline, folder: Path) -> Path:
    """``folder`` with ``pipe`` and defaults of its own saved into it."""
    if isinstance(pipe, ModularPipeline):
        pipe.save_pretrained(str(folder), overwrite_modular_index=True)
    else:
        pipe.save_pretrained(folder, safe_serialization=True)
    (folder / "scenewright.json").write_text(
        json.dumps({"steps": 3, "guidance": 4.0, "size": list(SIZE)})
    )
    return folder


def adapter_weights(
    model: UNet2DConditionModel, seed: int = 1, strength: float = 1.0
) -> dict[str, dict[str, torch.Tensor]]:
    """Random weights of an IP-Adapter for ``model``, grouped as ``load_ip_adapter`` takes them."""
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> torch.Tensor:
        drawn: torch.Tensor = torch.randn(*shape, generator=generator)
        return drawn * strength / shape[-1] ** 0.5

    width = model.config.cross_attention_dim
    groups: dict[str, dict[str, torch.Tensor]] = {
        "image_proj": {
            "proj.weight": noise(TOKENS * width, IMAGE_WIDTH),
            "proj.bias": noise(TOKENS * width),
            "norm.weight": torch.ones(width),
            "norm.bias": noise(width),
        },
        "ip_adapter": {},
    }
    at = 1
    for name, processor in model.attn_processors.items():
        if "attn2" not in name:
            continue
        assert processor is not None
        layer = model.get_submodule(name.removesuffix(".processor"))
        for which in ("to_k_ip", "to_v_ip"):
            groups["ip_adapter"][f"{at}.{which}.weight"] = noise(layer.inner_dim, width)
        at += 2
    return groups


def image_encoder(seed: int = 2) -> CLIPVisionModelWithProjection:
    """A CLIP vision encoder of 32×32 pixels."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return CLIPVisionModelWithProjection(
            CLIPVisionConfig(
                hidden_size=32,
                intermediate_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                image_size=32,
                patch_size=8,
                projection_dim=IMAGE_WIDTH,
                # The usual tiny spread would make all pictures look alike.
                initializer_factor=20.0,
            )
        ).eval()


def build_adapter(folder: Path, model: UNet2DConditionModel | None = None) -> Path:
    """Saves an IP-Adapter with its encoder into ``folder``; for ``build_model`` by default."""
    folder.mkdir(parents=True, exist_ok=True)
    flat = {
        f"{group}.{name}": tensor
        for group, tensors in adapter_weights(model or unet()).items()
        for name, tensor in tensors.items()
    }
    save_file(flat, folder / "ip-adapter.safetensors")
    image_encoder().save_pretrained(folder / "image_encoder", safe_serialization=True)
    return folder
