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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from scenewright.agents.chat.language_replies import name_of
from scenewright.config.profiles import DIRECTOR
from scenewright.config.settings import Settings, load_settings
from scenewright.core.facts import Fact
from scenewright.core.images import ImageError
from scenewright.core.ports.backend import ImageBackend
from scenewright.core.ports.judge import Judge
from scenewright.evals.datasets.base import Dataset, Item
from scenewright.evals.datasets.registry import open_dataset, reservoir
from scenewright.evals.metrics.base import PricedMetric, Sample
from scenewright.evals.runner.config import Arm, EvalConfig
from scenewright.evals.runner.dataset_predicates import (
    DatasetPredicates,
    Predicates,
    dataset_predicates,
)
from scenewright.evals.runner.drawing import ImageGenerator
from scenewright.evals.runner.judging import (
    base_of,
    expected_of,
    facts_to_ask,
    predicates_for,
    text_of,
)
from scenewright.evals.runner.model_setup import EvalModelOverrides, EvalModels, build_eval_models
from scenewright.evals.runner.sentinels import askable, is_watched, sentinel_pictures
from scenewright.evals.store.journal import Journal
from scenewright.evals.store.manifest import read_manifest
from scenewright.evals.store.results import JOURNAL, MANIFEST
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
    return tuple(_found(eval_models, asked, share))


def _found(
    eval_models: EvalModels, asked: Sequence[Sequence[Fact]], share: float
) -> Iterator[VocabularyGap]:
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
    for who, does, found in groups:
        count = sum(map(len, found))
        said = Counter(str(one) for each in found for unknown in each.values() for one in unknown)
        if count:
            names = tuple(word for word, _ in said.most_common())
            yield VocabularyGap(who, does, max(1, round(share * count)), total, names)


SAMPLE = 200
"""Number of items on which the cost of one is computed."""
_PHOTO = (640, 480)


