"""Models and plug-ins of an evaluation, built once before it begins."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scenewright.agents.panel.independence import check_independence
from scenewright.agents.panel.panel import Panel
from scenewright.agents.panel.rates import load_calibration
from scenewright.config.settings import Settings
from scenewright.core.ports.backend import ImageBackend
from scenewright.core.ports.composer import Composer
from scenewright.core.ports.judge import Judge
from scenewright.evals.errors import EvalError
from scenewright.evals.metrics.base import ItemMetric, Metric, SetMetric
from scenewright.evals.metrics.registry import metric_of
from scenewright.evals.runner.backends import in_batches
from scenewright.evals.runner.config import Arm, EvalConfig, PanelSpec, arms_of, panels_of
from scenewright.evals.runner.drawing import ImageGenerator
from scenewright.evals.runner.judging import JudgePanel
from scenewright.providers.hub.cache import require_models
from scenewright.runs.model_factory.profiles import backend_of, build_panel, composer_of


@dataclass(frozen=True, slots=True)
class EvalModelOverrides:
    """Models of a caller that replace those of the profiles."""

    backends: Mapping[str, ImageBackend] = field(default_factory=dict)
    """Name of a profile → backend."""
    composers: Mapping[str, Composer] = field(default_factory=dict)
    """Name of a profile → composer, in all of its conditions."""
    judges: Mapping[str, Judge] = field(default_factory=dict)
    """``kind:model`` → judge."""
    metrics: Sequence[Metric] | None = None
    """Metrics in place of the configuration's."""


@dataclass(frozen=True, slots=True)
class EvalModels:
    """All models and metrics of an evaluation."""

    arms: tuple[Arm, ...]
    generators: Mapping[str, ImageGenerator | None]
    """Arm → its models; None where nothing is drawn."""
    judge_panels: tuple[JudgePanel, ...]
    """Empty if no metric needs one."""
    metrics: tuple[Metric, ...]

    @property
    def of_pictures(self) -> tuple[ItemMetric, ...]:
        """Metrics of single pictures."""
        return tuple(m for m in self.metrics if isinstance(m, ItemMetric))

    @property
    def of_sets(self) -> tuple[SetMetric, ...]:
        """Metrics of sets of pictures."""
        return tuple(m for m in self.metrics if isinstance(m, SetMetric))

    @property
    def judges(self) -> tuple[Judge, ...]:
        """Every judge of a panel or a loop, each once by its id."""
        every = [judge for judge_panel in self.judge_panels for judge in judge_panel.judges]
        every += [
            j for generator in self.generators.values() if generator for j in generator.judges
        ]
        return tuple({judge.id: judge for judge in every}.values())

    def manifest(self) -> dict[str, Any]:
        """Return ids and fingerprints of all models, for the manifest."""

        def both(model: Any) -> dict[str, str]:
            return {"id": model.id, "fingerprint": model.fingerprint}

        drawn = {
            arm.name: {
                "backend": both(generator.backend),
                "composer": both(generator.composer),
                "judges": [both(judge) for judge in generator.judges],
            }
            for arm in self.arms
            if (generator := self.generators[arm.name]) is not None
        }
        return {
            "arms": drawn,
            "panels": {
                judge_panel.name: [both(judge) for judge in judge_panel.judges]
                for judge_panel in self.judge_panels
            },
            "metrics": {
                metric.name: {
                    "version": metric.version,
                    "higher_is_better": metric.higher_is_better,
                    "of": "sets" if isinstance(metric, SetMetric) else "pictures",
                }
                for metric in self.metrics
            },
        }

    async def warm(self) -> None:
        """Load the weights of every model that can be loaded ahead, one after the other."""
        drawing = [one for one in self.generators.values() if one is not None]
        models: list[Any] = [model for one in drawing for model in (one.backend, *one.judges)]
        models += [judge for judge_panel in self.judge_panels for judge in judge_panel.judges]
        for model in {id(model): model for model in models}.values():
            load = getattr(model, "load", None)
            if load is not None:
                await load()


