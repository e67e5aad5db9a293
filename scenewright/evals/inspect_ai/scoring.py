"""Scorers: any metric of single pictures, on samples whose output is a picture.

A score carries its explanation in words and its facts, verdicts and answers as data.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from scenewright.core.facts import Fact, State, Verdict
from scenewright.core.images import ImageError, load_image, nothing_drawn
from scenewright.evals.datasets.base import Item
from scenewright.evals.errors import EvalError
from scenewright.evals.inspect_ai.context import (
    DRAWING,
    FOLDER,
    InspectContext,
    OncePerLoop,
    SceneFrom,
    check_metrics,
    config_of,
    item_of,
    open_context,
    picture_of,
    read_picture,
    told_plainly,
)
from scenewright.evals.metrics.base import ItemMetric, MetricScore, Sample
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.independence import shared_judges
from scenewright.evals.runner.judging import (
    JudgePanel,
    PanelJudgement,
    facts_to_ask,
    judge_key,
    judge_picture,
    score_key,
    scored,
    text_of,
)

_MARKS = {"yes": "✓", "no": "✗", "void": "–", "unscored": "?"}


def explanation(
    name: str, found: MetricScore, facts: Sequence[Fact], verdicts: Sequence[Verdict]
) -> str:
    """Return the score and its parts, then one line a fact, in Markdown.

    ✓ holds, ✗ does not, – not asked, ? unscored.
    """
    by_id = {verdict.fact_id: verdict for verdict in verdicts}
    lines = [_headline(name, found)]
    if verdicts:
        lines += ["", counted(verdicts), ""]
    for fact in facts:
        verdict = by_id.get(fact.id)
        if verdict is not None:
            lines.append(f"- {_line(fact, verdict)}")
    return "\n".join(lines)


def _headline(name: str, found: MetricScore) -> str:
    if found.value is None:
        return f"{name} unscored: {found.reason}"
    parts = ", ".join(
        f"{part} {'–' if value is None else f'{value:.3f}'}" for part, value in found.parts.items()
    )
    return f"{name} {found.value:.3f}{f' ({parts})' if parts else ''}"


def counted(verdicts: Sequence[Verdict]) -> str:
    """Return how many facts hold, do not, were not asked and are open, in words."""
    count = Counter(verdict.state for verdict in verdicts)
    rest: dict[State, str] = {"no": "do not", "void": "not asked", "unscored": "unscored"}
    said = [f"{count['yes']} of {len(verdicts)} facts hold"]
    said += [f"{count[state]} {words}" for state, words in rest.items() if count[state]]
    return ", ".join(said)


def _line(fact: Fact, verdict: Verdict) -> str:
    said = f"{_MARKS[verdict.state]} {fact.statement}"
    if verdict.probability is not None:
        return f"{said} (probability {verdict.probability:.2f})"
    return f"{said} ({verdict.reason})" if verdict.reason else said


def verdict_rows(facts: Sequence[Fact], judged: PanelJudgement | None) -> list[dict[str, Any]]:
    """Return one row a fact with the panel's verdict."""
    if judged is None:
        return []
    by_id = {verdict.fact_id: verdict for verdict in judged.card.verdicts}
    shown = {"state", "probability", "disagreement", "reason"}
    return [
        {
            "fact": fact.id,
            "kind": fact.kind,
            "statement": fact.statement,
            "question": fact.question,
            **by_id[fact.id].model_dump(mode="json", include=shown),
        }
        for fact in facts
    ]


def answer_rows(judged: PanelJudgement | None) -> list[dict[str, Any]]:
    """Return one row a judge and fact with the answer and its cost."""
    if judged is None:
        return []
    return [
        {"judge": judge, **answer.model_dump(mode="json", exclude={"judge_id"})}
        for judge, answers in judged.answers.items()
        for answer in answers
    ]


