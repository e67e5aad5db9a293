"""Tiny pipelines of the families whose prompts are read by a language model.

As in ``tiny`` and ``tiny_families``: real classes, random weights, 32×32 pixels.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffusers
import torch
from diffusers import (
    AdaptiveProjectedMixGuidance,
    AutoencoderKLFlux2,
    AutoencoderKLHunyuanImage,
    AutoencoderKLQwenImage21,
    ChromaPipeline,
    ChromaTransformer2DModel,
    DiffusionPipeline,
    Flux2KleinPipeline,
    Flux2Pipeline,
    Flux2Transformer2DModel,
    Flux3DistilledModularPipeline,
    Flux3ModularPipeline,
    Flux3Transformer2DModel,
    GlmImagePipeline,
    GlmImageTransformer2DModel,
    HunyuanImagePipeline,
    HunyuanImageTransformer2DModel,
    Krea2Pipeline,
    Krea2Transformer2DModel,
    LongCatImageTransformer2DModel,
    QwenImage21Pipeline,
    QwenImage21Transformer2DModel,
    ZImagePipeline,
    ZImageTransformer2DModel,
)
from transformers import (
    ByT5Tokenizer,
    GlmImageConfig,
    GlmImageForConditionalGeneration,
    GlmImageProcessor,
    Mistral3Config,
    Mistral3ForConditionalGeneration,
    Qwen2Tokenizer,
    Qwen2VLProcessor,
    Qwen3_5Config,
    Qwen3_5ForConditionalGeneration,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3Model,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLModel,
    Qwen3VLProcessor,
)
from transformers.models.glm_image.image_processing_pil_glm_image import GlmImageImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from scenewright.agents.judges.loading import pictures_alone
from scenewright.tools.backends.modular import blocks_of
from tests.tools.backends import tiny
from tests.tools.backends.tiny_families import (
    HEAD_WIDTH,
    HEADS,
    T5_WIDTH,
    autoencoder,
    qwen_autoencoder,
    qwen_text_encoder,
    qwen_tokenizer,
    scheduler,
    seeded,
    t5_encoder,
    t5_tokenizer,
)

TEXT = 16
"""Width of the language models."""
CODES = 16
"""Codes of pictures in GLM-Image's language model."""
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}"
    "{% else %}{% for c in m.content %}{{ c.text }}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PICTURE_CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for c in m.content %}"
    "{% if c.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ c.text }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VISION = (
    ("image_token", "image_pad"),
    ("video_token", "video_pad"),
    ("vision_start_token", "vision_start"),
    ("vision_end_token", "vision_end"),
)
"""Marks of pictures: names in a configuration and in the tokenizer."""
GLM_CHAT = (
    "{% for m in messages %}<|user|>{% for c in m.content %}"
    "{% if c.type == 'image' %}<|image|>{% else %}{{ c.text }}{% endif %}"
    "{% endfor %}{% endfor %}"
)
_LANGUAGE: dict[str, Any] = {
    "hidden_size": TEXT,
    "intermediate_size": TEXT,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "initializer_range": 0.5,
    "bos_token_id": None,
    "eos_token_id": None,
}


def chat_tokenizer() -> Qwen2Tokenizer:
    """A tokenizer of letters with a chat template."""
    words = qwen_tokenizer()
    words.chat_template = CHAT
    return words


def qwen3(words: Qwen2Tokenizer, layers: int, kind: Any = Qwen3ForCausalLM) -> Any:
    return kind(Qwen3Config(vocab_size=len(words), num_hidden_layers=layers, **_LANGUAGE)).eval()


def qwen3_vl(words: Qwen2Tokenizer, layers: int, kind: Any) -> Any:
    ids = {f"{mark}_id": words.convert_tokens_to_ids(f"<|{token}|>") for mark, token in VISION}
    rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "mrope_interleaved": True}
    return kind(
        Qwen3VLConfig(
            text_config={
                "vocab_size": len(words), "num_hidden_layers": layers,
                "rope_parameters": rope, **_LANGUAGE,
            },
            vision_config={
                "depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2,
                "out_hidden_size": TEXT, "patch_size": 16, "spatial_merge_size": 2,
                "temporal_patch_size": 2, "num_position_embeddings": 64,
                "deepstack_visual_indexes": [0], "initializer_range": 0.5,
            },
            **ids,
        )
    ).eval()  # fmt: skip


