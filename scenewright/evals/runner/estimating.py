"""Estimate of an evaluation before anything is drawn: pictures, calls, tokens, dollars.

Every item of the set is counted; the cost of an item is computed on a sample of them, with the very
questions that will be asked and the providers' published rules for tokens. A loop stops when
nothing is missing, so its numbers are bounds: at least one round, at most all rounds. The true cost
is lower where judges need not answer because an object is absent.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from scenewright.agents.chat.language_replies import name_of
from scenewright.config.profiles import DIRECTOR
from scenewright.config.settings import Settings, load_settings
from scenewright.core.facts import Fact
from scenewright.core.images import ImageError, upright_size
from scenewright.core.ports.backend import ImageBackend
from scenewright.core.ports.judge import Judge
from scenewright.evals.datasets.base import Dataset, Item
from scenewright.evals.datasets.registry import open_dataset, reservoir
from scenewright.evals.metrics.base import PricedMetric, Sample
from scenewright.evals.runner.config import Arm, EvalConfig, as_begun
from scenewright.evals.runner.dataset_predicates import (
    DatasetPredicates,
    Predicates,
    dataset_predicates,
)
from scenewright.evals.runner.forecast import CostForecast, CostLine
from scenewright.evals.runner.given_pictures import check_items
from scenewright.evals.runner.judging import (
    base_of,
    facts_to_ask,
    is_drawn,
    predicates_for,
    text_of,
)
from scenewright.evals.runner.model_setup import EvalModelOverrides, EvalModels, build_eval_models
from scenewright.evals.runner.sentinels import askable, is_watched, sentinel_pictures
from scenewright.evals.store.journal import Journal
from scenewright.evals.store.manifest import read_manifest
from scenewright.evals.store.results import JOURNAL, MANIFEST
from scenewright.graphs.limits import expected_of
from scenewright.providers import fact_digest
from scenewright.providers.usage import ExpectedUsage
from scenewright.runs.coverage import facts_outside

_NAMED = 6


@dataclass(frozen=True, slots=True)
class VocabularyGap:
    """Facts without known words for some models."""

    who: str
    """``panel NAME``, ``loop ARM`` or the image model's id."""
    does: str
    """What they cannot do with these facts: ``answer`` or ``draw`` them."""
    facts: int
    """Approximate number of these facts in the set, counted on a sample."""
    of: int
    """Approximate number of all facts of the set."""
    words: tuple[str, ...]
    """The unknown words, the most frequent first."""

    @property
    def text(self) -> str:
        """The gap on one line."""
        more = len(self.words) - _NAMED
        words = ", ".join(self.words[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        fate = "they stay unscored" if self.does == "answer" else "pictures will lack them"
        return (
            f"{self.who} has no words for about {self.facts:,} of {self.of:,} facts ({words}): "
            f"{fate}"
        )


def vocabulary_gaps(
    eval_models: EvalModels, asked: Sequence[Sequence[Fact]], share: float
) -> tuple[VocabularyGap, ...]:
    """Return the facts that panels, loops and image models of ``eval_models`` have no words for.

    ``asked`` holds one list of facts an item; ``share`` is items of the set by those listed.
    """
    total = round(share * sum(map(len, asked)))
    judges = [
        (
            f"panel {judge_panel.name}",
            [j.caps.vocabulary for j in judge_panel.judges],
            judge_panel.panel.quorum,
        )
        for judge_panel in eval_models.judge_panels
    ]
    backends: dict[str, ImageBackend] = {}
    for arm in eval_models.arms:
        generator = eval_models.generators[arm.name]
        if generator is not None:
            backends[generator.backend.id] = generator.backend
            if arm.loops:
                words = [judge.caps.vocabulary for judge in generator.judges]
                judges.append((f"loop {arm.name}", words, arm.profile.quorum))
    groups = [
        (who, "answer", [facts_outside(facts, words, quorum) for facts in asked])
        for who, words, quorum in judges
    ]
    for who, backend in backends.items():
        words = [backend.features.vocabulary]
        groups.append((who, "draw", [facts_outside(facts, words, worded=False) for facts in asked]))
    gaps = []
    for who, does, found in groups:
        count = sum(map(len, found))
        said = Counter(str(one) for each in found for unknown in each.values() for one in unknown)
        if count:
            names = tuple(word for word, _ in said.most_common())
            gaps.append(VocabularyGap(who, does, max(1, round(share * count)), total, names))
    return tuple(gaps)


SAMPLE = 200
"""Number of items on which the cost of one is computed."""
_PHOTO = (640, 480)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimate of an evaluation."""

    items: int
    arms: int
    pictures: tuple[int, int]
    """Pictures drawn, references included: at least, at most."""
    facts: int
    """Approximate number of facts of all items, counted on a sample."""
    looks: tuple[int, int]
    """Judgings of pictures by panels: at least, at most."""
    costs: CostForecast
    """Models in their roles: ``words`` prompts, ``draws``, ``steers`` or ``directs`` (a loop),
    ``judges``, ``is watched`` (by sentinel pictures), ``scores`` (for a metric that asks by
    itself)."""
    done: int = 0
    """Items that are done in the folder; for a retry those without any failed or unscored unit."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Reason → entries of the set that were left out."""
    outside: tuple[VocabularyGap, ...] = ()
    """Facts that panels, loops and image models have no words for."""

    @property
    def remaining(self) -> float:
        """Share of the items that are not done, 0 to 1."""
        return 1.0 - self.done / self.items if self.items else 0.0

    @property
    def rest(self) -> CostForecast:
        """The forecast of the items that are not done."""
        return self.costs * self.remaining


async def estimate(
    config: EvalConfig,
    folder: str | Path | None = None,
    *,
    settings: Settings | None = None,
    root: str | Path | None = None,
    given: EvalModelOverrides | None = None,
    dataset: Dataset | None = None,
    retry: bool = False,
) -> Estimate:
    """Return the estimate of :func:`scenewright.evals.runner.runner.run_eval` with these arguments.

    Raises what that raises before anything is drawn.
    """
    settings = settings or load_settings()
    base = Path(root) if root is not None else Path()
    config = await asyncio.to_thread(as_begun, config, folder)
    items = dataset if dataset is not None else open_dataset(config.dataset, base)
    eval_models = await build_eval_models(config, settings, given or EvalModelOverrides(), base)
    await asyncio.to_thread(check_items, eval_models.arms, eval_models.metrics, items, base)
    count, sample = await asyncio.to_thread(reservoir, items, SAMPLE, random.Random("estimate"))
    place = None if folder is None else Path(folder)
    done = 0 if place is None else await asyncio.to_thread(_done, place, config, retry)
    own = await asyncio.to_thread(
        partial(dataset_predicates, base=base_of(config)),
        *(config.predicates, config.dataset, items, place),
    )
    work = _Work(eval_models, config, sample, count, own)
    lines = await asyncio.to_thread(lambda: [*work.models(), *work.judges()])
    lines += await work.metrics()
    pictures, looked = np.zeros(2), np.zeros(2)
    for arm in eval_models.arms:
        drawn = len(work.drawn(arm)) * work.share
        pictures += drawn * np.array(_pictures([arm]))
        looked += drawn * np.array(_looked_at([arm], config.judge_rounds == "all"))
    (least, most), looks = pictures.round(), looked.round() * len(eval_models.judge_panels)
    return Estimate(
        items=count,
        arms=len(eval_models.arms),
        pictures=(int(least), int(most)),
        facts=round(sum(work.facts)),
        looks=(int(looks[0]), int(looks[1])),
        costs=CostForecast.of(lines),
        done=min(done, count),
        left_out=dict(items.left_out),
        outside=vocabulary_gaps(eval_models, work.asked[0], work.share),
    )


def _done(folder: Path, config: EvalConfig, retry: bool) -> int:
    """Return the items that need no further work by this very configuration."""
    if not (folder / MANIFEST).exists() or not (folder / JOURNAL).exists():
        return 0
    manifest = read_manifest(folder)
    if manifest["config"] != config.model_dump(mode="json"):
        return 0
    plan = manifest["plan"]
    with Journal(folder / JOURNAL) as journal:
        if retry:
            return journal.whole_items(plan)
        return sum(n for (kind, _), n in journal.tally(plan).items() if kind == "item")


def _pictures(arms: Sequence[Arm]) -> tuple[int, int]:
    """Return the pictures drawn for an item: at least, and with references at most."""
    drawn = [arm.spec for arm in arms if arm.spec.source == "draw"]
    most = [min(spec.images or 2**31, 2 * spec.rounds - 1) for spec in drawn]
    return len(drawn), sum(most)


def _looked_at(arms: Sequence[Arm], every: bool) -> tuple[int, int]:
    """Return the pictures of an item that a panel judges: at least, at most."""
    return len(arms), sum(arm.spec.rounds for arm in arms) if every else len(arms)


class _Work:
    """The work of an evaluation, computed on a sample of its items."""

    def __init__(
        self,
        eval_models: EvalModels,
        config: EvalConfig,
        sample: Sequence[Item],
        count: int,
        own: DatasetPredicates | None,
    ) -> None:
        self._models, self._config, self._sample, self._own = eval_models, config, sample, own
        self.share = count / len(sample) if sample else 0.0
        first = [facts_to_ask(item, config, own=own) for item in sample]
        self.asked = (first, [self._further(*pair) for pair in zip(sample, first, strict=True)])
        """Facts of each item by the evaluation's protocol, and further ones by the other one."""
        self.facts = [self.share * sum(map(len, some)) for some in self.asked]
        self._every = config.judge_rounds == "all"
        self._known: dict[tuple[str, tuple[int, int] | None, bool], ExpectedUsage] = {}

    def drawn(self, arm: Arm) -> list[Item]:
        """Return the items of the sample that have a picture in ``arm``."""
        metrics = self._models.metrics
        return [one for one in self._sample if is_drawn(one, arm, self._config, metrics)]

    def _further(self, item: Item, first: Sequence[Fact]) -> tuple[Fact, ...]:
        if self._config.other_protocol is None:
            return ()
        known = {fact_digest(fact) for fact in first}
        further = facts_to_ask(item, self._config, self._config.other_protocol, self._own)
        return tuple(fact for fact in further if fact_digest(fact) not in known)

    def _all(self, parts: Iterable[ExpectedUsage]) -> ExpectedUsage:
        """Return the usage for the whole set of the usages for items of the sample."""
        return sum(parts, ExpectedUsage()) * self.share

    def _size(self, arm: Arm) -> tuple[int, int] | None:
        generator = self._models.generators[arm.name]
        if generator is None:
            return None
        return self._config.size or generator.backend.features.default_size

    def models(self) -> Iterator[CostLine]:
        """Yield the models that word prompts, draw, and direct loops."""
        for arm in self._models.arms:
            generator = self._models.generators[arm.name]
            if generator is None:
                continue
            pictures = _pictures([arm])[1]
            items = self.drawn(arm)
            composer: Any = generator.composer
            if getattr(composer, "expected", None) is not None and arm.spec.text == "scene":
                scenes = (item.scene for item in items if item.scene is not None)
                # Each picture of a loop has a prompt of its own.
                said = self._all(map(composer.expected, scenes))
                yield CostLine.of(name_of(composer.chat), "words", said, pictures)
            expected: Any = getattr(generator.backend, "expected", lambda text: ExpectedUsage())
            drawn = self._all(expected(text_of(item)) for item in items)
            yield CostLine.of(generator.backend.id, "draws", drawn, pictures)
            if arm.loops and arm.profile.strategy == DIRECTOR and arm.profile.chat is not None:
                # It decides itself how often it calls: neither its calls nor their price are known.
                once = ExpectedUsage(round(len(items) * self.share), usd=None)
                yield CostLine.of(arm.profile.chat, "directs", once)

    def judges(self) -> Iterator[CostLine]:
        """Yield the judges that steer and report, and the sentinel questions to them."""
        for arm in self._models.arms:
            generator = self._models.generators[arm.name]
            for judge in () if generator is None else generator.judges:
                yield from self._judge(judge, "steers", arm, False, arm.spec.rounds)
            for panel in self._models.judge_panels:
                for judge in panel.judges:
                    times = arm.spec.rounds if self._every else 1
                    yield from self._judge(judge, "judges", arm, panel.protocol is not None, times)

    def _judge(
        self, judge: Judge, what: str, arm: Arm, beside: bool, times: int
    ) -> Iterator[CostLine]:
        size = self._size(arm)
        place = (judge.id, size, beside)
        if place not in self._known:
            pairs = zip(self._sample, self.asked[beside], strict=True)
            self._known[place] = self._all(
                expected_of(judge, size or photo_size(item), facts, self._config.asking)
                for item, facts in pairs
            )
        yield CostLine.of(judge.id, what, self._known[place], times)
        questions = self._config.sentinels * self.facts[beside]
        once = _watching(judge, questions)
        if once.calls:
            yield CostLine(judge.id, "is watched", once, _watching(judge, questions * times))

    async def metrics(self) -> list[CostLine]:
        """Return the usage of models that metrics ask by themselves."""
        known: dict[tuple[int, tuple[int, int] | None], dict[str, ExpectedUsage]] = {}
        found = []
        priced = [m for m in self._models.of_pictures if isinstance(m, PricedMetric)]
        for arm in self._models.arms:
            times = _looked_at([arm], self._every)[1]
            size = self._size(arm)
            for at, metric in enumerate(priced):
                if (at, size) not in known:
                    sums: dict[str, ExpectedUsage] = {}
                    for item, facts in zip(self._sample, self.asked[0], strict=True):
                        undrawn = _undrawn(
                            item, facts, predicates_for(item, self._config, self._own)
                        )
                        told = await metric.expected(undrawn, size or photo_size(item))
                        for who, one in told.items():
                            sums[who] = sums.get(who, ExpectedUsage()) + one
                    known[at, size] = sums
                for who, one in known[at, size].items():
                    found.append(CostLine.of(who, "scores", one * self.share, times))
        return found


def _watching(judge: Judge, questions: float) -> ExpectedUsage:
    """Return the usage of that many sentinel questions to a judge."""
    if not is_watched(judge):
        return ExpectedUsage()
    pictures = sentinel_pictures()
    every = [[picture.facts[n] for n in askable(judge, picture)] for picture in pictures]
    parts = (
        expected_of(judge, picture.image.size, facts, "together")
        for picture, facts in zip(pictures, every, strict=True)
    )
    return sum(parts, ExpectedUsage()) * (questions / max(1, sum(map(len, every))))


def _undrawn(item: Item, facts: Sequence[Fact], predicates: Predicates) -> Sample:
    """Return a sample without a picture."""

    def load() -> Image.Image:
        raise ImageError("the picture is not drawn yet")

    return Sample(item, text_of(item), "", load, facts=tuple(facts), predicates=predicates)


def photo_size(item: Item) -> tuple[int, int]:
    """Return the size of an item's photo from its header, or a usual size."""
    try:
        return upright_size(item.image or "")
    except ImageError:
        return _PHOTO
