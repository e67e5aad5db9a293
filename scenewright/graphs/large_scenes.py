"""Computations on large scenes, away from the event loop.

The facts, verdicts and intervals of a large scene take up to a second. The loop may be a service's,
which has others to answer meanwhile: such computations are done in one thread, one after another,
so that the loop shares the interpreter with no more than that.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from scenewright.core.scene import SceneGraph

LARGE_SCENE_ITEMS = 150
"""Objects, attributes and relations beyond which a scene is large."""
_EXECUTOR = ThreadPoolExecutor(1, thread_name_prefix="large-runs")

P = ParamSpec("P")
T = TypeVar("T")


def size_of(scene: SceneGraph) -> int:
    """Return the number of objects, attributes and relations of ``scene``."""
    attributes = sum(len(item.attributes) for item in scene.objects)
    return len(scene.objects) + attributes + len(scene.relations)


def size_of_data(scene: object) -> int:
    """Return :func:`size_of` a scene in JSON data, without reading it; 0 for what is no scene."""
    if not isinstance(scene, Mapping):
        return 0
    objects = [one for one in scene.get("objects") or () if isinstance(one, Mapping)]
    attributes = sum(len(one.get("attributes") or ()) for one in objects)
    return len(objects) + attributes + len(scene.get("relations") or ())


async def run_in_worker_if_large(
    size: int, function: Callable[P, T], *args: P.args, **more: P.kwargs
) -> T:
    """Return ``function(*args, **more)``, in the worker thread for a scene of a large ``size``."""
    if size <= LARGE_SCENE_ITEMS:
        return function(*args, **more)
    call: Any = functools.partial(
        contextvars.copy_context().run, functools.partial(function, *args, **more)
    )
    found: T = await asyncio.get_running_loop().run_in_executor(_EXECUTOR, call)
    return found