def flux2_autoencoder() -> AutoencoderKLFlux2:
    vae = AutoencoderKLFlux2(
        block_out_channels=(8, 8, 8),
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=4,
        sample_size=tiny.SIZE[0],
        use_quant_conv=False,
        use_post_quant_conv=False,
    )
    vae.bn.running_mean.fill_(0.1)
    vae.bn.running_var.fill_(1.3)
    return vae


def flux2_transformer(guidance: bool) -> Flux2Transformer2DModel:
    return Flux2Transformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=HEAD_WIDTH,
        num_attention_heads=HEADS,
        joint_attention_dim=3 * TEXT,
        timestep_guidance_channels=16,
        axes_dims_rope=(4, 4, 4, 4),
        guidance_embeds=guidance,
    ).eval()


def build_klein(
    folder: Path, pipeline_class: str = "Flux2KleinPipeline", distilled: bool = True, seed: int = 0
) -> Path:
    """Saves a FLUX.2 klein pipeline; not ``distilled``: a base one."""
    words = chat_tokenizer()

    def make() -> DiffusionPipeline:
        return Flux2KleinPipeline(
            scheduler=scheduler(use_dynamic_shifting=True),
            vae=flux2_autoencoder(),
            text_encoder=qwen3(words, layers=27),
            tokenizer=words,
            transformer=flux2_transformer(guidance=False),
            is_distilled=distilled,
        )

    return renamed(seeded(make, folder, seed), pipeline_class)


def build_z_image(folder: Path, seed: int = 0) -> Path:
    """Saves a ``ZImagePipeline``."""
    words = chat_tokenizer()

    def make() -> DiffusionPipeline:
        return ZImagePipeline(
            scheduler=scheduler(shift=3.0),
            vae=autoencoder(),
            text_encoder=qwen3(words, layers=2, kind=Qwen3Model),
            tokenizer=words,
            transformer=ZImageTransformer2DModel(
                in_channels=4,
                dim=32,
                n_layers=2,
                n_refiner_layers=1,
                n_heads=2,
                n_kv_heads=2,
                cap_feat_dim=TEXT,
                axes_dims=[4, 6, 6],
                axes_lens=[1024, 32, 32],
            ).eval(),
        )

    return seeded(make, folder, seed)


def build_krea2(folder: Path, distilled: bool = False, seed: int = 0) -> Path:
    """Saves a ``Krea2Pipeline``."""
    words = qwen_tokenizer()

    def make() -> DiffusionPipeline:
        return Krea2Pipeline(
            scheduler=scheduler(use_dynamic_shifting=True),
            vae=qwen_autoencoder(),
            text_encoder=qwen3_vl(words, 2, Qwen3VLModel),
            tokenizer=words,
            transformer=Krea2Transformer2DModel(
                in_channels=16,
                num_layers=2,
                attention_head_dim=HEAD_WIDTH,
                num_attention_heads=HEADS,
                num_key_value_heads=1,
                intermediate_size=32,
                timestep_embed_dim=16,
                text_hidden_dim=TEXT,
                num_text_layers=2,
                text_num_attention_heads=2,
                text_num_key_value_heads=2,
                text_intermediate_size=16,
                num_layerwise_text_blocks=1,
                num_refiner_text_blocks=1,
                axes_dims_rope=(4, 6, 6),
            ).eval(),
            text_encoder_select_layers=(1, 2),
            is_distilled=distilled,
        )

    return seeded(make, folder, seed)


def build_chroma(folder: Path, seed: int = 0) -> Path:
    """Saves a ``ChromaPipeline``."""
    words = t5_tokenizer()

    def make() -> DiffusionPipeline:
        return ChromaPipeline(
            scheduler=scheduler(),
            vae=autoencoder(),
            text_encoder=t5_encoder(words),
            tokenizer=words,
            transformer=ChromaTransformer2DModel(
                in_channels=16,
                num_layers=2,
                num_single_layers=1,
                attention_head_dim=HEAD_WIDTH,
                num_attention_heads=HEADS,
                joint_attention_dim=T5_WIDTH,
                axes_dims_rope=(4, 4, 8),
                approximator_num_channels=8,
                approximator_hidden_dim=32,
                approximator_layers=1,
            ).eval(),
        )

    return seeded(make, folder, seed)


def picture_processor(kind: Any, words: Qwen2Tokenizer, folder: Path, patch: int = 4) -> Any:
    """Saves the files of a processor of pictures and text in ``folder``, and loads it."""
    words.save_pretrained(folder)
    Qwen2VLImageProcessorPil(
        patch_size=patch, merge_size=2, temporal_patch_size=2,
        size={"shortest_edge": (2 * patch) ** 2, "longest_edge": 4096},
    ).save_pretrained(folder)  # fmt: skip
    processor = pictures_alone(kind, folder)
    # Its files are there already; the library would ask for the parts that it lacks.
    processor.save_pretrained = lambda *_args, **_options: None
    return processor


