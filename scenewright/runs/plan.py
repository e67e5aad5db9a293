"""Plan of a run, made before any model is touched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

from pydantic import ValidationError

from scenewright.agents.panel.independence import identity_of_chat
from scenewright.agents.parsers.rules import parse_caption
from scenewright.agents.parsers.unread import warn_of
from scenewright.config import OnModelChange
from scenewright.config.model_identity import independence_problem
from scenewright.config.options import LoopOptions, SentenceReader
from scenewright.config.profiles import (
    ACCOUNTS,
    DIRECTED,
    DIRECTOR,
    REALISM_FIELDS,
    Profile,
    SettingsError,
)
from scenewright.config.removed import without_removed_options
from scenewright.config.settings import Settings, find_profile, load_settings, profile_with
from scenewright.core.flushing import in_thread
from scenewright.core.ports.backend import always
from scenewright.core.scene import SceneGraph
from scenewright.core.validation import first_problem
from scenewright.graphs.checkpoints import (
    CheckpointFactory,
    LoopCheckpoints,
    RunPlace,
    SqliteCheckpoints,
)
from scenewright.graphs.errors import EditError
from scenewright.graphs.events import Edit, SentenceReading
from scenewright.graphs.initial_image import InitialImage, load_initial_image
from scenewright.graphs.state import never
from scenewright.graphs.strategies.registry import StrategyError, strategy_of
from scenewright.runs.coverage import Coverage, check_coverage, coverage_of
from scenewright.runs.folder import CHECKPOINTS, RunError, RunFolder, choose_folder
from scenewright.runs.known_words import drawn_as_known
from scenewright.runs.model_factory.profiles import RunModels, chat_name
from scenewright.runs.options import (
    MODELS,
    ControlArguments,
    ModelOverrides,
    RunArguments,
    check_names,
    read_arguments,
)
from scenewright.runs.reading import (
    chat_that_reads,
    graph_or_sentence,
    preliminary,
    reader_of,
)
from scenewright.runs.scoring import check_judges

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


@asynccontextmanager
async def folder_checkpoints(
    folder: RunPlace, event_count: Callable[[], int]
) -> AsyncIterator[LoopCheckpoints]:
    """Return the checkpoints in the run folder itself: an SQLite file."""
    async with in_thread(lambda: SqliteCheckpoints.opened(folder.path / CHECKPOINTS)) as store:
        yield LoopCheckpoints(store, event_count)


@dataclass(frozen=True, slots=True)
class UnreadSentence:
    """A sentence that the language model of a run is still to read."""

    text: str
    reader: SentenceReader | None
    """The parser that was asked for; None: as the profile says."""
    problem: str
    """Why the rules cannot read it; empty if they can."""
    replan: Callable[[SceneGraph], RunPlan]
    """Returns the run's plan for what was read."""
    earlier: SentenceReading | None = None
    """Reading of another wording that was paid for this run."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """All that is known of a run before a model is touched."""

    scene: SceneGraph
    """Scene that is asked for; preliminary while its sentence is :attr:`unread`."""
    profile: Profile
    """Models and choices."""
    settings: Settings
    """Of this machine."""
    options: LoopOptions
    """Numbers and choices of the loop."""
    config: dict[str, Any]
    """Configuration in the manifest; decides whether two calls mean the same run."""
    folder: RunFolder
    """Run folder."""
    overrides: ModelOverrides
    """Models that replace those of the profile; None where none does."""
    resume: bool
    """Whether the run of the same configuration goes on."""
    named: bool
    """Whether the caller named the folder."""
    edit: Edit | None = None
    """Correction by a person, from which the run continues."""
    pause: Callable[[], bool] = never
    """Asked before each plan: whether the run is to wait for a person."""
    checkpoints: CheckpointFactory = folder_checkpoints
    """Opens the store of where the loop stands."""
    watched: Callable[[], bool] = always
    """Asked before a picture is shown while it is drawn: whether anybody looks. Partial images of
    local models are decoded for these alone."""
    drain: Callable[[], bool] = never
    """Asked after each step: whether its process ends, so that the run is left as it stands. Its
    events then just end, and the same plan goes on with it."""
    pictures: InitialImage = field(default_factory=InitialImage)
    """Pictures that come with it."""
    nonce: str = ""
    """Names it among all runs of all folders, so that its requests have the same keys when it
    begins anew because its folder was lost; empty: a random one."""
    on_model_change: OnModelChange = "accept"
    """Whether it goes on where a model is served by another version than before."""
    page: bool = True
    """Whether its page is written at the end."""
    unread: UnreadSentence | None = None
    """The sentence that its language model reads before anything else; None: there is none."""
    reading: SentenceReading | None = None
    """Reading of its sentence; None where no language model was asked."""

    @property
    def replaced(self) -> set[str]:
        """Fields of the profile whose models others stand in for."""
        return {name for name, given in self.overrides.items() if given is not None}

    def coverage(self, scene: SceneGraph, models: RunModels | None = None) -> Coverage:
        """Return the coverage of ``scene`` by the models of the profile and what replaces them.

        ``models``: those that were built in their place; a served model names its words only then.
        """
        given = self.overrides
        if models is not None:
            given = {
                "judges": models.loop_judges,
                "report_judges": models.report_judges,
                "backend": models.backend,
            }
        return coverage_of(
            self.profile,
            self.options.form.facts(scene),
            judges=given.get("judges"),
            report_judges=given.get("report_judges"),
            backend=given.get("backend"),
            settings=self.settings,
        )

    def with_limit(self, usd: float) -> RunPlan:
        """Return the plan that begins no round after ``usd`` dollars; it stays the same run."""
        budget = self.options.budget
        least = usd if budget.usd is None else min(usd, budget.usd)
        options = self.options.model_copy(
            update={"budget": budget.model_copy(update={"usd": least})}
        )
        return replace(self, options=options)


def plan_run(
    scene: SceneGraph | str | Path,
    profile: str | Profile | None = None,
    **arguments: Unpack[RunArguments],
) -> RunPlan:
    """Return the plan of :func:`scenewright.runs.api.refine` with these arguments.

    A sentence for the profile's language model stays unread, and nothing is paid for: see
    :func:`~scenewright.runs.run_reading.read_plan`. Raises as that does.
    """
    choices, overrides = read_arguments(arguments)
    on_model_change = arguments.get("on_model_change", "accept")
    if on_model_change == "split":
        raise RunError(
            "a run has one score: on_model_change is 'accept' or 'stop' here, 'split' is for the "
            "tables of evaluations"
        )
    realism, chat = choices.realism, overrides["chat"]
    settings = arguments.get("settings") or load_settings()
    if not isinstance(profile, Profile):
        profile = find_profile(profile or settings.profile, settings)
    named, read = profile, not isinstance(scene, SceneGraph)
    graph, text, problem = _read(scene, profile, choices.reader)
    if said := arguments.get("sentence"):
        graph = graph.said_as(graph.intent.model_copy(update={"sentence": said}))
    if not graph:
        raise RunError("the scene has no objects: name at least one, for example 'red ball'")
    _check_strategy(choices.strategy or profile.strategy, profile, chat)
    profile = profile_with(profile, choices, settings, directed=chat is not None)
    graph = drawn_as_known(graph, profile, overrides["backend"])
    if read and not text:
        # Who gives a scene knows what it says, and finds what is drawn of it in the plan.
        warn_of(graph)
    pictures = load_initial_image(arguments.get("start"), arguments.get("mask"))
    if pictures.start is not None and profile.strategy == DIRECTOR:
        raise RunError(
            "a director's run draws its first picture itself: leave start out, or choose another "
            "strategy (`scenewright strategies` lists them)"
        )
    options = loop_options(
        profile,
        **choices.for_loop(),
        negative_prompt=with_exclusions(profile.negative_prompt, graph),
        **pictures.hashes,
    )
    groups: Mapping[str, Any] = overrides
    check_judges(groups, self_report=profile.self_report)
    _check_names(profile, overrides, settings)
    if not realism and any(overrides.get(name) is not None for name in REALISM_FIELDS):
        raise RunError("judges of realism are given to a run that does not ask for it: set realism")
    # A run that asks nothing of realism is the same run whoever could answer.
    unused = set() if realism else REALISM_FIELDS
    config: dict[str, Any] = {
        "scene": graph.model_dump(mode="json"),
        # What it may cost is a limit of the call, and in its budget.
        "profile": profile.model_dump(mode="json", exclude={"about", "limit_usd", *unused}),
        "options": options.model_dump(mode="json"),
        "replaced": _replaced(overrides),
    }
    if text:
        config["reader"] = "llm"
    if aliases := _aliases(profile, settings):
        config["aliases"] = aliases
    out, resume = arguments.get("out"), arguments.get("resume", True)
    place = Path(out) if out is not None else choose_folder(settings.runs, config, resume=resume)
    again: RunArguments = {**arguments, "settings": settings, "out": place}
    plan = RunPlan(
        scene=graph,
        profile=profile,
        settings=settings,
        options=options,
        config=config,
        folder=RunFolder(place),
        overrides=overrides,
        resume=resume,
        named=out is not None,
        pictures=pictures,
        on_model_change=on_model_change,
        page=arguments.get("page", True),
        reading=arguments.get("reading"),
        unread=UnreadSentence(
            text,
            choices.reader,
            problem,
            lambda scene: plan_run(scene, named, **again),
        )
        if text
        else None,
        **_control(profile, arguments),
    )
    if plan.unread is None:
        check_coverage(plan.coverage(graph))
    return plan


def _read(
    scene: SceneGraph | str | Path, profile: Profile, asked: SentenceReader | None
) -> tuple[SceneGraph, str, str]:
    """Return the scene, or what stands for a sentence that a language model reads.

    That sentence comes second, and third why the rules cannot read it; both are empty otherwise.
    """
    if isinstance(scene, SceneGraph):
        return scene, "", ""
    reader = reader_of(profile, asked)
    found = graph_or_sentence(scene, reader)
    if isinstance(found, SceneGraph):
        return found, "", ""
    if reader == "rules":
        return parse_caption(found), "", ""
    chat_that_reads(profile)
    graph, problem = preliminary(found)
    return graph, found.strip(), problem


def with_exclusions(negative_prompt: str, scene: SceneGraph) -> str:
    """Return the negative prompt with what the person's sentence excludes from the picture."""
    excluded = [one.name for one in scene.intent.exclusions if one.of is None]
    return ", ".join(filter(None, (negative_prompt, *excluded)))


