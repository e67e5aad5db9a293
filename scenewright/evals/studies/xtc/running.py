"""Run an evaluation by XTC-Bench: every unified model draws and understands every scene.

The same call again continues where a kill or an interruption left it, and pays for nothing twice.
Failures are rows with their reasons, and are tried again on request.

The plan estimates what the evaluation takes before anything is drawn. Calls are counted with the
very questions that will be asked. Tokens follow the providers' published rules, and dollars their
prices; what a reading of a picture by language models takes depends on what is seen in it, so that
only the pictures to be read are counted there.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from scenewright.config.settings import Settings, load_settings
from scenewright.core.error_text import error_text
from scenewright.core.flushing import Flusher
from scenewright.core.images import ImageStore
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets.base import Dataset, Item
from scenewright.evals.datasets.registry import open_dataset
from scenewright.evals.errors import EvalError, ModelChangedError
from scenewright.evals.runner.config import digest
from scenewright.evals.runner.dataset_predicates import (
    MARK,
    DatasetPredicates,
    dataset_predicates,
    keep,
    relates,
)
from scenewright.evals.runner.estimating import photo_size
from scenewright.evals.runner.forecast import CostForecast, CostLine
from scenewright.evals.runner.progress import (
    FailureLimit,
    OnProgress,
    ProgressReporter,
    side_by_side,
)
from scenewright.evals.runner.task import UnitWork
from scenewright.evals.store.extractions import Extractions
from scenewright.evals.store.journal import Journal, Unit
from scenewright.evals.store.manifest import finish_manifest, make_folder, write_manifest
from scenewright.evals.store.results import IMAGES, JOURNAL
from scenewright.evals.studies.xtc import units as work
from scenewright.evals.studies.xtc.base import Question, QuestionSheet, UnifiedModel
from scenewright.evals.studies.xtc.config import (
    RULES,
    XtcConfig,
    XtcModelOverrides,
    XtcModels,
    build_xtc_models,
)
from scenewright.evals.studies.xtc.lookup import outside_of
from scenewright.evals.studies.xtc.models import (
    JudgeUnderstander,
    Paired,
    drawing_mark,
    understanding_mark,
)
from scenewright.evals.studies.xtc.questions import category_of, questions_of
from scenewright.evals.studies.xtc.report import (
    BENCHMARK,
    XtcResults,
    write_summary,
    write_tables,
)
from scenewright.evals.studies.xtc.units import UnitRunner
from scenewright.providers.sdk_clients import paying
from scenewright.providers.usage import ExpectedUsage
from scenewright.providers.versions import SERVED_FILE, FollowedVersions, following
from scenewright.runs.folder import RunFolder

EXTRACTIONS = "extractions"
"""Folder of the graphs that were read from drawn pictures."""
ORIGINALS = "originals"
"""Folder of the paintings, where the set is painted."""
_PAINTED = "miniature"
_SPENT = ("calls", "tokens_in", "tokens_out", "usd")


async def run_xtc(
    config: XtcConfig,
    folder: str | Path,
    *,
    settings: Settings | None = None,
    root: str | Path | None = None,
    retry: bool = False,
    given: XtcModelOverrides | None = None,
    dataset: Dataset | None = None,
    on_progress: OnProgress | None = None,
) -> XtcResults:
    """Run ``config`` in ``folder``, or go on with it; the results are written when all is done.

    Relative paths of the configuration begin at ``root`` (default: the working folder). ``retry``
    tries again what failed or was left unscored before. ``given`` and ``dataset`` replace models
    and the set; all items of the set are held in memory, without their pictures. Raises what
    :func:`~scenewright.evals.studies.xtc.config.build_xtc_models` raises and ``DatasetError``
    before anything is drawn, later ``EvalError`` where the folder cannot be written or failures do
    not end. Cancelling keeps all that is done.
    """
    settings = settings or load_settings()
    place, base = Path(folder), Path(root) if root is not None else Path()
    await asyncio.to_thread(make_folder, place)
    found = dataset if dataset is not None else xtc_dataset(config, place, base)
    items = await asyncio.to_thread(list, found)
    xtc_models, own = await _models_of(
        config, settings, given or XtcModelOverrides(), base, place, found, items
    )
    with RunFolder(place).locked():
        models = xtc_models.manifest()
        asked = config.model_dump(mode="json", exclude={"on_model_change"})
        plan = digest(asked, found.fingerprint, models)
        mark = {"benchmark": BENCHMARK, MARK: None if own is None else own.manifest()}
        if own is not None:
            await asyncio.to_thread(keep, own, place)
        nonce = write_manifest(place, config, found, models, plan, mark=mark)
        stops = config.on_model_change == "stop"
        with (
            paying(nonce),
            closing(Flusher()) as flusher,
            Journal(place / JOURNAL) as journal,
            following(place / SERVED_FILE, stops=stops) as served,
        ):
            images = ImageStore(place / IMAGES, flusher=flusher)
            extractions = Extractions(xtc_models.extractor, place / EXTRACTIONS)
            unit_runner = UnitRunner(
                xtc_models, images, extractions, config.timeout, config.converses, config.matching
            )
            runner = _Runner(
                config, unit_runner, journal, retry, served, on_progress or (lambda _: None)
            )
            await runner.run(items)
        await asyncio.to_thread(write_tables, place, runner.tables())
        left_out = {**found.left_out, **runner.left_out}
        more = {"model_changes": list(served.texts)}
        finish_manifest(place, runner.totals(), left_out, more)
    results = XtcResults(place)
    await asyncio.to_thread(write_summary, results)
    return results


def xtc_dataset(config: XtcConfig, folder: Path, root: Path) -> Dataset:
    """Return the set of ``config``; the paintings of a painted one go into ``folder``.

    Raises ``DatasetError``.
    """
    spec = config.dataset
    if spec.name == _PAINTED and "out" not in spec.options:
        options = {**spec.options, "out": str(folder / ORIGINALS)}
        spec = spec.model_copy(update={"options": options})
    return open_dataset(spec, root)


@dataclass(slots=True)
class _Rows:
    """What the tables will hold of one item."""

    item: dict[str, Any]
    facts: list[dict[str, Any]] = field(default_factory=list)
    pictures: list[dict[str, Any]] = field(default_factory=list)


class _Runner(UnitWork):
    """One call of an evaluation."""

    def __init__(
        self,
        config: XtcConfig,
        unit_runner: UnitRunner,
        journal: Journal,
        retry: bool,
        served: FollowedVersions,
        show: OnProgress,
    ) -> None:
        self._report = ProgressReporter(show)
        ended = FailureLimit(config.stop_after_failures).note
        super().__init__(journal, retry=retry, count=self._report, ended=ended)
        self._config = config
        self._served = served
        self._work = unit_runner
        self._rows: dict[int, _Rows] = {}
        self._spent: dict[str, Mapping[str, float]] = {}
        # Units that this call has made or tried: models that share a side share its failure.
        self._tried: dict[str, Unit] = {}
        self.left_out: Counter[str] = Counter()

    async def run(self, items: Sequence[Item]) -> None:
        ids = Counter(item.id for item in items)
        twice = next((name for name, count in ids.items() if count > 1), None)
        if twice is not None:
            raise EvalError(f"the set holds the item {twice!r} twice: give each an id of its own")
        self._report(doing="loading the models", at_once=True)
        await self._work.xtc_models.warm()
        self._report(doing="drawing and asking", at_once=True)
        await side_by_side(enumerate(items), self._item, self._config.concurrency)
        self._report(at_once=True)
        if not self._rows:
            why = "; ".join(self.left_out) or "the set is empty"
            raise EvalError(
                f"no item can be evaluated ({why}): every item needs a scene and its photo"
            )

    def tables(self) -> dict[str, Sequence[dict[str, Any]]]:
        """Return the rows of all tables, in the order of the set."""
        rows = [self._rows[at] for at in sorted(self._rows)]
        return {
            "items": [found.item for found in rows],
            "pictures": [row for found in rows for row in found.pictures],
            "facts": [row for found in rows for row in found.facts],
        }

    def totals(self) -> dict[str, float]:
        """Return what everything took so far, earlier calls included."""
        sums = {name: sum(one.get(name, 0) for one in self._spent.values()) for name in _SPENT}
        rows = [row for found in self._rows.values() for row in found.pictures]
        return {"pictures": len({row["image"] for row in rows if row["image"]}), **sums}

    async def _item(self, numbered: tuple[int, Item]) -> None:
        position, item = numbered
        try:
            key = self._work.sheet_key(item)
        except (EvalError, OSError) as error:
            what = error_text(error).replace(f"the item {item.id!r}", "an item")
            self.left_out[what] += 1
            self._report(items=1)
            return
        sheet = await self._unit(key, work.SHEET, lambda _: self._work.sheet(key, item))
        if sheet.state == "failed":
            self.left_out[f"the photo could not be read: {sheet.reason}"] += 1
            self._report(items=1)
            return
        rows = _Rows(_described(item, sheet))
        scene = SceneGraph.model_validate_json(sheet.facts["scene"])
        for model in self._work.xtc_models.models:
            understood = await self._understood(model, sheet)
            for seed in self._config.seeds:
                drawn = await self._drawn(model, item, sheet, scene, seed)
                self._join(rows, item, model, seed, sheet, drawn, understood)
        self._rows[position] = rows
        self._report(items=1)

    async def _drawn(
        self, model: UnifiedModel, item: Item, sheet: Unit, scene: SceneGraph, seed: int
    ) -> Unit:
        """Return the grades of the drawn picture, or the failure that prevents them."""
        unit_runner, prompt, own = self._work, sheet.facts["prompt"], work.seed_of(seed, item)
        if (open_ := unit_runner.undrawn(sheet)) is not None:
            self._report(pictures=1, unscored=1)
            return open_
        if sheet.state != "done":
            self._report(pictures=1, unscored=1)
            return Unit("", work.GENERATION, "failed", f"the prompt failed: {sheet.reason}")
        key = unit_runner.drawing_key(model, scene, prompt, own)
        picture = await self._unit(
            key, work.DRAWING, lambda _: unit_runner.drawing(key, model, scene, prompt, own)
        )
        self._report(pictures=1)
        if picture.state == "failed":
            return replace(picture, reason=f"the drawing failed: {picture.reason}")
        image = picture.facts["image"]
        read = {name: picture.facts.get(name) for name in work.READ}
        graded = unit_runner.generation_key(sheet, image)
        found = await self._unit(
            graded, work.GENERATION, lambda _: unit_runner.generation(graded, sheet, image)
        )
        if found.state == "failed":
            reason = f"the picture could not be read: {found.reason}"
            return replace(found, reason=reason, facts={"image": image, **read})
        return replace(found, facts={**found.facts, **read})

    async def _understood(self, model: UnifiedModel, sheet: Unit) -> Unit:
        """Return the grades of the model's answers, or the failure that prevents them."""
        unit_runner = self._work
        key = unit_runner.answers_key(model, sheet)
        answers = await self._unit(
            key, work.ANSWERS, lambda before: unit_runner.answers(key, model, sheet, before)
        )
        self._report(judged=1)
        if answers.state == "failed":
            return replace(answers, reason=f"the answering failed: {answers.reason}")
        graded = unit_runner.understanding_key(sheet, answers)
        found = await self._unit(
            graded, work.UNDERSTANDING, lambda _: unit_runner.understanding(graded, sheet, answers)
        )
        if found.state == "failed":
            return replace(found, reason=f"the grading failed: {found.reason}")
        return found

    async def _unit(
        self, key: str, kind: str, make: Callable[[Unit | None], Awaitable[Unit]]
    ) -> Unit:
        """Return the finished unit of ``key``, or a new one; a failure is a unit too."""
        if key in self._tried:
            return self._tried[key]

        async def made(before: Unit | None) -> Unit:
            try:
                return await make(None if before is None or before.state == "failed" else before)
            except TimeoutError as error:
                late = f"not done within {self._config.timeout:g} s"
                return Unit(key, kind, "failed", str(error).strip() or late)

        unit, new = await self.unit(key, made, partial(Unit, key, kind, "failed"))
        if new:
            if (change := self._served.stopped) is not None:
                raise ModelChangedError(
                    f"{change.text}: both under one name would be mixed. What is done is kept. Run "
                    "the same with --on-model-change accept to go on and say so, or in another "
                    "folder"
                )
            self.keep(unit)
        else:
            self._report(found=int(kind == work.DRAWING), failed=int(unit.state == "failed"))
        self._report(unscored=int(unit.state == "unscored"))
        self._tried[key] = unit
        self._spent[key] = work.spent_of(unit)
        return unit

    def _join(
        self,
        rows: _Rows,
        item: Item,
        model: UnifiedModel,
        seed: int,
        sheet: Unit,
        drawn: Unit,
        understood: Unit,
    ) -> None:
        """Add the rows of one picture: both sides of every question."""
        mine = {"item": item.id, "model": model.id, "seed": seed}
        ours = {row["question"]: row for row in drawn.facts.get("rows", ())}
        theirs = {row["question"]: row for row in understood.facts.get("rows", ())}
        failed = {"u": None, "matched": False, "reason": drawn.reason, "drawn": "", "note": ""}
        silent = {"v": None, "said": "", "reason": understood.reason}
        for question in work.questions_in(sheet):
            u, v = ours.get(question.id, failed), theirs.get(question.id, silent)
            lost = [side for side, score in ((u, u["u"]), (v, v["v"])) if score is None]
            rows.facts.append(
                {
                    **mine,
                    "question": question.id,
                    "kind": question.kind,
                    "category": category_of(question),
                    "text": question.text,
                    "expected": question.answer,
                    **{name: u[name] for name in ("u", "matched", "drawn", "note")},
                    "v": v["v"],
                    "said": v["said"],
                    "reason": "; ".join(side["reason"] for side in lost),
                    work.FINAL: bool(lost) and all(side.get(work.FINAL) for side in lost),
                }
            )
        counts = ("nodes", "matched", "edges", "edges_matched")
        rows.pictures.append(
            {
                **mine,
                "image": drawn.facts.get("image", ""),
                "state": drawn.state,
                "reason": drawn.reason,
                **{name: drawn.facts.get(name) for name in (*counts, *work.READ)},
                "seen": drawn.facts.get("seen", ""),
                "dropped": json.dumps(drawn.facts.get("dropped", []), ensure_ascii=False),
                "unread": json.dumps(drawn.facts.get("unread", []), ensure_ascii=False),
            }
        )


