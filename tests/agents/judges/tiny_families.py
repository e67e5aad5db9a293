"""Tiny vision-language models with random weights, each of the real classes of its family.

Their tokenizers read characters and a few whole words; their chat templates have the shape of the
published ones: the same placeholders of pictures, turns and marks of thinking.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from scenewright.agents.judges.loading import without_torchvision

# A byte is a token, but for these words: merged letter by letter, as byte-level BPE does it.
WORDS = ("yes", "no")


def tiny_tokenizer(
    special: Sequence[str], named: Mapping[str, str] | None = None, bos: str | None = None
) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer with the whole words :data:`WORDS` and ``special`` tokens.

    ``named``: tokens that the tokenizer gives as attributes, such as ``image_token``. ``bos`` is
    written before every text.
    """
    tokens = ["<pad>", *special, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    merges = []
    for word in WORDS:
        for length in range(1, len(word)):
            merges.append((word[:length], word[length]))
            tokens.append(word[: length + 1])
    vocabulary = {token: at for at, token in enumerate(dict.fromkeys(tokens))}
    inner = Tokenizer(models.BPE(vocabulary, merges))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([AddedToken(token, special=True) for token in ["<pad>", *special]])
    if bos is not None:
        inner.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, inner.token_to_id(bos))]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token=bos,
        pad_token="<pad>",
        eos_token=special[0],
        extra_special_tokens=dict(named or {}),
        model_input_names=["input_ids", "attention_mask"],
    )


CHATML_TURN = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}IMAGE"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\nOPENING{% endif %}"
)


def chatml(image: str, opening: str = "") -> str:
    """The turns of ChatML with a picture as ``image``; ``opening`` follows the assistant's head."""
    return CHATML_TURN.replace("IMAGE", image).replace("OPENING", opening)


# Left out: thinks. False: an empty block says that it has thought.
_SWITCHED = (
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n"
    "{% else %}<think>\n{% endif %}"
)
_QWEN_IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


@dataclass(frozen=True)
class Tiny:
    """A family's model, small."""

    config: Callable[[Mapping[str, int]], Any]
    """The configuration, by the vocabulary."""
    model: str
    """The model's class."""
    image_processor: Callable[[], Any]
    """The image processor."""
    special: tuple[str, ...]
    """Special tokens; the first ends a turn."""
    template: str
    """The chat template."""
    placeholder: str
    """What the template writes for a picture."""
    picture: str
    """What its prompt has in the place of a picture of 64×48 pixels, by the published rules."""
    named: Mapping[str, str] = field(default_factory=dict)
    """Special tokens that are attributes of the tokenizer."""
    processor: Mapping[str, Any] = field(default_factory=dict)
    """``processor_config.json``."""
    bos: str | None = None
    """The token with which its tokenizer begins every text."""
    begins: str = ""
    """What its processor writes before every text."""
    marked: tuple[str, ...] = ()
    """Tokens that count as the picture's for the model."""
    shares: bool = True
    """Whether the model takes a picture's features from outside."""
    needs_video: bool = True
    """Whether the library's own processor has a part that needs torchvision."""


def save_tiny(name: str, folder: Path, seed: int = 0, template: str | None = None) -> Path:
    """Write the tiny model of the family ``name`` of :data:`FAMILIES` to ``folder``."""
    tiny = FAMILIES[name]
    tokenizer = tiny_tokenizer(tiny.special, tiny.named, bos=tiny.bos)
    torch.manual_seed(seed)
    model = getattr(transformers, tiny.model)(tiny.config(tokenizer.get_vocab()))
    # Random weights of the usual size say nothing of a picture: larger ones do.
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.15)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    tiny.image_processor().save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(template or tiny.template, encoding="utf-8")
    if tiny.processor:
        (folder / "processor_config.json").write_text(json.dumps(tiny.processor), encoding="utf-8")
    return folder


def _images(module: str, **options: Any) -> Callable[[], Any]:
    """The PIL image processor in ``transformers.models``, whose class is the module's only one."""

    def made() -> Any:
        found = importlib.import_module(f"transformers.models.{module}")
        (name,) = (each for each in found.__all__ if each.endswith("Pil"))
        return getattr(found, name)(**options)

    return made


