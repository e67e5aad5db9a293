"""Tiny pipelines of the families without a UNet, and adapters in their published layouts.

As in ``tiny``: real classes, random weights, 32×32 pixels.
"""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AuraFlowPipeline,
    AuraFlowTransformer2DModel,
    AutoencoderKL,
    AutoencoderKLQwenImage,
    DiffusionPipeline,
    FlowMatchEulerDiscreteScheduler,
    FluxKontextPipeline,
    FluxPipeline,
    FluxTransformer2DModel,
    QwenImagePipeline,
    QwenImageTransformer2DModel,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
)
from safetensors.torch import save_file
from transformers import (
    CLIPTextModel,
    CLIPTextModelWithProjection,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Tokenizer,
    SiglipVisionConfig,
    SiglipVisionModel,
    T5Config,
    T5EncoderModel,
    T5TokenizerFast,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from tests.tools.backends import tiny

HEADS, HEAD_WIDTH = 2, 16
WIDTH = HEADS * HEAD_WIDTH
T5_WIDTH = 80
SIGLIP_WIDTH = 32
Weights = dict[str, torch.Tensor]
_LOUD = {"context_embedder.bias": 20, "norm1": 4, "norm_q": 4, "add_": 4, "proj_out": 4}


def t5_tokenizer(length: int = 24) -> T5TokenizerFast:
    """A T5 tokenizer of letters, marks and two words."""
    letters = [*string.ascii_lowercase, *string.digits, *",.;:'-", "▁"]
    pieces = [(letter, -5.0) for letter in letters] + [("▁red", -1.0), ("▁dog", -1.0)]
    return T5TokenizerFast(
        vocab=[("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -9.0), *pieces],
        extra_ids=0,
        model_max_length=length,
    )


def t5_encoder(words: T5TokenizerFast) -> T5EncoderModel:
    return T5EncoderModel(
        T5Config(
            vocab_size=len(words), d_model=T5_WIDTH, d_kv=8, d_ff=32, num_layers=1, num_heads=2,
            # The usual spread would make all texts look alike.
            initializer_factor=3.0,
        )
    ).eval()  # fmt: skip


def autoencoder(**options: Any) -> AutoencoderKL:
    widths = (8, 8, 8)
    given: dict[str, Any] = {
        "block_out_channels": widths,
        "down_block_types": ("DownEncoderBlock2D",) * 3,
        "up_block_types": ("UpDecoderBlock2D",) * 3,
        "layers_per_block": 1,
        "latent_channels": 4,
        "norm_num_groups": 4,
        "sample_size": tiny.SIZE[0],
        "use_quant_conv": False,
        "use_post_quant_conv": False,
        "shift_factor": 0.1,
        "scaling_factor": 1.3,
    }
    return AutoencoderKL(**given | options)


def scheduler(**options: Any) -> FlowMatchEulerDiscreteScheduler:
    return FlowMatchEulerDiscreteScheduler(**{"shift": 3.0} | options)


def sd3_transformer() -> SD3Transformer2DModel:
    return SD3Transformer2DModel(
        sample_size=tiny.SIZE[0] // tiny.PIXELS_PER_LATENT,
        patch_size=2,
        in_channels=4,
        out_channels=4,
        num_layers=2,
        attention_head_dim=HEAD_WIDTH,
        num_attention_heads=HEADS,
        joint_attention_dim=T5_WIDTH,
        caption_projection_dim=WIDTH,
        pooled_projection_dim=2 * tiny.TEXT_WIDTH,
        pos_embed_max_size=32,
        qk_norm="rms_norm",
    ).eval()


def flux_transformer(guidance: bool = True) -> FluxTransformer2DModel:
    model = FluxTransformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=2,
        num_single_layers=1,
        attention_head_dim=HEAD_WIDTH,
        num_attention_heads=HEADS,
        joint_attention_dim=T5_WIDTH,
        pooled_projection_dim=tiny.TEXT_WIDTH,
        axes_dims_rope=(4, 4, 8),
        guidance_embeds=guidance,
    )
    with torch.no_grad():
        for name, weight in model.named_parameters():
            # The usual spread would let 512 tokens, most of them padding, drown two words.
            loud = [factor for part, factor in _LOUD.items() if part in name]
            weight *= max(loud, default=1)
    return model.eval()


def seeded(make: Callable[[], DiffusionPipeline], folder: Path, seed: int) -> Path:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        pipe = make()
    return tiny.saved(pipe, folder)


def build_sd3(folder: Path, seed: int = 0) -> Path:
    """Saves a ``StableDiffusion3Pipeline``."""

    def make() -> DiffusionPipeline:
        words, long_words = tiny.tokenizer(), t5_tokenizer()
        config = tiny.text_config(words)
        return StableDiffusion3Pipeline(
            transformer=sd3_transformer(),
            scheduler=scheduler(),
            vae=autoencoder(),
            text_encoder=CLIPTextModelWithProjection(config),
            tokenizer=words,
            text_encoder_2=CLIPTextModelWithProjection(config),
            tokenizer_2=words,
            text_encoder_3=t5_encoder(long_words),
            tokenizer_3=long_words,
        )

    return seeded(make, folder, seed)


def _flux(kind: Any, guidance: bool) -> Callable[[], DiffusionPipeline]:
    def make() -> DiffusionPipeline:
        words, long_words = tiny.tokenizer(), t5_tokenizer()
        pipe: DiffusionPipeline = kind(
            scheduler=scheduler(),
            vae=autoencoder(),
            text_encoder=CLIPTextModel(tiny.text_config(words)),
            tokenizer=words,
            text_encoder_2=t5_encoder(long_words),
            tokenizer_2=long_words,
            transformer=flux_transformer(guidance),
        )
        return pipe

    return make


def build_flux(folder: Path, seed: int = 0, guidance: bool = True) -> Path:
    """Saves a ``FluxPipeline``; without ``guidance`` one like schnell."""
    return seeded(_flux(FluxPipeline, guidance), folder, seed)


def build_kontext(folder: Path, seed: int = 0) -> Path:
    """Saves a ``FluxKontextPipeline``."""
    return seeded(_flux(FluxKontextPipeline, True), folder, seed)


def qwen_tokenizer(first: Sequence[str] = ()) -> Qwen2Tokenizer:
    """A tokenizer of letters and marks, after the pieces ``first``."""
    pieces = [*first, *map(chr, range(33, 127)), "Ġ", "Ċ"]
    marks = ["im_start", "im_end", "vision_start", "vision_end", "image_pad", "video_pad"]
    return Qwen2Tokenizer(
        vocab={piece: at for at, piece in enumerate(pieces)},
        merges=[],
        extra_special_tokens=[f"<|{mark}|>" for mark in marks],
    )


def qwen_text_encoder(words: Qwen2Tokenizer, layers: int = 1) -> Qwen2_5_VLForConditionalGeneration:
    ids = {mark: words.convert_tokens_to_ids(f"<|{mark}|>") for mark in
           ("image_pad", "video_pad", "vision_start", "vision_end")}  # fmt: skip
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(words), "hidden_size": 16, "intermediate_size": 16,
            "num_hidden_layers": layers, "num_attention_heads": 2, "num_key_value_heads": 2,
            "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2]},
            "initializer_range": 0.5, "bos_token_id": None, "eos_token_id": None,
        },
        vision_config={
            "depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2,
            "out_hidden_size": 16, "patch_size": 4, "spatial_merge_size": 2,
            "temporal_patch_size": 2, "window_size": 16, "fullatt_block_indexes": [0],
            "initializer_range": 0.5,
        },
        image_token_id=ids["image_pad"],
        video_token_id=ids["video_pad"],
        vision_start_token_id=ids["vision_start"],
        vision_end_token_id=ids["vision_end"],
    )  # fmt: skip
    return Qwen2_5_VLForConditionalGeneration(config).eval()


