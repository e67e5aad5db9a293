"""Run an evaluation: items are drawn in every arm, judged and scored; finished work is kept.

The same call continues after a kill or an interruption. A larger configuration in the same folder
(more items, seeds, metrics) does only the new work. Failures are rows with their reasons, and are
tried again on request. Metrics of sets of pictures come last: each picture's vector is computed
once, and scores are made of vectors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from scenewright.config import OnModelChange
from scenewright.config.accounts import AccountSpec
from scenewright.config.settings import Settings, load_settings
from scenewright.core.error_text import error_text
from scenewright.core.flushing import Flusher
from scenewright.core.images import ImageStore, load_image, nothing_drawn
from scenewright.evals.datasets.base import Dataset
from scenewright.evals.datasets.registry import open_dataset
from scenewright.evals.metrics.base import FeatureExtractor, MetricError, MetricScore, SetMetric
from scenewright.evals.runner.config import Arm, EvalConfig, as_begun, digest, file_mark
from scenewright.evals.runner.dataset_predicates import MARK, dataset_predicates, keep
from scenewright.evals.runner.drawing import GenerationContext
from scenewright.evals.runner.evaluation import EvalTask
from scenewright.evals.runner.given_pictures import check_items
from scenewright.evals.runner.independence import (
    SELF_REPORTS,
    self_reports_of,
    served_doubles,
    served_self_reports,
)
from scenewright.evals.runner.judging import SCORE, base_of, score_rows, state_of
from scenewright.evals.runner.model_setup import EvalModelOverrides, EvalModels, build_eval_models
from scenewright.evals.runner.progress import OnProgress, ProgressReporter
from scenewright.evals.runner.sentinels import (
    Drift,
    DriftDetector,
    Drifts,
    SentinelFile,
    open_drifts,
)
from scenewright.evals.runner.served_versions import (
    SERVED,
    PanelLabels,
    served_manifest,
    served_panels,
    steering_models,
)
from scenewright.evals.runner.task import Engine, LocalEngine, numbered
from scenewright.evals.runner.weighing import Weighing, settle_aggregations
from scenewright.evals.store.journal import Features, Journal, Unit, export
from scenewright.evals.store.manifest import (
    finish_manifest,
    make_folder,
    note_in_manifest,
    read_manifest,
    write_manifest,
)
from scenewright.evals.store.results import ANSWERS, IMAGES, JOURNAL, SENTINELS, Results
from scenewright.providers import open_answers
from scenewright.providers.sdk_clients import paying
from scenewright.runs.folder import RunFolder

BATCH = 32
_BLOCK = 1024
_FROM = 2**40
"""Position in the plan at which the scores of sets begin, after those of all items."""


@dataclass(slots=True)
class Members:
    """The pictures of one arm in one part of the set."""

    pictures: list[str] = field(default_factory=list)
    """Content hashes of the kept pictures."""
    originals: list[str] = field(default_factory=list)
    """Names (:func:`original_name`) of the existing photos of the same items."""
    failed: list[str] = field(default_factory=list)
    """Reason of each missing picture."""


@dataclass(frozen=True, slots=True)
class StoredVectors:
    """The vectors of a list of pictures, read from the journal block by block."""

    journal: Journal
    extractor: str
    """Fingerprint of the extractor."""
    names: Sequence[str]
    """Names of the pictures."""

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Features]:
        for at in range(0, len(self.names), _BLOCK):
            yield self.journal.vectors(self.extractor, self.names[at : at + _BLOCK])


def original_name(path: str) -> str:
    """Return a photo's name among vectors: its path, size and time of change."""
    return digest("original", file_mark(Path(path)))


def scopes_of(config: EvalConfig, row: dict[str, object]) -> list[str]:
    """Return the parts of the set that an item with that row of ``items`` belongs to.

    ``""`` is all.
    """
    found = [""]
    for scope in config.scopes:
        value = row[scope]
        if value in ("", None):
            continue
        shown = f"{value:g}" if isinstance(value, float) else value
        found.append(f"{scope}={shown}")
    return found


