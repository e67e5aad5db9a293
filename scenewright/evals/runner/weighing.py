"""Weigh the judges of an evaluation by how they agree on all its pictures.

A panel whose aggregation is ``agreement`` judges each picture by the mean at first: one picture has
too few answers to learn weights from. When all pictures are judged, weights come from all its
answers (:mod:`scenewright.agents.panel.agreement`); verdicts and the scores made of them are made
again with these, from answers that are kept. Nothing is asked anew. With fewer answers than weights
need, the verdicts by the mean stay.

Which facts were asked was decided by the mean. An object that it denied, so that nothing was asked
of what belongs to it, stays absent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from scenewright.agents.panel.agreement import (
    EARLIER,
    LEAST_JUDGES,
    JudgeWeights,
    judge_weights,
)
from scenewright.agents.panel.answer_arrays import two_way_probability
from scenewright.config.profiles import Aggregation
from scenewright.config.settings import Settings
from scenewright.core.facts import Answer, Fact, ScoreCard, Verdict
from scenewright.evals.datasets.base import Dataset, Item
from scenewright.evals.metrics.base import ItemMetric
from scenewright.evals.runner.config import EvalConfig, PanelSpec, digest, panels_of
from scenewright.evals.runner.drawing import GenerationContext
from scenewright.evals.runner.judging import (
    EMPTY,
    JUDGE,
    SCORE,
    JudgePanel,
    answers_digest,
    facts_to_ask,
    item_mark,
    predicates_for,
    sample_of,
    score_key,
    scored,
)
from scenewright.evals.runner.model_setup import EvalModels
from scenewright.evals.runner.task import numbered
from scenewright.evals.store.journal import Journal, Unit, answer_of, verdict_of, verdict_row
from scenewright.evals.store.manifest import read_manifest
from scenewright.evals.store.results import MANIFEST

WEIGHED = "weighed"
"""Entry of the manifest: panel → its weights, None with too few answers."""
_KIND = "weighed"


def default_aggregation(judges: int) -> Aggregation:
    """Return the aggregation of a panel of so many ``judges`` that names none."""
    return "agreement" if judges >= LEAST_JUDGES else "mean"


def settle_aggregations(
    config: EvalConfig, eval_models: EvalModels, settings: Settings, folder: Path
) -> tuple[EvalConfig, EvalModels]:
    """Return both with an aggregation for every panel that names none.

    An evaluation that began in ``folder`` goes on with those that it began with, the mean where it
    noted none; a panel that begins takes :func:`default_aggregation`.
    """
    if not eval_models.judge_panels:
        return config, eval_models
    begun: Mapping[str, Any] | None = None
    if (folder / MANIFEST).exists():
        begun = read_manifest(folder)["config"].get("panels") or {}
    settled: dict[str, PanelSpec] = {}
    rules: dict[str, Aggregation] = {}
    for name, spec in panels_of(config, settings).items():
        chosen = spec.aggregation
        if chosen is None and begun is not None and (name in begun or name not in config.panels):
            chosen = begun.get(name, {}).get("aggregation") or "mean"
        rules[name] = chosen or default_aggregation(len(spec.judges))
        settled[name] = spec.model_copy(update={"aggregation": rules[name]})
    panels = tuple(
        replace(one, panel=replace(one.panel, aggregation=rules[one.configured]))
        for one in eval_models.judge_panels
    )
    # Panels of profiles are noted only where they are by agreement: plans of others stay the same.
    noted = {
        name: spec
        for name, spec in settled.items()
        if name in config.panels or spec.aggregation == "agreement"
    }
    return config.model_copy(update={"panels": noted}), replace(eval_models, judge_panels=panels)


@dataclass(frozen=True, slots=True)
class Weighing:
    """Work on the judgings of one evaluation, after its items."""

    config: EvalConfig
    eval_models: EvalModels
    generation: GenerationContext
    journal: Journal
    plan: str
    """Digest of the evaluation."""

    async def run(self, items: Dataset) -> dict[str, Any]:
        """Weigh all panels by agreement, and return what the manifest says of them."""
        panels = {
            one.name: one
            for one in self.eval_models.judge_panels
            if one.panel.aggregation == "agreement"
        }
        if not panels:
            return {}
        tables = {name: _Table(one) for name, one in panels.items()}
        async for position, item in numbered(items):
            for unit in self.journal.planned(self.plan, position):
                panel = str(unit.facts.get("panel", ""))
                if unit.kind == JUDGE and unit.state != "failed" and panel in tables:
                    tables[panel].add(self._facts(item, panels[panel]), unit)
        found = {name: await asyncio.to_thread(table.weights) for name, table in tables.items()}
        working = {
            name: replace(panels[name], panel=replace(panels[name].panel, weights=weights))
            for name, weights in found.items()
            if weights is not None
        }
        if working:
            plans: dict[int, list[str]] = {}
            async for position, item in numbered(items):
                plans[position] = await self._weighed(item, position, working)
            # All at once: a kill before leaves every verdict by the mean.
            for position, keys in plans.items():
                self.journal.plan(self.plan, position, keys)
        return {
            WEIGHED: {
                name: None if weights is None else weights.model_dump(mode="json")
                for name, weights in found.items()
            }
        }

    def _facts(self, item: Item, judge_panel: JudgePanel) -> tuple[Fact, ...]:
        return facts_to_ask(item, self.config, judge_panel.protocol, self.generation.own)

    async def _weighed(
        self, item: Item, position: int, panels: Mapping[str, JudgePanel]
    ) -> list[str]:
        """Make the verdicts and scores of one item again; the keys of its units."""
        metrics = {one.name: one for one in self.eval_models.of_pictures}
        looks: dict[str, tuple[Unit, tuple[Fact, ...]]] = {}
        keys: list[str] = []
        for unit in self.journal.planned(self.plan, position):
            panel = panels.get(str(unit.facts.get("panel", "")))
            look = looks.get(str(unit.facts.get("look", "")))
            now = unit
            if unit.kind == JUDGE and unit.state != "failed" and panel is not None:
                facts = self._facts(item, panel)
                now = weighed_look(unit, facts, panel, self.config.alpha)
                looks[unit.key] = now, facts
            elif unit.kind == SCORE and look is not None:
                metric = metrics.get(str(unit.rows["scores"][0]["metric"]))
                now = unit if metric is None else await self._scored(item, unit, metric, *look)
            if now is not unit:
                self.journal.put([now])
            keys.append(now.key)
        return keys

    async def _scored(
        self, item: Item, unit: Unit, metric: ItemMetric, look: Unit, facts: Sequence[Fact]
    ) -> Unit:
        row = unit.rows["scores"][0]
        known = predicates_for(item, self.config, self.generation.own)
        based, image = answers_digest(look), str(row["image"])
        key = score_key(based, metric, image, known, item_mark(item))
        images = self.generation.images
        sample = sample_of(
            *(item, image, images, facts, look, self.config.alpha, known),
            empty=look.facts.get(EMPTY, ""),
        )
        own = {"metric", "version", "part", "scope", "value", "reason", "unscored", "n"}
        own |= {"tokens_in", "tokens_out", "usd"}
        base = {name: value for name, value in row.items() if name not in own}
        made = await scored(key, metric, sample, base, look=look.key)
        return replace(made, at=unit.at)


class _Table:
    """Answers of one panel to all facts of the evaluation."""

    def __init__(self, judge_panel: JudgePanel) -> None:
        self._judges = tuple(judge.id for judge in judge_panel.judges)
        self._rows: list[list[float]] = []
        self._kinds: list[str] = []
        self._seen: set[str] = set()

    def add(self, facts: Sequence[Fact], look: Unit) -> None:
        # A picture that two arms share is judged once.
        if look.key in self._seen:
            return
        self._seen.add(look.key)
        answers = _answers(look)
        for fact in facts:
            if not fact.of_graph:
                continue
            row = [_said(fact, answers.get(judge, {}).get(fact.id)) for judge in self._judges]
            if not np.isnan(row).all():
                self._rows.append(row)
                self._kinds.append(fact.kind)

    def weights(self) -> JudgeWeights | None:
        said = np.array(self._rows).reshape(len(self._rows), len(self._judges))
        return judge_weights(self._judges, said, self._kinds)


def weighed_look(look: Unit, facts: Sequence[Fact], judge_panel: JudgePanel, alpha: float) -> Unit:
    """Return the judging ``look`` with the verdicts of a panel that has weights."""
    weights = judge_panel.panel.weights
    told = None if weights is None else weights.model_dump(mode="json")
    answers = {judge: list(given.values()) for judge, given in _answers(look).items()}
    before = {row["fact"]: verdict_of(row) for row in look.rows["verdicts"]}
    kept = _unasked_below(facts, before, answers)
    verdicts = judge_panel.panel.verdicts(
        [fact for fact in facts if fact.id not in kept], answers, kept
    )
    card = ScoreCard.of(facts, [*kept.values(), *verdicts], alpha)
    now = {verdict.fact_id: verdict for verdict in card.verdicts}
    rows = [{**row, **verdict_row(now[row["fact"]])} for row in look.rows["verdicts"]]
    return replace(look, key=digest(_KIND, look.key, told), rows={**look.rows, "verdicts": rows})


def _unasked_below(
    facts: Sequence[Fact], verdicts: Mapping[str, Verdict], answers: Mapping[str, Sequence[Answer]]
) -> dict[str, Verdict]:
    """Return the verdicts of facts that were denied, so that facts below them were not asked."""
    asked = {answer.fact_id for given in answers.values() for answer in given}
    unasked = [fact for fact in facts if fact.id not in asked]
    above = {parent for fact in unasked for parent in fact.parents}
    return {
        fact_id: verdict
        for fact_id, verdict in verdicts.items()
        if fact_id in above and verdict.state in ("no", "void")
    }


def _answers(look: Unit) -> dict[str, dict[str, Answer]]:
    """Return judge → fact id → answer."""
    found: dict[str, dict[str, Answer]] = {}
    for row in look.rows.get("answers", ()):
        answer = answer_of(row)
        found.setdefault(answer.judge_id, {})[answer.fact_id] = answer
    return found


def _said(fact: Fact, answer: Answer | None) -> float:
    if answer is None or answer.state not in ("yes", "no"):
        return float("nan")
    lead = two_way_probability(fact, answer)
    return float(answer.state == "yes") if lead is None else lead


def weighing_notes(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what to know of the weights of each panel of the manifest that is by agreement."""
    found = []
    for panel, told in (manifest.get(WEIGHED) or {}).items():
        if told is None:
            found.append(
                f"Panel {panel}: the mean of the judges, since too few facts were answered by "
                "three judges to weigh them by their agreement."
            )
            continue
        weights = JudgeWeights.model_validate(told)
        each = zip(weights.judges, weights.weights, strict=True)
        shown = ", ".join(f"{judge} {weight:.2f}" for judge, weight in each)
        rule = ", by the rule of version 1.0" if EARLIER & told.keys() else ""
        alike = "".join(
            f" {one} and {other} answer alike: if one is a copy of the other it counts twice."
            for one, other in weights.copies
        )
        found.append(
            f"Panel {panel}: judges weighed by their agreement on {weights.n_facts:,} facts "
            f"({shown}){rule}.{alike}"
        )
    return tuple(found)
