"""What a run is to do, worked out before any model is touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from scenewright.formats import load_scene
from scenewright.graphs.state import Budget, LoopOptions
from scenewright.graphs.strategies.registry import StrategyError, strategy_of
from scenewright.profile_specs import DIRECTOR
from scenewright.profiles import chat_name
from scenewright.runfolder import RunError, RunFolder, choose_folder
from scenewright.scene import SceneGraph
from scenewright.scoring import check_judges
from scenewright.settings import Profile, Settings, find_profile, load_settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

MODELS = ("backend", "judges", "report_judges", "composer", "chat")
"""Models of a profile that a caller may replace."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """All that is known of a run before a model is touched."""

    scene: SceneGraph
    """What is asked."""
    profile: Profile
    """Models and choices."""
    settings: Settings
    """Of this machine."""
    options: LoopOptions
    """Numbers and choices of the loop."""
    config: dict[str, Any]
    """What the manifest says of it; decides whether two calls mean the same run."""
    folder: RunFolder
    """Where it goes."""
    given: Mapping[str, Any]
    """Models that replace those of the profile; None where none does."""
    resume: bool
    """Whether the run of the same configuration goes on."""
    named: bool
    """Whether the caller named the folder."""


def plan_run(
    scene: SceneGraph | str | Path,
    profile: str | Profile | None = None,
    *,
    out: str | Path | None = None,
    rounds: int = 3,
    seed: int = 0,
    patience: int = 2,
    budget: Budget | None = None,
    resume: bool = True,
    strategy: str | None = None,
    settings: Settings | None = None,
    **given: Any,
) -> RunPlan:
    """The plan of :func:`scenewright.runs.refine` with these arguments; ``given`` holds
    :data:`MODELS`. Raises as that does."""
    unknown = sorted(set(given) - set(MODELS))
    if unknown:
        raise TypeError(f"unknown arguments of a run: {', '.join(unknown)}")
    graph = scene if isinstance(scene, SceneGraph) else load_scene(scene)
    if not graph:
        raise RunError("the scene has no objects: name at least one, for example 'red ball'")
    settings = settings or load_settings()
    if not isinstance(profile, Profile):
        profile = find_profile(profile or settings.profile, settings)
    if strategy is not None:
        profile = profile.model_copy(update={"strategy": strategy})
    _check_strategy(profile, given.get("chat"))
    options = loop_options(
        profile, rounds=rounds, seed=seed, patience=patience, budget=budget or Budget()
    )
    check_judges(given.get("judges"), given.get("report_judges"))
    config: dict[str, Any] = {
        "scene": graph.model_dump(mode="json"),
        "profile": profile.model_dump(mode="json", exclude={"about"}),
        "options": options.model_dump(mode="json"),
        "replaced": _replaced(given),
    }
    place = Path(out) if out is not None else choose_folder(settings.runs, config, resume=resume)
    return RunPlan(
        scene=graph,
        profile=profile,
        settings=settings,
        options=options,
        config=config,
        folder=RunFolder(place),
        given={name: given.get(name) for name in MODELS},
        resume=resume,
        named=out is not None,
    )


def _replaced(given: Mapping[str, Any]) -> dict[str, Any]:
    """Ids of the models that replace those of the profile."""
    found: dict[str, Any] = {}
    for name, model in given.items():
        if model is None:
            continue
        if name == "chat":
            found[name] = chat_name(model)
        else:
            found[name] = model.id if hasattr(model, "id") else [judge.id for judge in model]
    return found


def _check_strategy(profile: Profile, chat: BaseChatModel | None) -> None:
    if profile.strategy == DIRECTOR:
        if profile.chat is None and chat is None:
            raise RunError(
                f"the director needs a language model, and the profile {profile.name!r} names "
                "none: add chat = 'kind:model' to it, for example chat = 'scripted:director'"
            )
        return
    try:
        strategy_of(profile.strategy)
    except StrategyError as error:
        raise RunError(str(error)) from None


def loop_options(profile: Profile, **more: Any) -> LoopOptions:
    """The options of a loop: what the profile says, and ``more``. ``RunError`` if one is wrong."""
    shared = set(LoopOptions.model_fields) & set(Profile.model_fields)
    try:
        return LoopOptions.model_validate(profile.model_dump(include=shared) | more)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise RunError(f"{place} is {problem['input']!r}: {problem['msg']}") from error