@dataclass(frozen=True, slots=True)
class SetMetricRunner:
    """Computation of the scores of sets, when all pictures are there."""

    journal: Journal
    """Source of drawings, and store of vectors and scores."""
    plan: str
    """Digest of the evaluation."""
    eval_models: EvalModels
    config: EvalConfig

    async def score(self, images: ImageStore, again: bool, tell: Callable[..., None]) -> None:
        """Compute all metrics of sets, for every arm and part; ``again``: unscored ones too."""
        members, photos = await asyncio.to_thread(self._members)
        load = loader(images, photos)
        pictures = list(dict.fromkeys(n for _, _, m in members for n in m.pictures))
        makers = {
            metric.extractor.fingerprint: metric.extractor for metric in self.eval_models.of_sets
        }
        compared = {
            m.extractor.fingerprint for m in self.eval_models.of_sets if "original" in m.needs
        }
        gone: dict[str, dict[str, str]] = {}
        for name, maker in makers.items():
            wanted = [*pictures, *photos] if name in compared else pictures
            gone[name] = await make_vectors(self.journal, maker, wanted, load, tell)
        keys: list[str] = []
        for metric in self.eval_models.of_sets:
            lost = gone[metric.extractor.fingerprint]
            for arm, scope, found in members:
                whole = Members(
                    [name for name in found.pictures if name not in lost],
                    [name for name in found.originals if name not in lost],
                )
                reasons = [lost[name] for name in found.pictures if name in lost]
                if "original" in metric.needs:
                    reasons += [lost[name] for name in found.originals if name in lost]
                reasons += found.failed
                unit = await set_score(self.journal, metric, arm, scope, whole, reasons, again)
                keys.append(unit.key)
                tell(unscored=int(unit.state == "unscored"))
        self.journal.plan(self.plan, _FROM, keys)

    def _members(self) -> tuple[list[tuple[Arm, str, Members]], dict[str, str]]:
        """Return the kept pictures of every arm in every part of the set, and photos by name."""
        wanted = any("original" in metric.needs for metric in self.eval_models.of_sets)
        parts: dict[str, tuple[list[str], str]] = {}
        photos: dict[str, str] = {}
        for unit in self.journal.units(self.plan, "item"):
            row = dict(unit.rows["items"][0])
            name = ""
            if wanted and row["original"] and Path(row["original"]).is_file():
                name = original_name(row["original"])
                photos[name] = row["original"]
            parts[row["item"]] = (scopes_of(self.config, row), name)
        arms = {arm.name: arm for arm in self.eval_models.arms}
        members: dict[tuple[str, str], Members] = {}
        for unit in self.journal.units(self.plan, "draw"):
            row = dict(unit.rows["rounds"][0])
            scopes, name = parts[row["item"]]
            for scope in scopes:
                part = members.setdefault((row["arm"], scope), Members())
                if unit.state == "failed":
                    part.failed.append(f"the drawing failed: {unit.reason}")
                    continue
                part.pictures.append(unit.facts["kept"])
                part.originals += [name] if name else []
        return [(arms[arm], scope, part) for (arm, scope), part in members.items()], photos


async def make_vectors(
    journal: Journal,
    extractor: FeatureExtractor,
    names: Sequence[str],
    load: Callable[[str], Image.Image],
    tell: Callable[[], None],
) -> dict[str, str]:
    """Make and keep the missing vectors of ``names``; ``load`` loads the pixels.

    ``tell`` is called after each batch. A batch that fails is tried one by one. Returns name →
    reason of those that cannot be made.
    """
    lost: dict[str, str] = {}
    for at in range(0, len(names), _BLOCK):
        lacking = journal.vectors_missing(extractor.fingerprint, names[at : at + _BLOCK])
        for start in range(0, len(lacking), BATCH):
            batch = lacking[start : start + BATCH]
            try:
                lost |= await _kept(journal, extractor, batch, load)
            except Exception:
                for name in batch:
                    try:
                        lost |= await _kept(journal, extractor, [name], load)
                    except Exception as error:
                        lost[name] = error_text(error)
            tell()
    return lost


async def _kept(
    journal: Journal,
    extractor: FeatureExtractor,
    batch: Sequence[str],
    load: Callable[[str], Image.Image],
) -> dict[str, str]:
    """Keep the vectors of a batch; name → reason of pictures on which nothing is drawn."""
    images = await asyncio.to_thread(lambda: {name: load(name) for name in batch})
    told = await asyncio.to_thread(lambda: {name: nothing_drawn(images[name]) for name in batch})
    empty = {name: reason for name, reason in told.items() if reason}
    drawn = [name for name in batch if name not in empty]
    if not drawn:
        return empty
    vectors = np.asarray(await extractor.features([images[name] for name in drawn]))
    if vectors.shape != (len(drawn), extractor.dimensions):
        raise MetricError(
            f"{extractor.id} gave vectors of shape {vectors.shape} for {len(drawn)} pictures"
        )
    # Kept, they would be taken for the picture's for good.
    if not np.isfinite(vectors).all():
        raise MetricError(f"{extractor.id} gave a vector that is not finite")
    journal.put_vectors(extractor.fingerprint, drawn, vectors)
    return empty


