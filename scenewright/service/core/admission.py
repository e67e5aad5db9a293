"""Refuse at submit what would fail later, before anything is stored, drawn or paid for.

What one field may be stands in :mod:`.schemas`. Here is what no schema can say: whether the
scene, the profile and the options go together, whether the models are here, and whether the scene
fits into a prompt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.config.profiles import CHAT_COMPOSERS, Profile, SettingsError
from scenewright.config.settings import Settings
from scenewright.core.ports import MAX_PROMPT
from scenewright.core.ports.backend import BackendError, BackendFeatures, ImageBackend
from scenewright.core.scene import SceneGraph
from scenewright.graphs.errors import RunError
from scenewright.graphs.initial_image import check_initial_image
from scenewright.graphs.state import round_seed
from scenewright.runs.model_factory.profiles import backend_of, composer_of
from scenewright.runs.plan import RunPlan, plan_run
from scenewright.runs.readiness import lacking
from scenewright.service.core.errors import Unavailable, Unprocessable
from scenewright.service.core.requests import profile_of, run_arguments
from scenewright.service.core.schemas import RefinementRequest
from scenewright.tools.backends.prompts import prompt_budget_of

_PLACE = "unplaced"


def check_run(
    request: RefinementRequest,
    settings: Settings,
    replaced: Mapping[str, Any],
    *,
    files: Sequence[Path | None] = (None, None),
    allowed: tuple[str, ...] = (),
    here: bool = True,
) -> None:
    """Raise ``Unprocessable`` or ``Unavailable`` for a run that would fail.

    ``request`` was taken in: its scene is a graph. ``replaced`` are models that take the places of
    the profile's, ``files`` the picture and the mask that the run begins with. ``allowed``: as
    :func:`profile_of` has it. ``here``: whether this process is to drive it, so that models and
    keys must be here too.
    """
    profile = profile_of(request, settings, allowed)
    if here:
        check_models(profile, settings, replaced)
    try:
        plan = plan_run(
            **run_arguments(request, settings),
            **replaced,
            start=files[0],
            mask=files[1],
            settings=settings,
            out=_PLACE,
        )
    except (RunError, SettingsError) as error:
        raise Unprocessable(str(error).removesuffix(". Nothing was drawn")) from error
    if here:
        _check_features(plan, replaced)
    check_prompt(plan.scene, request.seed, profile, settings, replaced)


def check_models(profile: Profile, settings: Settings, replaced: Mapping[str, Any]) -> None:
    """Raise ``Unavailable`` if a model of ``profile`` is not on this machine, or lacks its key."""
    lost = lacking(profile, settings, replaced=[name for name in replaced if replaced[name]])
    if lost:
        raise Unavailable(lacking_words(profile.name, lost))


def lacking_words(profile: str, lost: Sequence[str]) -> str:
    """Return why a profile cannot run here, with the remedies."""
    return f"the profile {profile!r} cannot run here: it needs {'; '.join(lost)}"


def check_prompt(
    scene: SceneGraph,
    seed: int,
    profile: Profile,
    settings: Settings,
    replaced: Mapping[str, Any],
) -> None:
    """Raise ``Unprocessable`` if rules put ``scene`` into a longer prompt than any model takes.

    What a language model or a composer of the caller writes is not known before.
    """
    if profile.composer in CHAT_COMPOSERS or replaced.get("composer") is not None:
        return
    composer = composer_of(profile, settings)
    chosen = round_seed(seed, 0, "candidate")
    length = len(asyncio.run(composer.compose(scene, chosen)))
    if length > MAX_PROMPT and isinstance(composer, SentenceComposer):
        # A model that reads little gets no more than it reads.
        fitted = SentenceComposer(prompt_budget_of(_backend(profile, settings, replaced)))
        length = len(asyncio.run(fitted.compose(scene, chosen)))
    if length > MAX_PROMPT:
        raise Unprocessable(
            f"the scene makes a prompt of {length} characters, the limit is {MAX_PROMPT}: leave "
            "some objects or attributes out, or split the scene"
        )


def _check_features(plan: RunPlan, replaced: Mapping[str, Any]) -> None:
    """Raise ``Unprocessable`` for a mask or a size that the backend does not take."""
    options = plan.options
    if options.mask is None and options.width is None:
        return
    backend = _backend(plan.profile, plan.settings, replaced)
    try:
        check_initial_image(options, backend)
    except RunError as error:
        raise Unprocessable(str(error)) from error
    features: BackendFeatures = backend.features
    size = (options.width or 0, options.height or 0)
    if options.width is not None and features.sizes is not None and size not in features.sizes:
        known = ", ".join(f"{width}×{height}" for width, height in features.sizes)
        raise Unprocessable(
            f"{backend.id} does not draw {size[0]}×{size[1]} pixels: use one of {known}, or leave "
            "width and height out"
        )


def _backend(profile: Profile, settings: Settings, replaced: Mapping[str, Any]) -> ImageBackend:
    try:
        return replaced.get("backend") or backend_of(profile.backend, settings)
    except (BackendError, SettingsError) as error:
        raise Unavailable(f"the profile {profile.name!r} cannot run here: {error}") from error