def build_qwen21(folder: Path, seed: int = 0) -> Path:
    """Saves a ``QwenImage21Pipeline``."""
    words = chat_tokenizer()
    processor = picture_processor(Qwen3VLProcessor, words, folder / "processor", patch=16)

    def make() -> DiffusionPipeline:
        return QwenImage21Pipeline(
            scheduler=scheduler(use_dynamic_shifting=True),
            vae=AutoencoderKLQwenImage21(
                base_dim=8,
                decoder_base_dim=8,
                z_dim=4,
                dim_mult=[1, 1, 1, 1, 1],
                num_res_blocks=1,
                latents_mean=[0.1] * 4,
                latents_std=[1.2] * 4,
            ),
            text_encoder=qwen3_vl(words, 2, Qwen3VLForConditionalGeneration),
            processor=processor,
            transformer=QwenImage21Transformer2DModel(
                in_channels=4,
                out_channels=4,
                num_layers=2,
                attention_head_dim=HEAD_WIDTH,
                num_attention_heads=HEADS,
                context_in_dim=TEXT,
                axes_dims_rope=(4, 4, 8),
            ).eval(),
        )

    return without_class(seeded(make, folder, seed), "processor", "Qwen3VLProcessor")


def without_class(folder: Path, part: str, kind: str) -> Path:
    """Names the library's class of a part in the index, as published folders do."""
    index = json.loads((folder / "model_index.json").read_text())
    index[part] = ["transformers", kind]
    (folder / "model_index.json").write_text(json.dumps(index))
    return folder


def build_longcat(
    folder: Path, pipeline_class: str = "LongCatImagePipeline", seed: int = 0
) -> Path:
    """Saves a ``LongCatImagePipeline``, or its edit pipeline."""
    words = chat_tokenizer()
    processor = picture_processor(Qwen2VLProcessor, words, folder / "text_processor")

    def make() -> DiffusionPipeline:
        return getattr(diffusers, pipeline_class)(
            scheduler=scheduler(use_dynamic_shifting=True),
            # The pipeline takes it for granted that a cell has 16 channels.
            vae=autoencoder(latent_channels=16),
            text_encoder=qwen_text_encoder(words),
            tokenizer=words,
            text_processor=processor,
            transformer=LongCatImageTransformer2DModel(
                in_channels=64,
                num_layers=1,
                num_single_layers=1,
                attention_head_dim=HEAD_WIDTH,
                num_attention_heads=HEADS,
                joint_attention_dim=TEXT,
                pooled_projection_dim=TEXT,
                axes_dims_rope=[4, 4, 8],
            ).eval(),
        )

    return without_class(seeded(make, folder, seed), "text_processor", "Qwen2VLProcessor")


def build_hunyuan(folder: Path, distilled: bool = False, seed: int = 0) -> Path:
    """Saves a ``HunyuanImagePipeline``."""
    words = qwen_tokenizer()

    def make() -> DiffusionPipeline:
        glyphs = ByT5Tokenizer()
        guider = None if distilled else AdaptiveProjectedMixGuidance(guidance_scale=3.5)
        return HunyuanImagePipeline(
            scheduler=scheduler(),
            vae=AutoencoderKLHunyuanImage(
                in_channels=3,
                out_channels=3,
                latent_channels=8,
                block_out_channels=(32, 32, 32),
                layers_per_block=1,
                spatial_compression_ratio=4,
                sample_size=tiny.SIZE[0],
                scaling_factor=0.7,
            ),
            text_encoder=qwen_text_encoder(words, layers=3),
            tokenizer=words,
            text_encoder_2=t5_encoder(glyphs),
            tokenizer_2=glyphs,
            transformer=HunyuanImageTransformer2DModel(
                in_channels=8,
                out_channels=8,
                num_attention_heads=HEADS,
                attention_head_dim=HEAD_WIDTH,
                num_layers=1,
                num_single_layers=1,
                num_refiner_layers=1,
                guidance_embeds=distilled,
                text_embed_dim=TEXT,
                text_embed_2_dim=T5_WIDTH,
                rope_axes_dim=(8, 8),
            ).eval(),
            guider=guider,
        )

    return seeded(make, folder, seed)


