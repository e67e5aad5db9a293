"""What is said of a painting in training, and which token speaks of which object."""

from __future__ import annotations

import random
from dataclasses import dataclass

from transformers import CLIPTokenizer

from scenewright.agents.composers.grid import describe
from scenewright.agents.composers.triplets import Piece, triplets
from scenewright.miniature.painter import Truth
from scenewright.miniature.vocabulary import MAX_TOKENS, token_owners
from scenewright.miniature.world import SETTINGS

P_COMPOSED = 0.75
P_EMPTY = 0.1


@dataclass(frozen=True, slots=True)
class Caption:
    """A prompt as tokens."""

    ids: list[int]
    """:data:`MAX_TOKENS` token ids: start, words, end, padding."""
    owners: list[str | None]
    """For each token the id of the object it speaks of."""
    composed: bool
    """Whether the places are said."""


def pad(pieces: list[Piece], tokenizer: CLIPTokenizer, composed: bool) -> Caption:
    """The caption that the tokenizer makes of the joined pieces."""
    ids, owners = token_owners(pieces, tokenizer)
    fill = MAX_TOKENS - 1 - len(ids)
    return Caption(
        [tokenizer.bos_token_id, *ids, *([tokenizer.eos_token_id] * fill)],
        [None, *owners, *([None] * fill)],
        composed,
    )


def caption(truth: Truth, rng: random.Random, tokenizer: CLIPTokenizer) -> Caption:
    """A composed description mostly, bare triplets sometimes, nothing now and then."""
    draw = rng.random()
    if draw < P_EMPTY:
        return pad([], tokenizer, False)
    scene = truth.scene
    if draw < P_EMPTY + (1 - P_EMPTY) * P_COMPOSED:
        return pad(describe(scene, truth.cells, SETTINGS[truth.setting]), tokenizer, True)
    return pad(triplets(scene), tokenizer, False)