def _described(item: Item, sheet: Unit) -> dict[str, Any]:
    asked = QuestionSheet.model_validate(sheet.facts["sheet"])
    kept = ("reference", "scene", "prompt", "author")
    return {
        "item": item.id,
        **{name: sheet.facts[name] for name in kept},
        # Sheets that were made before it was kept have none.
        "problem": sheet.facts.get("problem", ""),
        "lost": json.dumps(sheet.facts["lost"], ensure_ascii=False),
        # Sheets that were made before objects were shown have none.
        "views": len(sheet.facts.get("views", ())),
        "questions": len(asked.questions),
        "unasked": json.dumps([u.model_dump() for u in asked.unasked], ensure_ascii=False),
    }


@dataclass(frozen=True, slots=True)
class XtcPlan:
    """What an evaluation will take if nothing of it is done yet."""

    items: int
    """Items with a scene and a photo."""
    questions: int
    """Questions about all of them."""
    unasked: int
    """Facts that no question can ask for."""
    models: int
    """Unified models."""
    pictures: int
    """Pictures to be drawn: models that share what draws share them."""
    costs: CostForecast
    """Models that word ``prompts``, draw ``pictures``, read ``pictures``, answer ``questions`` or
    grade pairs of answers, and how many of these there are."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Why items of the set cannot be evaluated → how many."""
    outside: dict[str, int] = field(default_factory=dict)
    """Extractor or understander, and why it cannot answer → questions that will be unscored."""


