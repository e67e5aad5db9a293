"""A run: a scene and a profile in, a run folder and a result out.

The same call continues a run that was killed or cancelled, and returns the result of a finished
one at once.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Unpack

from scenewright.config.profiles import Profile
from scenewright.core.scene import SceneGraph
from scenewright.graphs.events import Event
from scenewright.runs.options import RunArguments
from scenewright.runs.plan import RunPlan, plan_run
from scenewright.runs.record import PageError
from scenewright.runs.result import PageWarning, RunResult
from scenewright.runs.session import run_events


async def refine(
    scene: SceneGraph | str | Path,
    profile: str | Profile | None = None,
    *,
    on_event: Callable[[Event], None] | None = None,
    **arguments: Unpack[RunArguments],
) -> RunResult:
    """Draw ``scene``, verify every fact of it, repair what is missing, and keep the best image.

    ``scene`` is a scene graph, a text, or a file in any supported format; a sentence is read by the
    profile's language model where it has one, else by rules (``reader``). ``profile`` names the
    models (default: the settings' profile, else ``miniature``). ``arguments`` are the
    options of :class:`~scenewright.config.options.RunOptions`, and those of
    :class:`~scenewright.runs.options.RunArguments`::

        await refine("red ball on table", profile="sdxl", rounds=3)

    ``on_event`` receives every stored event once and in order, earlier events of a resumed run
    first, and the denoising steps and partial images in between.

    - ``realism``: judges also say how real each object looks, in shape and texture. Of pictures
      that hold equally many facts, the more real one is kept.
    - ``self_report``: the judges of the loop report the result, as in the Scene-Bench paper, and
      the result is labelled so. Otherwise no model of the loop, its director included, may report.
    - ``start``: the run begins with this picture instead of a drawing. With ``mask``, only its
      white part may change.
    - ``pause`` and ``edit``: once ``pause`` returns true, the result is ``paused``. ``edit``
      continues a paused or finished run with a person's correction.

    - ``page``: at the end the run's HTML page is written into its folder, where the result's
      ``page`` finds it; False leaves it out.

    The result's ``warnings`` mention models whose served version changed.

    The same call continues an interrupted run, or returns a finished one; cancelling loses nothing.

    Raises ``RunError`` (folder, disk, configuration), ``SceneError`` or the readers' errors for an
    invalid scene, ``EditError`` for an edit that does not fit (the run stays as it was),
    ``SettingsError``, ``BackendError`` and ``JudgeError``.
    """
    return await execute(plan_run(scene, profile, **arguments), on_event)


async def execute(plan: RunPlan, on_event: Callable[[Event], None] | None = None) -> RunResult:
    """Begin or continue the run of ``plan``, as :func:`refine` does.

    :func:`scenewright.runs.plan.plan_again` makes the plan of an existing run folder.
    """
    results: list[RunResult] = []
    async with aclosing(run_events(plan, results.append)) as events:
        async for event in events:
            if on_event is not None:
                on_event(event)
    if plan.page:
        await asyncio.to_thread(_write_page, plan.folder.path)
    return results[-1]


def _write_page(folder: Path) -> None:
    """Write the run's page; a page that cannot be written is a warning: the result is there."""
    # The drawing of the page's graph takes a while to import.
    from scenewright.runs.report.render import write_page

    try:
        write_page(folder)
    except PageError as error:
        told = f"the run is done, but has no page: {error}"
        warnings.warn(told, PageWarning, stacklevel=2)


async def stream_refine(
    scene: SceneGraph | str | Path,
    profile: str | Profile | None = None,
    **arguments: Unpack[RunArguments],
) -> AsyncGenerator[Event, None]:
    """Yield the events of :func:`refine` as they happen; same arguments except ``on_event``.

    A run that continues yields its stored events first. The last event is ``Finished``, after the
    result file was written, or ``Paused`` for a run that waits for a person.
    """
    async with aclosing(stream_plan(plan_run(scene, profile, **arguments))) as events:
        async for event in events:
            yield event


async def stream_plan(plan: RunPlan) -> AsyncGenerator[Event, None]:
    """Yield the events of :func:`execute` as they happen."""
    async with aclosing(run_events(plan)) as events:
        async for event in events:
            yield event
