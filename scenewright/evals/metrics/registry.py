"""Metrics by name, and your own as ``module:function``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from scenewright.config.settings import Settings
from scenewright.core.errors import ScenewrightError
from scenewright.core.inflection import described, read_data
from scenewright.evals.metrics.base import (
    ItemMetric,
    Metric,
    MetricError,
    SetMetric,
    is_plugin,
    plugin_of,
)


@dataclass(frozen=True, slots=True)
class MetricEntry:
    """Entry of a metric in ``metrics.toml``."""

    module: str
    """Module below ``scenewright.evals`` that holds :attr:`function`."""
    function: str
    """``(settings: Settings | None, **options) -> Metric``; raises ``MetricError`` for a wrong
    option, and any other error of this package where something is not on this machine."""
    about: str
    """One line for lists."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Option → description."""


def _metrics() -> dict[str, MetricEntry]:
    data = read_data("scenewright.evals.metrics", "metrics.toml")
    return {
        name: MetricEntry(
            **entry | {"options": described(entry.get("options", {}), data["shared"])}
        )
        for name, entry in data["metrics"].items()
    }


METRICS: Mapping[str, MetricEntry] = _metrics()


def metric_of(
    name: str, options: Mapping[str, Any] | None = None, settings: Settings | None = None
) -> Metric:
    """Return the metric of that name, or the one that ``module:function`` makes.

    Such a function is called as ``function(settings, **options)``. Raises ``MetricError`` for an
    unknown name or option, or if what the metric needs is not on this machine.
    """
    options = dict(options or {})
    if is_plugin(name):
        what = (
            "is not a metric: it needs name, version, needs, higher_is_better, and score (of a "
            "picture) or extractor and compute (of a set)"
        )
        own: Metric = plugin_of(name, ItemMetric | SetMetric, what, settings, options=options)
        return own
    entry = METRICS.get(name)
    if entry is None:
        raise MetricError(
            f"unknown metric {name!r}: use one of {', '.join(sorted(METRICS))}, or your own "
            "as module:function"
        )
    unknown = sorted(set(options) - set(entry.options))
    if unknown:
        known = ", ".join(entry.options) or "none"
        raise MetricError(f"{name} has no option {unknown[0]!r}: it has {known}")
    make: Callable[..., Any] = getattr(
        import_module(f"scenewright.evals.{entry.module}"), entry.function
    )
    try:
        found: Metric = make(settings, **options)
    except MetricError:
        raise
    except ScenewrightError as error:
        # A judge, a detector, a schema that is not there: each knows what is wrong and the remedy.
        raise MetricError(f"{name}: {error}") from error
    return found
