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
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scenewright.config.settings import Settings, load_settings
from scenewright.core.flushing import Flusher
from scenewright.core.images import ImageStore, file_bytes
from scenewright.evals.datasets.base import Dataset, Item
from scenewright.evals.datasets.registry import open_dataset
from scenewright.evals.errors import EvalError
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
from scenewright.evals.runner.progress import OnProgress, ProgressReporter
from scenewright.evals.runner.task import Engine, LocalEngine, numbered
from scenewright.evals.store.extractions import Extractions
from scenewright.evals.store.journal import Journal, export
from scenewright.evals.store.manifest import finish_manifest, make_folder, write_manifest
from scenewright.evals.store.results import IMAGES, JOURNAL
from scenewright.evals.studies.xtc.config import (
    RULES,
    XtcConfig,
    XtcModelOverrides,
    XtcModels,
    build_xtc_models,
    with_words,
)
from scenewright.evals.studies.xtc.lookup import outside_of
from scenewright.evals.studies.xtc.models import (
    JudgeUnderstander,
    Paired,
    drawing_mark,
    understanding_mark,
)
from scenewright.evals.studies.xtc.questions import questions_of
from scenewright.evals.studies.xtc.report import (
    BENCHMARK,
    XTC_SCHEMAS,
    XtcResults,
    write_summary,
)
from scenewright.evals.studies.xtc.task import EXTRACTIONS, XtcTask, XtcWorker, XtcWorkerSpec
from scenewright.evals.studies.xtc.work import DRAWING, PAID, PICTURE, SHEET, SPENT
from scenewright.providers.usage import ExpectedUsage
from scenewright.providers.versions import SERVED_FILE, FollowedVersions
from scenewright.runs.folder import RunFolder

ORIGINALS = "originals"
"""Folder of the paintings, where the set is painted."""
_PAINTED = "miniature"
_KINDS = {"facts": PICTURE, "pictures": PICTURE, "items": SHEET}
"""Table → units that hold its rows."""


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
    engine: Engine = LocalEngine(),  # noqa: B008 - a constant
) -> XtcResults:
    """Run ``config`` in ``folder``, or go on with it; the results are written when all is done.

    Relative paths of the configuration begin at ``root`` (default: the working folder). ``retry``
    tries again what failed or was left unscored before. ``given`` and ``dataset`` replace models
    and the set; ``engine`` works on the items. Raises what
    :func:`~scenewright.evals.studies.xtc.config.build_xtc_models` raises and ``DatasetError``
    before anything is drawn, later ``EvalError`` where the folder cannot be written or failures do
    not end. Cancelling keeps all that is done.
    """
    settings = settings or load_settings()
    place, base = Path(folder), Path(root) if root is not None else Path()
    await asyncio.to_thread(make_folder, place)
    items = dataset if dataset is not None else xtc_dataset(config, place, base)
    overrides = await asyncio.to_thread(engine.overrides, given, base, XtcModelOverrides)
    worded, xtc_models, own = await _models_of(config, settings, overrides, base, place, items)
    with RunFolder(place).locked():
        models = xtc_models.manifest()
        asked = config.model_dump(mode="json", exclude={"on_model_change"})
        plan = digest(asked, items.fingerprint, models)
        mark = {"benchmark": BENCHMARK, MARK: None if own is None else own.manifest()}
        if own is not None:
            await asyncio.to_thread(keep, own, place)
        nonce = write_manifest(place, config, items, models, plan, mark=mark)
        served = FollowedVersions(place / SERVED_FILE, stops=config.on_model_change == "stop")
        absolute, root_at = await asyncio.to_thread(lambda: (place.resolve(), base.resolve()))
        spec = XtcWorkerSpec(
            settings=settings,
            place=absolute,
            config=worded,
            root=root_at,
            nonce=nonce,
            own=own,
            retry=retry,
        )
        with closing(Flusher()) as flusher, Journal(place / JOURNAL) as journal:
            images = ImageStore(place / IMAGES, flusher=flusher)
            worker = XtcWorker(
                *(worded, xtc_models, lambda _: images, file_bytes),
                *(Extractions(xtc_models.extractor, place / EXTRACTIONS), journal, nonce, retry),
            )
            tell = ProgressReporter(on_progress or (lambda _: None))
            task = XtcTask(worker, spec, journal, plan, served, tell)
            try:
                async with engine.at_work(task) as work:
                    await work(numbered(items))
            finally:
                await asyncio.to_thread(served.write)
            tell(at_once=True)
            if not task.evaluated:
                why = "; ".join(task.left_out) or "the set is empty"
                raise EvalError(
                    f"no item can be evaluated ({why}): every item needs a scene and its photo"
                )
            totals = await asyncio.to_thread(_exported, journal, plan, place)
        left_out = {**items.left_out, **task.left_out}
        finish_manifest(place, totals, left_out, {"model_changes": list(served.texts)})
    results = XtcResults(place)
    await asyncio.to_thread(write_summary, results)
    return results


