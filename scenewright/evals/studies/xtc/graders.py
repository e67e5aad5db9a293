"""Graders by name: what compares an answer with the right one (XTC-Bench, Sec. 6.2.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scenewright.evals.metrics.graph_matching.similarities import (
    AUTO,
    EXACT,
    LEXICAL,
    SENTENCES,
    similarity_of,
)
from scenewright.evals.studies.xtc.base import Grader, XtcError
from scenewright.evals.studies.xtc.grading_chat import ChatGrader
from scenewright.evals.studies.xtc.grading_panel import POOLINGS, PanelGrader
from scenewright.evals.studies.xtc.grading_similarity import SimilarityGrader

if TYPE_CHECKING:
    from scenewright.config.settings import Settings

__all__ = ["ChatGrader", "PanelGrader", "SimilarityGrader", "grader_of"]

_SIMILARITIES = (AUTO, EXACT, LEXICAL, SENTENCES)


def grader_of(spec: str, settings: Settings | None = None) -> Grader:
    """The grader of a name.

    ``account:model`` is a language model of ``settings`` (default: those of this machine);
    ``lexical``, ``exact``, ``sentence-transformers:MODEL`` and ``auto`` compare words offline;
    ``mean(ONE, OTHER)`` and ``median(ONE, OTHER)`` pool several. Raises ``XtcError`` for names that
    are none of these, ``MatchingError`` for a sentence model that is not here, and
    ``SettingsError`` for an unknown account or one without its key.
    """
    spec = spec.strip()
    for pooling in POOLINGS:
        if spec.startswith(f"{pooling}(") and spec.endswith(")"):
            names = [name.strip() for name in spec[len(pooling) + 1 : -1].split(",")]
            if not all(names):
                raise XtcError(
                    f"the grader {spec!r} has an empty place: write {pooling}(ONE, OTHER)"
                )
            graders = [grader_of(name, settings) for name in names]
            try:
                return PanelGrader(graders, pooling)
            except ValueError as error:
                raise XtcError(f"the grader {spec!r}: {error}") from error
    if spec.partition(":")[0] in _SIMILARITIES:
        return SimilarityGrader(similarity_of(spec))
    return _chat_grader(spec, settings)


def _chat_grader(spec: str, settings: Settings | None) -> ChatGrader:
    from scenewright.config.accounts import DECISION_KIND
    from scenewright.config.settings import CHAT_KINDS, JUDGE_KINDS
    from scenewright.runs.model_factory.profiles import chat_of

    kind, colon, model = spec.partition(":")
    if not colon or not model or kind in (*CHAT_KINDS, *JUDGE_KINDS, DECISION_KIND):
        raise XtcError(
            f"no grader {spec!r}: name a language model of an account as account:model, or take "
            f"{', '.join(_SIMILARITIES[:3])}, {SENTENCES}:MODEL or mean(ONE, OTHER)"
        )
    return ChatGrader(chat_of(spec, settings, role="grader"))
