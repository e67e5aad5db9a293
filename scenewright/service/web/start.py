"""The start page: a sentence or a drawn graph becomes a run."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError
from starlette.datastructures import UploadFile

from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneGraph
from scenewright.core.validation import first_problem
from scenewright.service.api.common import Core, Reader, Refiner
from scenewright.service.api.profiles import choices
from scenewright.service.core.aside import size_of
from scenewright.service.core.errors import ServiceError, Unprocessable
from scenewright.service.core.identity import Identity
from scenewright.service.core.requests import sentence
from scenewright.service.core.schemas import MAX_TEXT, RefinementRequest
from scenewright.service.core.service import Service
from scenewright.service.web.rendering import page

router = APIRouter()

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
async def start(
    request: Request,
    service: Core,
    identity: Reader,
    text: Annotated[str, Query(max_length=MAX_TEXT)] = "",
    like: Annotated[str | None, Query(max_length=60)] = None,
) -> Response:
    """Where a scene is written or drawn; ``like`` takes scene and options from a run."""
    given: dict[str, str] = {"text": text}
    scene = None
    if like is not None:
        asked = RefinementRequest.model_validate((await service.run(identity, like)).request)
        scene = asked.scene
        given |= _given_by(asked)
    return await _shown(request, service, identity, given, scene=scene)


@router.post("/runs")
async def draw(request: Request, service: Core, identity: Refiner) -> Response:
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
        shown = await _shown(
            request, service, identity, given, problem=error.detail, status=error.status
        )
        shown.headers.update(error.headers)
        return shown
    return RedirectResponse(f"/runs/{run.id}", 303)


def _request_of(given: Mapping[str, str]) -> RefinementRequest:
    """Return the request of a form; ``Unprocessable`` names the field."""
    values: dict[str, Any] = {"text": given.get("text", "")}
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
        # The browser's Back leads to the same form: changed, it is another request.
        rest = json.dumps({name: given.get(name) for name in _FIELDS}, sort_keys=True)
        values["idempotency_key"] = (
            f"{key[:60]}-{hashlib.sha256(rest.encode('utf-8', 'replace')).hexdigest()[:16]}"
        )
    try:
        return RefinementRequest.model_validate(values)
    except ValidationError as error:
        problem = first_problem(error, "the scene")
        raise Unprocessable(f"{problem}: correct it and try again") from error


def _given_by(asked: RefinementRequest) -> dict[str, str]:
    values = {
        "profile": asked.profile,
        "strategy": asked.strategy,
        "rounds": asked.rounds,
        "seed": asked.seed,
        "usd": asked.budget.usd,
        "images": asked.budget.images,
    }
    return {name: str(value) for name, value in values.items() if value is not None}


async def _shown(
    request: Request,
    service: Service,
    identity: Identity,
    given: Mapping[str, str],
    *,
    scene: SceneGraph | None = None,
    problem: str = "",
    status: int = 200,
) -> Response:
    read = scene
    unread = ""
    if read is None and given.get("text"):
        try:
            found = await service.aside.compute(0, sentence, given["text"])
        except ServiceError as error:
            problem = problem or error.detail
        else:
            read, unread = found.scene, found.warning
    warned = ""
    if read and not problem:
        asked = RefinementRequest(scene=read, profile=given.get("profile") or None)
        try:
            warned = (await service.covered(asked)).text
        except ServiceError:
            # An unknown profile is told when the run is asked for.
            warned = ""
    offered = await choices(service, identity)

    def written() -> Response:
        return page(
            request,
            "start.html.j2",
            status_code=status,
            given={**dict.fromkeys(_FIELDS, ""), **given},
            key=given.get("key") or secrets.token_hex(12),
            choices=offered,
            examples=EXAMPLES,
            scene="" if read is None else read.model_dump_json(),
            detached=scene is not None,
            facts=() if read is None else facts_of(read),
            problem=problem,
            warned=" ".join(f"{said[:1].upper()}{said[1:]}." for said in (unread, warned) if said),
            max_text=MAX_TEXT,
        )

    return await service.aside.compute(0 if read is None else size_of(read), written)