def panel_metadata(judge_panel: JudgePanel | None) -> dict[str, Any] | None:
    """Return the panel with the fingerprints of its judges."""
    if judge_panel is None:
        return None
    judges = [{"id": judge.id, "fingerprint": judge.fingerprint} for judge in judge_panel.judges]
    panel = judge_panel.panel
    return {"judges": judges, "aggregation": panel.aggregation, "quorum": panel.quorum}


def part_of(found: MetricScore, name: str, part: str) -> MetricScore:
    """Return the score, or that ``part`` of it.

    A part that is not there is unscored with the reason.
    """
    if not part:
        return found
    if part in found.parts:
        value = found.parts[part]
        reason = found.reason or f"{name} has no value of its part {part!r} for this picture"
        return found.model_copy(
            update={
                "value": value,
                "reason": reason if value is None or found.unscored else "",
            }
        )
    if found.value is None:
        return found
    known = ", ".join(found.parts) or "none"
    return MetricScore(value=None, reason=f"{name} has no part {part!r}: it has {known}")


PANEL = "panel"
_AS_IT_IS = {
    "conditions": ["as-it-is"],
    "condition": {"as-it-is": {"source": "given", "folder": "."}},
}


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Parameters of a scorer."""

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
        """Return the configuration of an evaluation; raises ``EvalError``."""
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
    """Return the ``panels`` of a configuration; None where no judge is named.

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
    """Score the newest picture of a sample's output by a metric of single pictures.

    ``metric`` and ``options`` are as in the configuration of an evaluation; ``part`` selects one of
    the metric's parts. ``judges`` (``kind:model``, several as a list or with commas) are the panel
    of metrics that need one, by default the report judges of the profile ``backend``;
    ``aggregation``, ``quorum``, ``calibration``, ``protocol``, ``asking`` and ``alpha`` are as in
    an evaluation. ``scene_from`` is the place of a sample's scene.

    A failure is unscored with its reason, never 0: inspect_ai keeps it and leaves it out of its
    metrics.
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
    """Score with SGScore (Scene-Bench, Eq. 4) by a panel of judges; see :func:`picture_metric`.

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
            picture = await asyncio.to_thread(context.generation.images.get, image)
            if empty := await asyncio.to_thread(nothing_drawn, picture):
                return Score.unscored(reason="no_response", explanation=empty)
            return await _Looking(wanted, context, item, image, drawing).score()
        except (EvalError, ImageError) as error:
            return Score.unscored(reason="scoring_failed", explanation=str(error))

    return score


async def _kept(named: str, drawing: Mapping[str, Any], context: InspectContext) -> str:
    """Store the picture and return its content hash."""
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
    """One picture, its item, and its judges."""

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

    def _self_report(self, judge_panel: JudgePanel) -> list[str]:
        """Return ids of judges whose models steered the loop.

        Raises ``EvalError`` where that is not allowed.
        """
        accounts = self.context.generation.settings.accounts
        both = shared_judges(self.drawing.get("steering", ()), judge_panel.judges, accounts)
        if both and not self.wanted.allow_loop_judges:
            raise EvalError(
                f"{', '.join(both)} steered the loop that drew the picture (as a judge, or "
                "as its director), and cannot report its result: name other judges, or set "
                "allow_loop_judges"
            )
        return both

    async def _judged(self, judge_panel: JudgePanel, facts: Sequence[Fact]) -> PanelJudgement:
        config = self.context.config
        key = judge_key(self.image, 0, facts, judge_panel, config)
        with self.context.paying(key):
            found = await judge_picture(
                judge_panel,
                self.image,
                partial(self.context.generation.images.get, self.image),
                facts,
                store=self.context.answers,
                alpha=config.alpha,
                asking=config.asking,
                limit=self.context.generation.settings.judge_timeout,
                origin=key,
            )
        if any(answer.state == "unscored" for given in found.answers.values() for answer in given):
            self.context.answers.rename()
        return found

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
