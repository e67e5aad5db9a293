"""Configuration of an evaluation by XTC-Bench, and its models, built once before it begins.

A TOML file names a set × unified models × seeds, and the extractor, similarity and grader.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from scenewright.agents.composers.language import LanguageComposer
from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.agents.judges.models import caps_of
from scenewright.config import OnModelChange
from scenewright.config.profiles import CHAT_KINDS, split_judge
from scenewright.config.settings import Settings, changed_profile, find_profile
from scenewright.core.ports.composer import Composer
from scenewright.core.ports.vision import GraphExtractor
from scenewright.core.predicate_statistics import DEFAULT
from scenewright.core.scene import SceneGraph
from scenewright.core.validation import FrozenModel, first_problem
from scenewright.evals.errors import EvalError
from scenewright.evals.metrics.base import call_plugin, is_plugin
from scenewright.evals.metrics.graph_matching.embeddings import similarity_of
from scenewright.evals.metrics.graph_matching.matching import EdgeReading
from scenewright.evals.metrics.graph_matching.text_similarity import TextSimilarity
from scenewright.evals.runner.config import CONDITIONS, PACKAGE, DrawingConfig
from scenewright.evals.runner.dataset_predicates import DatasetPredicates, Predicates
from scenewright.evals.store.files import read_toml
from scenewright.evals.studies.xtc.base import Grader, QuestionKind, UnifiedModel
from scenewright.evals.studies.xtc.grading import grader_of
from scenewright.evals.studies.xtc.models import (
    ChatUnderstander,
    JudgeUnderstander,
    Paired,
    Understander,
    Vocabulary,
    drawing_mark,
    parts_of,
    understanding_mark,
    vocabulary_of,
)
from scenewright.evals.studies.xtc.scores import COMPARED, THRESHOLD
from scenewright.providers.hub.cache import require_models
from scenewright.runs.model_factory.extractors import ExtractorSpec, extractor_of
from scenewright.runs.model_factory.profiles import backend_of, build_chat, build_judge, composer_of

UNDERSTANDERS = "judge:KIND:MODEL or chat:ACCOUNT:MODEL"
"""How an understander is named."""
RULES = "rules"
"""Composer of the prompts where no language model is named."""


class ModelSpec(FrozenModel):
    """A unified model: one of two parts, or a class of your own."""

    profile: str | None = None
    """Profile whose backend draws."""
    condition: str | None = None
    """None: it draws the benchmark's prompt. Else the profile's own composer words the scene, as in
    the condition of that name (``composition``, ``triplets``): for models that understand one form
    of words alone."""
    understander: str | None = None
    """What answers: ``judge:local:miniature/judge-a``, ``chat:openai:gpt-…``."""
    plugin: str | None = None
    """``module:function`` that gives a :class:`~scenewright.evals.studies.xtc.base.UnifiedModel`,
    in place of profile and understander; it is called with the model's name."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Keywords of the plug-in."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.plugin is not None:
            if self.profile or self.understander or self.condition:
                raise ValueError("a plugin draws and answers itself: leave the other fields out")
            if not is_plugin(self.plugin):
                raise ValueError(f"{self.plugin!r} is not a plug-in: write module:function")
            return self
        if not self.profile or not self.understander:
            raise ValueError("name a profile and an understander, or a plugin")
        kind, _, rest = self.understander.partition(":")
        if kind not in ("judge", "chat") or not rest:
            raise ValueError(f"{self.understander!r} is not an understander: write {UNDERSTANDERS}")
        if self.options:
            raise ValueError("options are those of a plugin")
        if self.condition is not None:
            known = [n for n, c in CONDITIONS.items() if c.source == "draw" and c.rounds == 1]
            known = [n for n in known if CONDITIONS[n].text == "scene"]
            if self.condition not in known:
                raise ValueError(f"condition {self.condition!r}: use one of {', '.join(known)}")
        return self


