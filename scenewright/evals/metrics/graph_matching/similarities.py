"""Likeness of texts by name: ``exact``, ``lexical``, ``sentence-transformers:MODEL``, ``auto``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from scenewright.evals.metrics.graph_matching.base import MatchingError, TextSimilarity
from scenewright.evals.metrics.graph_matching.embeddings import SentenceSimilarity
from scenewright.evals.metrics.graph_matching.lexical import ExactSimilarity, LexicalSimilarity
from scenewright.evals.metrics.graph_matching.sentence_model import (
    DEFAULT_MODEL,
    find_sentence_model,
)
from scenewright.evals.metrics.graph_matching.vector_store import default_store

AUTO = "auto"
EXACT = "exact"
LEXICAL = "lexical"
SENTENCES = "sentence-transformers"


@dataclass(frozen=True, slots=True)
class SimilaritySettings:
    """How a sentence model is used; the others need nothing."""

    device: str = "auto"
    """``cpu``, ``cuda``, or ``auto``: CUDA if there is one."""
    store: Path | None = field(default_factory=default_store)
    """The file that keeps vectors for later processes; None keeps them in memory only."""


def similarity_of(spec: str = AUTO, settings: SimilaritySettings | None = None) -> TextSimilarity:
    """What compares texts, by name.

    ``auto`` takes the sentence model of XTC-Bench where it is on this machine, else ``lexical``;
    the id of what it gives tells which, and stands in every result. Raises ``MatchingError`` for
    other names, and with the remedies for models that are not here.
    """
    given = settings or SimilaritySettings()
    kind, _, model = spec.partition(":")
    if spec == AUTO:
        kind, model = (
            (SENTENCES, DEFAULT_MODEL) if find_sentence_model(DEFAULT_MODEL) else (LEXICAL, "")
        )
    if kind == SENTENCES:
        return SentenceSimilarity(model or DEFAULT_MODEL, device=given.device, store=given.store)
    if kind == EXACT and not model:
        return ExactSimilarity()
    if kind == LEXICAL and not model:
        return LexicalSimilarity()
    raise MatchingError(
        f"no similarity of texts {spec!r}: take {AUTO}, {EXACT}, {LEXICAL} or {SENTENCES}:MODEL, "
        f"for example {SENTENCES}:{DEFAULT_MODEL}"
    )
