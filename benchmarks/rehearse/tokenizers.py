"""Tokenizers of published models: CLIP's own, and Qwen's without its vocabulary.

Qwen's has the same class, size and special tokens and cuts text into letters, so prompts have more
tokens than with the published merges; only words that stand in chat templates and answers are one
token.
"""

from __future__ import annotations

from typing import Any

from benchmarks.rehearse.tensors import RehearsalError
from scenewright.tools.backends.clip_tokenizer import clip_tokenizer

QWEN_WORDS = 151_643
"""Tokens of Qwen 2, 2.5 and 3 before the special ones."""
QWEN_MARKS = (
    "endoftext", "im_start", "im_end", "object_ref_start", "object_ref_end", "box_start",
    "box_end", "quad_start", "quad_end", "vision_start", "vision_end", "vision_pad", "image_pad",
    "video_pad",
)  # fmt: skip
QWEN_CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for c in m.content %}"
    "{% if c.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ c.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""The turns of Qwen's chat template, without tools and thinking."""
_WHOLE = ("yes", "no", "user", "assistant", "system")


def build_tokenizer(kind: str, options: dict[str, Any]) -> Any:
    """Return a tokenizer of the class ``kind`` with ``options``.

    Raises ``RehearsalError`` for a class that none is known of.
    """
    match kind:
        case "CLIPTokenizer":
            return clip_tokenizer(**options)
        case "Qwen2Tokenizer":
            return _qwen(options)
    raise RehearsalError(
        f"no tokenizer of the class {kind} can be made here: use CLIPTokenizer or Qwen2Tokenizer"
    )


def _qwen(options: dict[str, Any]) -> Any:
    from transformers import Qwen2Tokenizer

    words = [form for one in _WHOLE for form in (one, one.capitalize(), one.upper())]
    merges = {
        (word[:end], word[end])
        for plain in words
        for word in (plain, f"Ġ{plain}")
        for end in range(1, len(word))
    }
    ordered = sorted(merges, key=lambda pair: (len(pair[0]), pair))
    pieces = [*_letters(), *("".join(pair) for pair in ordered)]
    tokenizer = Qwen2Tokenizer(
        vocab=_numbered(pieces, QWEN_WORDS),
        merges=ordered,
        extra_special_tokens=[f"<|{mark}|>" for mark in QWEN_MARKS],
        **options,
    )
    tokenizer.chat_template = QWEN_CHAT
    return tokenizer


def _letters() -> list[str]:
    from tokenizers.pre_tokenizers import ByteLevel

    return sorted(ByteLevel.alphabet())


def _numbered(pieces: list[str], count: int) -> dict[str, int]:
    """Return ``pieces`` by their numbers, and names that no text has up to ``count`` of them."""
    unique = list(dict.fromkeys(pieces))
    # Nothing is merged to these.
    unique += [f"<unused {at}>" for at in range(len(unique), count)]
    return {piece: at for at, piece in enumerate(unique)}
