"""Runs an evaluation: every item in every arm is drawn, judged and scored; what is done stays done.

The same call again goes on where a kill or an interruption left it. A larger configuration in the
same folder (more items, seeds, metrics) does only what is new. Failures are rows with their
reasons, and are tried again when that is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from scenewright.calls import AnswerStore
from scenewright.evals.arms import Arm, digest
from scenewright.evals.cast import Cast, Given, cast_of
from scenewright.evals.config import EvalConfig
from scenewright.evals.datasets.base import Dataset, Item
from scenewright.evals.datasets.registry import open_dataset
from scenewright.evals.drawing import Studio, draw, draw_key, failed_drawing, kept_of
from scenewright.evals.errors import EvalError
from scenewright.evals.export import as_text, export
from scenewright.evals.journal import Journal, Unit
from scenewright.evals.judging import Seat
from scenewright.evals.kept_prompts import kept
from scenewright.evals.manifest import make_folder, read_manifest
from scenewright.evals.manifest_writing import finish_manifest, write_manifest
from scenewright.evals.measuring import (
    JUDGE,
    SCORE,
    facts_to_ask,
    judge_key,
    judged,
    sample_of,
    score_key,
    score_rows,
    scored,
    text_of,
    told,
)
from scenewright.evals.metrics.base import MetricScore, Sample
from scenewright.evals.paths import ANSWERS, JOURNAL
from scenewright.evals.progress import OnProgress, Patience, Telling
from scenewright.evals.results import IMAGES, Results
from scenewright.evals.set_scores import SetDesk
from scenewright.facts import Fact
from scenewright.flushing import Flusher
from scenewright.images import ImageStore
from scenewright.runfolder import RunFolder
from scenewright.settings import Settings, load_settings

_CHUNK = 32


async def run_eval(
    config: EvalConfig,
    folder: str | Path,
    *,
    settings: Settings | None = None,
    root: str | Path | None = None,
    retry: bool = False,
    given: Given | None = None,
    dataset: Dataset | None = None,
    on_progress: OnProgress | None = None,
) -> Results:
    """Run ``config`` in ``folder``, or go on with it; the results are written when all is done.

    Relative paths of the configuration begin at ``root`` (default: the working folder). ``retry``
    tries again what failed or was left unscored before. ``given`` and ``dataset`` replace models
    and the set. Raises ``EvalError``, ``DatasetError``, ``MetricError``, ``SettingsError``,
    ``BackendError`` and ``JudgeError`` before anything is drawn, later ``EvalError`` and
    ``StoreError`` where the folder cannot be written or failures do not end. Cancelling keeps
    all that is done.
    """
    settings = settings or load_settings()
    place = Path(folder)
    base = Path(root) if root is not None else Path()
    items = dataset if dataset is not None else open_dataset(config.dataset, base)
    cast = await cast_of(config, settings, given or Given(), base)
    await asyncio.to_thread(make_folder, place)
    with RunFolder(place).locked():
        plan = digest(_deciding(config), items.fingerprint, cast.manifest())
        write_manifest(place, config, items, cast.manifest(), plan)
        with (
            closing(Flusher()) as flusher,
            closing(AnswerStore(place / ANSWERS, flusher=flusher)) as answers,
            Journal(place / JOURNAL) as journal,
        ):
            images = ImageStore(place / IMAGES, flusher=flusher)
            studio = Studio(place, images, settings, base, config.size, config.keep_runs)
            show = on_progress or (lambda _: None)
            runner = _Runner(config, cast, studio, journal, answers, plan, retry, show)
            await runner.run(items)
            totals = await asyncio.to_thread(export, journal, plan, place)
            finish_manifest(place, totals, items.left_out)
    return Results(place)


def export_folder(folder: str | Path) -> Results:
    """Write the tables of what is done so far in ``folder``, of an evaluation that was cut off.

    Raises ``EvalError`` if there is none.
    """
    place = Path(folder)
    plan = read_manifest(place)["plan"]
    with RunFolder(place).locked(), Journal(place / JOURNAL) as journal:
        export(journal, plan, place)
    return Results(place)


def _deciding(config: EvalConfig) -> dict[str, Any]:
    """What of the configuration decides results."""
    beside = {"name", "about", "concurrency", "limit_usd", "timeout", "keep_runs"}
    return config.model_dump(mode="json", exclude=beside | {"stop_after_failures", "dataset"})


class _Runner:
    """One sitting of an evaluation."""

    def __init__(
        self,
        config: EvalConfig,
        cast: Cast,
        studio: Studio,
        journal: Journal,
        answers: AnswerStore,
        plan: str,
        retry: bool,
        show: OnProgress,
    ) -> None:
        self._config = config
        self._cast = cast
        self._artists = {
            name: replace(artist, composer=kept(artist.composer, journal)) if artist else None
            for name, artist in cast.artists.items()
        }
        self._studio = studio
        self._journal = journal
        self._answers = answers
        self._plan = plan
        self._retry = retry
        self._tell = Telling(show)
        self._patience = Patience(config.stop_after_failures)
        self._ids: set[int] = set()

    async def run(self, items: Dataset) -> None:
        self._tell(doing="loading the models", at_once=True)
        await self._cast.warm()
        self._tell(doing="drawing and judging", at_once=True)
        async with aclosing(_stream(items)) as stream:
            turn = asyncio.Lock()

            async def work() -> None:
                while True:
                    async with turn:
                        found = await anext(stream, None)
                    if found is None:
                        return
                    await self._item(*found)

            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(self._config.concurrency):
                        group.create_task(work())
            except BaseExceptionGroup as errors:
                raise _first(errors) from None
        if self._cast.of_sets:
            self._tell(doing="scores of the whole set", at_once=True)
            desk = SetDesk(self._journal, self._plan, self._cast, self._config)
            await desk.score(self._studio.images, self._retry, self._tell)

    async def _item(self, position: int, item: Item) -> None:
        self._once(item)
        facts = facts_to_ask(item, self._config)
        unit = self._described(item, facts)
        self._journal.put([unit])
        keys = [unit.key]
        for arm in self._cast.arms:
            keys += await self._cell(item, arm, facts)
        self._journal.plan(self._plan, position, keys)
        self._tell(items=1)

    def _once(self, item: Item) -> None:
        name = hash(item.id)
        if name in self._ids:
            raise EvalError(f"the set holds the item {item.id!r} twice: give each an id of its own")
        self._ids.add(name)

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
        return Unit(digest("item", row), "item", rows={"items": [row]})

    async def _cell(self, item: Item, arm: Arm, facts: Sequence[Fact]) -> list[str]:
        """Draw, judge and score one item in one arm; the keys of its units."""
        drawn = await self._drawn(item, arm)
        keys = [drawn.key]
        if drawn.state == "failed":
            return keys + self._unscored(item, arm, drawn, facts)
        for picture in kept_of(drawn.facts, self._config.judge_rounds == "all"):
            keys += await self._looked_at(item, arm, drawn.key, picture, facts)
        return keys

    def _unscored(self, item: Item, arm: Arm, drawn: Unit, facts: Sequence[Fact]) -> list[str]:
        """Every score that a failed drawing keeps from being made, with the reason."""
        base = {**arm.columns(item.id), "round": 0, "image": ""}
        lost = MetricScore(value=None, reason=f"the drawing failed: {drawn.reason}"[:500])
        units = []
        for metric in self._cast.of_pictures:
            judges = "judges" in metric.needs and facts
            for panel in [seat.name for seat in self._cast.seats] if judges else [""]:
                rows = score_rows(lost, metric.name, metric.version, {**base, "panel": panel})
                key = digest(SCORE, drawn.key, "failed", metric.name, metric.version, panel)
                units.append(Unit(key, SCORE, "unscored", lost.reason, rows))
        self._journal.put(units)
        self._tell(unscored=len(units))
        return [unit.key for unit in units]

    async def _drawn(self, item: Item, arm: Arm) -> Unit:
        artist = self._artists[arm.name]
        try:
            key = draw_key(item, arm, artist, self._studio)
        except (EvalError, OSError) as error:
            key = digest("no picture", item.id, arm.name)
            return self._ended(failed_drawing(key, item.id, arm, told(error)))
        unit = self._known(key)
        if unit is not None:
            self._tell(pictures=1, found=1)
            return unit
        try:
            async with asyncio.timeout(self._config.timeout) as limit:
                unit = await draw(key, item, arm, artist, self._studio)
        except TimeoutError as error:
            late = f"no picture within {self._config.timeout:g} s"
            reason = late if limit.expired() else told(error)
            return self._ended(failed_drawing(key, item.id, arm, reason))
        except Exception as error:
            return self._ended(failed_drawing(key, item.id, arm, told(error)))
        self._tell(pictures=1)
        return self._ended(unit)

    async def _looked_at(
        self, item: Item, arm: Arm, drawn: str, picture: tuple[int, str], facts: Sequence[Fact]
    ) -> list[str]:
        round, image = picture
        keys: list[str] = []
        base = {**arm.columns(item.id), "panel": "", "round": round, "image": image}
        looks: list[Unit] = []
        if facts:
            for seat in self._cast.seats:
                key = judge_key(drawn, round, facts, seat, self._config)
                looks.append(await self._judged(key, item, arm, seat, picture, facts))
                keys.append(key)
        # Cards and answers are read back from rows: once, however many metrics need them.
        samples: dict[str, Sample] = {}
        for metric in self._cast.of_pictures:
            for look in looks if "judges" in metric.needs and looks else [None]:
                based = drawn if look is None else look.key
                key = score_key(based, metric, image)
                unit = self._known(key)
                if unit is None:
                    if based not in samples:
                        samples[based] = sample_of(
                            item, image, self._studio.images, facts, look, self._config.alpha
                        )
                    failed = look is not None and look.state == "failed"
                    unit = await scored(
                        key,
                        metric,
                        samples[based],
                        {**base, "panel": "" if look is None else look.facts["panel"]},
                        lacking=f"the judging failed: {look.reason}" if look and failed else "",
                    )
                    self._journal.put([unit])
                    self._tell(unscored=int(unit.state == "unscored"))
                keys.append(key)
        return keys

    async def _judged(
        self,
        key: str,
        item: Item,
        arm: Arm,
        seat: Seat,
        picture: tuple[int, str],
        facts: Sequence[Fact],
    ) -> Unit:
        unit = self._known(key)
        if unit is None:
            try:
                unit = await judged(
                    key,
                    item,
                    arm,
                    seat,
                    picture,
                    facts,
                    images=self._studio.images,
                    answers=self._answers,
                    config=self._config,
                    limit=self._studio.settings.judge_timeout,
                )
            except Exception as error:
                unit = Unit(key, JUDGE, "failed", told(error))
            unit = replace(unit, facts={"panel": seat.name})
            self._tell(judged=1, unscored=int(unit.state == "unscored"))
            self._ended(unit)
        return unit

    def _known(self, key: str) -> Unit | None:
        """The unit of ``key``, unless it is to be tried again."""
        unit = self._journal.get(key)
        return None if unit is not None and self._retry and unit.state != "done" else unit

    def _ended(self, unit: Unit) -> Unit:
        self._journal.put([unit])
        rows = [row for table in ("rounds", "answers") for row in unit.rows.get(table, ())]
        self._tell(
            failed=int(unit.state == "failed"),
            tokens=sum(row["tokens_in"] + row["tokens_out"] for row in rows),
            usd=sum(row["usd"] for row in rows),
        )
        self._patience.note(unit)
        return unit


async def _stream(items: Dataset) -> AsyncGenerator[tuple[int, Item]]:
    """The items with their positions, read in a thread a few at a time."""
    iterator: Iterator[Item] = iter(items)
    position = 0
    while some := await asyncio.to_thread(lambda: list(islice(iterator, _CHUNK))):
        for item in some:
            yield position, item
            position += 1


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    found = errors.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found