class ResumeArguments(ModelOverrides, ControlArguments, total=False):
    """Arguments of a run that its folder knows."""


def plan_again(folder: str | Path, **arguments: Unpack[ResumeArguments]) -> RunPlan:
    """Return the plan of the run that ``folder`` holds, from its manifest.

    For :func:`scenewright.runs.api.execute`.

    Models that replaced those of the profile when the run was begun are not in the manifest and
    must be given again. Raises ``RunError`` if there is no run, if one of them is missing, or if
    the manifest is of another version.
    """
    check_names(arguments, ResumeArguments)
    overrides = cast(ModelOverrides, {name: arguments.get(name) for name in MODELS})
    place = RunFolder(Path(folder))
    manifest = place.manifest()
    if manifest is None:
        raise RunError(f"{place.path} holds no run: name the folder that `refine --out` wrote")
    config = manifest["config"]
    settings = arguments.get("settings") or load_settings()
    lacking = sorted(set(config["replaced"]) - {k for k, v in overrides.items() if v is not None})
    if lacking:
        raise RunError(
            f"the run in {place.path} was begun with models of its own ({', '.join(lacking)}): "
            "give them again"
        )
    try:
        scene = SceneGraph.model_validate(config["scene"])
        context = {ACCOUNTS: settings.accounts, DIRECTED: "chat" in config["replaced"]}
        profile = Profile.model_validate(
            without_removed_options(config["profile"]), context=context
        )
        options = LoopOptions.model_validate(without_removed_options(config["options"]))
    except ValidationError as error:
        raise RunError(
            f"{place.path} is a run of another version of scenewright ({first_problem(error)}): "
            "start one in another folder"
        ) from error
    return RunPlan(
        scene=scene,
        profile=profile,
        settings=settings,
        options=options,
        config={**config, "replaced": _replaced(overrides)},
        folder=place,
        overrides=overrides,
        resume=True,
        named=True,
        **_control(profile, arguments),
    )