def qwen_autoencoder() -> AutoencoderKLQwenImage:
    return AutoencoderKLQwenImage(
        base_dim=8,
        z_dim=4,
        dim_mult=[1, 1, 1],
        num_res_blocks=1,
        temperal_downsample=[False, True],
        latents_mean=[0.1] * 4,
        latents_std=[1.2] * 4,
    )


def build_qwen(folder: Path, pipeline_class: str = "QwenImagePipeline", seed: int = 0) -> Path:
    """Saves a Qwen-Image pipeline; an edit one with its processor."""
    words = qwen_tokenizer()

    def make() -> DiffusionPipeline:
        return QwenImagePipeline(
            scheduler=scheduler(),
            vae=qwen_autoencoder(),
            text_encoder=qwen_text_encoder(words),
            tokenizer=words,
            transformer=QwenImageTransformer2DModel(
                patch_size=2,
                in_channels=16,
                out_channels=4,
                num_layers=2,
                attention_head_dim=HEAD_WIDTH,
                num_attention_heads=HEADS,
                joint_attention_dim=16,
                axes_dims_rope=(4, 4, 8),
            ),
        )

    seeded(make, folder, seed)
    if pipeline_class != "QwenImagePipeline":
        words.save_pretrained(folder / "processor")
        Qwen2VLImageProcessorPil(
            patch_size=4, merge_size=2, temporal_patch_size=2,
            size={"shortest_edge": 64, "longest_edge": 1024},
        ).save_pretrained(folder / "processor")  # fmt: skip
        index = json.loads((folder / "model_index.json").read_text())
        index |= {"_class_name": pipeline_class, "processor": ["transformers", "Qwen2VLProcessor"]}
        (folder / "model_index.json").write_text(json.dumps(index))
    return folder


