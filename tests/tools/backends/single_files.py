"""Checkpoints in one file, in the layouts in which trainers and ComfyUI write them.

The weights are those of a small pipeline's folder. What is written here is the inverse of what
diffusers' ``convert_*`` functions do, after the scripts of the models' makers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

Weights = dict[str, torch.Tensor]


def weights_of(folder: Path, part: str) -> Weights:
    """The weights of a part of the pipeline in ``folder``."""
    (file,) = (folder / part).glob("*.safetensors")
    return load_file(file)


def config_of(folder: Path, part: str) -> dict[str, object]:
    """Its configuration."""
    found: dict[str, object] = json.loads((folder / part / "config.json").read_text())
    return found


def renamed(weights: Weights, pairs: Iterable[tuple[str, str]]) -> Weights:
    """``weights`` with each pattern in their names replaced, in this order."""
    found = {}
    for name, tensor in weights.items():
        for pattern, new in pairs:
            name = re.sub(pattern, new, name)
        found[name] = tensor
    return found


def prefixed(prefix: str, weights: Weights) -> Weights:
    """``weights`` with ``prefix`` before their names."""
    return {f"{prefix}{name}": tensor for name, tensor in weights.items()}


def fused(weights: Weights, names: tuple[str, str, str], into: str) -> Weights:
    """``weights`` in which three matrices side by side are one."""
    found = dict(weights)
    for name in list(weights):
        first = re.fullmatch(rf"(.*){re.escape(names[0])}\.(weight|bias)", name)
        if first is not None:
            rows = [found.pop(f"{first[1]}{one}.{first[2]}") for one in names]
            found[f"{first[1]}{into}.{first[2]}"] = torch.cat(rows)
    return found


def swapped(weights: Weights, *names: str) -> Weights:
    """``weights`` in which the halves of those tensors change places: shift before scale."""
    found = dict(weights)
    for name in names:
        scale, shift = found[name].chunk(2)
        found[name] = torch.cat([shift, scale])
    return found


def unet(weights: Weights, levels: int, layers: int) -> Weights:
    """A UNet by the names of latent diffusion, without prefix."""
    step = layers + 1
    pairs = [
        (r"^time_embedding\.linear_1", "time_embed.0"),
        (r"^time_embedding\.linear_2", "time_embed.2"),
        (r"^add_embedding\.linear_1", "label_emb.0.0"),
        (r"^add_embedding\.linear_2", "label_emb.0.2"),
        (r"^conv_in", "input_blocks.0.0"), (r"^conv_norm_out", "out.0"), (r"^conv_out", "out.2"),
        (r"^mid_block\.attentions\.0", "middle_block.1"),
        (r"^mid_block\.resnets\.0", "middle_block.0"),
        (r"^mid_block\.resnets\.1", "middle_block.2"),
    ]  # fmt: skip
    for level in range(levels):
        attends = any(name.startswith(f"up_blocks.{level}.attentions") for name in weights)
        for layer in range(step):
            at, out = step * level + layer + 1, step * level + layer
            pairs += [
                (rf"^down_blocks\.{level}\.resnets\.{layer}\.", f"input_blocks.{at}.0."),
                (rf"^down_blocks\.{level}\.attentions\.{layer}\.", f"input_blocks.{at}.1."),
                (rf"^up_blocks\.{level}\.resnets\.{layer}\.", f"output_blocks.{out}.0."),
                (rf"^up_blocks\.{level}\.attentions\.{layer}\.", f"output_blocks.{out}.1."),
            ]
        end, last = step * (level + 1), step * level + layers
        pairs += [
            (rf"^down_blocks\.{level}\.downsamplers\.0\.conv", f"input_blocks.{end}.0.op"),
            (rf"^up_blocks\.{level}\.upsamplers\.0", f"output_blocks.{last}.{1 + attends}"),
        ]
    inner = [
        ("norm1", "in_layers.0"), ("conv1", "in_layers.2"), ("norm2", "out_layers.0"),
        ("conv2", "out_layers.3"), ("time_emb_proj", "emb_layers.1"),
        ("conv_shortcut", "skip_connection"),
    ]  # fmt: skip
    blocks = r"^((?:input|output|middle)_blocks?\.\d+(?:\.0)?)\."
    return renamed(
        weights, [*pairs, *((rf"{blocks}{ours}\.", rf"\1.{new}.") for ours, new in inner)]
    )


def autoencoder(weights: Weights, levels: int) -> Weights:
    """An autoencoder by the names of latent diffusion, its attention as convolutions."""
    pairs = [
        (r"conv_shortcut", "nin_shortcut"), (r"conv_norm_out", "norm_out"),
        (r"mid_block\.attentions\.0\.", "mid.attn_1."),
        (r"mid_block\.resnets\.0\.", "mid.block_1."), (r"mid_block\.resnets\.1\.", "mid.block_2."),
        (r"down_blocks\.(\d+)\.resnets\.(\d+)", r"down.\1.block.\2"),
        (r"down_blocks\.(\d+)\.downsamplers\.0", r"down.\1.downsample"),
    ]  # fmt: skip
    for level in range(levels):
        up = levels - 1 - level
        pairs += [
            (rf"up_blocks\.{level}\.resnets\.(\d+)", rf"up.{up}.block.\1"),
            (rf"up_blocks\.{level}\.upsamplers\.0", f"up.{up}.upsample"),
        ]
    attention = [
        ("group_norm", "norm"), ("to_q", "q"), ("to_k", "k"), ("to_v", "v"),
        (r"to_out\.0", "proj_out"),
    ]  # fmt: skip
    pairs += [(rf"attn_1\.{ours}\.", f"attn_1.{new}.") for ours, new in attention]
    return {
        name: one[:, :, None, None] if ".attn_1." in name and one.ndim == 2 else one
        for name, one in renamed(weights, pairs).items()
    }


def clip(weights: Weights) -> Weights:
    """A text encoder of CLIP with the level that files name."""
    return {
        name if name.startswith(("text_model.", "text_projection")) else f"text_model.{name}": one
        for name, one in weights.items()
    }


def open_clip(weights: Weights) -> Weights:
    """A text encoder by the names of OpenCLIP."""
    pairs = [
        (r"encoder\.layers\.", "transformer.resblocks."), (r"layer_norm(\d)", r"ln_\1"),
        (r"mlp\.fc1", "mlp.c_fc"), (r"mlp\.fc2", "mlp.c_proj"), (r"self_attn\.", "attn."),
        (r"embeddings\.token_embedding", "token_embedding"),
        (r"embeddings\.position_embedding\.weight", "positional_embedding"),
        (r"final_layer_norm", "ln_final"), (r"^text_model\.", ""),
    ]  # fmt: skip
    found = renamed(weights, pairs)
    found["text_projection"] = found.pop("text_projection.weight").T.contiguous()
    found = fused(found, ("q_proj", "k_proj", "v_proj"), "in_proj")
    return renamed(found, [(r"in_proj\.", "in_proj_")])


def sd3(weights: Weights, layers: int) -> Weights:
    """A denoiser of Stable Diffusion 3."""
    last = f"joint_blocks.{layers - 1}.context_block.adaLN_modulation.1"
    found = fused(weights, ("attn.to_q", "attn.to_k", "attn.to_v"), "x_block.attn.qkv")
    added = ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj")
    found = fused(found, added, "context_block.attn.qkv")
    pairs = [
        (r"^pos_embed\.pos_embed", "pos_embed"), (r"^pos_embed\.proj", "x_embedder.proj"),
        (r"^time_text_embed\.timestep_embedder\.linear_1", "t_embedder.mlp.0"),
        (r"^time_text_embed\.timestep_embedder\.linear_2", "t_embedder.mlp.2"),
        (r"^time_text_embed\.text_embedder\.linear_1", "y_embedder.mlp.0"),
        (r"^time_text_embed\.text_embedder\.linear_2", "y_embedder.mlp.2"),
        (r"^proj_out", "final_layer.linear"),
        (r"^norm_out\.linear", "final_layer.adaLN_modulation.1"),
        (r"^transformer_blocks", "joint_blocks"),
        (r"\.norm1\.linear", ".x_block.adaLN_modulation.1"),
        (r"\.norm1_context\.linear", ".context_block.adaLN_modulation.1"),
        (r"\.attn\.norm_(q|k)\.", r".x_block.attn.ln_\1."),
        (r"\.attn\.norm_added_(q|k)\.", r".context_block.attn.ln_\1."),
        (r"\.attn\.to_out\.0", ".x_block.attn.proj"),
        (r"\.attn\.to_add_out", ".context_block.attn.proj"),
        (r"\.ff\.net\.0\.proj", ".x_block.mlp.fc1"), (r"\.ff\.net\.2", ".x_block.mlp.fc2"),
        (r"\.ff_context\.net\.0\.proj", ".context_block.mlp.fc1"),
        (r"\.ff_context\.net\.2", ".context_block.mlp.fc2"),
    ]  # fmt: skip
    ends = ("final_layer.adaLN_modulation.1", last)
    return swapped(
        renamed(found, pairs), *(f"{name}.{end}" for name in ends for end in ("weight", "bias"))
    )


_STREAMS = [
    (r"\.attn\.norm_(q|k)\w*\.weight", r".img_attn.norm.\1.scale"),
    (r"\.attn\.norm_added_(q|k)\w*\.weight", r".txt_attn.norm.\1.scale"),
    (r"norm\.q\.scale", "norm.query_norm.scale"), (r"norm\.k\.scale", "norm.key_norm.scale"),
    (r"\.attn\.to_out\.0", ".img_attn.proj"), (r"\.attn\.to_add_out", ".txt_attn.proj"),
    (r"^transformer_blocks", "double_blocks"), (r"^single_transformer_blocks", "single_blocks"),
    (r"^(single_blocks\.\d+)\.img_attn\.", r"\1."),
    (r"^proj_out", "final_layer.linear"), (r"^norm_out\.linear", "final_layer.adaLN_modulation.1"),
    (r"^x_embedder", "img_in"), (r"^context_embedder", "txt_in"),
]  # fmt: skip
_ADDED = ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj")


def flux(weights: Weights) -> Weights:
    """A denoiser of FLUX.1."""
    found = dict(weights)
    for name in list(weights):
        single = re.fullmatch(r"(single_transformer_blocks\.\d+)\.proj_mlp\.(weight|bias)", name)
        if single is not None:
            parts = ("attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp")
            rows = [found.pop(f"{single[1]}.{part}.{single[2]}") for part in parts]
            found[f"{single[1]}.linear1.{single[2]}"] = torch.cat(rows)
    found = renamed(found, [(r"^(single_transformer_blocks\.\d+)\.proj_out", r"\1.linear2")])
    found = fused(found, ("attn.to_q", "attn.to_k", "attn.to_v"), "img_attn.qkv")
    found = fused(found, _ADDED, "txt_attn.qkv")
    pairs = [
        (r"^time_text_embed\.timestep_embedder\.linear_1", "time_in.in_layer"),
        (r"^time_text_embed\.timestep_embedder\.linear_2", "time_in.out_layer"),
        (r"^time_text_embed\.text_embedder\.linear_1", "vector_in.in_layer"),
        (r"^time_text_embed\.text_embedder\.linear_2", "vector_in.out_layer"),
        (r"^time_text_embed\.guidance_embedder\.linear_1", "guidance_in.in_layer"),
        (r"^time_text_embed\.guidance_embedder\.linear_2", "guidance_in.out_layer"),
        (r"\.norm1\.linear", ".img_mod.lin"), (r"\.norm1_context\.linear", ".txt_mod.lin"),
        (r"^(single_transformer_blocks\.\d+)\.norm\.linear", r"\1.modulation.lin"),
        (r"\.ff\.net\.0\.proj", ".img_mlp.0"), (r"\.ff\.net\.2", ".img_mlp.2"),
        (r"\.ff_context\.net\.0\.proj", ".txt_mlp.0"), (r"\.ff_context\.net\.2", ".txt_mlp.2"),
        *_STREAMS,
    ]  # fmt: skip
    ends = [f"final_layer.adaLN_modulation.1.{end}" for end in ("weight", "bias")]
    return swapped(renamed(found, pairs), *ends)


def flux2(weights: Weights) -> Weights:
    """A denoiser of FLUX.2."""
    found = fused(weights, ("attn.to_q", "attn.to_k", "attn.to_v"), "img_attn.qkv")
    found = fused(found, _ADDED, "txt_attn.qkv")
    pairs = [
        (r"^time_guidance_embed\.timestep_embedder\.linear_1", "time_in.in_layer"),
        (r"^time_guidance_embed\.timestep_embedder\.linear_2", "time_in.out_layer"),
        (r"_modulation(_img|_txt)?\.linear", r"_modulation\1.lin"),
        (r"\.ff\.linear_in", ".img_mlp.0"), (r"\.ff\.linear_out", ".img_mlp.2"),
        (r"\.ff_context\.linear_in", ".txt_mlp.0"), (r"\.ff_context\.linear_out", ".txt_mlp.2"),
        (r"\.attn\.to_qkv_mlp_proj", ".linear1"),
        (r"^(single_transformer_blocks\.\d+)\.attn\.to_out\.", r"\1.linear2."),
        *_STREAMS,
    ]  # fmt: skip
    return swapped(renamed(found, pairs), "final_layer.adaLN_modulation.1.weight")


def z_image(weights: Weights) -> Weights:
    """A denoiser of Z-Image."""
    pairs = [
        (r"^all_final_layer\.2-1\.", "final_layer."), (r"^all_x_embedder\.2-1\.", "x_embedder."),
        (r"\.to_out\.0\.", ".out."), (r"\.norm_k\.", ".k_norm."), (r"\.norm_q\.", ".q_norm."),
    ]  # fmt: skip
    return renamed(fused(weights, (".to_q", ".to_k", ".to_v"), ".qkv"), pairs)


DENOISERS: dict[str, Callable[[Path], Weights]] = {
    "sd15": lambda model: unet(weights_of(model, "unet"), 2, 1),
    "sdxl": lambda model: unet(weights_of(model, "unet"), 2, 1),
    "sd3": lambda model: sd3(weights_of(model, "transformer"), 2),
    "flux": lambda model: flux(weights_of(model, "transformer")),
    "klein": lambda model: flux2(weights_of(model, "transformer")),
    "z-image": lambda model: z_image(weights_of(model, "transformer")),
}
ENCODERS: dict[str, dict[str, tuple[str, Callable[[Weights], Weights]]]] = {
    "sd15": {"text_encoder": ("cond_stage_model.transformer.", clip)},
    "sdxl": {
        "text_encoder": ("conditioner.embedders.0.transformer.", clip),
        "text_encoder_2": ("conditioner.embedders.1.model.", open_clip),
    },
    "sd3": {
        "text_encoder": ("text_encoders.clip_l.transformer.", clip),
        "text_encoder_2": ("text_encoders.clip_g.transformer.", clip),
        "text_encoder_3": ("text_encoders.t5xxl.transformer.", dict),
    },
    "flux": {
        "text_encoder": ("text_encoders.clip_l.transformer.", clip),
        "text_encoder_2": ("text_encoders.t5xxl.transformer.", dict),
    },
    "klein": {"text_encoder": ("text_encoders.qwen3_4b.transformer.", dict)},
    "z-image": {
        "text_encoder": (
            "text_encoders.qwen3_4b.transformer.", lambda weights: prefixed("model.", weights)
        ),
    },
}  # fmt: skip
"""Prefix and layout of each text encoder in a file with all parts."""


def whole(family: str, model: Path) -> Weights:
    """All weights of ``model`` in the layout of a checkpoint of the ``family``."""
    found = prefixed("model.diffusion_model.", DENOISERS[family](model))
    vae = "first_stage_model." if family in ("sd15", "sdxl", "sd3") else "vae."
    found |= prefixed(vae, autoencoder(weights_of(model, "vae"), 3))
    for part, (prefix, layout) in ENCODERS[family].items():
        found |= prefixed(prefix, layout(weights_of(model, part)))
    return found


def scaled(weights: Weights, ends: tuple[str, str] = ("scale_weight", "scale_input")) -> Weights:
    """``weights`` as ComfyUI stores them in eight bits, with a factor for each matrix."""
    found: Weights = {"scaled_fp8": torch.empty(0, dtype=torch.float8_e4m3fn)}
    for name, tensor in weights.items():
        if tensor.ndim != 2 or not name.endswith(".weight"):
            found[name] = tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor
            continue
        factor = tensor.abs().max().clamp(min=1e-8) / 448
        found[name] = (tensor / factor).to(torch.float8_e4m3fn)
        stem = name.removesuffix("weight")
        found[f"{stem}{ends[0]}"], found[f"{stem}{ends[1]}"] = factor.float(), torch.tensor(1.0)
    return found


def save(weights: Weights, file: Path) -> Path:
    """``file`` with ``weights``."""
    save_file({name: tensor.contiguous().clone() for name, tensor in weights.items()}, file)
    return file
