"""The start page: a sentence or a drawn graph becomes a run."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError
from starlette.datastructures import UploadFile

from scenewright.config.options import MAX_TEXT
from scenewright.core.intent import Intent
from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneGraph
from scenewright.core.validation import first_problem
from scenewright.runs.report.words import begun
from scenewright.service.api.common import Core, Reader, Refiner
from scenewright.service.api.scenes import choices
from scenewright.service.core.errors import ServiceError, Unprocessable
from scenewright.service.core.identity import Identity
from scenewright.service.core.requests import (
    form_key,
    model_that_reads,
    named_profile,
    sentence,
    sentence_of,
)
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.service import Service
from scenewright.service.core.worker_thread import size_of
from scenewright.service.web.rendering import PageRoute, page
from scenewright.service.web.run_page import request_again_of

router = APIRouter(include_in_schema=False, route_class=PageRoute)

EXAMPLES = (
    "A person wearing a red hat is holding a yellow umbrella.",
    "A black cat is under a purple table, a blue ball is on the table.",
    "A dog is left of a green tree, a red house is right of the tree.",
)
"""Sentences to begin with; every profile can draw them, the miniature one too."""

_FIELDS = ("text", "profile", "strategy", "rounds", "seed", "usd", "images", "key")
_NUMBERS: Mapping[str, type[int] | type[float]] = {
    "rounds": int, "seed": int, "usd": float, "images": int,
}  # fmt: skip


@router.get("/")
async def show_start(
    request: Request,
    service: Core,
    identity: Reader,
    text: Annotated[str, Query(max_length=MAX_TEXT)] = "",
    like: Annotated[str | None, Query(max_length=60)] = None,
) -> Response:
    """Show the form for a scene; ``like`` takes scene and options from a run."""
    given: dict[str, str] = {"text": text}
    scene = None
    if like is not None:
        asked = await request_again_of(service, await service.run(identity, like))
        scene = asked.scene
        values = {
            "profile": asked.profile,
            "strategy": asked.strategy,
            "rounds": asked.rounds,
            "seed": asked.seed,
            "usd": asked.budget.usd,
            "images": asked.budget.images,
        }
        given["text"] = sentence_of(asked)
        given |= {name: str(value) for name, value in values.items() if value is not None}
    return await _start_page(request, service, identity, given, scene=scene)


@router.post("/runs")
async def submit_form(request: Request, service: Core, identity: Refiner) -> Response:
    """Ask for a run by the start page's form, for browsers that run no scripts."""
    form = await request.form()
    given = {
        name: value.strip()
        for name in _FIELDS
        if not isinstance(value := form.get(name, ""), UploadFile)
    }
    try:
        asked = _request_of(given)
        run, _ = await service.submit(identity, asked, door="page")
    except ServiceError as error:
        shown = await _start_page(
            request, service, identity, given, problem=_problem(error), status=error.status
        )
        shown.headers.update(error.headers)
        return shown
    return RedirectResponse(f"/runs/{run.id}", 303)


def _request_of(given: Mapping[str, str]) -> RefinementRequest:
    """Return the request of a form; ``Unprocessable`` names the field."""
    if not given.get("text"):
        raise Unprocessable("the sentence is empty: say what is to be seen")
    values: dict[str, Any] = {"text": given["text"]}
    numbers: dict[str, int | float] = {}
    for name, kind in _NUMBERS.items():
        if text := given.get(name, ""):
            try:
                numbers[name] = kind(text)
            except ValueError:
                raise Unprocessable(f"{name} is {text[:40]!r}: write a number") from None
    values |= {name: numbers[name] for name in ("rounds", "seed") if name in numbers}
    values["budget"] = {name: numbers[name] for name in ("usd", "images") if name in numbers}
    values |= {name: given[name] for name in ("profile", "strategy") if given.get(name)}
    if key := given.get("key"):
        values["idempotency_key"] = form_key(key, given)
    try:
        return RefinementRequest.model_validate(values)
    except ValidationError as error:
        problem = first_problem(error, "the scene")
        raise Unprocessable(f"{problem}: correct it and try again") from error


def _problem(error: ServiceError) -> str:
    """Return an error as the page shows it: passages in another language are quoted alone."""
    if not error.unread:
        return error.detail
    quoted = ", ".join(f"“{passage.text}”" for passage in error.unread)
    return f"{quoted} is not English: write the sentence in English."


async def _start_page(
    request: Request,
    service: Service,
    identity: Identity,
    given: Mapping[str, str],
    *,
    scene: SceneGraph | None = None,
    problem: str = "",
    status: int = 200,
) -> Response:
    read, detached = scene, scene is not None
    if given.get("text"):
        try:
            found = await service.worker_thread.compute(0, sentence, given["text"])
        except ServiceError as error:
            awaits = ""
            # An unknown profile is told when the run is asked for.
            with suppress(ServiceError):
                profile = named_profile(
                    given.get("profile"), service.base, service.settings.profiles
                )
                awaits = model_that_reads(profile, None)
            if not (detached or problem or awaits):
                problem = _problem(error)
        else:
            if scene is None or scene.sentence == found.sentence or scene.graph == found.graph:
                read, detached = found, False
    warned = ""
    if read and not problem:
        asked = RefinementRequest(scene=read, profile=given.get("profile") or None)
        try:
            warned, read = (await service.covered(asked)).text, service.as_drawn(asked)
        except ServiceError:
            # An unknown profile is told when the run is asked for.
            warned = ""
    said = Intent() if detached or read is None else read.intent
    offered = await choices(service, identity)
    usable = [one for one in offered.profiles if not one.obstacle] or offered.profiles
    default = next((one for one in usable if one.default), usable[0] if usable else None)
    chosen = given.get("profile") or (default.name if default is not None else "")

    def write() -> Response:
        return page(
            request,
            "start.html.j2",
            status_code=status,
            given={**dict.fromkeys(_FIELDS, ""), **given},
            key=given.get("key") or secrets.token_hex(12),
            usable=[one for one in offered.profiles if one in usable or one.name == chosen],
            unusable=[one for one in offered.profiles if one.obstacle],
            chosen=chosen,
            strategies=offered.strategies,
            examples=EXAMPLES,
            scene="" if read is None else read.model_dump_json(),
            detached=detached,
            facts=() if read is None else facts_of(read),
            problem=problem,
            warned=" ".join(
                f"{begun(told)}." for told in (*Intent(unread=said.unread).warnings, warned) if told
            ),
            doubts=said.doubts,
            max_text=MAX_TEXT,
        )

    return await service.worker_thread.compute(0 if read is None else size_of(read), write)