class XtcConfig(DrawingConfig):
    """A whole evaluation; of the set ``miniature`` the paintings are made on the way.

    Without ``predicates`` wrong options come from where the vocabulary says, with the counts of the
    set's own scenes where it says ``general``. Served versions cannot be held apart (``split``).
    """

    models: dict[str, ModelSpec] = Field(min_length=1)
    """Name → unified model."""
    extractor: str | dict[str, Any] = "miniature"
    """What reads drawn pictures: a name of ``scenewright extract``, a TOML file or its fields."""
    grader: str = "lexical"
    """What grades answers: ``lexical``, ``exact``, a language model ``ACCOUNT:MODEL``, or several
    (``mean(ONE, OTHER)``)."""
    similarity: str = "auto"
    """What compares words when graphs are matched: ``auto``, ``lexical``, ``exact`` or
    ``sentence-transformers:MODEL``."""
    matching: EdgeReading = "published"
    """How incident edges are compared: ``published``, as Sec. 3.2.6 prints it, or ``directed``,
    ours: never an edge that leaves an object for one that enters it, and surplus edges cost."""
    prompt: str = RULES
    """Composer of the benchmark's prompts: ``rules``, or ``ACCOUNT:MODEL``, a language model that
    refines each object, then the whole (Sec. 3.2.4)."""
    vocabulary: str | Vocabulary = "set"
    """Words that judges may answer with: ``set`` (those of all its scenes), ``miniature``, or a
    table with values, labels and predicates."""
    converses: bool = False
    """Whether "boat above person" in a drawn picture's graph answers how the person is to the boat
    (``below``); false, as published: edges must have the reference's direction."""
    compared: tuple[QuestionKind, ...] = Field(default=COMPARED, min_length=1)
    """Kinds of facts that count for G, CCTA and AW-CCTA."""
    threshold: float = Field(default=THRESHOLD, gt=0.0, le=1.0)
    """From here on a side counts as high in the quadrants."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.on_model_change == "split":
            raise ValueError(
                "XTC-Bench cannot hold served versions apart: take on_model_change = 'accept', or "
                "another folder, where everything is answered by the version served now"
            )
        if not self.seeds:
            raise ValueError("seeds is empty: name at least one")
        for name, given in (("seeds", self.seeds), ("compared", self.compared)):
            if len(set(given)) != len(given):
                raise ValueError(f"{name} lists something twice: it would count double")
        if any(not 0 <= seed < 2**63 for seed in self.seeds):
            raise ValueError("seeds: use whole numbers from 0 to 2^63 - 1")
        if any(not name.strip() for name in self.models):
            raise ValueError("models: one has an empty name")
        if isinstance(self.vocabulary, str) and self.vocabulary not in ("set", "miniature"):
            raise ValueError("vocabulary: use set, miniature, or a table")
        if self.prompt != RULES and ":" not in self.prompt:
            raise ValueError(f"prompt {self.prompt!r}: use {RULES}, or ACCOUNT:MODEL")
        return self


def load_xtc_config(path: str | Path) -> XtcConfig:
    """Return the configuration in the TOML file ``path``.

    Raises ``EvalError`` with the file and the field for what cannot be read.
    """
    return read_toml(path, XtcConfig)


def with_on_model_change(config: XtcConfig, what: OnModelChange) -> XtcConfig:
    """Return ``config`` with another ``on_model_change``. Raises ``EvalError`` for ``split``."""
    try:
        return XtcConfig.model_validate({**config.model_dump(), "on_model_change": what})
    except ValidationError as error:
        raise EvalError(first_problem(error)) from None


def with_words(config: XtcConfig, scenes: Iterable[SceneGraph]) -> XtcConfig:
    """Return ``config`` with the words that judges answer with, where there are judges.

    The set's ``scenes`` are read if they say the words.
    """
    judged = any((spec.understander or "").startswith("judge:") for spec in config.models.values())
    if not judged:
        return config
    words = vocabulary_of(config.vocabulary, scenes)
    return config.model_copy(update={"vocabulary": words})


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
        """Return the ids and fingerprints of all models, for the manifest."""

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
    own: DatasetPredicates | None = None,
) -> XtcModels:
    """Build the models of ``config``; nothing is downloaded, and no weights are loaded yet.

    The vocabulary is one that :func:`with_words` gave; ``own``: what was counted in the set.
    Raises ``EvalError``, ``SettingsError``, ``BackendError``, ``JudgeError``, ``MatchingError``,
    ``MetricError`` (of a plug-in), ``XtcError`` and what extractors raise, before anything is
    drawn.
    """

    def built() -> XtcModels:
        models = given.models
        if models is None:
            models = [
                _model(name, spec, config, settings, own) for name, spec in config.models.items()
            ]
        if twice := [name for name, n in Counter(model.id for model in models).items() if n > 1]:
            raise EvalError(
                f"two models are called {twice[0]!r}: give every unified model a name of its own"
            )
        if not models:
            raise EvalError("there is no model: give one or more, each a name of its own")
        made = XtcModels(
            models=tuple(models),
            extractor=given.extractor or _extractor(config.extractor, settings, root),
            grader=given.grader or grader_of(config.grader, settings),
            similarity=given.similarity or similarity_of(config.similarity),
            composer=given.composer or _composer(config, settings),
        )
        # Files of weights are hashed, which takes seconds.
        made.manifest()
        return made

    return await asyncio.to_thread(built)


def _composer(config: XtcConfig, settings: Settings) -> Composer:
    """Return the composer of the prompts: rules, or a language model in the paper's stages."""
    if config.prompt == RULES:
        return SentenceComposer()
    return LanguageComposer(build_chat(config.prompt, settings, role="composer"), stages=True)