def build_flux2(folder: Path, seed: int = 0) -> Path:
    """Saves a ``Flux2Pipeline``."""
    words = chat_tokenizer()
    words.add_special_tokens({"additional_special_tokens": ["[IMG]"]})

    def make() -> DiffusionPipeline:
        return Flux2Pipeline(
            scheduler=scheduler(use_dynamic_shifting=True),
            vae=flux2_autoencoder(),
            text_encoder=Mistral3ForConditionalGeneration(
                Mistral3Config(
                    text_config={
                        "model_type": "mistral", "vocab_size": len(words),
                        "num_hidden_layers": 30, **_LANGUAGE,
                    },
                    vision_config={
                        "model_type": "pixtral", "hidden_size": 16, "intermediate_size": 16,
                        "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 8,
                        "image_size": 32, "patch_size": 4,
                    },
                    image_token_index=words.convert_tokens_to_ids("[IMG]"),
                )
            ).eval(),
            tokenizer=words,
            transformer=flux2_transformer(guidance=True),
        )  # fmt: skip

    return without_class(seeded(make, folder, seed), "tokenizer", "PixtralProcessor")


def build_flux3(
    folder: Path, kind: type[Flux3ModularPipeline] = Flux3DistilledModularPipeline, seed: int = 0
) -> Path:
    """Saves a FLUX 3 pipeline, with an index that names a repository as a published one does."""
    words = chat_tokenizer()
    words.init_kwargs["processor_class"] = "Qwen3VLProcessor"
    processor = picture_processor(Qwen3VLProcessor, words, folder / "tokenizer", patch=16)
    pipe = kind(blocks_of(kind))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        pipe.update_components(
            text_encoder=qwen3_vl(words, 33, Qwen3VLForConditionalGeneration),
            vae=flux2_autoencoder(),
            transformer=Flux3Transformer2DModel(
                in_channels=16,
                cond_in_channels=16,
                num_layers=1,
                num_single_layers=1,
                attention_head_dim=HEAD_WIDTH,
                num_attention_heads=HEADS,
                joint_attention_dim=8 * TEXT,
                timestep_channels=16,
                axes_dims_rope=(4, 4, 4, 4),
                flow_map=kind is Flux3DistilledModularPipeline,
            ).eval(),
            tokenizer=processor,
        )
    tiny.saved(pipe, folder)
    file = folder / "modular_model_index.json"
    index = json.loads(file.read_text())
    index["tokenizer"][2] = {"type_hint": ["transformers", "AutoProcessor"]}
    for part in ("text_encoder", "vae", "transformer", "tokenizer"):
        index[part][:2] = [None, None]
        index[part][2] |= {
            "pretrained_model_name_or_path": "black-forest-labs/flux-3-image-klein",
            "subfolder": part,
        }
    for part in ("prompt_upsampler", "prompt_upsampler_processor"):
        index[part] = [None, None, {"type_hint": ["transformers", "AutoModel"]}]
    file.write_text(json.dumps(index))
    return folder


WRITTEN = 6
"""Least letters that the small prompt upsampler writes."""


def build_upsampler(folder: Path, seed: int = 0) -> Path:
    """Saves a prompt upsampler for FLUX 3 with its processor beside it.

    All but ten letters end its text, so that it writes little more than ``WRITTEN`` of them.
    """
    words = chat_tokenizer()
    words.init_kwargs["processor_class"] = "Qwen3VLProcessor"
    words.chat_template = PICTURE_CHAT
    picture_processor(Qwen3VLProcessor, words, folder, patch=16)
    ids = {f"{mark}_id": words.convert_tokens_to_ids(f"<|{token}|>") for mark, token in VISION}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Qwen3_5ForConditionalGeneration(
            Qwen3_5Config(
                text_config={
                    "vocab_size": len(words), "num_hidden_layers": 2,
                    "layer_types": ["linear_attention", "full_attention"],
                    "linear_key_head_dim": 8, "linear_value_head_dim": 8,
                    "linear_num_key_heads": 1, "linear_num_value_heads": 2,
                    "rope_parameters": {
                        "rope_type": "default", "mrope_section": [2, 1, 1],
                        "mrope_interleaved": True, "partial_rotary_factor": 1.0,
                        "rope_theta": 10000.0,
                    },
                    **_LANGUAGE,
                },
                vision_config={
                    "depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2,
                    "out_hidden_size": TEXT, "patch_size": 16, "num_position_embeddings": 64,
                },
                **ids,
            )
        ).eval()  # fmt: skip
    # Sharp attention: else a few words among thousands would change nothing.
    for name, weights in model.named_parameters():
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            weights.data.fill_(8.0)
    letters = words.convert_tokens_to_ids(list("abcdefghij"))
    model.generation_config.eos_token_id = [at for at in range(len(words)) if at not in letters]
    model.generation_config.min_new_tokens = WRITTEN
    model.save_pretrained(folder)
    return folder