async def plan_xtc(
    config: XtcConfig, settings: Settings, root: Path, folder: Path, dataset: Dataset | None = None
) -> XtcPlan:
    """Return the plan of :func:`run_xtc` with these arguments; nothing is drawn.

    Raises what that raises before anything is drawn.
    """
    found = dataset if dataset is not None else xtc_dataset(config, folder, root)
    items = await asyncio.to_thread(list, found)
    models, _ = await _models_of(config, settings, XtcModelOverrides(), root, folder, found, items)
    return await plan_of(config, models, items)


async def _models_of(
    config: XtcConfig,
    settings: Settings,
    given: XtcModelOverrides,
    root: Path,
    folder: Path,
    found: Dataset,
    items: Sequence[Item],
) -> tuple[XtcModels, DatasetPredicates | None]:
    """Return the models, and the predicates of the set."""
    scenes = [item.scene for item in items if item.scene is not None]
    own = await asyncio.to_thread(
        dataset_predicates, config.predicates, config.dataset, found, folder, needed=relates
    )
    return await build_xtc_models(config, settings, given, root, scenes, own), own


async def plan_of(config: XtcConfig, xtc_models: XtcModels, items: Sequence[Item]) -> XtcPlan:
    """Return the plan of :func:`run_xtc`; no model is called and nothing is drawn.

    Raises ``XtcError`` for a scene that cannot be asked about.
    """
    return await asyncio.to_thread(_plan, config, xtc_models, items)


