"""What a run is driven with: its models by name, the context of its loop, the compiled machine."""

from __future__ import annotations

from functools import cache
from typing import Any

from langgraph.graph.state import CompiledStateGraph

from scenewright.agents.panel.panel import Panel
from scenewright.config.settings import DIRECTOR
from scenewright.core.flushing import Flusher
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import ImageBackend
from scenewright.core.ports.composer import Composer
from scenewright.core.ports.judge import Judge
from scenewright.graphs.eventlog import EventLog
from scenewright.graphs.refine import build_refine
from scenewright.graphs.state import RefineContext
from scenewright.providers import Answers
from scenewright.runs.folder import IMAGES
from scenewright.runs.model_factory.profiles import RunModels, chat_name
from scenewright.runs.plan import RunPlan

_HELD_BYTES = 64 * 2**20
"""Pixels that a run keeps in memory: its newest images, asked for by every judge and wave."""


def models_of(run_models: RunModels, panel: Panel, realism: bool) -> dict[str, Any]:
    """The models of a run for its manifest, with those of ``realism`` if it asks for it."""

    def both(model: ImageBackend | Judge | Composer) -> dict[str, str]:
        loading = getattr(model, "loading", "")
        told = {"loading": loading} if loading else {}
        return {"id": model.id, "fingerprint": model.fingerprint, **told}

    # The profile names the calibration's file, but its content decides verdicts, as weights do.
    known = {} if panel.calibration is None else {"calibration": panel.calibration.digest}
    real = {
        "realism_judges": [both(judge) for judge in run_models.realism_judges],
        "realism_report_judges": [both(judge) for judge in run_models.realism_report_judges],
    }
    return {
        "backend": both(run_models.backend),
        "composer": both(run_models.composer),
        "judges": [both(judge) for judge in run_models.loop_judges],
        "report_judges": [both(judge) for judge in run_models.report_judges],
        **({} if run_models.chat is None else {"chat": chat_name(run_models.chat)}),
        **(real if realism else {}),
        **known,
    }


def context_of(
    plan: RunPlan,
    run_models: RunModels,
    panel: Panel,
    log: EventLog,
    answers: Answers,
    flusher: Flusher,
) -> RefineContext:
    """The context of the loop of ``plan``; its pictures lie in the run folder."""
    images = ImageStore(plan.folder / IMAGES, flusher=flusher, held_bytes=_HELD_BYTES)
    parts: dict[str, Any] = {
        "backend": run_models.backend,
        "composer": run_models.composer,
        "loop_judges": run_models.loop_judges,
        "report_judges": run_models.report_judges,
        "realism_judges": run_models.realism_judges,
        "realism_report_judges": run_models.realism_report_judges,
        "images": images,
        "answers": answers,
        "log": log,
        "options": plan.options,
        "panel": panel,
        "cascade": plan.profile.cascade,
        "judge_timeout": plan.settings.judge_timeout,
        "nonce": plan.folder.nonce(),
        "pause": plan.pause,
    }
    if plan.profile.strategy != DIRECTOR:
        return RefineContext(**parts)
    from scenewright.graphs.director import DirectorContext

    assert run_models.chat is not None
    previews = bool(getattr(run_models.chat, "pictures", True))
    return DirectorContext(**parts, chat=run_models.chat, previews=previews)


@cache
def machine_of(directed: bool) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The loop, or the director's graph, without a checkpointer."""
    # Compiling looks through every node's source, which takes as long as a round of the loop.
    if not directed:
        return build_refine().compile()
    # Agents of LangChain take a while to import, and only the director is one.
    from scenewright.graphs.director import build_director

    return build_director().compile()