def _exported(journal: Journal, plan: str, place: Path) -> dict[str, float]:
    """Write the tables; return what everything took so far, earlier calls included."""
    export(journal, plan, place, schemas=XTC_SCHEMAS, kinds=_KINDS)
    totals = dict.fromkeys(("pictures", *SPENT), 0.0)
    # A unit that several items share was paid for once.
    known, images = set[str](), set[str]()
    for kind in PAID:
        for key, facts, _ in journal.notes(plan, kind):
            if key in known:
                continue
            known.add(key)
            for name, value in facts.get("spent", {}).items():
                totals[name] += value
            if kind == DRAWING and "image" in facts:
                images.add(facts["image"])
    return totals | {"pictures": len(images)}


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
class XtcPlan:
    """What an evaluation will take if nothing of it is done yet."""

    models: int
    """Unified models."""
    items: int = 0
    """Items with a scene and a photo."""
    questions: int = 0
    """Questions about all of them."""
    unasked: int = 0
    """Facts that no question can ask for."""
    pictures: int = 0
    """Pictures to be drawn: models that share what draws share them."""
    costs: CostForecast = field(default_factory=CostForecast)
    """Models that word ``prompts``, draw ``pictures``, read ``pictures``, answer ``questions`` or
    grade pairs of answers, and how many of these there are."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Why items of the set cannot be evaluated → how many."""
    outside: Counter[str] = field(default_factory=Counter)
    """Extractor or understander, and why it cannot answer → questions that will be unscored."""


async def plan_xtc(
    config: XtcConfig, settings: Settings, root: Path, folder: Path, dataset: Dataset | None = None
) -> XtcPlan:
    """Return the plan of :func:`run_xtc` with these arguments; nothing is drawn.

    Raises what that raises before anything is drawn.
    """
    items = dataset if dataset is not None else xtc_dataset(config, folder, root)
    none = XtcModelOverrides()
    _, models, _ = await _models_of(config, settings, none, root, folder, items)
    return await plan_of(config, models, items)


async def _models_of(
    config: XtcConfig,
    settings: Settings,
    given: XtcModelOverrides,
    root: Path,
    folder: Path,
    items: Dataset,
) -> tuple[XtcConfig, XtcModels, DatasetPredicates | None]:
    """Return the configuration with the words of judges, the models, the predicates of the set."""
    own = await asyncio.to_thread(
        dataset_predicates, config.predicates, config.dataset, items, folder, needed=relates
    )
    scenes = (item.scene for item in items if item.scene is not None)
    config = await asyncio.to_thread(with_words, config, scenes)
    return config, await build_xtc_models(config, settings, given, root, own), own


async def plan_of(config: XtcConfig, xtc_models: XtcModels, items: Iterable[Item]) -> XtcPlan:
    """Return the plan of :func:`run_xtc`; no model is called and nothing is drawn.

    Raises ``XtcError`` for a scene that cannot be asked about.
    """
    return await asyncio.to_thread(_plan, config, xtc_models, items)


def _plan(config: XtcConfig, models: XtcModels, items: Iterable[Item]) -> XtcPlan:
    drawing = {drawing_mark(model): model for model in models.models}.values()
    understanding = {understanding_mark(model): model for model in models.models}.values()
    plan = XtcPlan(len(models.models))
    seeds, pairs = len(config.seeds), 0

    def expected(model: Any, tell: str, *about: Any) -> ExpectedUsage:
        """Return what one drawing or answering takes: of a plug-in the price is not known."""
        spec = config.models.get(model.id)
        if spec is not None and spec.plugin:
            return ExpectedUsage(1, usd=None)
        found: ExpectedUsage = getattr(model, tell, lambda *_: ExpectedUsage())(*about)
        return found

    for item in items:
        if not item.scene or item.image is None:
            plan.left_out["no photo" if item.scene else "no scene"] += 1
            continue
        sheet = questions_of(item.scene)
        n = len(sheet.questions)
        lost = outside_of(sheet.questions, item.scene, models.extractor, config.converses)
        plan.outside.update(lost.values())
        # A picture that nothing can be read of is not drawn.
        times = seeds if not n or len(lost) < n else 0
        plan.items += 1
        plan.questions += n
        plan.unasked += len(sheet.unasked)
        plan.pictures += times * len(drawing)
        pairs += (n - len(lost)) * seeds * len(drawing) + n * len(understanding)
        lines: list[CostLine] = []
        if config.prompt != RULES:
            # The whole once, each object once; a second try of the whole is not counted.
            words = ExpectedUsage(1 + len(item.scene.objects), usd=None)
            lines.append(CostLine.of(models.composer.id, "words prompts", words, times=1))
        text = item.prompt or str(item.scene)[:1000]
        for model in drawing:
            usage = expected(model, "expected_drawing", text) * times
            drawer = model.drawer if isinstance(model, Paired) else model.id
            lines.append(CostLine.of(drawer, "draws", usage, times=times))
        reads = times * len(drawing)
        reader = models.extractor.id
        lines.append(CostLine.of(reader, "reads pictures", ExpectedUsage(), times=reads))
        for model in understanding:
            usage = expected(model, "expected_answers", photo_size(item), sheet.questions)
            who: Any = model.understander if isinstance(model, Paired) else model
            lines.append(CostLine.of(who.id, "answers", usage, times=n))
            if isinstance(who, JudgeUnderstander):
                reasons = (who.outside(question) for question in sheet.questions)
                plan.outside.update(f"{who.id}: {reason}" for reason in reasons if reason)
        plan.costs = CostForecast.of([*plan.costs.lines, *lines])
    tell: Any = getattr(models.grader, "expected", lambda pairs: ExpectedUsage())
    grading = CostLine.of(models.grader.id, "grades", tell(pairs), times=pairs)
    plan.costs = CostForecast((*plan.costs.lines, grading))
    return plan