def build_aura(folder: Path, seed: int = 0) -> Path:
    """Saves an ``AuraFlowPipeline``: a family of which nothing is known here."""

    def make() -> DiffusionPipeline:
        words = t5_tokenizer()
        return AuraFlowPipeline(
            tokenizer=words,
            text_encoder=t5_encoder(words),
            vae=autoencoder(),
            transformer=AuraFlowTransformer2DModel(
                sample_size=tiny.SIZE[0] // tiny.PIXELS_PER_LATENT,
                patch_size=2,
                in_channels=4,
                num_mmdit_layers=1,
                num_single_dit_layers=1,
                attention_head_dim=HEAD_WIDTH,
                num_attention_heads=HEADS,
                joint_attention_dim=T5_WIDTH,
                caption_projection_dim=WIDTH,
                out_channels=4,
                pos_embed_max_size=256,
            ),
            scheduler=scheduler(),
        )

    return seeded(make, folder, seed)


def _noise(seed: int) -> Callable[..., torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(*shape, generator=generator) / shape[-1] ** 0.5


def flux_adapter_weights(seed: int = 1) -> Weights:
    """As XLabs publishes them: ``ip_adapter_proj_model.*`` and ``double_blocks.N.processor.*``."""
    noise, width = _noise(seed), T5_WIDTH
    weights = {
        "proj.weight": noise(tiny.TOKENS * width, tiny.IMAGE_WIDTH),
        "proj.bias": noise(tiny.TOKENS * width),
        "norm.weight": torch.ones(width),
        "norm.bias": noise(width),
    }
    weights = {f"ip_adapter_proj_model.{name}": tensor for name, tensor in weights.items()}
    for block in range(2):
        for which in "kv":
            name = f"double_blocks.{block}.processor.ip_adapter_double_stream_{which}_proj"
            weights |= {f"{name}.weight": noise(WIDTH, width), f"{name}.bias": noise(WIDTH)}
    return weights


def sd3_adapter_weights(seed: int = 1) -> Weights:
    """As InstantX publishes them: a resampler that is told the time, and keys a block."""
    noise, width, queries, times = _noise(seed), 64, 4, 8
    weights = {
        "latents": noise(1, queries, width),
        "time_embedding.linear_1.weight": noise(width, times),
        "time_embedding.linear_1.bias": noise(width),
        "time_embedding.linear_2.weight": noise(width, width),
        "time_embedding.linear_2.bias": noise(width),
        "proj_in.weight": noise(width, SIGLIP_WIDTH),
        "proj_in.bias": noise(width),
        "proj_out.weight": noise(WIDTH, width),
        "proj_out.bias": noise(WIDTH),
        "norm_out.weight": torch.ones(WIDTH),
        "norm_out.bias": noise(WIDTH),
    }
    for layer in range(4):
        for norm in ("0.norm1", "0.norm2", "1.0"):
            weights[f"layers.{layer}.{norm}.weight"] = torch.ones(width)
            weights[f"layers.{layer}.{norm}.bias"] = noise(width)
        shapes = {"0.to_q": (width, width), "0.to_kv": (2 * width, width),
                  "0.to_out": (width, width), "1.1": (4 * width, width),
                  "1.3": (width, 4 * width), "2.1": (4 * width, width)}  # fmt: skip
        for name, shape in shapes.items():
            weights[f"layers.{layer}.{name}.weight"] = noise(*shape)
        weights[f"layers.{layer}.2.1.bias"] = noise(4 * width)
    weights = {f"image_proj.{name}": tensor for name, tensor in weights.items()}
    for block in range(2):
        for name, tensor in {
            "norm_ip.linear.weight": noise(2 * WIDTH, width),
            "norm_ip.linear.bias": noise(2 * WIDTH),
            "to_k_ip.weight": noise(WIDTH, WIDTH),
            "to_v_ip.weight": noise(WIDTH, WIDTH),
            "norm_q.weight": torch.ones(HEAD_WIDTH),
            "norm_k.weight": torch.ones(HEAD_WIDTH),
            "norm_ip_k.weight": torch.ones(HEAD_WIDTH),
        }.items():
            weights[f"ip_adapter.{block}.{name}"] = tensor
    return weights


def siglip(seed: int = 2) -> SiglipVisionModel:
    """A SigLIP vision encoder of 32×32 pixels."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = SiglipVisionModel(
            SiglipVisionConfig(
                hidden_size=SIGLIP_WIDTH,
                intermediate_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                image_size=32,
                patch_size=8,
            )
        )
        return model.eval()


def build_flux_adapter(folder: Path) -> Path:
    """Saves a Flux IP-Adapter and its CLIP encoder, each in a folder of its own."""
    (folder / "adapter").mkdir(parents=True)
    save_file(flux_adapter_weights(), folder / "adapter" / "ip_adapter.safetensors")
    tiny.image_encoder().save_pretrained(folder / "clip", safe_serialization=True)
    return folder


def build_sd3_adapter(folder: Path) -> Path:
    """Saves an SD3 IP-Adapter and its SigLIP encoder."""
    folder.mkdir(parents=True)
    save_file(sd3_adapter_weights(), folder / "ip-adapter.safetensors")
    siglip().save_pretrained(folder / "image_encoder", safe_serialization=True)
    return folder