Asked = Sequence[tuple[Item, tuple[Question, ...]]]
"""Items with the questions about them."""


def _plan(config: XtcConfig, xtc_models: XtcModels, items: Sequence[Item]) -> XtcPlan:
    left_out: Counter[str] = Counter()
    asked: list[tuple[Item, tuple[Question, ...]]] = []
    drawn: list[tuple[Item, tuple[Question, ...]]] = []
    outside: Counter[str] = Counter()
    unasked = 0
    for item in items:
        if not item.scene or item.image is None:
            left_out["no photo" if item.scene else "no scene"] += 1
            continue
        sheet = questions_of(item.scene)
        unasked += len(sheet.unasked)
        asked.append((item, sheet.questions))
        lost = outside_of(sheet.questions, item.scene, xtc_models.extractor, config.converses)
        outside.update(lost.values())
        # A picture that nothing can be read of is not drawn.
        if not sheet.questions or len(lost) < len(sheet.questions):
            drawn.append((item, sheet.questions))
    unread = outside.total()
    drawing = {drawing_mark(model): model for model in xtc_models.models}
    understanding = {understanding_mark(model): model for model in xtc_models.models}
    for model in understanding.values():
        who = model.understander if isinstance(model, Paired) else None
        if isinstance(who, JudgeUnderstander):
            reasons = (who.outside(question) for _, questions in asked for question in questions)
            outside.update(f"{who.id}: {reason}" for reason in reasons if reason)
    lines = _lines(
        config, xtc_models, drawing.values(), understanding.values(), asked, drawn, unread
    )
    return XtcPlan(
        items=len(asked),
        questions=sum(len(questions) for _, questions in asked),
        unasked=unasked,
        models=len(xtc_models.models),
        pictures=len(drawn) * len(config.seeds) * len(drawing),
        costs=CostForecast.of(lines),
        left_out=dict(left_out),
        outside=dict(outside),
    )


