"""The models of an evaluation by XTC-Bench, built once before it begins."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.config.settings import Settings, changed_profile, find_profile
from scenewright.core.ports.composer import Composer
from scenewright.core.ports.vision import GraphExtractor
from scenewright.core.predicate_statistics import DEFAULT
from scenewright.core.scene import SceneGraph
from scenewright.core.validation import first_problem
from scenewright.evals.errors import EvalError
from scenewright.evals.metrics.graph_matching.base import TextSimilarity
from scenewright.evals.metrics.plugins import call_plugin
from scenewright.evals.runner.config import CONDITIONS, PACKAGE
from scenewright.evals.runner.dataset_predicates import DatasetPredicates, Predicates
from scenewright.evals.studies.xtc.base import Grader, UnifiedModel
from scenewright.evals.studies.xtc.config import RULES, ModelSpec, XtcConfig
from scenewright.evals.studies.xtc.models import Paired, drawing_mark, parts_of, understanding_mark
from scenewright.evals.studies.xtc.understanding import ChatUnderstander, Understander
from scenewright.evals.studies.xtc.understanding_judges import (
    JudgeUnderstander,
    Vocabulary,
    vocabulary_of,
)
from scenewright.providers.hub.cache import demand_models
from scenewright.runs.model_factory.profiles import backend_of, chat_of, composer_of, judge_of


@dataclass(frozen=True, slots=True)
class XtcModelOverrides:
    """Models that a caller brings in place of those of the configuration."""

    models: Sequence[UnifiedModel] | None = None
    """The unified models."""
    extractor: GraphExtractor | None = None
    """What reads drawn pictures."""
    grader: Grader | None = None
    """What grades answers."""
    similarity: TextSimilarity | None = None
    """What compares words when graphs are matched."""
    composer: Composer | None = None
    """What words the benchmark's prompts."""


@dataclass(frozen=True, slots=True)
class XtcModels:
    """Everything that works in an evaluation."""

    models: tuple[UnifiedModel, ...]
    """The unified models, each with an id of its own."""
    extractor: GraphExtractor
    """What reads drawn pictures."""
    grader: Grader
    """What grades answers, of both sides."""
    similarity: TextSimilarity
    """What compares words when graphs are matched."""
    composer: Composer
    """What words the benchmark's prompts."""

    def manifest(self) -> dict[str, Any]:
        """Ids and fingerprints of all models, for the manifest."""

        def both(model: Any) -> dict[str, str]:
            return {"id": model.id, "fingerprint": model.fingerprint}

        return {
            "models": {
                model.id: {
                    **parts_of(model),
                    "draws": drawing_mark(model),
                    "understands": understanding_mark(model),
                }
                for model in self.models
            },
            # JSON files are written with sorted keys.
            "order": [model.id for model in self.models],
            "extractor": both(self.extractor),
            "grader": both(self.grader),
            "similarity": self.similarity.id,
            "composer": both(self.composer),
        }

    async def warm(self) -> None:
        """Load the weights of every model that can be loaded ahead, one after the other."""
        for model in self.models:
            load = getattr(model, "load", None)
            if load is not None:
                await load()


async def build_xtc_models(
    config: XtcConfig,
    settings: Settings,
    given: XtcModelOverrides,
    root: Path,
    scenes: Sequence[SceneGraph],
    own: DatasetPredicates | None = None,
) -> XtcModels:
    """Build the models of ``config``; nothing is downloaded, and no weights are loaded yet.

    ``scenes`` are those of the set, for the judges' vocabulary; ``own``: what was counted in them.
    Raises ``EvalError``,
    ``SettingsError``, ``BackendError``, ``JudgeError``, ``MatchingError``, ``MetricError`` (of a
    plug-in), ``XtcError`` and what extractors raise, before anything is drawn.
    """

    def built() -> XtcModels:
        models = given.models
        if models is None:
            models = [
                _model(name, spec, config, settings, scenes, own)
                for name, spec in config.models.items()
            ]
        return XtcModels(
            models=_told_apart(models),
            extractor=given.extractor or _extractor(config.extractor, settings, root),
            grader=given.grader or _grader(config.grader, settings),
            similarity=given.similarity or _similarity(config.similarity),
            composer=given.composer or composer_for(config, settings),
        )

    # Files of weights are hashed, which takes seconds.
    xtc_models = await asyncio.to_thread(built)
    await asyncio.to_thread(xtc_models.manifest)
    return xtc_models


