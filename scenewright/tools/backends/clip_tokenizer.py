"""The tokenizer of CLIP, which single files lack: its merges are ``clip_merges.txt.gz``.

They are those of https://github.com/openai/CLIP (MIT licence), without the ones that it leaves out.
"""

from __future__ import annotations

import gzip
from importlib.resources import files
from typing import Any

LENGTH = 77


def clip_tokenizer(**options: Any) -> Any:
    """Return the tokenizer of CLIP's text encoders with ``options`` of its class."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import CLIPTokenizer

    packed = (files("scenewright.tools.backends") / "clip_merges.txt.gz").read_bytes()
    merges = [tuple(line.split(" ")) for line in gzip.decompress(packed).decode().splitlines()]
    # Printable bytes stand for themselves and come first.
    letters = sorted(ByteLevel.alphabet(), key=lambda letter: (ord(letter) > 255, ord(letter)))
    pieces = [*letters, *(f"{one}</w>" for one in letters), *("".join(pair) for pair in merges)]
    names = [*pieces, "<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer(
        vocab={name: at for at, name in enumerate(names)},
        merges=merges,
        model_max_length=LENGTH,
        **options,
    )