_TEXT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}
_QWEN_TOKENS = (
    "<|im_end|>", "<|im_start|>", "<|endoftext|>", "<|vision_start|>", "<|vision_end|>",
    "<|image_pad|>", "<|video_pad|>", "<think>", "</think>",
)  # fmt: skip


def _qwen_ids(vocabulary: Mapping[str, int]) -> dict[str, int]:
    return {
        "image_token_id": vocabulary["<|image_pad|>"],
        "video_token_id": vocabulary["<|video_pad|>"],
        "vision_start_token_id": vocabulary["<|vision_start|>"],
        "vision_end_token_id": vocabulary["<|vision_end|>"],
    }


def _qwen2_5_vl(vocabulary: Mapping[str, int]) -> Any:
    return transformers.Qwen2_5_VLConfig(
        text_config=_TEXT
        | {
            "vocab_size": len(vocabulary),
            "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3]},
        },
        vision_config={
            "depth": 2,
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_heads": 2,
            "patch_size": 4,
            "window_size": 16,
            "fullatt_block_indexes": [1],
            "out_hidden_size": 32,
        },
        **_qwen_ids(vocabulary),
    )


def _qwen3_vl(vocabulary: Mapping[str, int]) -> Any:
    return transformers.Qwen3VLConfig(
        text_config=_TEXT
        | {
            "vocab_size": len(vocabulary),
            "head_dim": 16,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "mrope_section": [2, 3, 3],
                "mrope_interleaved": True,
            },
        },
        vision_config={
            "depth": 3,
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_heads": 2,
            "patch_size": 4,
            "out_hidden_size": 32,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0, 1],
        },
        **_qwen_ids(vocabulary),
    )


_RANGE = {"min_pixels": 64, "max_pixels": 1024}
_QWEN_IMAGES = _images(
    "qwen2_vl.image_processing_pil_qwen2_vl", patch_size=4, merge_size=2, **_RANGE
)


def _qwen3_5_text(**more: Any) -> dict[str, Any]:
    """A layer of linear attention and one of full attention."""
    return {
        **_TEXT,
        "head_dim": 16,
        "layer_types": ["linear_attention", "full_attention"],
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 2,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "mrope_section": [2, 3, 3],
            "mrope_interleaved": True,
            "partial_rotary_factor": 1.0,
        },
        **more,
    }


_QWEN3_5_VISION = {
    "depth": 2,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_heads": 2,
    "patch_size": 4,
    "out_hidden_size": 32,
    "num_position_embeddings": 64,
}


def _qwen3_5(vocabulary: Mapping[str, int]) -> Any:
    return transformers.Qwen3_5Config(
        text_config=_qwen3_5_text(vocab_size=len(vocabulary)),
        vision_config=_QWEN3_5_VISION,
        **_qwen_ids(vocabulary),
    )


def _qwen3_5_moe(vocabulary: Mapping[str, int]) -> Any:
    experts = {
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
    }
    return transformers.Qwen3_5MoeConfig(
        text_config=_qwen3_5_text(vocab_size=len(vocabulary), **experts),
        vision_config=_QWEN3_5_VISION,
        **_qwen_ids(vocabulary),
    )