async def set_score(
    journal: Journal,
    metric: SetMetric,
    arm: Arm,
    scope: str,
    members: Members,
    lost: Sequence[str],
    again: bool,
) -> Unit:
    """Return the score of one part of one arm.

    Found in the journal if it was worked out before, unless it was unscored and ``again`` is asked.
    ``lost``: why each of the pictures and photos that are not among ``members`` has no vector, or
    is not there.

    The score is of the pictures that are there; it says how many are not, and is tried again.
    """
    key = digest(
        SCORE, metric.name, metric.version, arm.name, scope, members.pictures, members.originals,
        *([len(lost)] if lost else []),
    )  # fmt: skip
    unit = journal.get(key)
    if unit is not None and not (again and unit.state != "done"):
        return unit
    needs_originals = "original" in metric.needs
    fingerprint = metric.extractor.fingerprint
    pictures = StoredVectors(journal, fingerprint, members.pictures)
    originals = StoredVectors(journal, fingerprint, members.originals) if needs_originals else None
    no_photos = originals is not None and not originals
    if lost and (no_photos or not pictures):
        found = MetricScore(value=None, reason=f"none of {len(lost)} pictures: {lost[0]}")
    elif no_photos or not pictures:
        lacking = "the items have no original photos" if no_photos else "there are no pictures"
        found = MetricScore(value=None, reason=lacking)
    else:
        try:
            found = await asyncio.to_thread(metric.compute, pictures, originals)
        except Exception as error:
            found = MetricScore(value=None, reason=error_text(error))
    if lost and found.value is not None:
        more = f"{len(lost)} pictures or photos are not in it: {lost[0]}"
        found = found.model_copy(update={"unscored": len(lost), "reason": more})
    base = {**arm.columns(""), "panel": "", "round": None, "image": ""}
    rows = score_rows(found, metric.name, metric.version, base, scope, len(pictures))
    unit = Unit(key, SCORE, state_of(found), found.reason, rows)
    journal.put([unit])
    return unit


def loader(images: ImageStore, photos: dict[str, str]) -> Callable[[str], Image.Image]:
    """Return a function that loads a picture by content hash, or a photo by its name.

    Names of photos are those of :func:`original_name`.
    """

    def load(name: str) -> Image.Image:
        return load_image(photos[name]) if name in photos else images.get(name)

    return load


