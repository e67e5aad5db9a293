"""REAL as a metric: S_att or S_rel of a picture by a panel's answers to REAL's own questions.

What is asked comes from a file of schemas by class, or is made of the item's scene: parts are its
objects, descriptions their attributes' values. The judges are the metric's own; they are not those
of the evaluation's panels, whose facts are others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenewright.config.settings import Settings, SettingsError, user_cache
from scenewright.evals.metrics.answer_cache import store_in
from scenewright.evals.metrics.base import MetricError, MetricScore, Need, Sample
from scenewright.evals.metrics.options import text
from scenewright.providers.usage import ExpectedUsage

if TYPE_CHECKING:
    from scenewright.agents.panel.panel import Panel
    from scenewright.core.ports.judge import Judge
    from scenewright.evals.studies.real.real_scorer import RealJudgement, RealScorer
    from scenewright.evals.studies.real.schema_files import ClassSchema
    from scenewright.evals.studies.real.style import StyleScorer

SCORES = ("attributes", "relations")
LABEL = "label"
_VERSION = 1
"""Raised when the same picture would get another score."""


class RealMetric:
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "real"
    higher_is_better = True

    def __init__(
        self,
        scorer: RealScorer,
        schemas: Mapping[str, ClassSchema] | None = None,
        *,
        key: str = LABEL,
        score: str = "attributes",
        style: StyleScorer | None = None,
    ) -> None:
        """``schemas``: by class; without them each item's scene is the schema. ``key``: metadata
        that names an item's class; without it its category does, then its group. Raises
        ``MetricError`` for an unknown ``score``."""
        self._scorer = scorer
        self._schemas = schemas
        self._key = key
        self._score = text("score", score, SCORES)
        self._style = style

    @cached_property
    def version(self) -> str:
        """Number, fingerprint of the scorer, the schemas, which score, and the style scorer."""
        from scenewright.evals.studies.real.schema_files import digest_of

        told = "scene" if self._schemas is None else digest_of(self._schemas.values())
        style = "" if self._style is None else f":style={self._style.fingerprint[:16]}"
        scorer = self._scorer.fingerprint[:16]
        return f"{_VERSION}:{scorer}:{told[:16]}:{self._key}:{self._score}{style}"

    @property
    def judges(self) -> tuple[Judge, ...]:
        """Who is asked."""
        return tuple(self._scorer.judges)

    @property
    def needs(self) -> frozenset[Need]:
        """The picture, and its scene where that is the schema."""
        return frozenset({"image", "scene"} if self._schemas is None else {"image"})

    async def score(self, sample: Sample) -> MetricScore:
        """Return the score.

        Parts: ``s_att``, ``s_att_hard``, ``s_rel``, ``s_rel_raw``, ``s_style``; ``visible`` (C),
        ``matched`` (R) and ``attributes`` (N); ``unscored``, questions that nobody could answer;
        ``unasked``, attributes and relations of the scene that no question can ask for.

        Unscored with the reason where there is no schema for the item's class, or nothing that
        could be asked or was answered.
        """
        schema, unasked, why = self._schema(sample)
        if schema is None:
            return MetricScore(value=None, reason=why)
        looked = await self._scorer.look(sample.image, sample.load, schema)
        style = None
        if self._style is not None:
            picture = await asyncio.to_thread(sample.load)
            style = (await self._style.score([picture]))[0]
        return self._found(looked, schema, style, unasked)

    async def expected(self, sample: Sample, size: tuple[int, int]) -> dict[str, ExpectedUsage]:
        """Of each judge that is no model of this machine."""
        schema, _, _ = self._schema(sample)
        return {} if schema is None else self._scorer.expected(schema, size)

    def _schema(self, sample: Sample) -> tuple[ClassSchema | None, int, str]:
        """What is asked, how much of the scene cannot be, and why nothing is asked."""
        from scenewright.evals.studies.real.schema import AttributeSchema, RelationSchema
        from scenewright.evals.studies.real.schema_files import ClassSchema

        item = sample.item
        if self._schemas is not None:
            label = item.meta.get(self._key) or item.category or item.group
            found = self._schemas.get(label)
            why = f"no schema for the class {label!r}" if label else "the item has no class"
            return found, 0, "" if found else why
        if item.scene is None:
            return None, 0, "the item has no scene to make a schema of"
        attributes, n_attributes = AttributeSchema.of_scene(item.scene, item.id)
        relations, n_relations = RelationSchema.of_scene(item.scene, item.id)
        made = ClassSchema(item.id, attributes, relations)
        wanted = attributes if self._score == "attributes" else relations
        if wanted is None:
            return None, 0, f"the scene has no {self._score} that can be asked for"
        return made, n_attributes + n_relations, ""

    def _found(
        self, looked: RealJudgement, schema: ClassSchema, style: float | None, unasked: int
    ) -> MetricScore:
        from scenewright.evals.studies.real.rows import combine

        att, rel = looked.score.attributes, looked.score.relations
        chosen = att if self._score == "attributes" else rel
        value = None if chosen is None else chosen.value
        parts = {
            "s_att": None if att is None else att.value,
            "s_att_hard": None if att is None else att.hard,
            "s_rel": None if rel is None else rel.value,
            "s_rel_raw": None if rel is None else rel.raw,
            "s_style": style,
            "visible": None if att is None else float(att.visible),
            "matched": None if att is None else float(att.matched),
            "attributes": float(len(schema.attributes.attributes)) if schema.attributes else None,
            "unscored": float(looked.score.unscored),
            "unasked": float(unasked),
        }
        lost = looked.score.unscored
        value = value if self._style is None else combine(value, style)
        took = {
            "tokens_in": looked.tokens_in,
            "tokens_out": looked.tokens_out,
            "usd": looked.usd,
        }
        if value is not None:
            told = f"{lost} questions could not be answered: {looked.reason}" if lost else ""
            return MetricScore(value=value, parts=parts, reason=told, unscored=lost, **took)
        reason = looked.reason if lost else f"the class {schema.name!r} has no {self._score}"
        return MetricScore(value=None, parts=parts, reason=reason, unscored=lost, **took)


def make(
    settings: Settings | None,
    judges: Any = None,
    profile: Any = None,
    schema: Any = None,
    key: Any = LABEL,
    score: Any = "attributes",
    wording: Any = "published",
    asking: Any = "waves",
    weighting: Any = "probability",
    style: Any = None,
    folder: Any = None,
) -> RealMetric:
    """The metric of the registry. Raises ``MetricError`` for a wrong option, and if a schema or a
    judge is not there."""
    from scenewright.config.settings import load_settings
    from scenewright.evals.errors import EvalError
    from scenewright.evals.studies.real.questions import WORDINGS
    from scenewright.evals.studies.real.real_scorer import RealScorer
    from scenewright.evals.studies.real.schema import SchemaError
    from scenewright.evals.studies.real.schema_files import read_schemas
    from scenewright.evals.studies.real.scoring import WEIGHTINGS
    from scenewright.evals.studies.real.style import StyleScorer

    here = settings or load_settings()
    asked, panel = _judges(judges, profile, here)
    place = user_cache("real") if folder is None else Path(text("folder", folder)).expanduser()
    text("wording", wording, WORDINGS)
    text("asking", asking, ("waves", "together"))
    text("weighting", weighting, WEIGHTINGS)
    try:
        schemas = None if schema is None else read_schemas(text("schema", schema))
        scorer = RealScorer(
            asked,
            store_in(place),
            panel=panel,
            wording=wording,
            asking=asking,
            weighting=weighting,
            limit=here.judge_timeout,
        )
        styled = None if style is None else StyleScorer(text("style", style))
    except (SchemaError, EvalError) as error:
        raise MetricError(f"real: {error}") from error
    return RealMetric(scorer, schemas, key=text("key", key), score=score, style=styled)


def _judges(
    judges: Any, profile: Any, settings: Settings
) -> tuple[tuple[Judge, ...], Panel | None]:
    from scenewright.agents.panel.panel import Panel
    from scenewright.agents.panel.rates import CalibrationError
    from scenewright.config.settings import find_profile, settings_with
    from scenewright.core.ports.judge import JudgeError
    from scenewright.runs.model_factory.profiles import judge_of

    if judges is not None and profile is not None:
        raise MetricError("real: give judges or a profile, not both")
    specs = [judges] if isinstance(judges, str) else judges
    if specs is not None and (not isinstance(specs, list | tuple) or not specs):
        raise MetricError(f"judges is {judges!r}: use ACCOUNT:MODEL, or a list of such")
    try:
        if specs is not None:
            return tuple(judge_of(text("judges", spec), settings) for spec in specs), None
        name = settings.profile if profile is None else text("profile", profile)
        chosen = find_profile(name, settings)
        known = settings_with(chosen, settings)
        found = tuple(judge_of(spec, known) for spec in chosen.judges)
        return found, Panel.of(chosen, found)
    except (SettingsError, JudgeError, CalibrationError) as error:
        raise MetricError(f"real: {error}") from error
