"""A tiny Llava with random weights, of the same classes as a real one, for tests."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import (
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

TEMPLATE = (
    "{% for message in messages %}USER: {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %} ASSISTANT: {% endif %}"
)


def save_tiny_llava(folder: Path, seed: int = 0, words: tuple[str, ...] = ("yes", "no")) -> Path:
    """A Llava that reads characters and the given whole ``words``; CLIP tower, 4 image tokens."""
    characters = [chr(code) for code in range(32, 127)]
    tokens = ["<pad>", "<s>", "</s>", "<unk>", "<image>", *words, *characters]
    vocabulary = {token: index for index, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    alternatives = "|".join(rf"\b{word}\b" for word in words)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(
        Regex(f"{alternatives}|." if words else "."), behavior="isolated"
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        extra_special_tokens={"image_token": "<image>"},
        model_input_names=["input_ids", "attention_mask"],
    )
    processor = LlavaProcessor(
        image_processor=CLIPImageProcessorPil(
            size={"height": 16, "width": 16}, do_center_crop=False
        ),
        tokenizer=fast,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE,
    )
    torch.manual_seed(seed)
    model = LlavaForConditionalGeneration(
        LlavaConfig(
            vision_config=CLIPVisionConfig(
                hidden_size=16,
                intermediate_size=32,
                num_hidden_layers=2,
                num_attention_heads=2,
                image_size=16,
                patch_size=8,
                initializer_range=0.2,
            ),
            text_config=LlamaConfig(
                vocab_size=len(vocabulary),
                hidden_size=32,
                intermediate_size=64,
                num_hidden_layers=2,
                num_attention_heads=2,
                num_key_value_heads=2,
                initializer_range=0.2,
                pad_token_id=0,
            ),
            image_token_index=vocabulary["<image>"],
            image_seq_length=4,
            vision_feature_layer=-1,
        )
    )
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
