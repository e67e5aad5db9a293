"""What an evaluation will take, before anything is drawn: pictures, calls, tokens, dollars.

Every item of the set is counted; what an item takes is worked out on a sample of them, with the
very questions that will be asked and the providers' published rules for tokens. A loop stops when
nothing is missing, so its numbers are bounds: one round at least, all rounds at most. Answers that
a judge need not give, because an object is absent, make the true cost lower.
"""

from __future__ import annotations

import asyncio
import random
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
from scenewright.core.ports.judge import Judge
from scenewright.evals.datasets.base import Dataset, Item
from scenewright.evals.datasets.registry import open_dataset
from scenewright.evals.metrics.base import PricedMetric, Sample
from scenewright.evals.runner.arms import Arm
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.dataset_predicates import (
    DatasetPredicates,
    Predicates,
    dataset_predicates,
)
from scenewright.evals.runner.drawing import ImageGenerator
from scenewright.evals.runner.drift.pictures import sentinel_pictures
from scenewright.evals.runner.drift.sentinel_queries import askable, is_watched
from scenewright.evals.runner.judging import expected_of
from scenewright.evals.runner.measuring import base_of, facts_to_ask, predicates_for, text_of
from scenewright.evals.runner.model_setup import EvalModelOverrides, EvalModels, build_eval_models
from scenewright.evals.runner.vocabulary_gaps import VocabularyGap, vocabulary_gaps
from scenewright.evals.store.journal import Journal
from scenewright.evals.store.manifest import read_manifest
from scenewright.evals.store.paths import JOURNAL
from scenewright.evals.store.results import MANIFEST
from scenewright.providers import fact_digest
from scenewright.providers.usage import ExpectedUsage

SAMPLE = 200
"""Items on which the cost of one is worked out."""
_PHOTO = (640, 480)


@dataclass(frozen=True, slots=True)
class ModelEstimate:
    """What one model is expected to take: at least, and at most."""

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
    """What an evaluation will take."""

    items: int
    """Items of the set."""
    arms: int
    """Ways of drawing."""
    pictures: tuple[int, int]
    """Pictures drawn, references included: at least, at most."""
    facts: int
    """Facts of all items, in round numbers: they are counted on a sample."""
    looks: tuple[int, int]
    """Looks of panels at pictures: at least, at most."""
    lines: tuple[ModelEstimate, ...]
    """Model by model; models on this machine take no tokens."""
    done: int = 0
    """Items that are done already in the folder; of a retry those whose every unit is."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Why entries of the set were left out → how many."""
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
        """Models whose price is not known: their dollars are not in the sums."""
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
    """The estimate of :func:`scenewright.evals.runner.runner.run_eval` with these arguments; raises
    what that raises before anything is drawn."""
    settings = settings or load_settings()
    base = Path(root) if root is not None else Path()
    items = dataset if dataset is not None else open_dataset(config.dataset, base)
    eval_models = await build_eval_models(config, settings, given or EvalModelOverrides(), base)
    count, sample = await asyncio.to_thread(_sampled, items)
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


def _sampled(items: Dataset) -> tuple[int, list[Item]]:
    """How many items there are, and up to :data:`SAMPLE` of them, each as likely."""
    rng = random.Random("estimate")
    kept: list[Item] = []
    count = 0
    for count, item in enumerate(items, 1):
        if len(kept) < SAMPLE:
            kept.append(item)
        elif (at := rng.randrange(count)) < SAMPLE:
            kept[at] = item
    return count, kept


def _done(folder: Path, config: EvalConfig, retry: bool) -> int:
    """Items that are done by this very configuration, or of which nothing is to be tried again."""
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
    """Pictures that an item takes: at least, and with references at most."""
    drawn = [arm.spec for arm in arms if arm.spec.source == "draw"]
    most = [min(spec.images or 2**31, 2 * spec.rounds - 1) for spec in drawn]
    return len(drawn), sum(most)


def _looked_at(arms: Sequence[Arm], every: bool) -> tuple[int, int]:
    """Pictures of an item that a panel looks at: at least, at most."""
    return len(arms), sum(arm.spec.rounds for arm in arms) if every else len(arms)


def _further(item: Item, config: EvalConfig, own: DatasetPredicates | None) -> tuple[Fact, ...]:
    """What the other protocol asks besides, of an evaluation that scores by both."""
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
                            expected_of(judge, size or _photo_size(item), facts, config.asking)
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
    """What so many sentinel questions to a judge take."""
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
    """Language models that word the prompts of an arm, and that direct its loops."""
    composer: Any = generator.composer
    if getattr(composer, "expected", None) is not None and arm.spec.text == "scene":
        said = _sum(composer.expected(i.scene) for i in sample if i.scene is not None) * share
        # Each picture of a loop has a prompt of its own.
        add(name_of(composer.chat), "words", said, said * _pictures([arm])[1])
    if arm.loops and arm.profile.strategy == DIRECTOR and arm.profile.chat is not None:
        # It decides itself how often it calls: neither its calls nor their price can be told.
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
    """What metrics ask of models by themselves."""
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
                    size = sizes[arm.name] or _photo_size(item)
                    predicates = predicates_for(item, config, own)
                    told = await metric.expected(_undrawn(item, facts, predicates), size)
                    for who, one in told.items():
                        known[place][who] = known[place].get(who, ExpectedUsage()) + one
            for who, one in known[place].items():
                before = found.get(who, (ExpectedUsage(), ExpectedUsage()))
                found[who] = (before[0] + one * share, before[1] + one * share * times)
    return [ModelEstimate(who, "scores", *both) for who, both in found.items()]


def _undrawn(item: Item, facts: Sequence[Fact], predicates: Predicates) -> Sample:
    """A sample whose picture is not there yet."""

    def load() -> Image.Image:
        raise ImageError("the picture is not drawn yet")

    return Sample(item, text_of(item), "", load, facts=tuple(facts), predicates=predicates)


def _size(generator: ImageGenerator | None, config: EvalConfig) -> tuple[int, int] | None:
    if generator is None:
        return None
    return config.size or generator.backend.features.default_size


def _photo_size(item: Item) -> tuple[int, int]:
    """Pixels of an item's photo by the head of its file; a usual size where it cannot be read."""
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
    """The parts together."""
    total = ExpectedUsage()
    for part in parts:
        total = total + part
    return total


def _known(parts: Iterable[ExpectedUsage]) -> ExpectedUsage:
    """The parts together, with the dollars of those whose price is known."""
    return _sum(ExpectedUsage(part.calls, part.usage, part.usd or 0.0) for part in parts)
