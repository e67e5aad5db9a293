"""The small vocabulary of the miniature text encoder, and how prompts become tokens.

Every word of the world is one token; any other word is spelled by its letters, so an
unknown name is still a name.
"""

from __future__ import annotations

import json
import string
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import CLIPTokenizer

from scenewright.agents.composers.triplets import Piece
from scenewright.miniature.world import COLORS, KINDS, PREDICATES, SETTINGS

MAX_TOKENS = 128
"""Longest prompt in tokens, start and end included."""

_START, _END = "<|startoftext|>", "<|endoftext|>"


def words() -> list[str]:
    """Every word that is one token."""
    phrases = [
        *KINDS,
        *COLORS,
        *PREDICATES,
        *SETTINGS.values(),
        "top middle bottom left center right",
        "a an the and of at : , . ; another two three four",
    ]
    return sorted({word for phrase in phrases for word in phrase.split()})


def new_tokenizer() -> CLIPTokenizer:
    """A CLIP tokenizer whose merges make each of :func:`words` one token."""
    suffix = "</w>"
    letters = [c for c in string.printable if not c.isspace() and not c.isupper()]
    # What the trainer has to find itself it numbers by chance, and the merges hang on the numbers.
    symbols = [*letters, *(letter + suffix for letter in letters)]
    core = Tokenizer(models.BPE(end_of_word_suffix=suffix))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=4096,
        min_frequency=1,
        end_of_word_suffix=suffix,
        special_tokens=symbols,
        show_progress=False,
    )
    core.train_from_iterator([" ".join(words())] * 2, trainer)
    with tempfile.TemporaryDirectory() as folder:
        core.model.save(folder)
        merges = (Path(folder) / "merges.txt").read_text().splitlines()
        vocab: dict[str, int] = json.loads((Path(folder) / "vocab.json").read_text())
    for token in (*symbols, _START, _END):
        vocab.setdefault(token, len(vocab))
    pairs = [tuple(line.split(" ")) for line in merges if line and not line.startswith("#")]
    return CLIPTokenizer(vocab=vocab, merges=pairs, model_max_length=MAX_TOKENS, pad_token=_END)


def token_owners(
    pieces: Sequence[Piece], tokenizer: CLIPTokenizer
) -> tuple[list[int], list[str | None]]:
    """Token ids of a prompt without start and end, and the object each token speaks of."""
    ids: list[int] = []
    owners: list[str | None] = []
    for piece in pieces:
        found = tokenizer(piece.text, add_special_tokens=False)["input_ids"]
        ids += found
        owners += [piece.object_id] * len(found)
    return ids[: MAX_TOKENS - 2], owners[: MAX_TOKENS - 2]
