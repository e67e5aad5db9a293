"""From requests to runs: scenes read, profiles found, what would fail later refused.

What one field may be stands in :mod:`.schemas`; here is what no schema can say: whether the scene,
the profile and the options go together, whether the models are here, and whether the scene fits
into a prompt. No text is ever taken as a file's name.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.agents.parsers.language import MAX_CAPTION
from scenewright.agents.parsers.rules import CaptionError, parse_caption
from scenewright.config.model_identity import identity_of_spec, independence_problem
from scenewright.config.options import RunOptions, SentenceReader
from scenewright.config.profiles import (
    CHAT_COMPOSERS,
    DIRECTOR,
    LOCAL_BACKEND,
    Profile,
    SettingsError,
)
from scenewright.config.settings import Settings, find_profile, load_profiles, profile_with
from scenewright.core.formats import FormatError, loads_scene
from scenewright.core.intent import Intent
from scenewright.core.ports import MAX_PROMPT
from scenewright.core.ports.backend import BackendError, BackendFeatures, ImageBackend
from scenewright.core.scene import SceneError, SceneGraph
from scenewright.graphs.errors import RunError
from scenewright.graphs.initial_image import check_initial_image
from scenewright.graphs.state import round_seed
from scenewright.graphs.strategies.registry import StrategyError, strategy_of
from scenewright.runs.model_factory.profiles import backend_of, composer_of
from scenewright.runs.plan import RunPlan, plan_run
from scenewright.runs.readiness import lacking
from scenewright.runs.reading import Sentence, chat_that_reads, preliminary, reader_of
from scenewright.runs.report.words import scene_words, shorten
from scenewright.service.core.errors import Unavailable, Unprocessable
from scenewright.service.core.schemas import RefinementRequest, SceneInput
from scenewright.tools.backends.prompts import prompt_budget_of

MAX_TITLE = 300
PARTIAL_IMAGES = 2
"""Pictures that a model on this machine shows of each drawing while it is drawn, where its profile
does not say how many."""

AGENT = "agent"
"""Strategy of a run that an agent outside directs through the tools of MCP. It stands in the row
of such a run only: nobody can ask for it, and no worker drives it."""
_PLACE = "unplaced"


@contextmanager
def reading_json(name: str) -> Iterator[None]:
    """Raise ``Unprocessable`` for what keeps the JSON text ``name`` from being read within."""
    try:
        yield
    except json.JSONDecodeError as error:
        place = f"look at character {error.pos + 1}"
        raise Unprocessable(f"{name} is not valid JSON: {place}") from error
    except (ValueError, RecursionError) as error:
        raise Unprocessable(
            f"{name} is not valid JSON: it is nested too deep, or a number in it has too many "
            "digits"
        ) from error


def scene_of(given: SceneInput) -> SceneGraph:
    """Return the scene of a request, of a sentence by the rules, without a model.

    Raises ``Unprocessable`` with the reader's remedy.
    """
    if given.scene is not None:
        found = given.scene
    elif given.triplets is not None:
        found = triplets(given.triplets)
    else:
        found = sentence(given.text or "")
    if not found:
        raise Unprocessable("the scene has no objects: name at least one, for example 'red ball'")
    return found


def parse_request(
    request: RefinementRequest, settings: Settings, allowed: tuple[str, ...] = ()
) -> RefinementRequest:
    """Return a request whose scene is a graph, with what its sentence says beside it.

    Of a sentence that the profile's language model is to read, the scene is preliminary: the run
    itself has it read, and pays for that. Raises ``Unprocessable`` as :func:`scene_of`.
    """
    awaits = request.text is not None and bool(
        model_that_reads(named_profile(request.profile, settings, allowed), request.reader)
    )
    if awaits:
        text = str(request.text)
        if len(text) > MAX_CAPTION:
            raise Unprocessable(f"the text is longer than {MAX_CAPTION} characters: shorten it")
        if not text.strip():
            raise Unprocessable("the text is empty: write a sentence, for example 'a red ball'")
        # What is not read, or doubtful, is not known yet.
        found = preliminary(text)[0].said_as(Intent(sentence=text.strip()))
    else:
        found = scene_of(request)
        if request.awaits_reading and not found.intent.sentence:
            raise Unprocessable("awaits_reading is for the service to say: leave it out")
    if request.sentence and not found.intent:
        found = found.said_as(Intent(sentence=request.sentence))
    update: dict[str, Any] = {"scene": found, "text": None, "triplets": None, "sentence": None}
    if awaits:
        update["awaits_reading"] = True
    return request.model_copy(update=update)


def model_that_reads(profile: Profile, reader: SentenceReader | None) -> str:
    """Return the language model that reads a sentence; empty where the rules do.

    Raises ``Unprocessable`` where there is none for a ``reader`` that is one.
    """
    try:
        return chat_that_reads(profile) if reader_of(profile, reader) == "llm" else ""
    except SettingsError as error:
        raise Unprocessable(str(error)) from error


def sentence_of(request: RefinementRequest) -> str:
    """Return the words that the scene of a request was read from; empty if there are none."""
    return (request.scene.title if request.scene is not None else "") or request.sentence or ""


def triplets(text: str) -> SceneGraph:
    """Return the scene of ``red ball on table; dog left of table``; ``Unprocessable`` otherwise."""
    try:
        return loads_scene(text, "triplets")
    except (FormatError, SceneError) as error:
        raise Unprocessable(f"the triplets cannot be read: {error}") from error


def stored_intent(request: Mapping[str, Any]) -> Intent:
    """Return what of a run's text was not read, and what is doubtful in it.

    ``request`` as it is stored; its scene, which may be large, is not read.
    """
    said = (request.get("scene") or {}).get("intent") or {}
    told = {name: said[name] for name in ("unread", "doubts") if name in said}
    if earlier := request.get("unread"):
        # Requests of before 1.1 have the passages beside the scene.
        told["unread"] = earlier
    return Intent.model_validate(told)


def reading_warnings(request: Mapping[str, Any], scene: SceneGraph) -> tuple[str, ...]:
    """Return what a run tells of its text: words that were not read, and each doubt.

    ``scene`` is what its models draw; of a run of before 1.1 the stored ``request`` tells it.
    """
    return scene.warnings if scene.intent else stored_intent(request).warnings


def sentence(text: str) -> SceneGraph:
    """Return the scene of a sentence.

    Raises ``Unprocessable`` if nothing in it can be drawn, or it is in another language.
    """
    try:
        return parse_caption(text)
    except CaptionError as error:
        raise Unprocessable(f"the text cannot be read: {error}", unread=error.passages) from error
    except (SceneError, ValueError) as error:
        raise Unprocessable(f"the text cannot be read: {error}") from error


def title_of(request: RefinementRequest) -> str:
    """Return the sentence of a request, else its scene in words, for lists."""
    assert isinstance(request.scene, SceneGraph)
    said = " ".join(sentence_of(request).split())
    return shorten(said or scene_words(request.scene), MAX_TITLE)


def form_key(key: str, values: Mapping[str, str]) -> str:
    """Return the idempotency key of what a page's form sends under its own ``key``.

    The browser's Back leads to the same form: with other ``values`` it is another request.
    """
    rest = json.dumps(values, sort_keys=True).encode("utf-8", "replace")
    return f"{key[:60]}-{hashlib.sha256(rest).hexdigest()[:16]}"


def profile_of(
    request: RefinementRequest, settings: Settings, allowed: tuple[str, ...] = ()
) -> Profile:
    """Return the profile of a request with the judges and the strategy that it names.

    A judge must be one of some profile: a name of another form could read files of the server.
    ``allowed`` names the profiles that may be used; none: all. Raises ``Unprocessable``.
    """
    profile = named_profile(request.profile, settings, allowed)
    known = judges_of(settings, allowed)
    for judge in (*(request.judges or ()), *(request.report_judges or ())):
        if judge not in known:
            raise Unprocessable(
                f"no judge {judge!r} here: there are {', '.join(sorted(known))} (those of the "
                "profiles)"
            )
    directed = request.director is not None
    options = request.model_copy(update={"strategy": DIRECTOR}) if directed else request
    try:
        found = profile_with(profile, options, settings, directed=directed)
        if directed:
            # The model that directs over MCP must not report its own loop.
            loop, report, _ = found.identities(settings.accounts)
            director = identity_of_spec(f"mcp:{request.director}")
            problem = independence_problem(loop, report, director, self_report=found.self_report)
            if problem:
                raise Unprocessable(f"these options conflict: {problem}")
        if found.strategy != DIRECTOR:
            strategy_of(found.strategy)
        elif request.start is not None:
            raise Unprocessable(
                "a director draws its first picture itself: leave the picture out, or name another "
                "strategy"
            )
    except (SettingsError, StrategyError) as error:
        raise Unprocessable(str(error)) from error
    return found


def named_profile(name: str | None, settings: Settings, allowed: tuple[str, ...] = ()) -> Profile:
    """Return the profile of that name, by default that of the settings.

    ``Unprocessable`` otherwise.
    """
    name = name or settings.profile
    if allowed and name not in allowed:
        raise Unprocessable(f"no profile {name!r} here: there are {', '.join(allowed)}")
    try:
        profile = find_profile(name, settings)
    except SettingsError as error:
        raise Unprocessable(str(error)) from error
    # Pictures are shown while they are drawn by models on this machine only: an API bills them.
    backend = profile.backend
    if backend.kind != LOCAL_BACKEND or "partial_images" in backend.model_fields_set:
        return profile
    shown = backend.model_copy(update={"partial_images": PARTIAL_IMAGES})
    return profile.model_copy(update={"backend": shown})


def profiles_of(settings: Settings, allowed: tuple[str, ...] = ()) -> dict[str, Profile]:
    """Return the profiles that may be asked for, by name."""
    found = load_profiles(settings)
    return {name: profile for name, profile in found.items() if not allowed or name in allowed}


def judges_of(settings: Settings, allowed: tuple[str, ...] = ()) -> set[str]:
    """Return the judges that may be asked for: those of the profiles."""
    return {
        judge
        for profile in profiles_of(settings, allowed).values()
        for judge in (*profile.judges, *profile.report_judges)
    }


def run_arguments(request: RefinementRequest, settings: Settings) -> dict[str, Any]:
    """Return the arguments of ``refine`` for a request that was taken in: its scene is a graph."""
    assert isinstance(request.scene, SceneGraph)
    scene = request.scene
    return {
        "scene": Sentence(scene.intent.sentence) if request.awaits_reading else scene,
        "profile": profile_of(request, settings),
        "options": RunOptions(**request.for_loop(), reader=request.reader),
    }


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
    scene: SceneGraph, seed: int, profile: Profile, settings: Settings, replaced: Mapping[str, Any]
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