async def build_eval_models(
    config: EvalConfig, settings: Settings, given: EvalModelOverrides, root: Path
) -> EvalModels:
    """Build the models of ``config``; nothing is downloaded, and no weights are loaded yet.

    Raises ``EvalError``, ``MetricError``, ``SettingsError``, ``BackendError`` and ``JudgeError``,
    before anything is drawn.
    """
    arms = arms_of(config, settings)
    metrics = tuple(
        await asyncio.to_thread(
            lambda: [metric_of(m.name, m.options, settings) for m in config.metrics]
        )
        if given.metrics is None
        else given.metrics
    )
    judge_panels: tuple[JudgePanel, ...] = ()
    if any("judges" in metric.needs for metric in metrics) or config.panels:
        panels = panels_of(config, settings)
        judge_panels = tuple(
            [await _judge_panel(n, spec, settings, given, root) for n, spec in panels.items()]
        )
    if (other := config.other_protocol) is not None:
        judge_panels += tuple(judge_panel.beside(other) for judge_panel in judge_panels)
    generators: dict[str, ImageGenerator | None] = {}
    known: dict[tuple[str, str], ImageGenerator | None] = {}
    batching: dict[int, ImageBackend] = {}
    for arm in arms:
        pair = (arm.backend, arm.condition)
        if pair not in known:
            generator = await _generator(arm, settings, given)
            if generator is not None:
                # Arms that share a model share its batches.
                own = batching.setdefault(
                    id(generator.backend), in_batches(generator.backend, config.batch)
                )
                generator = replace(generator, backend=own)
            known[pair] = generator
        generators[arm.name] = known[pair]
    await asyncio.to_thread(_check_independence, arms, generators, judge_panels, config, settings)
    return EvalModels(arms, generators, judge_panels, metrics)


async def _generator(
    arm: Arm, settings: Settings, given: EvalModelOverrides
) -> ImageGenerator | None:
    if arm.spec.source != "draw":
        return None
    from scenewright.tools.backends.prompts import room_of

    profile, brought = arm.profile, given.backends.get(arm.backend)
    steering = profile.judges if arm.loops else ()
    require_models(
        profile,
        backend=brought is None,
        judges=any(name not in given.judges for name in steering),
        report_judges=False,
    )

    def drawn() -> ImageBackend:
        found = brought if brought is not None else backend_of(profile.backend, settings)
        _ = found.fingerprint
        return found

    backend = await asyncio.to_thread(drawn)
    composer = given.composers.get(arm.backend) or composer_of(
        profile, settings, room_of(backend), languages=backend.features.languages
    )
    return ImageGenerator(backend, composer, await _judges(steering, settings, given))


async def _judges(
    names: Sequence[str], settings: Settings, given: EvalModelOverrides
) -> tuple[Judge, ...]:
    built = await build_panel([n for n in names if n not in given.judges], settings=settings)
    rest = iter(built)
    return tuple(given.judges[name] if name in given.judges else next(rest) for name in names)


async def _judge_panel(
    name: str, spec: PanelSpec, settings: Settings, given: EvalModelOverrides, root: Path
) -> JudgePanel:
    judges = await _judges(spec.judges, settings, given)
    await asyncio.to_thread(check_independence, judges, accounts=settings.accounts)
    calibration = None
    if spec.calibration is not None:
        calibration = load_calibration(_below(root, spec.calibration))
        calibration.check({judge.id: judge.fingerprint for judge in judges})
    if spec.quorum > len(judges):
        raise EvalError(
            f"the panel {name!r} has {len(judges)} judges and a quorum of {spec.quorum}: "
            "nothing could be scored"
        )
    rule = Panel(spec.aggregation or "mean", spec.quorum, calibration=calibration)
    return JudgePanel(name, judges, rule)


def _below(root: Path, path: str) -> Path:
    return root / Path(path).expanduser()


def _check_independence(
    arms: Sequence[Arm],
    generators: Mapping[str, ImageGenerator | None],
    judge_panels: Sequence[JudgePanel],
    config: EvalConfig,
    settings: Settings,
) -> None:
    """Raise if one model under two names steers and reports; may read local weights."""
    if config.allow_loop_judges or (not config.panels and any(a.profile.self_report for a in arms)):
        return
    for arm in arms:
        generator = generators[arm.name]
        if generator is not None and generator.judges:
            for judge_panel in judge_panels:
                check_independence(generator.judges, judge_panel.judges, accounts=settings.accounts)
