"""The task: a set of scenes, drawn and scored as an evaluation would, logged by inspect_ai."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset
from inspect_ai.scorer import Scorer

from scenewright.core.version import VERSION
from scenewright.evals.datasets.registry import open_dataset
from scenewright.evals.errors import EvalError
from scenewright.evals.inspect_ai.context import (
    FOLDER,
    check_eval_models,
    condition_fields,
    config_of,
    draw,
    samples_of,
    told_plainly,
)
from scenewright.evals.inspect_ai.scoring import panels_field, picture_metric, sgscore
from scenewright.evals.runner.config import EvalConfig, load_config


@task  # type: ignore[untyped-decorator]
def scene_bench(
    dataset: str | None = None,
    backend: str | None = None,
    condition: str | dict[str, Any] | None = None,
    seed: int | None = None,
    metrics: str | list[str | dict[str, Any]] | None = None,
    judges: str | list[str] | None = None,
    path: str | None = None,
    options: dict[str, Any] | None = None,
    sample: dict[str, Any] | None = None,
    take: int | None = None,
    aggregation: str | None = None,
    quorum: int | None = None,
    calibration: str | None = None,
    protocol: str | None = None,
    asking: str | None = None,
    alpha: float | None = None,
    size: list[int] | None = None,
    timeout: float | None = None,
    allow_loop_judges: bool | None = None,
    config: str | None = None,
    panel: str | None = None,
    embed: bool = True,
    folder: str = FOLDER,
    models: str | None = None,
) -> Task:
    """Draws and scores the items of a set: one arm of an evaluation as a task of inspect_ai.

    ``dataset``, ``path``, ``options``, ``sample`` and ``take`` (most items) name the set as the
    table ``[dataset]`` of a configuration does; ``metrics`` are names (with commas, or a list) or
    tables. ``config`` is the TOML file of an evaluation: what is given beside it replaces what it
    says, and it is to be narrowed to one backend and condition, and one ``panel`` of its own.
    Seeds of a configuration are epochs here, so they must follow each other. The rest is as in
    :func:`~scenewright.evals.inspect_ai.draw` and
    :func:`~scenewright.evals.inspect_ai.sgscore`.

    Whatever is wrong is told before anything is drawn. A picture that cannot be drawn leaves its
    sample unscored; `inspect eval-retry` tries it again.
    """
    with told_plainly():
        asked = _asked(
            None if config is None else load_config(config),
            {
                "dataset": _dataset_fields(dataset, path, options, sample, take),
                "backends": None if backend is None else [backend],
                **({} if condition is None else condition_fields(condition)),
                "seeds": None if seed is None else [seed],
                "metrics": metrics.split(",") if isinstance(metrics, str) else metrics,
                "panels": panels_field(judges, aggregation, quorum, calibration),
                "protocol": protocol,
                "asking": asking,
                "alpha": alpha,
                "size": size,
                "timeout": timeout,
                "allow_loop_judges": allow_loop_judges,
            },
            panel,
        )
        check_eval_models(asked, models)
        # As in an evaluation, paths of a configuration begin at the working folder.
        items = open_dataset(asked.dataset, Path())
        samples = list(samples_of(items, asked))
        if not samples:
            raise EvalError(f"the set {asked.dataset.name!r} has no items: {dict(items.left_out)}")
    name = asked.conditions[0]
    return Task(
        dataset=MemoryDataset(samples, name=items.name, location=asked.dataset.path),
        solver=draw(
            backend=asked.backends[0],
            condition=_condition_of(asked, name),
            seed=asked.seeds[0],
            size=None if asked.size is None else list(asked.size),
            timeout=asked.timeout,
            embed=embed,
            folder=folder,
            models=models,
        ),
        scorer=_scorers(asked, folder, models),
        epochs=len(asked.seeds),
        # A sample that was not drawn is unscored with the reason; the log's status tells of it.
        score_on_error=True,
        version=VERSION,
        metadata={
            "dataset": items.name,
            "source": items.source,
            "licence": items.licence,
            "fingerprint": items.fingerprint,
            "left_out": dict(items.left_out),
        },
    )


def _dataset_fields(
    name: str | None,
    path: str | None,
    options: Mapping[str, Any] | None,
    sample: Mapping[str, Any] | None,
    limit: int | None,
) -> dict[str, Any]:
    fields = {"name": name, "path": path, "options": options, "sample": sample, "limit": limit}
    return {key: value for key, value in fields.items() if value is not None}


def _asked(base: EvalConfig | None, fields: Mapping[str, Any], panel: str | None) -> EvalConfig:
    """Return one arm: the configuration ``base`` with the given ``fields``."""
    told = {} if base is None else base.model_dump(mode="json", exclude_unset=True)
    given = {name: value for name, value in fields.items() if value is not None}
    known = told.get("dataset", {"name": "miniature"})
    # Options of one set say nothing of another.
    same = given["dataset"].get("name", known["name"]) == known["name"]
    given["dataset"] = {**(known if same else {}), **given["dataset"]}
    given["condition"] = {**told.get("condition", {}), **given.get("condition", {})}
    if panel is not None:
        panels = {**told.get("panels", {}), **given.get("panels", {})}
        if panel not in panels:
            raise EvalError(f"unknown panel {panel!r}: use one of {', '.join(panels) or 'none'}")
        given["panels"] = {panel: panels[panel]}
    found = config_of({**told, **given})
    _check_one("backend", found.backends)
    _check_one("condition", found.conditions)
    if len(found.panels) > 1:
        _check_one("panel", tuple(found.panels))
    first, n = found.seeds[0], len(found.seeds)
    if found.seeds != tuple(range(first, first + n)):
        raise EvalError(
            f"epochs draw with seeds that follow each other, and {list(found.seeds)} do not: "
            "choose the first with seed, and how many with --epochs"
        )
    return found


def _check_one(name: str, values: Sequence[str]) -> None:
    if len(values) > 1:
        raise EvalError(
            f"a task is one arm, and the configuration has several of {name}: choose one with "
            f"{name}, from {', '.join(values)}"
        )


def _condition_of(asked: EvalConfig, name: str) -> str | dict[str, Any]:
    own = asked.condition.get(name)
    return name if own is None else own.model_dump(mode="json", exclude_unset=True)


def _scorers(asked: EvalConfig, folder: str, models: str | None) -> list[Scorer]:
    panel = next(iter(asked.panels.values()), None)
    common: dict[str, Any] = {
        "judges": None if panel is None else list(panel.judges),
        "backend": asked.backends[0],
        "protocol": asked.protocol,
        "asking": asked.asking,
        "alpha": asked.alpha,
        "allow_loop_judges": asked.allow_loop_judges,
        "folder": folder,
        "models": models,
    }
    if panel is not None:
        common |= {
            "aggregation": panel.aggregation,
            "quorum": panel.quorum,
            "calibration": panel.calibration,
        }
    made = []
    for metric in asked.metrics:
        if metric.name == "sgscore" and not metric.options:
            made.append(sgscore(**common))
        else:
            made.append(picture_metric(metric.name, dict(metric.options), **common))
    return made
