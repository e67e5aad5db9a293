"""Scorers: any metric of single pictures, on samples whose output is a picture."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from scenewright.core.facts import Fact
from scenewright.core.images import ImageError, load_image
from scenewright.evals.datasets.base import Item
from scenewright.evals.errors import EvalError
from scenewright.evals.inspect_ai.context import (
    FOLDER,
    InspectContext,
    OncePerLoop,
    check_metrics,
    config_of,
    open_context,
    told_plainly,
)
from scenewright.evals.inspect_ai.drawing import DRAWING
from scenewright.evals.inspect_ai.items import SceneFrom, item_of
from scenewright.evals.inspect_ai.pictures import picture_of, read_picture
from scenewright.evals.inspect_ai.score_details import (
    answer_rows,
    counted,
    explanation,
    panel_metadata,
    part_of,
    verdict_rows,
)
from scenewright.evals.metrics.base import ItemMetric, MetricScore, Sample
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.independence import shared_judges
from scenewright.evals.runner.judging import PanelJudgement, ToolCallSource, judge_picture
from scenewright.evals.runner.measuring import facts_to_ask, judge_key, score_key, scored, text_of

PANEL = "panel"
_AS_IT_IS = {
    "conditions": ["as-it-is"],
    "condition": {"as-it-is": {"source": "given", "folder": "."}},
}


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a scorer was asked for: its own parameters, in one."""

    metric: str
    options: dict[str, Any] | None
    part: str
    judges: str | list[str] | None
    backend: str
    aggregation: str | None
    quorum: int | None
    calibration: str | None
    protocol: str | None
    asking: str | None
    alpha: float | None
    scene_from: SceneFrom
    allow_loop_judges: bool
    folder: str
    models: str | None

    def config(self) -> EvalConfig:
        """As an evaluation would say it; raises ``EvalError``."""
        return config_of(
            {
                "backends": [self.backend],
                "panels": panels_field(
                    self.judges, self.aggregation, self.quorum, self.calibration
                ),
                "metrics": [{"name": self.metric, "options": self.options or {}}],
                "protocol": self.protocol,
                "asking": self.asking,
                "alpha": self.alpha,
                # The pictures are there: no backend is built.
                **_AS_IT_IS,
            }
        )


def panels_field(
    judges: str | list[str] | None,
    aggregation: str | None,
    quorum: int | None,
    calibration: str | None,
) -> dict[str, Any] | None:
    """The ``panels`` of a configuration; none where no judge is named.

    Raises ``EvalError`` for rules of a panel that is not named.
    """
    rules = {"aggregation": aggregation, "quorum": quorum, "calibration": calibration}
    given = {name: value for name, value in rules.items() if value is not None}
    if judges is None:
        if given:
            raise EvalError(
                f"{next(iter(given))} is a rule of a panel: name its judges (kind:model), too"
            )
        return None
    names = judges.split(",") if isinstance(judges, str) else judges
    return {PANEL: {"judges": [name.strip() for name in names], **given}}


@scorer(metrics=[mean(), stderr()])  # type: ignore[untyped-decorator]
def picture_metric(
    metric: str,
    options: dict[str, Any] | None = None,
    part: str = "",
    judges: str | list[str] | None = None,
    backend: str = "miniature",
    aggregation: str | None = None,
    quorum: int | None = None,
    calibration: str | None = None,
    protocol: str | None = None,
    asking: str | None = None,
    alpha: float | None = None,
    scene_from: SceneFrom = "metadata",
    allow_loop_judges: bool = False,
    folder: str = FOLDER,
    models: str | None = None,
) -> Scorer:
    """Scores the newest picture of a sample's output by a metric of single pictures.

    ``metric`` and ``options`` are as in the configuration of an evaluation; ``part`` takes one of
    the numbers that the metric is made of. ``judges`` (``kind:model``, several as a list or with
    commas) are the panel of metrics that need one, by default the report judges of the profile
    ``backend``; ``aggregation``, ``quorum``, ``calibration``, ``protocol``, ``asking`` and
    ``alpha`` are as in an evaluation. ``scene_from`` says where a sample names its scene.

    What cannot be scored is unscored with its reason, never 0: inspect_ai keeps it and leaves it
    out of its metrics.
    """
    return _scorer(
        _Wanted(
            *(metric, options, part, judges, backend, aggregation, quorum, calibration, protocol),
            *(asking, alpha, scene_from, allow_loop_judges, folder, models),
        )
    )


@scorer(metrics=[mean(), stderr()])  # type: ignore[untyped-decorator]
def sgscore(
    judges: str | list[str] | None = None,
    backend: str = "miniature",
    part: str = "",
    aggregation: str | None = None,
    quorum: int | None = None,
    calibration: str | None = None,
    protocol: str | None = None,
    asking: str | None = None,
    alpha: float | None = None,
    scene_from: SceneFrom = "metadata",
    allow_loop_judges: bool = False,
    folder: str = FOLDER,
    models: str | None = None,
) -> Scorer:
    """SGScore (Scene-Bench, Eq. 4) by a panel of judges; the rest as of :func:`picture_metric`.

    Parts: ``objects`` (Eq. 2), ``attributes``, ``relations`` (Eq. 3), ``fact_recall`` and
    ``expected_recall``.
    """
    return _scorer(
        _Wanted(
            *("sgscore", None, part, judges, backend, aggregation, quorum, calibration, protocol),
            *(asking, alpha, scene_from, allow_loop_judges, folder, models),
        )
    )