def build_glm(folder: Path, seed: int = 0) -> Path:
    """Saves a ``GlmImagePipeline``."""
    words = glm_tokenizer()

    def make() -> DiffusionPipeline:
        glyphs = ByT5Tokenizer()
        images = GlmImageImageProcessorPil(
            patch_size=8, merge_size=1, temporal_patch_size=1, min_pixels=32 * 32,
            max_pixels=32 * 32,
        )  # fmt: skip
        return GlmImagePipeline(
            tokenizer=glyphs,
            processor=GlmImageProcessor(
                image_processor=images, tokenizer=words, chat_template=GLM_CHAT
            ),
            text_encoder=t5_encoder(glyphs),
            vision_language_encoder=GlmImageForConditionalGeneration(
                GlmImageConfig(
                    text_config={
                        "vocab_size": len(words),
                        "num_hidden_layers": 1,
                        "vision_vocab_size": CODES + 8,
                        "pad_token_id": 0,
                        "rope_parameters": {
                            "rope_type": "default",
                            "mrope_section": [2, 1, 1],
                            "partial_rotary_factor": 1.0,
                            "rope_theta": 10000,
                        },
                        **_LANGUAGE,
                    },
                    vision_config={
                        "depth": 1,
                        "hidden_size": 16,
                        "intermediate_size": 16,
                        "num_heads": 2,
                        "image_size": 32,
                        "patch_size": 8,
                    },
                    vq_config={"embed_dim": 16, "num_embeddings": CODES, "latent_channels": 16},
                    image_token_id=words.convert_tokens_to_ids("<|image|>"),
                    image_start_token_id=CODES,
                    image_end_token_id=CODES + 1,
                )
            ).eval(),
            # Tokens of the language model stand for 32×32 pixels: 2×2 patches of 2×2 cells.
            vae=autoencoder(
                block_out_channels=(8, 8, 8, 8),
                down_block_types=("DownEncoderBlock2D",) * 4,
                up_block_types=("UpDecoderBlock2D",) * 4,
                latents_mean=[0.1] * 4,
                latents_std=[1.2] * 4,
            ),
            transformer=GlmImageTransformer2DModel(
                in_channels=4,
                out_channels=4,
                num_layers=1,
                attention_head_dim=HEAD_WIDTH,
                num_attention_heads=HEADS,
                text_embed_dim=T5_WIDTH,
                time_embed_dim=32,
                condition_dim=8,
                prior_vq_quantizer_codebook_size=CODES + 8,
            ).eval(),
            scheduler=scheduler(use_dynamic_shifting=True),
        )

    return seeded(make, folder, seed)


def glm_tokenizer() -> Qwen2Tokenizer:
    """A tokenizer with the marks of GLM-Image's grids; the codes of pictures come first."""
    words = qwen_tokenizer([f"<|dit_token_{code}|>" for code in range(CODES + 8)])
    marks = {
        "image_token": "<|image|>", "grid_bos_token": "<sop>", "grid_eos_token": "<eop>",
        "bos_token": f"<|dit_token_{CODES}|>",
    }  # fmt: skip
    words.add_special_tokens({"additional_special_tokens": list(marks.values())})
    for name, mark in marks.items():
        words.init_kwargs[name] = mark
        setattr(words, name, mark)
    return words


def renamed(folder: Path, pipeline_class: str) -> Path:
    """The same parts as another pipeline class."""
    index = json.loads((folder / "model_index.json").read_text())
    index["_class_name"] = pipeline_class
    (folder / "model_index.json").write_text(json.dumps(index))
    return folder


BUILDERS: dict[str, Callable[..., Path]] = {
    "Flux2KleinPipeline": build_klein,
    "ZImagePipeline": build_z_image,
    "Krea2Pipeline": build_krea2,
    "ChromaPipeline": build_chroma,
    "QwenImage21Pipeline": build_qwen21,
    "LongCatImagePipeline": build_longcat,
    "HunyuanImagePipeline": build_hunyuan,
    "Flux2Pipeline": build_flux2,
    "Flux3DistilledModularPipeline": build_flux3,
    "GlmImagePipeline": build_glm,
}
