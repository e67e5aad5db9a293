"""What a configuration names as ``module:function``: metrics and extractors of your own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from scenewright.evals.metrics.base import MetricError


def is_plugin(name: str) -> bool:
    """Whether ``name`` is ``module:function`` with a dotted module, and no path or file."""
    module, colon, function = name.partition(":")
    return bool(colon) and function.isidentifier() and all(map(str.isidentifier, module.split(".")))


def call_plugin(name: str, *arguments: Any, options: Mapping[str, Any]) -> Any:
    """What the function ``name`` returns of ``arguments`` and ``options``.

    Raises ``MetricError`` if the module cannot be imported, has no such function, or takes no
    such options; what the function itself raises passes.
    """
    module, _, function = name.partition(":")
    try:
        found = import_module(module)
    except ImportError as error:
        raise MetricError(
            f"{name}: the module {module} cannot be imported ({error}): install its package, or "
            "start where Python finds it (PYTHONPATH)"
        ) from error
    make: Callable[..., Any] | None = getattr(found, function, None)
    if not callable(make):
        raise MetricError(f"{name}: {module} has no function {function}")
    try:
        inspect.signature(make).bind(*arguments, **options)
    except TypeError as error:
        raise MetricError(f"{name} cannot be called with these options: {error}") from error
    return make(*arguments, **options)