@dataclass(frozen=True, slots=True)
class ModelEstimate:
    """Expected usage of one model: a lower and an upper bound."""

    who: str
    """Id of the model."""
    what: str
    """``words`` prompts, ``draws``, ``steers`` or ``directs`` (a loop), ``judges``, ``is watched``
    (by sentinel pictures), or ``scores`` (for a metric that asks by itself)."""
    least: ExpectedUsage
    """If every loop stops at its first picture."""
    most: ExpectedUsage
    """If every loop goes on to its last round, and no fact is void."""


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
    lines: tuple[ModelEstimate, ...]
    """Model by model; models on this machine use no tokens."""
    done: int = 0
    """Items that are done in the folder; for a retry those without any failed or unscored unit."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Reason → entries of the set that were left out."""
    outside: tuple[VocabularyGap, ...] = ()
    """Facts that panels, loops and image models have no words for."""

    @property
    def most(self) -> ExpectedUsage:
        """All models together, at most."""
        return _known(line.most for line in self.lines)

    @property
    def least(self) -> ExpectedUsage:
        """All models together, at least."""
        return _known(line.least for line in self.lines)

    @property
    def remaining(self) -> float:
        """Share of the items that are not done, 0 to 1."""
        return 1.0 - self.done / self.items if self.items else 0.0

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Models whose price is unknown: their dollars are not in the sums."""
        return tuple(line.who for line in self.lines if line.most.usd is None)


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
    items = dataset if dataset is not None else open_dataset(config.dataset, base)
    eval_models = await build_eval_models(config, settings, given or EvalModelOverrides(), base)
    count, sample = await asyncio.to_thread(reservoir, items, SAMPLE, random.Random("estimate"))
    done = 0 if folder is None else await asyncio.to_thread(_done, Path(folder), config, retry)
    share = count / len(sample) if sample else 0.0
    place = None if folder is None else Path(folder)
    own = await asyncio.to_thread(
        partial(dataset_predicates, base=base_of(config)),
        *(config.predicates, config.dataset, items, place),
    )
    asked = [facts_to_ask(item, config, own=own) for item in sample]
    more = [_further(item, config, own) for item in sample]
    facts = round(share * (sum(map(len, asked)) + sum(map(len, more))))
    least, most = _pictures(eval_models.arms)
    looked = _looked_at(eval_models.arms, config.judge_rounds == "all")
    lines = await asyncio.to_thread(
        lambda: list(_lines(eval_models, config, sample, asked, more, share))
    )
    lines += await _scoring(eval_models, config, sample, asked, share, own)
    return Estimate(
        items=count,
        arms=len(eval_models.arms),
        pictures=(least * count, most * count),
        facts=facts,
        looks=(
            looked[0] * count * len(eval_models.judge_panels),
            looked[1] * count * len(eval_models.judge_panels),
        ),
        lines=tuple(lines),
        done=min(done, count),
        left_out=dict(items.left_out),
        outside=vocabulary_gaps(eval_models, asked, share),
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


def _further(item: Item, config: EvalConfig, own: DatasetPredicates | None) -> tuple[Fact, ...]:
    """Return the additional facts of the other protocol, of an evaluation that scores by both."""
    if config.other_protocol is None:
        return ()
    known = {fact_digest(fact) for fact in facts_to_ask(item, config, own=own)}
    further = facts_to_ask(item, config, config.other_protocol, own)
    return tuple(fact for fact in further if fact_digest(fact) not in known)


def _lines(
    eval_models: EvalModels,
    config: EvalConfig,
    sample: Sequence[Item],
    asked: Sequence[Sequence[Fact]],
    more: Sequence[Sequence[Fact]],
    share: float,
) -> Iterator[ModelEstimate]:
    groups: dict[tuple[str, str], tuple[ExpectedUsage, ExpectedUsage]] = {}

    def add(who: str, what: str, least: ExpectedUsage, most: ExpectedUsage) -> None:
        before = groups.get((who, what), (ExpectedUsage(), ExpectedUsage()))
        groups[(who, what)] = (before[0] + least, before[1] + most)

    known: dict[tuple[str, tuple[int, int], bool], ExpectedUsage] = {}
    every = config.judge_rounds == "all"
    facts_of = {
        beside: share * sum(map(len, more if beside else asked)) for beside in (False, True)
    }
    for arm in eval_models.arms:
        generator = eval_models.generators[arm.name]
        size = _size(generator, config)
        rounds = arm.spec.rounds
        if generator is not None:
            _add_words(add, generator, arm, sample, share)
            drawn = _sum(_drawing(generator, item, arm) for item in sample) * share
            add(generator.backend.id, "draws", drawn, drawn * _pictures([arm])[1])
        steering = () if generator is None else generator.judges
        reporting = [
            (judge, judge_panel.protocol is not None)
            for judge_panel in eval_models.judge_panels
            for judge in judge_panel.judges
        ]
        for what, judges, times in (
            ("steers", [(judge, False) for judge in steering], rounds),
            ("judges", reporting, rounds if every else 1),
        ):
            for judge, beside in judges:
                place = (judge.id, size or (0, 0), beside)
                if place not in known:
                    known[place] = (
                        _sum(
                            expected_of(judge, size or photo_size(item), facts, config.asking)
                            for item, facts in zip(sample, more if beside else asked, strict=True)
                        )
                        * share
                    )
                add(judge.id, what, known[place], known[place] * times)
                questions = config.sentinels * facts_of[beside]
                once = _watching(judge, questions)
                if once.calls:
                    add(judge.id, "is watched", once, _watching(judge, questions * times))
    for (who, what), (least, most) in groups.items():
        yield ModelEstimate(who, what, least, most)


def _watching(judge: Judge, questions: float) -> ExpectedUsage:
    """Return the usage of that many sentinel questions to a judge."""
    if not is_watched(judge):
        return ExpectedUsage()
    pictures = sentinel_pictures()
    every = [[picture.facts[n] for n in askable(judge, picture)] for picture in pictures]
    one = _sum(
        expected_of(judge, picture.image.size, facts, "together")
        for picture, facts in zip(pictures, every, strict=True)
    )
    return one * (questions / max(1, sum(map(len, every))))


def _add_words(
    add: Callable[[str, str, ExpectedUsage, ExpectedUsage], None],
    generator: ImageGenerator,
    arm: Arm,
    sample: Sequence[Item],
    share: float,
) -> None:
    """Add language models that word the prompts of an arm, and that direct its loops."""
    composer: Any = generator.composer
    if getattr(composer, "expected", None) is not None and arm.spec.text == "scene":
        said = _sum(composer.expected(i.scene) for i in sample if i.scene is not None) * share
        # Each picture of a loop has a prompt of its own.
        add(name_of(composer.chat), "words", said, said * _pictures([arm])[1])
    if arm.loops and arm.profile.strategy == DIRECTOR and arm.profile.chat is not None:
        # It decides itself how often it calls: neither its calls nor their price are known.
        once = ExpectedUsage(round(len(sample) * share), usd=None)
        add(arm.profile.chat, "directs", once, once)


async def _scoring(
    eval_models: EvalModels,
    config: EvalConfig,
    sample: Sequence[Item],
    asked: Sequence[Sequence[Fact]],
    share: float,
    own: DatasetPredicates | None,
) -> list[ModelEstimate]:
    """Return the usage of models that metrics ask by themselves."""
    metrics = [metric for metric in eval_models.of_pictures if isinstance(metric, PricedMetric)]
    sizes = {arm.name: _size(eval_models.generators[arm.name], config) for arm in eval_models.arms}
    known: dict[tuple[int, tuple[int, int] | None], dict[str, ExpectedUsage]] = {}
    found: dict[str, tuple[ExpectedUsage, ExpectedUsage]] = {}
    for arm in eval_models.arms:
        times = _looked_at([arm], config.judge_rounds == "all")[1]
        for at, metric in enumerate(metrics):
            place = (at, sizes[arm.name])
            if place not in known:
                known[place] = {}
                for item, facts in zip(sample, asked, strict=True):
                    size = sizes[arm.name] or photo_size(item)
                    predicates = predicates_for(item, config, own)
                    told = await metric.expected(_undrawn(item, facts, predicates), size)
                    for who, one in told.items():
                        known[place][who] = known[place].get(who, ExpectedUsage()) + one
            for who, one in known[place].items():
                before = found.get(who, (ExpectedUsage(), ExpectedUsage()))
                found[who] = (before[0] + one * share, before[1] + one * share * times)
    return [ModelEstimate(who, "scores", *both) for who, both in found.items()]


def _undrawn(item: Item, facts: Sequence[Fact], predicates: Predicates) -> Sample:
    """Return a sample without a picture."""

    def load() -> Image.Image:
        raise ImageError("the picture is not drawn yet")

    return Sample(item, text_of(item), "", load, facts=tuple(facts), predicates=predicates)


def _size(generator: ImageGenerator | None, config: EvalConfig) -> tuple[int, int] | None:
    if generator is None:
        return None
    return config.size or generator.backend.features.default_size


def photo_size(item: Item) -> tuple[int, int]:
    """Return the size of an item's photo from its header, or a usual size."""
    try:
        with Image.open(item.image or "") as photo:
            return photo.size
    except OSError:
        return _PHOTO


def _drawing(generator: ImageGenerator, item: Item, arm: Arm) -> ExpectedUsage:
    expected: Any = getattr(generator.backend, "expected", None)
    if expected is None:
        return ExpectedUsage()
    found: ExpectedUsage = expected(text_of(item))
    return found


def _sum(parts: Iterable[ExpectedUsage]) -> ExpectedUsage:
    """Return the parts together."""
    total = ExpectedUsage()
    for part in parts:
        total = total + part
    return total


def _known(parts: Iterable[ExpectedUsage]) -> ExpectedUsage:
    """Return the sum of the parts, with the dollars of those whose price is known."""
    return _sum(ExpectedUsage(part.calls, part.usage, part.usd or 0.0) for part in parts)