def _gemma3(vocabulary: Mapping[str, int]) -> Any:
    return transformers.Gemma3Config(
        text_config={
            **_TEXT,
            "vocab_size": len(vocabulary),
            "head_dim": 16,
            "query_pre_attn_scalar": 16,
            "sliding_window": 16,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        vision_config={
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 16,
            "patch_size": 4,
        },
        mm_tokens_per_image=4,
        boi_token_index=vocabulary["<start_of_image>"],
        eoi_token_index=vocabulary["<end_of_image>"],
        image_token_index=vocabulary["<image_soft_token>"],
    )


_GEMMA3_TURN = (
    "{{ bos_token }}{% for message in messages %}<start_of_turn>{{ message['role'] }}\n"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}<start_of_image>"
    "{% else %}{{ part['text'] | trim }}{% endif %}{% endfor %}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)


def _gemma4(vocabulary: Mapping[str, int]) -> Any:
    return transformers.Gemma4Config(
        text_config={
            **_TEXT,
            "num_hidden_layers": 4,
            "vocab_size": len(vocabulary),
            "vocab_size_per_layer_input": len(vocabulary),
            "hidden_size_per_layer_input": 8,
            "head_dim": 16,
            "global_head_dim": 16,
            "sliding_window": 16,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "num_kv_shared_layers": 2,
        },
        vision_config={
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "patch_size": 4,
            "position_embedding_size": 64,
        },
        audio_config=None,
        boi_token_id=vocabulary["<|image>"],
        eoi_token_id=vocabulary["<image|>"],
        image_token_id=vocabulary["<|image|>"],
        video_token_id=vocabulary["<|video|>"],
        audio_token_id=vocabulary["<|audio|>"],
        boa_token_id=vocabulary["<|audio>"],
        eoa_token_index=vocabulary["<audio|>"],
    )


_GEMMA4_TURN = (
    "{{ bos_token }}"
    "{% if enable_thinking is defined and enable_thinking %}<|turn>system\n<|think|><turn|>\n"
    "{% endif %}{% for message in messages %}<|turn>{{ message['role'] }}\n"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}\n\n<|image|>\n\n"
    "{% else %}{{ part['text'] | trim }}{% endif %}{% endfor %}<turn|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|turn>model\n"
    "{% if not enable_thinking | default(false) %}<|channel>thought\n<channel|>{% endif %}"
    "{% endif %}"
)


def _internvl(vocabulary: Mapping[str, int]) -> Any:
    return transformers.InternVLConfig(
        text_config={**_TEXT, "model_type": "qwen3", "vocab_size": len(vocabulary), "head_dim": 16},
        vision_config={
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": [16, 16],
            "patch_size": [4, 4],
        },
        image_token_id=vocabulary["<IMG_CONTEXT>"],
        image_seq_length=4,
        tie_word_embeddings=False,
    )


def _glm_ids(vocabulary: Mapping[str, int]) -> dict[str, int]:
    return {
        f"{kind}{part}_token_id": vocabulary[f"<|{word}{kind}|>"]
        for kind in ("image", "video")
        for part, word in (("", ""), ("_start", "begin_of_"), ("_end", "end_of_"))
    }


def _glm4v(vocabulary: Mapping[str, int]) -> Any:
    return transformers.Glm4vConfig(**_glm_parts(vocabulary), **_glm_ids(vocabulary))


def _glm46v(vocabulary: Mapping[str, int]) -> Any:
    return transformers.Glm46VConfig(**_glm_parts(vocabulary), **_glm_ids(vocabulary))


def _glm_parts(vocabulary: Mapping[str, int]) -> dict[str, Any]:
    text = {
        **_TEXT,
        "vocab_size": len(vocabulary),
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "mrope_section": [1, 1, 2],
            "partial_rotary_factor": 0.5,
        },
        "model_type": "glm4v_text",
    }
    vision = {
        "depth": 2,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_heads": 2,
        "image_size": 16,
        "patch_size": 4,
        "out_hidden_size": 32,
        "model_type": "glm4v_vision",
    }
    return {"text_config": text, "vision_config": vision}


_GLM_TOKENS = (
    "<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|image|>",
    "<|begin_of_image|>", "<|end_of_image|>", "<|video|>", "<|begin_of_video|>",
    "<|end_of_video|>", "<|begin_of_box|>", "<|end_of_box|>", "<think>", "</think>", "/nothink",
    "<answer>", "</answer>",
)  # fmt: skip
_GLM_TURN = (
    "[gMASK]<sop>{% for message in messages %}<|{{ message['role'] }}|>\n"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}"
    "<|begin_of_image|><|image|><|end_of_image|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}NOTHINK{% endfor %}{% if add_generation_prompt %}<|assistant|>OPENING{% endif %}"
)
# Always thinks, and is not told so.
GLM_THINKS = _GLM_TURN.replace("NOTHINK", "").replace("OPENING", "\n")
_GLM_SWITCHED = _GLM_TURN.replace(
    "NOTHINK", "{% if enable_thinking is defined and not enable_thinking %}/nothink{% endif %}"
).replace(
    "OPENING",
    "{% if enable_thinking is defined and not enable_thinking %}\n<think></think>\n{% endif %}",
)