def _control(profile: Profile, arguments: ControlArguments) -> dict[str, Any]:
    """Return the control of a run; ``RunError`` for what a director's run does not take."""
    edit, pause = arguments.get("edit"), arguments.get("pause")
    if profile.strategy == DIRECTOR and edit is not None:
        raise EditError(
            "a director's run takes no edits: the director itself decides each step. Start a run "
            "of another strategy (`scenewright strategies` lists them)"
        )
    if profile.strategy == DIRECTOR and pause is not None:
        raise RunError(
            "a director's run cannot be paused: cancel it, and the same call goes on with it"
        )
    return {
        "edit": edit,
        "pause": pause or never,
        "checkpoints": arguments.get("checkpoints") or folder_checkpoints,
    }


def _replaced(overrides: ModelOverrides) -> dict[str, Any]:
    """Ids of the models that replace those of the profile."""
    found: dict[str, Any] = {}
    given: Mapping[str, Any] = overrides
    for name, model in given.items():
        if model is None:
            continue
        if name == "chat":
            found[name] = chat_name(model)
        else:
            found[name] = model.id if hasattr(model, "id") else [judge.id for judge in model]
    return found


def _check_names(profile: Profile, overrides: ModelOverrides, settings: Settings) -> None:
    """Raise ``SettingsError`` if a model of the loop reports, by the names of the models.

    What only built models tell is checked when they are.
    """
    replaced = _replaced(overrides)
    judged = ("judges", "report_judges", *REALISM_FIELDS - {"detector"})
    names = {name: replaced[name] for name in judged if name in replaced}
    named = profile.model_copy(update=names)
    loop, report, director = named.identities(settings.accounts)
    if (chat := overrides["chat"]) is not None:
        directs = profile.strategy == DIRECTOR
        director = identity_of_chat(chat, settings.accounts) if directs else None
    problem = independence_problem(loop, report, director, self_report=profile.self_report)
    if problem:
        raise SettingsError(problem)


