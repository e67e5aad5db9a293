"""The page where a browser signs in with an API key, and out again."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from scenewright.service.api.access import LOGIN, SECURE_SESSION, SESSION, session_of
from scenewright.service.api.common import Core
from scenewright.service.core.keys import LASTS_SECONDS
from scenewright.service.web.rendering import PageRoute, page

router = APIRouter(include_in_schema=False, route_class=PageRoute)
_MOST_NEXT = 2000


@router.get(LOGIN)
async def login(
    request: Request,
    service: Core,
    following: Annotated[str, Query(alias="next", max_length=_MOST_NEXT)] = "/",
) -> Response:
    """Return the page that asks for a key; where none is demanded, the start page."""
    if not service.settings.demands_keys:
        return RedirectResponse("/", 303)
    return page(request, "login.html.j2", following=local(following), error="")


@router.post(LOGIN)
async def sign_in(
    request: Request,
    service: Core,
    key: Annotated[str, Form(max_length=200)] = "",
    following: Annotated[str, Form(alias="next", max_length=_MOST_NEXT)] = "/",
) -> Response:
    """Give the browser a cookie for the key, and lead on."""
    if not service.settings.demands_keys:
        return RedirectResponse("/", 303)
    found = await service.keys.check(key.strip())
    if found is None:
        return page(
            request,
            "login.html.j2",
            status_code=401,
            following=local(following),
            error="This key is wrong, expired or revoked. Copy the whole of it, from sw_ on, or "
            "ask the operator of the service for a new one.",
        )
    reply = RedirectResponse(local(following), 303)
    token = await service.keys.begin_session(found)
    reply.set_cookie(value=token, max_age=int(LASTS_SECONDS), **_cookie(request))
    return reply


@router.post("/logout")
async def sign_out(request: Request, service: Core) -> Response:
    """End the browser's session, and have it forget what it has kept of the pages."""
    token = session_of(request.headers, request.url.scheme)
    if token is not None:
        await service.keys.end_session(token)
    reply = RedirectResponse(LOGIN, 303, {"Clear-Site-Data": '"cache"'})
    reply.delete_cookie(**_cookie(request))
    return reply


def _cookie(request: Request) -> dict[str, Any]:
    secure = request.url.scheme == "https"
    return {
        "key": SECURE_SESSION if secure else SESSION,
        "path": "/",
        "secure": secure,
        "httponly": True,
        "samesite": "strict",
    }


def local(place: str) -> str:
    """``place`` if it is a path of this service, else the start page: never another site."""
    # Browsers take a backslash for a slash, and drop control characters before they look.
    plain = place.isprintable() and "\\" not in place
    return place if plain and place.startswith("/") and not place.startswith("//") else "/"
