"""Prompts longer than the input of CLIP's text encoders, read in chunks.

The established way (AUTOMATIC1111's web UI, compel): each chunk goes through the text encoders by
itself, with its own marks of start and end, and the embeddings of all stand in a row. Here the
pipeline's own ``encode_prompt`` encodes each chunk, so that whatever it does with one prompt (clip
skip, weights of a LoRA, precision) holds for every chunk, and a prompt of one chunk is exactly what
the pipeline makes of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from scenewright.tools.backends.prompt_length import PromptReader

_TEXTS = ("prompt", "negative_prompt")


def read_in_chunks(pipe: Any, reader: PromptReader) -> None:
    """Makes ``pipe.encode_prompt`` read prompts of any length, if ``reader`` divides them.

    Prompt and negative prompt, and all prompts of a batch, get equally many chunks: shorter ones
    are filled up with the empty prompt. Pooled embeddings are those of the first chunk.
    """
    if not reader.chunked:
        return
    encode = pipe.encode_prompt
    signature = inspect.signature(encode)

    def encoded(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        guided = given.arguments.get("do_classifier_free_guidance", True)
        texts = {
            name: given.arguments[name]
            for name in (_TEXTS if guided else _TEXTS[:1])
            if given.arguments.get(name) is not None
        }
        count = chunk_count(reader, texts.values())
        if count == 1:
            return encode(*args, **kwargs)
        parts = []
        for at in range(count):
            pieces = {name: _each(text, reader, at) for name, text in texts.items()}
            parts.append(encode(**given.arguments | pieces))
        return _joined(parts)

    pipe.encode_prompt = encoded


def chunk_count(reader: PromptReader, texts: Any) -> int:
    """How many chunks all of ``texts``, each a text or several, need together; at least 1."""
    every = (one for text in texts for one in ([text] if isinstance(text, str) else text))
    return max((len(reader.spans(one)) for one in every), default=1)


def _each(text: str | Sequence[str], reader: PromptReader, at: int) -> str | list[str]:
    """Chunk number ``at`` of a text, or of each of several."""
    if not isinstance(text, str):
        return [_piece(one, reader, at) for one in text]
    return _piece(text, reader, at)


def _piece(text: str, reader: PromptReader, at: int) -> str:
    chunks = reader.chunks(text)
    return chunks[at] if at < len(chunks) else ""


def _joined(parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Embeddings of prompt and negative prompt in a row, all else of the first chunk."""
    import torch

    def row(at: int) -> Any:
        tensors = [part[at] for part in parts]
        return None if tensors[0] is None else torch.cat(tensors, dim=1)

    return (row(0), row(1), *parts[0][2:])
