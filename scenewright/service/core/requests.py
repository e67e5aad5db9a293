"""Validation of requests, and the arguments of the runs that they ask for.

From what a request says of a scene to its graph. No text is ever taken as a file's name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from scenewright.agents.parsers.language import MAX_CAPTION
from scenewright.agents.parsers.rules import CaptionError, parse_caption
from scenewright.config.model_identity import identity_of_spec, independence_problem
from scenewright.config.options import RunOptions, SentenceReader
from scenewright.config.profiles import DIRECTOR, LOCAL_BACKEND, Profile, SettingsError
from scenewright.config.settings import (
    Settings,
    find_profile,
    load_profiles,
    profile_with,
)
from scenewright.core.formats import FormatError, loads_scene
from scenewright.core.intent import Intent
from scenewright.core.scene import SceneError, SceneGraph
from scenewright.graphs.strategies.registry import StrategyError, strategy_of
from scenewright.runs.coverage import Coverage, coverage_of
from scenewright.runs.known_words import drawn_as_known
from scenewright.runs.reading import Sentence, chat_that_reads, preliminary, reader_of
from scenewright.runs.report.words import scene_words, shorten
from scenewright.service.core.errors import Unprocessable
from scenewright.service.core.schemas import RefinementRequest, SceneInput

MAX_TITLE = 300
PARTIAL_IMAGES = 2
"""Pictures that a model on this machine shows of each drawing while it is drawn, where its profile
does not say how many."""


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


def request_again(
    request: RefinementRequest,
    scene: SceneGraph,
    *,
    seed: int | None = None,
    profile: str | None = None,
) -> RefinementRequest:
    """Return the request for a new run like an earlier one whose ``request`` was taken in.

    ``scene`` is what that one draws after its edits. With another ``profile``, models and their
    options are those of that profile. A run that an agent directed is drawn by its profile's
    strategy.
    """
    update: dict[str, Any] = {"scene": scene, "director": None, "idempotency_key": None}
    if scene != request.scene:
        update |= {"sentence": None, "unread": (), "awaits_reading": False}
    if request.strategy == AGENT:
        update["strategy"] = None
    if seed is not None:
        update["seed"] = seed
    if profile is not None and profile != request.profile:
        own = [name for name, _ in request.for_profile()]
        own += ["judges", "report_judges", "width", "height", "start", "mask"]
        update |= {**dict.fromkeys(own), "self_report": False, "profile": profile}
    return request.model_copy(update=update)


AGENT = "agent"
"""Strategy of a run that an agent outside directs through the tools of MCP. It stands in the row
of such a run only: nobody can ask for it, and no worker drives it."""


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
            _check_director(found, str(request.director), settings)
        if found.strategy != DIRECTOR:
            strategy_of(found.strategy)
        elif request.start is not None:
            raise Unprocessable(
                "a director draws its first picture itself: leave the picture out, or name another "
                "strategy"
            )
    except SettingsError as error:
        raise Unprocessable(str(error)) from error
    except StrategyError as error:
        raise Unprocessable(str(error)) from error
    return found


def _check_director(profile: Profile, model: str, settings: Settings) -> None:
    """Raise ``Unprocessable`` if the ``model`` that directs over MCP reports its own loop."""
    loop, report, _ = profile.identities(settings.accounts)
    director = identity_of_spec(f"mcp:{model}")
    problem = independence_problem(loop, report, director, self_report=profile.self_report)
    if problem:
        raise Unprocessable(f"these options conflict: {problem}")


def named_profile(name: str | None, settings: Settings, allowed: tuple[str, ...] = ()) -> Profile:
    """Return the profile of that name, by default that of the settings.

    ``Unprocessable`` otherwise.
    """
    name = name or settings.profile
    if allowed and name not in allowed:
        raise Unprocessable(f"no profile {name!r} here: there are {', '.join(allowed)}")
    try:
        return _emerging(find_profile(name, settings))
    except SettingsError as error:
        raise Unprocessable(str(error)) from error


def _emerging(profile: Profile) -> Profile:
    """Return ``profile`` with pictures that are shown while they are drawn.

    Of models on this machine only: an API bills them.
    """
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


def scene_as_drawn(
    request: RefinementRequest,
    settings: Settings,
    replaced: Mapping[str, Any],
    allowed: tuple[str, ...] = (),
) -> SceneGraph:
    """Return a request's scene in the words that the image model of its profile knows.

    Arguments as of :func:`coverage_for`.
    """
    assert isinstance(request.scene, SceneGraph)
    profile = profile_of(request, settings, allowed)
    return drawn_as_known(request.scene, profile, replaced.get("backend"))


def coverage_for(
    request: RefinementRequest,
    settings: Settings,
    replaced: Mapping[str, Any],
    allowed: tuple[str, ...] = (),
    here: bool = True,
) -> Coverage:
    """Return how much of a request's scene the models of its profile know.

    ``replaced`` are models that take their places; ``here``: whether this machine is to draw.
    Raises ``Unprocessable``.
    """
    assert isinstance(request.scene, SceneGraph)
    profile = profile_of(request, settings, allowed)
    return coverage_of(
        profile,
        profile.form().facts(scene_as_drawn(request, settings, replaced, allowed)),
        judges=replaced.get("judges"),
        report_judges=replaced.get("report_judges"),
        backend=replaced.get("backend"),
        settings=settings,
        here=here,
    )


def run_arguments(request: RefinementRequest, settings: Settings) -> dict[str, Any]:
    """Return the arguments of ``refine`` for a request that was taken in: its scene is a graph."""
    assert isinstance(request.scene, SceneGraph)
    scene = request.scene
    return {
        "scene": Sentence(scene.intent.sentence) if request.awaits_reading else scene,
        "profile": profile_of(request, settings),
        "options": RunOptions(**request.for_loop(), reader=request.reader),
    }