def _aliases(profile: Profile, settings: Settings) -> dict[str, str]:
    """Return the models behind names of the profile that do not tell them."""
    every = (*profile.judges, *profile.report_judges, profile.chat or "")
    every += (*profile.realism_judges, *profile.realism_report_judges)
    found: dict[str, str] = {}
    for spec in every:
        account, _, model = spec.partition(":")
        own = settings.accounts.get(account)
        if own is not None and model in own.aliases:
            found[spec] = own.aliases[model]
    return found


def _check_strategy(name: str, profile: Profile, chat: BaseChatModel | None) -> None:
    if name == DIRECTOR:
        if profile.chat is None and chat is None:
            raise RunError(
                f"the director needs a language model, and the profile {profile.name!r} names "
                "none: add chat = 'kind:model' to it, for example chat = 'scripted:director'"
            )
        return
    try:
        strategy_of(name)
    except StrategyError as error:
        raise RunError(str(error)) from None


def loop_options(profile: Profile, **more: Any) -> LoopOptions:
    """Return the options of a loop: what the profile says, and ``more``.

    ``RunError`` if one is wrong.
    """
    shared = set(LoopOptions.model_fields) & set(Profile.model_fields)
    try:
        return LoopOptions.model_validate(profile.model_dump(include=shared) | more)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise RunError(f"{place} is {problem['input']!r}: {problem['msg']}") from error
