"""Runs an evaluation: every item in every arm is drawn, judged and scored; what is done stays done.

The same call again goes on where a kill or an interruption left it. A larger configuration in the
same folder (more items, seeds, metrics) does only what is new. Failures are rows with their
reasons, and are tried again when that is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from scenewright.config import OnModelChange
from scenewright.config.accounts import AccountSpec
from scenewright.config.settings import Settings, load_settings
from scenewright.core.flushing import Flusher
from scenewright.core.images import ImageStore
from scenewright.evals.datasets.base import Dataset
from scenewright.evals.datasets.registry import open_dataset
from scenewright.evals.runner.arms import digest
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.dataset_predicates import MARK, dataset_predicates, keep
from scenewright.evals.runner.drawing import GenerationContext
from scenewright.evals.runner.drift.drift_detector import DriftDetector
from scenewright.evals.runner.drift.ledger import Drift, Drifts, SentinelFile, open_drifts
from scenewright.evals.runner.engines.base import Engine, EvalSession
from scenewright.evals.runner.engines.local import LocalEngine
from scenewright.evals.runner.independence import (
    SELF_REPORTS,
    self_reports_of,
    served_doubles,
    served_self_reports,
)
from scenewright.evals.runner.manifest_writing import (
    finish_manifest,
    note_in_manifest,
    write_manifest,
)
from scenewright.evals.runner.measuring import base_of
from scenewright.evals.runner.model_setup import EvalModelOverrides, build_eval_models
from scenewright.evals.runner.progress import OnProgress, ProgressReporter
from scenewright.evals.runner.served_versions import (
    SERVED,
    PanelLabels,
    served_manifest,
    served_panels,
    steering_models,
)
from scenewright.evals.runner.set_scores import SetMetricRunner
from scenewright.evals.store.export import export
from scenewright.evals.store.journal import Journal
from scenewright.evals.store.manifest import make_folder, read_manifest
from scenewright.evals.store.paths import ANSWERS, JOURNAL, SENTINELS
from scenewright.evals.store.results import IMAGES, Results
from scenewright.providers import open_answers
from scenewright.runs.folder import RunFolder


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
    items = dataset if dataset is not None else open_dataset(config.dataset, base)
    models = await asyncio.to_thread(engine.models, given, base)
    eval_models = await build_eval_models(config, settings, models, base)
    await asyncio.to_thread(make_folder, place)
    with RunFolder(place).locked():
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
        write_manifest(place, config, items, eval_models.manifest(), plan, mark=mark)
        nonce = read_manifest(place)["nonce"]
        with (
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
            await engine.run(
                EvalSession(
                    config,
                    place,
                    eval_models,
                    generation,
                    journal,
                    answers,
                    plan,
                    retry,
                    tell,
                    watch,
                ),
                items,
            )
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
            served |= {"sentinels": took}
            finish_manifest(place, totals, items.left_out, served)
    return Results(place)


def export_folder(folder: str | Path) -> Results:
    """Write the tables of what is done so far in ``folder``, of an evaluation that was cut off.

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
    """Write the tables; what they add up to, and what the manifest says of the models that
    answered."""
    labels = PanelLabels.of(journal, plan, on_model_change, drifts)
    totals = export(journal, plan, place, labels if labels.needed else None)
    panels, steering = served_panels(journal, plan), steering_models(journal, plan)
    doubled = served_doubles(panels, accounts)
    return totals, {
        SERVED: served_manifest(labels, on_model_change, steering, doubled, drifts),
        SELF_REPORTS: served_self_reports(read_manifest(place), steering, panels, accounts),
    }


def _deciding(config: EvalConfig) -> dict[str, Any]:
    """What of the configuration decides results."""
    beside = {"name", "about", "concurrency", "limit_usd", "timeout", "keep_runs", "batch"}
    beside |= {"stop_after_failures", "on_model_change", "sentinels", "dataset"}
    return config.model_dump(mode="json", exclude=beside)