def _smolvlm(vocabulary: Mapping[str, int]) -> Any:
    return transformers.SmolVLMConfig(
        text_config={**_TEXT, "model_type": "llama", "vocab_size": len(vocabulary)},
        vision_config={
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 16,
            "patch_size": 4,
        },
        image_token_id=vocabulary["<image>"],
        scale_factor=2,
        pad_token_id=vocabulary["<pad>"],
    )


_SMOLVLM_TURN = (
    "<|im_start|>{% for message in messages %}{{ message['role'] | capitalize }}"
    "{% if message['content'][0]['type'] == 'image' %}:{% else %}: {% endif %}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)


def _molmo2(vocabulary: Mapping[str, int]) -> Any:
    return transformers.Molmo2Config(
        text_config={
            **{key: value for key, value in _TEXT.items() if key != "vocab_size"},
            "vocab_size": len(vocabulary),
            "additional_vocab_size": 0,
            "head_dim": 16,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
        },
        vision_config={
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "patch_size": 4,
            "image_size": [32, 32],
            "num_position_embeddings": 64,
        },
        adapter_config={
            "vision_feature_layer": [-1, -2],
            "hidden_size": 16,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "intermediate_size": 24,
            "text_hidden_size": 32,
        },
        image_start_token_id=vocabulary["<im_start>"],
        low_res_image_start_token_id=vocabulary["<low_res_im_start>"],
        image_end_token_id=vocabulary["<im_end>"],
        image_patch_id=vocabulary["<im_patch>"],
        frame_start_token_id=vocabulary["<frame_start>"],
        frame_end_token_id=vocabulary["<frame_end>"],
        image_high_res_id=vocabulary["<im_patch>"],
        image_col_id=vocabulary["<im_col>"],
    )


def _molmo2_images() -> Any:
    found = importlib.import_module("transformers.models.molmo2.image_processing_molmo2")
    kind = without_torchvision(found.Molmo2ImageProcessor)
    return kind(size={"height": 32, "width": 32}, max_crops=6, overlap_margins=[2, 2], patch_size=4)


# The picture stands before all turns.
_MOLMO2_TURN = (
    "{% for message in messages %}{% for part in message['content'] %}"
    + ("{% if part['type'] == 'image' %}<|image|>{% endif %}{% endfor %}{% endfor %}")
    + chatml("")
)
_MOLMO2_MARKS = ("<im_patch>", "<im_col>", "<im_start>", "<low_res_im_start>", "<frame_start>",
                 "<im_end>", "<frame_end>", "<im_low>")  # fmt: skip


def _molmo2_picture(rows: int, columns: int) -> str:
    """The whole in 4×4 pooled patches, then its crops in ``rows`` × ``columns`` of them."""
    whole = ("<im_patch>" * 4 + "<im_col>") * 4
    crops = ("<im_patch>" * columns + "<im_col>") * rows
    return f"<low_res_im_start>{whole}<im_end><im_start>{crops}<im_end>"


_FAKE = "<fake_token_around_image>"
# Two rows of two parts of 16 pixels, then the whole.
_SMOLVLM_PICTURE = (
    "".join(
        "".join(f"{_FAKE}<row_{row}_col_{col}>" + "<image>" * 4 for col in (1, 2)) + "\n"
        for row in (1, 2)
    )
    + f"\n{_FAKE}<global-img>"
    + "<image>" * 4
    + _FAKE
)


def _minicpm(vocabulary: Mapping[str, int], version: str, **more: int) -> Any:
    return getattr(transformers, f"MiniCPMV{version}Config")(
        text_config=_qwen3_5_text(model_type="qwen3_5_text", vocab_size=len(vocabulary)),
        vision_config={
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 32,
            "patch_size": 4,
        },
        insert_layer_id=0,
        image_size=32,
        image_token_id=vocabulary["<|image_pad|>"],
        video_token_id=vocabulary["<|video_pad|>"],
        **more,
    )


def _minicpm4_6(vocabulary: Mapping[str, int]) -> Any:
    return _minicpm(vocabulary, "4_6")


def _minicpm4_7(vocabulary: Mapping[str, int]) -> Any:
    return _minicpm(
        vocabulary,
        "4_7",
        image_start_id=vocabulary["<image>"],
        image_end_id=vocabulary["</image>"],
        slice_start_id=vocabulary["<slice>"],
        slice_end_id=vocabulary["</slice>"],
        newline_id=vocabulary["Ċ"],
    )


_MINICPM_NAMED = {
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
    "image_start_token": "<image>",
    "image_end_token": "</image>",
    "slice_start_token": "<slice>",
    "slice_end_token": "</slice>",
    "image_id_start_token": "<image_id>",
    "image_id_end_token": "</image_id>",
}
_MINICPM_TOKENS = (*_QWEN_TOKENS, *list(_MINICPM_NAMED.values())[2:])
# Three times the 32×32 pixels of a slice: the whole, and 2×2 slices, each in 8×8 or fewer patches.
_FOUR = "<|image_pad|>" * 4
_SLICES = f"<slice>{_FOUR}</slice>" * 2
_MINICPM_PICTURE = f"<image_id>0</image_id><image>{_FOUR}</image>{_SLICES}\n{_SLICES}"
_MINICPM_IMAGES = _images(
    "minicpmv4_6.image_processing_pil_minicpmv4_6",
    patch_size=4,
    scale_resolution=32,
    max_slice_nums=4,
)


# Qwen's pictures here: at most 1,024 pixels, so 32×24, in patches of 4 that are merged 2×2.
FAMILIES: dict[str, Tiny] = {
    "qwen2.5-vl": Tiny(
        _qwen2_5_vl, "Qwen2_5_VLForConditionalGeneration", _QWEN_IMAGES, _QWEN_TOKENS,
        chatml(_QWEN_IMAGE), "<|image_pad|>", "<|image_pad|>" * 12, marked=("<|image_pad|>",),
    ),
    "qwen3-vl": Tiny(
        _qwen3_vl, "Qwen3VLForConditionalGeneration", _QWEN_IMAGES, _QWEN_TOKENS,
        chatml(_QWEN_IMAGE), "<|image_pad|>", "<|image_pad|>" * 12, marked=("<|image_pad|>",),
    ),
    "qwen3.5": Tiny(
        _qwen3_5, "Qwen3_5ForConditionalGeneration", _QWEN_IMAGES, _QWEN_TOKENS,
        chatml(_QWEN_IMAGE, _SWITCHED), "<|image_pad|>", "<|image_pad|>" * 12,
        marked=("<|image_pad|>",),
    ),
    "qwen3.5-moe": Tiny(
        _qwen3_5_moe, "Qwen3_5MoeForConditionalGeneration", _QWEN_IMAGES, _QWEN_TOKENS,
        chatml(_QWEN_IMAGE, _SWITCHED), "<|image_pad|>", "<|image_pad|>" * 12,
        marked=("<|image_pad|>",),
    ),
    "gemma3": Tiny(
        _gemma3, "Gemma3ForConditionalGeneration",
        _images("gemma3.image_processing_pil_gemma3", size={"height": 16, "width": 16}),
        ("<end_of_turn>", "<bos>", "<start_of_turn>", "<start_of_image>", "<end_of_image>",
         "<image_soft_token>"),
        _GEMMA3_TURN, "<start_of_image>",
        "\n\n<start_of_image>" + "<image_soft_token>" * 4 + "<end_of_image>\n\n",
        named={"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>",
               "image_token": "<image_soft_token>"},
        processor={"processor_class": "Gemma3Processor", "image_seq_length": 4},
        marked=("<image_soft_token>",), needs_video=False, bos="<bos>",
    ),
    # 70 tokens at most, of 3×3 patches of 4: 9×7 fit the form.
    "gemma4": Tiny(
        _gemma4, "Gemma4ForConditionalGeneration",
        _images("gemma4.image_processing_pil_gemma4", patch_size=4, max_soft_tokens=70),
        ("<turn|>", "<bos>", "<|turn>", "<|think|>", "<|channel>", "<channel|>", "<|image>",
         "<image|>", "<|image|>", "<|audio>", "<audio|>", "<|audio|>", "<|video|>"),
        _GEMMA4_TURN, "<|image|>", "<|image>" + "<|image|>" * 63 + "<image|>",
        named={"boi_token": "<|image>", "eoi_token": "<image|>", "image_token": "<|image|>",
               "boa_token": "<|audio>", "eoa_token": "<audio|>", "audio_token": "<|audio|>"},
        processor={"processor_class": "Gemma4Processor", "image_seq_length": 70},
        marked=("<|image|>",), bos="<bos>",
    ),
    # 2×2 tiles, since of up to 4 tiles 1:1 is nearest to 4:3, and the whole: 4 tokens each.
    "internvl": Tiny(
        _internvl, "InternVLForConditionalGeneration",
        _images("got_ocr2.image_processing_pil_got_ocr2", size={"height": 16, "width": 16},
                crop_to_patches=True, max_patches=4),
        ("<|im_end|>", "<|im_start|>", "<img>", "</img>", "<IMG_CONTEXT>", "<video>", "<think>",
         "</think>"),
        chatml("<IMG_CONTEXT>\n"), "<IMG_CONTEXT>",
        "<img>" + "<IMG_CONTEXT>" * 20 + "</img>",
        named={"start_image_token": "<img>", "end_image_token": "</img>",
               "context_image_token": "<IMG_CONTEXT>", "video_token": "<video>"},
        processor={"processor_class": "InternVLProcessor", "image_seq_length": 4},
    ),
    "glm-4.1v": Tiny(
        _glm4v, "Glm4vForConditionalGeneration",
        _images("glm4v.image_processing_pil_glm4v", patch_size=4, merge_size=2,
                size={"shortest_edge": 64, "longest_edge": 2048}),
        _GLM_TOKENS, _GLM_SWITCHED, "<|image|>", "<|image|>" * 12, marked=("<|image|>",),
    ),
    "glm-4.6v": Tiny(
        _glm46v, "Glm46VForConditionalGeneration",
        _images("glm46v.image_processing_pil_glm46v", patch_size=4, merge_size=2,
                size={"shortest_edge": 64, "longest_edge": 2048}),
        _GLM_TOKENS, _GLM_SWITCHED, "<|image|>", "<|image|>" * 12, marked=("<|image|>",),
    ),
    "smolvlm2": Tiny(
        _smolvlm, "SmolVLMForConditionalGeneration",
        _images("smolvlm.image_processing_pil_smolvlm", size={"longest_edge": 32},
                max_image_size={"longest_edge": 16}),
        ("<end_of_utterance>", "<|im_start|>", "<image>", _FAKE, "<global-img>",
         *(f"<row_{row}_col_{col}>" for row in range(1, 7) for col in range(1, 7))),
        _SMOLVLM_TURN, "<image>", _SMOLVLM_PICTURE,
        processor={"processor_class": "SmolVLMProcessor", "image_seq_len": 4},
    ),
    # Windows of 4 patches within margins of 2: a canvas of 2×3 windows is 12×16 patches for 3:4.
    "molmo2": Tiny(
        _molmo2, "Molmo2ForConditionalGeneration", _molmo2_images,
        ("<|im_end|>", "<|im_start|>", "<|image|>", "<|video|>", *_MOLMO2_MARKS),
        _MOLMO2_TURN, "<|image|>", _molmo2_picture(6, 8), marked=_MOLMO2_MARKS,
        begins="<|im_end|>",
    ),
    "minicpm-v-4.6": Tiny(
        _minicpm4_6, "MiniCPMV4_6ForConditionalGeneration", _MINICPM_IMAGES, _MINICPM_TOKENS,
        chatml("<|image_pad|>\n"), "<|image_pad|>", _MINICPM_PICTURE, named=_MINICPM_NAMED,
        marked=("<|image_pad|>",),
    ),
    "minicpm-v-4.7": Tiny(
        _minicpm4_7, "MiniCPMV4_7ForConditionalGeneration", _MINICPM_IMAGES, _MINICPM_TOKENS,
        chatml("<|image_pad|>\n", _SWITCHED), "<|image_pad|>", _MINICPM_PICTURE,
        named=_MINICPM_NAMED, marked=("<|image_pad|>",),
    ),
}  # fmt: skip
"""Families by name."""
