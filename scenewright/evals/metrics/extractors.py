"""Extractors and encoders by name: ``inception``, ``miniature``, a folder, ``OWNER/NAME`` of the
hub as fetched earlier, or ``module:function`` of your own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scenewright.evals.metrics.base import FeatureExtractor, MetricError
from scenewright.evals.metrics.encoders import TextImageEncoder
from scenewright.evals.metrics.options import text, whole
from scenewright.evals.metrics.plugins import call_plugin, is_plugin

INCEPTION = "inception"
MINIATURE = "miniature"


def extractor_of(
    metric: str, name: Any, output: str, options: Mapping[str, Any]
) -> FeatureExtractor:
    """The extractor that a metric's option ``extractor`` names.

    ``output``: what the metric wants of a network: ``pool``, ``class``, ``projection`` or
    ``logits``. A network without an Inception's pool gives its class token. Options: ``device``,
    ``batch``, ``dtype``, ``preparation``, ``weights``, as far as the extractor has them. Raises
    ``MetricError`` for a wrong option, or if the model is not on this machine.
    """
    name = text("extractor", name)
    if is_plugin(name):
        found = call_plugin(name, output, options=options)
        if not isinstance(found, FeatureExtractor):
            raise MetricError(f"{name} gives a {type(found).__name__}, which is no extractor")
        return found
    common = _common(options)
    if name == MINIATURE:
        from scenewright.evals.metrics.miniature import MiniatureExtractor

        _refuse(name, options, {"device", "batch"})
        return MiniatureExtractor("logits" if output == "logits" else "features", **common)
    if name == INCEPTION:
        from scenewright.evals.metrics.inception import InceptionExtractor, find_inception

        _refuse(name, options, {"device", "batch", "weights"})
        weights = options.get("weights")
        file = find_inception(metric, None if weights is None else text("weights", weights))
        return InceptionExtractor(file, output="logits" if output == "logits" else "pool", **common)
    if output == "logits":
        raise MetricError(
            f"{metric} needs classes, which {name!r} does not give: use extractor = "
            f'"{INCEPTION}", "{MINIATURE}", or your own as module:function'
        )
    from scenewright.evals.metrics.transformers_models import TransformersExtractor

    folder, more = _transformers(metric, name, options, "squash")
    output = "projection" if output == "projection" else "class"
    return TransformersExtractor(folder, name=name, output=output, **common, **more)


def encoder_of(metric: str, name: Any, options: Mapping[str, Any]) -> TextImageEncoder:
    """The encoder of pictures and texts that a metric's option ``extractor`` names; as
    :func:`extractor_of`."""
    name = text("extractor", name)
    if is_plugin(name):
        found = call_plugin(name, options=options)
        if not isinstance(found, TextImageEncoder):
            raise MetricError(
                f"{name} gives a {type(found).__name__}, which does not encode pictures and texts"
            )
        return found
    common = _common(options)
    if name == MINIATURE:
        from scenewright.evals.metrics.miniature import MiniatureEncoder

        _refuse(name, options, {"device", "batch"})
        return MiniatureEncoder(**common)
    if name == INCEPTION:
        raise MetricError(f"{metric}: {INCEPTION} encodes no texts: name a CLIP model")
    from scenewright.evals.metrics.transformers_models import TransformersEncoder

    folder, more = _transformers(metric, name, options, "processor")
    return TransformersEncoder(folder, name=name, **common, **more)


def _common(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "device": text("device", options.get("device", "auto")),
        "batch": whole("batch", options.get("batch", 32), 1),
    }


def _transformers(
    metric: str, name: str, options: Mapping[str, Any], preparation: str
) -> tuple[Path, dict[str, Any]]:
    from scenewright.evals.metrics.transformers_models import DTYPES, PREPARATIONS
    from scenewright.evals.metrics.weights import find_model

    _refuse(name, options, {"device", "batch", "dtype", "preparation"})
    more = {
        "dtype": text("dtype", options.get("dtype", "float32"), DTYPES),
        "preparation": text("preparation", options.get("preparation", preparation), PREPARATIONS),
    }
    return find_model(metric, name), more


def _refuse(name: str, options: Mapping[str, Any], known: set[str]) -> None:
    """Raises ``MetricError`` for an option that the extractor would pass over."""
    unknown = sorted(set(options) - known)
    if unknown:
        raise MetricError(
            f"the extractor {name!r} has no option {unknown[0]!r}: it has "
            f"{', '.join(sorted(known))}"
        )