def _lines(
    config: XtcConfig,
    xtc_models: XtcModels,
    drawing: Collection[UnifiedModel],
    understanding: Collection[UnifiedModel],
    asked: Asked,
    drawn: Asked,
    unread: int,
) -> Iterator[CostLine]:
    """Yield the estimate of every model.

    ``drawn`` are the questions about pictures that are drawn, ``unread`` counts the questions that
    no graph of a picture can answer.
    """
    n, sides = len(asked), len(config.seeds) * len(drawing)

    def of_plugin(model: UnifiedModel, calls: int) -> ExpectedUsage:
        spec = config.models.get(model.id)
        return (
            ExpectedUsage(calls, usd=None) if spec is not None and spec.plugin else ExpectedUsage()
        )

    if config.prompt != RULES:
        # The whole once, each object once; a second try of the whole is not counted.
        calls = n + sum(len(item.scene.objects) for item, _ in asked if item.scene)
        words = ExpectedUsage(calls, usd=None)
        yield CostLine.of(xtc_models.composer.id, "words prompts", words, times=n)
    for model in drawing:
        times = len(drawn) * len(config.seeds)
        who, expected = model.id, of_plugin(model, times)
        if isinstance(model, Paired):
            who = model.drawer
            texts = (item.prompt or str(item.scene)[:1000] for item, _ in drawn)
            expected = sum(map(model.expected_drawing, texts), ExpectedUsage()) * len(config.seeds)
        yield CostLine.of(who, "draws", expected, times=times)
    reads = len(drawn) * sides
    yield CostLine.of(xtc_models.extractor.id, "reads pictures", ExpectedUsage(), times=reads)
    total = sum(len(questions) for _, questions in asked)
    for model in understanding:
        who, expected = model.id, of_plugin(model, n)
        if isinstance(model, Paired):
            who = model.understander.id
            tell = getattr(model.understander, "expected", lambda size, questions: ExpectedUsage())
            sizes = (tell(photo_size(item), questions) for item, questions in asked)
            expected = sum(sizes, ExpectedUsage())
        yield CostLine.of(who, "answers", expected, times=total)
    pairs = (total - unread) * sides + total * len(understanding)
    grader: Any = xtc_models.grader
    grading = grader.expected(pairs) if hasattr(grader, "expected") else ExpectedUsage()
    yield CostLine.of(grader.id, "grades", grading, times=pairs)
