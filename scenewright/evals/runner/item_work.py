"""Work on one item: drawn in every arm, judged and scored; the same code for every engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from scenewright.core.error_text import error_text
from scenewright.core.facts import Fact
from scenewright.evals.datasets.base import DOUBTS, NO_SCENE, Item
from scenewright.evals.errors import EvalError
from scenewright.evals.metrics.base import ItemMetric, MetricScore, Sample
from scenewright.evals.runner.backends import kept
from scenewright.evals.runner.config import Arm, EvalConfig, digest
from scenewright.evals.runner.drawing import (
    ASKED,
    GenerationContext,
    draw,
    draw_key,
    dropped_ids,
    dropped_of,
    failed_drawing,
    kept_of,
)
from scenewright.evals.runner.judging import (
    EMPTY,
    JUDGE,
    SCORE,
    JudgePanel,
    answers_digest,
    asked_in,
    facts_to_ask,
    is_drawn,
    judge_key,
    judged,
    looked_at,
    predicates_for,
    protocol_of,
    rests_on_reading,
    sample_of,
    score_key,
    score_rows,
    scored,
    text_of,
    withheld,
)
from scenewright.evals.runner.model_setup import EvalModels
from scenewright.evals.runner.sentinels import SentinelReply, Sentinels
from scenewright.evals.runner.served_versions import VersionGate
from scenewright.evals.store.journal import Unit, Units, as_text
from scenewright.providers import Answers
from scenewright.providers.sdk_clients import identified

_TRIES = "tries"
"""Fact of a failed unit: how often it was tried in vain before."""


class UnitWork:
    """Work in keyed units: finished ones are not repeated, and failures are units too."""

    def __init__(
        self,
        units: Units,
        *,
        retry: bool,
        count: Callable[..., None],
        ended: Callable[[Unit], None],
    ) -> None:
        """Set up the work.

        Args:
            units: store of finished units.
            retry: whether failed and unscored units are tried again.
            count: called with increments as a
                :class:`~scenewright.evals.runner.progress.ProgressReporter` is.
            ended: called with every new unit that may fail; its errors end the work.
        """
        self._units = units
        self._retry = retry
        self._tell = count
        self._note = ended

    def _known(self, key: str) -> Unit | None:
        """Return the unit of ``key``, unless it is to be tried again."""
        unit = self._units.get(key)
        return None if unit is not None and self._retry and unit.state != "done" else unit

    def _tries(self, key: str) -> int:
        """Return how often the unit of ``key`` was tried in vain."""
        before = self._units.get(key)
        return 0 if before is None or before.state == "done" else 1 + before.facts.get(_TRIES, 0)

    def _step(self, key: str) -> AbstractContextManager[None]:
        """Return the scope of requests of the unit ``key``.

        Another try is another step: a reply of no use would come again under its key.
        """
        tries = self._tries(key)
        return identified(f"{key}:{tries}" if tries else key)

    def _keep(self, unit: Unit) -> None:
        """Keep a new unit that may fail."""
        if unit.state != "done" and (tries := self._tries(unit.key)):
            unit = replace(unit, facts={**unit.facts, _TRIES: tries})
        self._units.put([unit])

    def _ended(self, unit: Unit) -> Unit:
        """Keep a new unit, and count what it took."""
        self._keep(unit)
        took = [row for table in ("rounds", "answers") for row in unit.rows.get(table, ())]
        took += [unit.facts["spent"]] if "spent" in unit.facts else []
        self._tell(
            failed=int(unit.state == "failed"),
            tokens=sum(row["tokens_in"] + row["tokens_out"] for row in took),
            usd=sum(row["usd"] for row in took),
        )
        self._note(unit)
        return unit


class ItemWork(UnitWork):
    """Work on one item at a time."""

    def __init__(
        self,
        config: EvalConfig,
        eval_models: EvalModels,
        generation: GenerationContext,
        units: Units,
        answers: Answers,
        *,
        retry: bool,
        count: Callable[..., None],
        ended: Callable[[Unit], None],
        gate: VersionGate,
        sentinels: Sentinels,
        sentinel: Callable[[SentinelReply], None],
    ) -> None:
        """Set up the work.

        Args:
            config: configuration of the evaluation.
            eval_models: the models.
            generation: where pictures are drawn and kept.
            units: as in :class:`UnitWork`.
            answers: store of answers.
            retry: as in :class:`UnitWork`.
            count: as in :class:`UnitWork`.
            ended: as in :class:`UnitWork`.
            gate: admits judgings by the versions of their judges.
            sentinels: asks judges about sentinel pictures from time to time.
            sentinel: called with their replies; its errors end the work.
        """
        super().__init__(units, retry=retry, count=count, ended=ended)
        self._config = config
        self._models = eval_models
        self._generators = {
            name: replace(generator, composer=kept(generator.composer, units))
            if generator
            else None
            for name, generator in eval_models.generators.items()
        }
        self._generation = generation
        self._answers = answers
        self._gate = gate
        self._sentinels = sentinels
        self._sentinel = sentinel

    async def do(self, item: Item) -> list[str]:
        """Draw, judge and score ``item`` in all arms.

        The keys of its units, in the order of the tables.

        What models do wrong is a failed or an unscored unit. Raises ``EvalError``, ``StoreError``
        and ``ImageError`` where what is done cannot be kept.
        """
        facts = facts_to_ask(item, self._config, own=self._generation.own)
        unit = self._described(item, facts)
        self._units.put([unit])
        keys = [unit.key]
        for arm in self._models.arms:
            keys += await self._cell(item, arm, facts)
        return keys

    def _described(self, item: Item, facts: Sequence[Fact]) -> Unit:
        scene = item.scene
        row = {
            "item": item.id,
            "dataset": self._config.dataset.name,
            "prompt": text_of(item),
            "objects": None if scene is None else len(scene.objects),
            "relations": None if scene is None else len(scene.relations),
            "complexity": None if scene is None else scene.complexity(),
            "level": item.level,
            "group": item.group,
            "category": item.category,
            "original": item.image or "",
            "scene": "" if scene is None else scene.canonical_json(),
            "facts": as_text([fact.model_dump(mode="json") for fact in facts]),
        }
        if item.reading_problem:
            why = item.meta.get(NO_SCENE) or item.meta[DOUBTS]
            row |= {"reading": item.reading_problem, "doubts": why}
        return Unit(digest("item", row), "item", rows={"items": [row]})

    async def _cell(self, item: Item, arm: Arm, facts: Sequence[Fact]) -> list[str]:
        """Draw, judge and score one item in one arm; the keys of its units."""
        why = withheld(item, self._config)
        if not is_drawn(item, arm, self._config, self._models.metrics):
            key = digest("not read", why, item.id, arm.name)
            return self._unscored(item, arm, key, why, self._models.of_pictures)
        drawn = await self._drawn(item, arm)
        keys = [drawn.key]
        if drawn.state == "failed":
            reason = f"the drawing failed: {drawn.reason}"
            return keys + self._unscored(item, arm, drawn.key, reason, self._models.of_pictures)
        apart = [one for one in self._models.of_pictures if why and rests_on_reading(one, item)]
        if apart:
            keys += self._unscored(item, arm, drawn.key, why, apart)
        metrics = [one for one in self._models.of_pictures if one not in apart]
        for picture in kept_of(drawn.facts, self._config.judge_rounds == "all"):
            keys += await self._looked_at(item, arm, drawn, picture, facts, metrics)
        return keys

    def _unscored(
        self, item: Item, arm: Arm, based_on: str, reason: str, metrics: Sequence[ItemMetric]
    ) -> list[str]:
        """Keep the scores of ``metrics`` as unscored for ``reason``, and return their keys."""
        base = {**arm.columns(item.id), "round": 0, "image": ""}
        lost = MetricScore(value=None, reason=reason[:500])
        read = withheld(item, self._config)
        asking = [one for one in self._models.judge_panels if read or self._asked(item, one)]
        units = []
        for metric in metrics:
            for judge_panel in asking if "judges" in metric.needs and asking else [None]:
                of = (
                    {"panel": "", "protocol": ""}
                    if judge_panel is None
                    else self._panel(item, judge_panel)
                )
                rows = score_rows(lost, metric.name, metric.version, base | of)
                panel = of["panel"]
                key = digest(SCORE, based_on, "failed", metric.name, metric.version, panel)
                units.append(Unit(key, SCORE, "unscored", lost.reason, rows))
        self._units.put(units)
        self._tell(unscored=len(units))
        return [unit.key for unit in units]

    async def _drawn(self, item: Item, arm: Arm) -> Unit:
        generator = self._generators[arm.name]
        try:
            key = draw_key(item, arm, generator, self._generation)
        except (EvalError, OSError) as error:
            key = digest("no picture", item.id, arm.name)
            return self._ended(failed_drawing(key, item.id, arm, error_text(error)))
        unit = self._known(key)
        if unit is not None:
            self._tell(pictures=1, found=1)
            return unit
        try:
            async with asyncio.timeout(self._config.timeout) as limit:
                with self._step(key):
                    unit = await draw(key, item, arm, generator, self._generation)
        except TimeoutError as error:
            late = f"no picture within {self._config.timeout:g} s"
            reason = late if limit.expired() else error_text(error)
            return self._ended(failed_drawing(key, item.id, arm, reason))
        except Exception as error:
            return self._ended(failed_drawing(key, item.id, arm, error_text(error)))
        self._tell(pictures=1)
        self._ended(unit)
        await self._watch(unit.facts.get(ASKED) or {})
        return unit

    async def _looked_at(
        self,
        item: Item,
        arm: Arm,
        drawn: Unit,
        picture: tuple[int, str],
        facts: Sequence[Fact],
        metrics: Sequence[ItemMetric],
    ) -> list[str]:
        round, image = picture
        keys: list[str] = []
        base = {**arm.columns(item.id), "round": round, "image": image, **dropped_of(drawn, round)}
        looks: list[Unit] = []
        panels: dict[str, Mapping[str, str]] = {}
        by_look: dict[str, Sequence[Fact]] = {}
        lost = dropped_ids(drawn, round)
        known = predicates_for(item, self._config, self._generation.own)
        for judge_panel in self._models.judge_panels:
            asked = self._asked(item, judge_panel)
            if asked:
                key = judge_key(drawn.key, round, asked, judge_panel, self._config)
                looks.append(await self._judged(key, item, arm, judge_panel, picture, asked, lost))
                panels[key], by_look[key] = self._panel(item, judge_panel), asked
                keys.append(key)
        empty = next((look.facts[EMPTY] for look in looks if EMPTY in look.facts), None)
        # Cards and answers are read back from rows: once, however many metrics need them.
        samples: dict[str, Sample] = {}
        for metric in metrics:
            for look in looks if "judges" in metric.needs and looks else [None]:
                of = drawn.key if look is None else look.key
                based = drawn.key if look is None else answers_digest(look)
                key = score_key(based, metric, image, known)
                unit = self._known(key)
                if unit is None:
                    if based not in samples:
                        samples[based] = await looked_at(
                            sample_of(
                                item,
                                image,
                                self._generation.images,
                                by_look.get(of, facts),
                                look,
                                self._config.alpha,
                                known,
                                empty,
                            )
                        )
                        empty = samples[based].empty
                    failed = look is not None and look.state == "failed"
                    with self._step(key):
                        unit = await scored(
                            key,
                            metric,
                            samples[based],
                            {**base, **panels.get(of, {"panel": "", "protocol": ""})},
                            lacking=f"the judging failed: {look.reason}" if look and failed else "",
                            look="" if look is None else look.key,
                        )
                    self._keep(unit)
                    self._tell(unscored=int(unit.state == "unscored"))
                keys.append(key)
        return keys

    def _asked(self, item: Item, judge_panel: JudgePanel) -> tuple[Fact, ...]:
        return facts_to_ask(item, self._config, judge_panel.protocol, self._generation.own)

    def _panel(self, item: Item, judge_panel: JudgePanel) -> dict[str, str]:
        """Return the columns of a panel and its protocol."""
        return {"panel": judge_panel.name, "protocol": protocol_of(item, self._config, judge_panel)}

    async def _judged(
        self,
        key: str,
        item: Item,
        arm: Arm,
        judge_panel: JudgePanel,
        picture: tuple[int, str],
        facts: Sequence[Fact],
        dropped: frozenset[str] | None,
    ) -> Unit:
        unit = self._known(key)
        if unit is None:
            try:
                with self._step(key):
                    unit = await judged(
                        key,
                        item,
                        arm,
                        judge_panel,
                        picture,
                        facts,
                        dropped=dropped,
                        images=self._generation.images,
                        answers=self._answers,
                        config=self._config,
                        limit=self._generation.settings.judge_timeout,
                    )
            except Exception as error:
                unit = Unit(key, JUDGE, "failed", error_text(error))
            unit = replace(unit, facts={**unit.facts, "panel": judge_panel.name})
            self._gate.admit(unit)
            self._tell(judged=1, unscored=int(unit.state == "unscored"))
            self._ended(unit)
            await self._watch(asked_in(unit))
        else:
            self._gate.admit(unit)
        return unit

    async def _watch(self, asked: Mapping[str, int]) -> None:
        """Count questions to judges, and ask about the sentinel pictures that are due."""
        self._sentinels.count(asked)
        async for reply in self._sentinels.due():
            tokens = reply.tokens_in + reply.tokens_out
            self._tell(sentinels=1, tokens=tokens, usd=reply.usd)
            self._sentinel(reply)