def _scorer(wanted: _Wanted) -> Scorer:
    with told_plainly():
        config = wanted.config()

    async def opened() -> InspectContext:
        context = await open_context(config, wanted.folder, wanted.models, measuring=True)
        check_metrics(context.eval_models)
        return context

    desks = OncePerLoop(opened)

    async def score(state: TaskState, target: Target) -> Score:
        named = picture_of(state)
        drawing = state.store.get(DRAWING, {})
        if named is None:
            why = drawing.get("reason") or "the output holds no picture"
            return Score.unscored(reason="no_response", explanation=f"no picture: {why}")
        context = await desks.get()
        try:
            item = item_of(
                *(str(state.sample_id), state.input_text, target.text, state.metadata),
                wanted.scene_from,
            )
            image = await _kept(named, drawing, context)
            return await _Looking(wanted, context, item, image, drawing).score()
        except (EvalError, ImageError) as error:
            return Score.unscored(reason="scoring_failed", explanation=str(error))

    return score


async def _kept(named: str, drawing: Mapping[str, Any], context: InspectContext) -> str:
    """Content hash of the picture, which is in the desk's store then."""
    try:
        data = await asyncio.to_thread(read_picture, named)
        return await asyncio.to_thread(context.generation.images.put_bytes, data)
    except ImageError:
        # A log without pictures still names what was drawn here.
        image = drawing.get("image")
        if image is not None and image in context.generation.images:
            return str(image)
        raise


@dataclass(frozen=True, slots=True)
class _Looking:
    """One picture, its item, and who looks at it."""

    wanted: _Wanted
    context: InspectContext
    item: Item
    image: str
    drawing: Mapping[str, Any]

    async def score(self) -> Score:
        metric, facts = (
            self.context.eval_models.of_pictures[0],
            facts_to_ask(self.item, self.context.config),
        )
        judge_panel = next(iter(self.context.eval_models.judge_panels), None)
        own = [] if judge_panel is None else await asyncio.to_thread(self._self_report, judge_panel)
        judged = (
            await self._judged(judge_panel, facts) if judge_panel is not None and facts else None
        )
        whole = await self._measured(metric, facts, judged)
        found = part_of(whole, metric.name, self.wanted.part)
        name = f"{metric.name}.{self.wanted.part}" if self.wanted.part else metric.name
        verdicts = () if judged is None else judged.card.verdicts
        said: dict[str, Any] = {
            "answer": counted(verdicts) if verdicts else None,
            "explanation": explanation(name, found, facts, verdicts),
            "metadata": {
                "metric": {"name": metric.name, "version": metric.version},
                "parts": dict(whole.parts),
                "unscored": {"count": whole.unscored, "reason": whole.reason},
                "image": self.image,
                "panel": panel_metadata(judge_panel),
                "self_report": own,
                "verdicts": verdict_rows(facts, judged),
                "answers": answer_rows(judged),
            },
        }
        if found.value is None:
            silent = any(verdict.state == "unscored" for verdict in verdicts)
            return Score.unscored(reason="grader_failed" if silent else "scoring_failed", **said)
        return Score(value=found.value, **said)

    def _self_report(self, judge_panel: ToolCallSource) -> list[str]:
        """Ids of judges whose models steered the loop; ``EvalError`` where that is not allowed."""
        accounts = self.context.generation.settings.accounts
        both = shared_judges(self.drawing.get("steering", ()), judge_panel.judges, accounts)
        if both and not self.wanted.allow_loop_judges:
            raise EvalError(
                f"{', '.join(both)} steered the loop that drew the picture (as a judge, or "
                "as its director), and cannot report its result: name other judges, or set "
                "allow_loop_judges"
            )
        return both

    async def _judged(self, judge_panel: ToolCallSource, facts: Sequence[Fact]) -> PanelJudgement:
        config = self.context.config
        return await judge_picture(
            judge_panel,
            self.image,
            partial(self.context.generation.images.get, self.image),
            facts,
            store=self.context.answers,
            alpha=config.alpha,
            asking=config.asking,
            limit=self.context.generation.settings.judge_timeout,
            origin=judge_key(self.image, 0, facts, judge_panel, config),
        )

    async def _measured(
        self, metric: ItemMetric, facts: Sequence[Fact], judged: PanelJudgement | None
    ) -> MetricScore:
        photo = None if self.item.image is None else Path(self.item.image)
        sample = Sample(
            item=self.item,
            prompt=text_of(self.item),
            image=self.image,
            load=partial(self.context.generation.images.get, self.image),
            original=partial(load_image, photo) if photo is not None and photo.is_file() else None,
            facts=tuple(facts),
            card=None if judged is None else judged.card,
            answers={} if judged is None else judged.answers,
        )
        # The runner's own step: what a metric raises is unscored with the reason there, too.
        unit = await scored(score_key(self.image, metric, self.image), metric, sample, {})
        rows = unit.rows["scores"]
        values = {row["part"]: row["value"] for row in rows}
        lost = sum(row["unscored"] for row in rows)
        return MetricScore(value=values.pop(""), parts=values, reason=unit.reason, unscored=lost)
