"""Work on one item: drawn in every arm, judged and scored; the same code for every engine."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

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
    item_mark,
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
from scenewright.evals.runner.served_versions import SERVED, served_in
from scenewright.evals.runner.task import Counted, Ended, Tell, UnitWork
from scenewright.evals.store.journal import Unit, Units, as_text
from scenewright.providers import Answers


@dataclass(frozen=True, slots=True)
class Found:
    """Event: a judging that was finished before is used again."""

    unit: Unit
    """The unit without its rows."""


@dataclass(frozen=True, slots=True)
class SentinelAsked:
    """Event: a judge was asked about a sentinel picture."""

    reply: SentinelReply


class ItemWork(UnitWork):
    """Work on one item."""

    def __init__(
        self,
        config: EvalConfig,
        eval_models: EvalModels,
        generation: GenerationContext,
        units: Units,
        answers: Answers,
        sentinels: Sentinels,
        tell: Tell,
        *,
        retry: bool,
    ) -> None:
        """Set up the work.

        Args:
            config: configuration of the evaluation.
            eval_models: the models.
            generation: where pictures are drawn and kept.
            units: as in :class:`UnitWork`.
            answers: store of answers.
            sentinels: asks judges about sentinel pictures from time to time.
            tell: receiver of events.
            retry: as in :class:`UnitWork`.
        """
        super().__init__(
            units,
            retry=retry,
            count=lambda **more: tell(Counted(more)),
            ended=lambda unit: tell(Ended(replace(unit, rows={}, facts={}))),
        )
        self._event = tell
        self._config = config
        self._models = eval_models
        self._generation = generation
        self._answers = answers
        self._sentinels = sentinels

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
                of = self._panel(item, judge_panel)
                rows = score_rows(lost, metric.name, metric.version, base | of)
                key = digest(SCORE, based_on, "failed", metric.name, metric.version, of["panel"])
                units.append(Unit(key, SCORE, "unscored", lost.reason, rows))
        self._units.put(units)
        self._tell(unscored=len(units))
        return [unit.key for unit in units]

    async def _drawn(self, item: Item, arm: Arm) -> Unit:
        generator = self._models.generators[arm.name]
        if generator is not None:
            generator = replace(generator, composer=kept(generator.composer, self._units))
        try:
            key = draw_key(item, arm, generator, self._generation)
        except (EvalError, OSError) as error:
            key = digest("no picture", item.id, arm.name)
            return self.keep(failed_drawing(key, item.id, arm, error_text(error)))
        unit, new = await self.unit(
            key,
            lambda before: draw(key, item, arm, generator, self._generation),
            partial(failed_drawing, key, item.id, arm),
            seconds=self._config.timeout,
            late="no picture",
        )
        if not new:
            self._tell(pictures=1, found=1)
        elif self.keep(unit).state != "failed":
            self._tell(pictures=1)
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
        looks: dict[str, tuple[Unit, JudgePanel, Sequence[Fact]]] = {}
        """Digest of the answers of a panel's judging → the judging, the panel and the questions."""
        lost = dropped_ids(drawn, round)
        known = predicates_for(item, self._config, self._generation.own)
        for judge_panel in self._models.judge_panels:
            asked = self._asked(item, judge_panel)
            if asked:
                key = judge_key(drawn.key, round, asked, judge_panel, self._config)
                look = await self._judged(key, item, arm, judge_panel, picture, asked, lost)
                looks[answers_digest(look)] = look, judge_panel, asked
                keys.append(key)
        empty = next(
            (look.facts[EMPTY] for look, *_ in looks.values() if EMPTY in look.facts), None
        )
        # Cards and answers are read back from rows: once, however many metrics need them.
        samples: dict[str, Sample] = {}

        async def score(key: str, metric: ItemMetric, based: str, before: Unit | None) -> Unit:
            nonlocal empty
            look, judge_panel, asked = looks.get(based, (None, None, facts))
            if based not in samples:
                images, alpha = self._generation.images, self._config.alpha
                sample = sample_of(item, image, images, asked, look, alpha, known, empty)
                samples[based] = await looked_at(sample)
                empty = samples[based].empty
            panel = self._panel(item, judge_panel)
            if look is None:
                return await scored(key, metric, samples[based], base | panel)
            lacking = f"the judging failed: {look.reason}" if look.state == "failed" else ""
            return await scored(key, metric, samples[based], base | panel, lacking, look.key)

        mark = item_mark(item)
        for metric in metrics:
            for based in looks if "judges" in metric.needs and looks else [drawn.key]:
                key = score_key(based, metric, image, known, mark)
                unit, new = await self.unit(key, partial(score, key, metric, based))
                if new:
                    self._units.put([unit])
                    self._tell(unscored=int(unit.state == "unscored"))
                keys.append(key)
        return keys

    def _asked(self, item: Item, judge_panel: JudgePanel) -> tuple[Fact, ...]:
        return facts_to_ask(item, self._config, judge_panel.protocol, self._generation.own)

    def _panel(self, item: Item, judge_panel: JudgePanel | None) -> dict[str, str]:
        """Return the columns of a panel and its protocol; empty without one."""
        if judge_panel is None:
            return {"panel": "", "protocol": ""}
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
        def make(before: Unit | None) -> Awaitable[Unit]:
            return judged(
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

        unit, new = await self.unit(key, make, partial(Unit, key, JUDGE, "failed"))
        if not new:
            self._event(Found(replace(unit, rows={}, facts={SERVED: served_in(unit)})))
            return unit
        unit = replace(unit, facts={**unit.facts, "panel": judge_panel.name})
        self._tell(judged=1, unscored=int(unit.state == "unscored"))
        self.keep(unit)
        await self._watch(asked_in(unit))
        return unit

    async def _watch(self, asked: Mapping[str, int]) -> None:
        """Count questions to judges, and ask about the sentinel pictures that are due."""
        self._sentinels.count(asked)
        async for reply in self._sentinels.due():
            tokens = reply.tokens_in + reply.tokens_out
            self._tell(sentinels=1, tokens=tokens, usd=reply.usd)
            self._event(SentinelAsked(reply))