async def run_eval(
    config: EvalConfig,
    folder: str | Path,
    *,
    settings: Settings | None = None,
    root: str | Path | None = None,
    retry: bool = False,
    given: EvalModelOverrides | None = None,
    dataset: Dataset | None = None,
    on_progress: OnProgress | None = None,
    engine: Engine = LocalEngine(),  # noqa: B008 - a constant
) -> Results:
    """Run ``config`` in ``folder``, or go on with it; the results are written when all is done.

    Relative paths of the configuration begin at ``root`` (default: the working folder). ``retry``
    tries again what failed or was left unscored before. ``given`` and ``dataset`` replace models
    and the set; ``engine`` works on the items. Raises ``EvalError``, ``DatasetError``,
    ``MetricError``, ``SettingsError``, ``BackendError`` and ``JudgeError`` before anything is
    drawn, later ``EvalError`` and ``StoreError`` where the folder cannot be written or failures do
    not end. Cancelling keeps all that is done.
    """
    settings = settings or load_settings()
    place = Path(folder)
    base = Path(root) if root is not None else Path()
    config = await asyncio.to_thread(as_begun, config, place)
    items = dataset if dataset is not None else open_dataset(config.dataset, base)
    models = await asyncio.to_thread(engine.overrides, given, base, EvalModelOverrides)
    eval_models = await build_eval_models(config, settings, models, base)
    await asyncio.to_thread(check_items, eval_models.arms, eval_models.metrics, items, base)
    await asyncio.to_thread(make_folder, place)
    with RunFolder(place).locked():
        config, eval_models = settle_aggregations(config, eval_models, settings, place)
        own = await asyncio.to_thread(
            partial(dataset_predicates, base=base_of(config)),
            *(config.predicates, config.dataset, items, place),
        )
        counted = () if own is None else (own.counted.fingerprint,)
        plan = digest(_deciding(config), items.fingerprint, eval_models.manifest(), *counted)
        mark = {
            SELF_REPORTS: await asyncio.to_thread(self_reports_of, eval_models, settings.accounts),
            MARK: None if own is None else own.manifest(),
        }
        if own is not None:
            loops = [arm.profile.predicates for arm in eval_models.arms if arm.loops]
            await asyncio.to_thread(keep, own, place, loops)
        nonce = write_manifest(place, config, items, eval_models.manifest(), plan, mark=mark)
        with (
            paying(nonce),
            closing(Flusher()) as flusher,
            closing(
                open_answers(settings.answers, place / ANSWERS, flusher=flusher, payer=nonce)
            ) as answers,
            Journal(place / JOURNAL) as journal,
            SentinelFile(place / SENTINELS) as sentinels,
        ):
            images = ImageStore(place / IMAGES, flusher=flusher)
            keeps = config.keep_runs
            generation = GenerationContext(
                place, images, settings, base, config.size, keeps, nonce, own
            )
            show = on_progress or (lambda _: None)
            tell = ProgressReporter(show)

            def changed(drift: Drift) -> None:
                tell(doing=f"drawing and judging ({drift.judge} changed)", at_once=True)

            watch = DriftDetector(sentinels, config.on_model_change, answers, changed)
            task = await asyncio.to_thread(
                partial(EvalTask, retry=retry, tell=tell, watch=watch),
                *(config, eval_models, generation, journal, answers, plan),
            )
            async with engine.at_work(task) as work:
                await work(numbered(items))
            weighing = Weighing(config, eval_models, generation, journal, plan)
            weighed = await weighing.run(items)
            if eval_models.of_sets:
                tell(doing="scores of the whole set", at_once=True)
                await SetMetricRunner(journal, plan, eval_models, config).score(images, retry, tell)
            totals, served = await asyncio.to_thread(
                partial(_exported, drifts=watch.drifts),
                *(journal, plan, place, config.on_model_change, settings.accounts),
            )
            took = sentinels.took()
            for name in ("tokens_in", "tokens_out", "usd"):
                totals[name] += sum(one[name] for one in took.values())
            served |= {"sentinels": took, **weighed}
            finish_manifest(place, totals, items.left_out, served)
    return Results(place)


def export_folder(folder: str | Path) -> Results:
    """Write the tables of the finished work in ``folder``, of an evaluation that was cut off.

    Raises ``EvalError`` if there is none.
    """
    place = Path(folder)
    manifest = read_manifest(place)
    asked = manifest["config"].get("on_model_change", "stop")
    with RunFolder(place).locked(), Journal(place / JOURNAL) as journal:
        _, served = _exported(
            *(journal, manifest["plan"], place, asked, load_settings().accounts),
            drifts=open_drifts(place / SENTINELS),
        )
        note_in_manifest(place, served)
    return Results(place)


def _exported(
    journal: Journal,
    plan: str,
    place: Path,
    on_model_change: OnModelChange,
    accounts: Mapping[str, AccountSpec],
    drifts: Drifts,
) -> tuple[dict[str, float], dict[str, Any]]:
    """Write the tables.

    What they add up to, and what the manifest says of the models that answered.
    """
    labels = PanelLabels.of(journal, plan, on_model_change, drifts)
    totals = export(journal, plan, place, labels if labels.needed else None)
    panels, steering = served_panels(journal, plan), steering_models(journal, plan)
    doubled = served_doubles(panels, accounts)
    return totals, {
        SERVED: served_manifest(labels, on_model_change, steering, doubled, drifts),
        SELF_REPORTS: served_self_reports(read_manifest(place), steering, panels, accounts),
    }


def _deciding(config: EvalConfig) -> dict[str, Any]:
    """Return the part of the configuration that decides results."""
    beside = {"name", "about", "concurrency", "limit_usd", "timeout", "keep_runs", "batch"}
    beside |= {"stop_after_failures", "on_model_change", "sentinels", "dataset"}
    return config.model_dump(mode="json", exclude=beside)