def composer_for(config: XtcConfig, settings: Settings) -> Composer:
    """What words the benchmark's prompts: the rules, or a language model in the paper's stages."""
    if config.prompt == RULES:
        return SentenceComposer()
    from scenewright.agents.composers.language import LanguageComposer

    return LanguageComposer(chat_of(config.prompt, settings, role="composer"), stages=True)


def understander_of(
    spec: str,
    config: XtcConfig,
    scenes: Sequence[SceneGraph],
    settings: Settings,
    own: DatasetPredicates | None = None,
) -> Understander:
    """Who answers: ``judge:KIND:MODEL`` with a vocabulary, or ``chat:ACCOUNT:MODEL``."""
    kind, _, name = spec.partition(":")
    if kind == "judge":
        words = vocabulary_of(config.vocabulary, scenes)
        predicates = _predicates(config, words, own)
        return JudgeUnderstander(judge_of(name, settings), words, predicates)
    from scenewright.agents.judges.models import caps_of
    from scenewright.config.settings import CHAT_KINDS, split_judge

    account, model = split_judge(name)
    chat = chat_of(name, settings, role="grader")
    if account in CHAT_KINDS:
        return ChatUnderstander(chat)
    about = settings.account(account)
    caps = caps_of(about.provider, model, about.models.get(model))
    return ChatUnderstander(chat, caps.preparation)


def _predicates(config: XtcConfig, words: Vocabulary, own: DatasetPredicates | None) -> Predicates:
    """Where wrong options come from; empty: as the vocabulary says."""
    if config.predicates not in ("", PACKAGE):
        return config.predicates
    if own is None or words.options != DEFAULT:
        return ""
    known = own.over(DEFAULT)
    return "" if known == DEFAULT else known


def _model(
    name: str,
    spec: ModelSpec,
    config: XtcConfig,
    settings: Settings,
    scenes: Sequence[SceneGraph],
    own: DatasetPredicates | None,
) -> UnifiedModel:
    if spec.plugin is not None:
        made = call_plugin(spec.plugin, name, options=spec.options)
        if not isinstance(made, UnifiedModel):
            raise EvalError(
                f"the model {name}: {spec.plugin} gave {type(made).__name__}, which is no unified "
                "model: it needs id, fingerprint, draw, answer and aclose"
            )
        return made
    assert spec.profile is not None
    assert spec.understander is not None
    profile = find_profile(spec.profile, settings)
    if spec.condition is not None:
        changes = CONDITIONS[spec.condition].profile
        profile = changed_profile(profile, changes, settings)
    demand_models(profile, judges=False, report_judges=False)
    return Paired(
        name,
        backend_of(profile.backend, settings),
        understander_of(spec.understander, config, scenes, settings, own),
        composer=None if spec.condition is None else composer_of(profile, settings),
        negative_prompt=profile.negative_prompt,
        steps=profile.steps,
        guidance=profile.guidance,
        size=config.size,
    )


def _told_apart(models: Sequence[UnifiedModel]) -> tuple[UnifiedModel, ...]:
    names = [model.id for model in models]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not names:
        what = f"two models are called {twice[0]!r}" if twice else "there is no model"
        raise EvalError(f"{what}: give every unified model a name of its own")
    return tuple(models)


def _extractor(spec: str | dict[str, Any], settings: Settings, root: Path) -> GraphExtractor:
    from scenewright.runs.model_factory.extractors import ExtractorSpec, extractor_of

    if isinstance(spec, str):
        named = str(root / Path(spec).expanduser()) if spec.endswith(".toml") else spec
        return extractor_of(named, settings)
    try:
        return extractor_of(ExtractorSpec.model_validate(spec), settings)
    except ValidationError as error:
        raise EvalError(f"extractor.{first_problem(error)}") from error


def _grader(spec: str, settings: Settings) -> Grader:
    from scenewright.evals.studies.xtc.graders import grader_of

    return grader_of(spec, settings)


def _similarity(spec: str) -> TextSimilarity:
    from scenewright.evals.metrics.graph_matching.similarities import similarity_of

    return similarity_of(spec)
