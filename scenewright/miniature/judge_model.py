"""The miniature judge: a small Llava (image + question → next token) in transformers layout.

The vision tower is a stock hybrid of a few convolutions (BiT) and a small ViT
(``DPTModel``), 128×128 pixels → 64 tokens; the language model is a small Llama over a
vocabulary of the world's words and phrases. ``AutoModelForImageTextToText`` and
``AutoProcessor`` load the saved folder without any code of this package.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import (
    BitConfig,
    DPTConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.utils import logging as transformers_logging

from scenewright.core.closed_vocabulary import write_vocabulary
from scenewright.core.predicate_statistics import load_predicates
from scenewright.core.questions import NO_RELATION
from scenewright.miniature.world import COLORS, JUDGE_VOCABULARY, KINDS, PREDICATES, SIZE
from scenewright.prompts import load_prompt

PATCH = 16
"""Pixels a side that one image token stands for."""
GRID = SIZE // PATCH
"""Image tokens a side."""

_SPECIAL = ("<pad>", "<unk>", "<image>", "<user>", "<judge>")
_PHRASES = (
    "What is the relationship between",
    "in the image?",
    "Are there at least",
    "Besides",
    "is there anything else",
    "Is every object in the image",
    "and well formed?",
    "Is there",
    "one of the",
)
_WORDS = ("whole", "is", "Is", "the", "a", "an", "and", "yes", "no", "color")
_LETTERS = tuple("ABCDEFGH")
_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_SIGNS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<user>' if message['role'] == 'user' else '<judge>' }}"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% elif part['type'] == 'text' %}{{ part['text'] }}"
    "{% endif %}{% endfor %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<judge>{% endif %}"
)


@dataclass(frozen=True, slots=True)
class JudgeShape:
    """The sizes of a miniature judge."""

    stem: int = 16
    """Channels of the first convolution; a multiple of 8."""
    stages: tuple[int, int, int] = (64, 128, 192)
    """Channels of the convolution stages (1/4, 1/8 and 1/16 of the side); multiples of 32."""
    depths: tuple[int, int, int] = (1, 1, 2)
    """Residual blocks of each stage."""
    vision_width: int = 160
    """Width of the ViT over the 64 tokens."""
    vision_layers: int = 3
    """Its layers."""
    text_width: int = 128
    """Width of the Llama."""
    text_layers: int = 4
    """Its layers."""
    head_width: int = 32
    """Width of one attention head; divides both widths."""


# The wordings that the shipped judges have a token for.
_SYNONYMS = (
    *("to the left of", "on the left of", "to the right of", "on the right of", "over"),
    *("higher than", "beneath", "lower than", "on top of", "sitting on", "standing on"),
    *("lying on", "underneath", "next to", "beside", "by", "close to", "in", "carrying"),
)


def _instructions() -> Iterable[str]:
    """Return the fixed lines of the judge prompts, so that each costs few tokens."""
    for prompt_id in ("judge_binary", "judge_choice"):
        yield load_prompt(prompt_id).text.splitlines()[-1]


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Words and phrases of the question forms; any other word is spelled by characters."""
    predicates = {*PREDICATES, *_SYNONYMS, NO_RELATION}
    for rivals in load_predicates("miniature").fixed.values():
        predicates.update(rivals)
    phrases = [*_PHRASES, *_instructions(), *sorted(p for p in predicates if " " in p)]
    words = [*_WORDS, *KINDS, *COLORS, *sorted(p for p in predicates if " " not in p)]
    # A sign between two options is one token with the letter after it: "; B)".
    options = [f"{sign}{letter})" for sign in ("", "; ") for letter in _LETTERS]
    tokens = dict.fromkeys(
        [*_SPECIAL, *phrases, *words, *options, *_LETTERS, *_CHARACTERS, *_SIGNS]
    )
    tokens.update(dict.fromkeys(f"##{character}" for character in _CHARACTERS))
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(
        models.WordPiece(vocabulary, unk_token="<unk>", max_input_chars_per_word=400)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents()])
    longest_first = sorted(phrases, key=len, reverse=True)
    escaped = "|".join(
        rf"\b{re.escape(phrase)}" + (r"\b" if phrase[-1].isalnum() else "")
        for phrase in longest_first
    )
    pattern = rf"{escaped}|(?:; )?\b[A-H]\)|\w+|[^\w\s]"
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="removed", invert=True)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        extra_special_tokens={
            "image_token": "<image>",
            "user_token": "<user>",
            "judge_token": "<judge>",
        },
        model_input_names=["input_ids", "attention_mask"],
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def build_processor() -> LlavaProcessor:
    """Image processor (128×128, values in −1…1), tokenizer and chat template."""
    images = CLIPImageProcessorPil(
        size={"height": SIZE, "width": SIZE},
        do_center_crop=False,
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
    )
    return LlavaProcessor(
        image_processor=images,
        tokenizer=build_tokenizer(),
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=_TEMPLATE,
    )


def build_model(shape: JudgeShape, processor: LlavaProcessor) -> LlavaForConditionalGeneration:
    """Return a judge of ``shape`` with random weights (torch's global seed)."""
    tokenizer: Any = processor.tokenizer
    tower = DPTConfig(
        is_hybrid=True,
        backbone_config=BitConfig(
            embedding_size=shape.stem,
            hidden_sizes=list(shape.stages),
            depths=list(shape.depths),
            layer_type="bottleneck",
            global_padding="same",
            num_groups=8,
            embedding_dynamic_padding=True,
            out_features=["stage1", "stage2", "stage3"],
        ),
        backbone_featmap_shape=[1, shape.stages[-1], GRID, GRID],
        hidden_size=shape.vision_width,
        num_hidden_layers=shape.vision_layers,
        num_attention_heads=shape.vision_width // shape.head_width,
        intermediate_size=3 * shape.vision_width,
        image_size=SIZE,
        patch_size=PATCH,
        layer_norm_eps=1e-6,
    )
    text = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.text_width,
        num_hidden_layers=shape.text_layers,
        num_attention_heads=shape.text_width // shape.head_width,
        num_key_value_heads=shape.text_width // shape.head_width,
        intermediate_size=2 * shape.text_width,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        initializer_range=shape.text_width**-0.5,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=None,
    )
    config = LlavaConfig(
        vision_config=tower,
        text_config=text,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=GRID * GRID,
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
        tie_word_embeddings=True,
    )
    model = LlavaForConditionalGeneration(config)
    for layer in (
        model.model.multi_modal_projector.linear_1,
        model.model.multi_modal_projector.linear_2,
    ):
        torch.nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
    tower_model: Any = model.model.vision_tower
    # The stock start of all positions is zero; distinct ones tell places apart from step one.
    torch.nn.init.normal_(tower_model.embeddings.position_embeddings, std=0.02)
    return model


def save_judge(
    model: LlavaForConditionalGeneration,
    processor: LlavaProcessor,
    folder: Path,
    dtype: torch.dtype = torch.float16,
) -> None:
    """Write model, processor and vocabulary to ``folder`` in the layout of transformers.

    Weights are stored as ``dtype``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        key: value.detach().to("cpu", dtype) if value.is_floating_point() else value.detach().cpu()
        for key, value in model.state_dict().items()
    }
    bar = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    model.save_pretrained(folder, state_dict=state)
    if bar:
        transformers_logging.enable_progress_bar()
    processor.save_pretrained(folder)
    write_vocabulary(folder, JUDGE_VOCABULARY)
