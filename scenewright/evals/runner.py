"""Runs an evaluation: every item in every arm is drawn, judged and scored; what is done stays done.

The same call again goes on where a kill or an interruption left it. A larger configuration in the
same folder (more items, seeds, metrics) does only what is new. Failures are rows with their
reasons, and are tried again when that is asked.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

from scenewright.calls import open_answers
from scenewright.evals.arms import digest
from scenewright.evals.cast import Given, cast_of
from scenewright.evals.config import EvalConfig
from scenewright.evals.datasets.base import Dataset
from scenewright.evals.datasets.registry import open_dataset
from scenewright.evals.drawing import Studio
from scenewright.evals.engines.base import Engine, Sitting
from scenewright.evals.engines.local import LocalEngine
from scenewright.evals.export import export
from scenewright.evals.independence import SELF_REPORTS, self_reports_of
from scenewright.evals.journal import Journal
from scenewright.evals.manifest import make_folder, read_manifest
from scenewright.evals.manifest_writing import finish_manifest, write_manifest
from scenewright.evals.paths import ANSWERS, JOURNAL
from scenewright.evals.progress import OnProgress, Telling
from scenewright.evals.results import IMAGES, Results
from scenewright.evals.set_scores import SetDesk
from scenewright.flushing import Flusher
from scenewright.images import ImageStore
from scenewright.runfolder import RunFolder
from scenewright.settings import Settings, load_settings


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
    cast = await cast_of(config, settings, models, base)
    await asyncio.to_thread(make_folder, place)
    with RunFolder(place).locked():
        plan = digest(_deciding(config), items.fingerprint, cast.manifest())
        mark = {SELF_REPORTS: await asyncio.to_thread(self_reports_of, cast, settings.accounts)}
        write_manifest(place, config, items, cast.manifest(), plan, mark=mark)
        nonce = read_manifest(place)["nonce"]
        with (
            closing(Flusher()) as flusher,
            closing(
                open_answers(settings.answers, place / ANSWERS, flusher=flusher, payer=nonce)
            ) as answers,
            Journal(place / JOURNAL) as journal,
        ):
            images = ImageStore(place / IMAGES, flusher=flusher)
            studio = Studio(place, images, settings, base, config.size, config.keep_runs, nonce)
            show = on_progress or (lambda _: None)
            tell = Telling(show)
            await engine.run(
                Sitting(config, place, cast, studio, journal, answers, plan, retry, tell), items
            )
            if cast.of_sets:
                tell(doing="scores of the whole set", at_once=True)
                await SetDesk(journal, plan, cast, config).score(images, retry, tell)
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
    beside = {"name", "about", "concurrency", "limit_usd", "timeout", "keep_runs", "batch"}
    return config.model_dump(mode="json", exclude=beside | {"stop_after_failures", "dataset"})