def _understander(
    spec: str, config: XtcConfig, settings: Settings, own: DatasetPredicates | None
) -> Understander:
    """Return the understander ``judge:KIND:MODEL`` or ``chat:ACCOUNT:MODEL``."""
    kind, _, name = spec.partition(":")
    if kind == "judge":
        words = config.vocabulary
        assert isinstance(words, Vocabulary), "with_words gives the words that judges answer with"
        return JudgeUnderstander(
            build_judge(name, settings), words, _predicates(config, words, own)
        )
    account, model = split_judge(name)
    chat = build_chat(name, settings, role="grader")
    if account in CHAT_KINDS:
        return ChatUnderstander(chat)
    about = settings.account(account)
    caps = caps_of(about.provider, model, about.models.get(model))
    return ChatUnderstander(chat, caps.preparation, image_rule=caps.image_tokens)


def _predicates(config: XtcConfig, words: Vocabulary, own: DatasetPredicates | None) -> Predicates:
    """Return the source of wrong options; empty: as the vocabulary says."""
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
    own: DatasetPredicates | None,
) -> UnifiedModel:
    if spec.plugin is not None:
        made = call_plugin(spec.plugin, name, options=spec.options)
        if not isinstance(made, UnifiedModel):
            raise EvalError(
                f"the model {name}: {spec.plugin} gave {type(made).__name__}, which is not a "
                "unified model: it needs id, fingerprint, draw and answer"
            )
        return made
    assert spec.profile is not None
    assert spec.understander is not None
    profile = find_profile(spec.profile, settings)
    if spec.condition is not None:
        changes = CONDITIONS[spec.condition].profile
        profile = changed_profile(profile, changes, settings)
    require_models(profile, judges=False, report_judges=False)
    return Paired(
        name,
        backend_of(profile.backend, settings),
        _understander(spec.understander, config, settings, own),
        composer=None if spec.condition is None else composer_of(profile, settings),
        negative_prompt=profile.negative_prompt,
        steps=profile.steps,
        guidance=profile.guidance,
        size=config.size,
    )


def _extractor(spec: str | dict[str, Any], settings: Settings, root: Path) -> GraphExtractor:
    if isinstance(spec, str):
        named = str(root / Path(spec).expanduser()) if spec.endswith(".toml") else spec
        return extractor_of(named, settings)
    try:
        return extractor_of(ExtractorSpec.model_validate(spec), settings)
    except ValidationError as error:
        raise EvalError(f"extractor.{first_problem(error)}") from error
