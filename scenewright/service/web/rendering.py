"""Pages from templates, and the files that they load.

Errors as pages, where a person looks and not a program.
"""

from __future__ import annotations

import functools
import hashlib
import http
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from jinja2 import ChoiceLoader, Environment, PackageLoader

from scenewright.runs.report import templates
from scenewright.service.api.common import tagged_reply
from scenewright.service.core.errors import NotFound

_KINDS = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that pages load."""

    data: bytes
    """Its bytes."""
    media_type: str
    """Its content type."""
    tag: str
    """Its ETag, without quotes."""


@functools.cache
def assets() -> dict[str, Asset]:
    """Return the files that pages load, by name: those of this folder and those of the run page."""
    found: dict[str, Asset] = {}
    for package in ("scenewright.runs.report", "scenewright.service.web"):
        for file in files(package).joinpath("assets").iterdir():
            kind = _KINDS.get(file.name.rpartition(".")[2])
            if kind is not None:
                data = file.read_bytes()
                tag = hashlib.sha256(data).hexdigest()[:32]
                found[file.name] = Asset(data, kind, tag)
    return found


@functools.cache
def environment() -> Environment:
    """Return the templates of the pages.

    They may include and import those of the run page by name.
    """
    places = (("scenewright.service.web", "templates"), ("scenewright.runs.report", "assets"))
    loaders = [PackageLoader(package, folder) for package, folder in places]
    return templates.environment().overlay(loader=ChoiceLoader(loaders))


class PageRoute(APIRoute):
    """Answer HEAD wherever a page answers GET."""

    def __init__(self, *given: Any, **named: Any) -> None:
        """Take what every route takes."""
        super().__init__(*given, **named)
        if self.methods and "GET" in self.methods:
            self.methods.add("HEAD")


def page(
    request: Request, template: str, *, status_code: int = 200, **context: Any
) -> HTMLResponse:
    """``template`` as a reply that no cache keeps; a HEAD request gets its head unrendered.

    Every template knows ``path`` (of the request) and ``identity`` (who asks; none on pages
    that are open to all).
    """
    headers = {"Cache-Control": "no-store"}
    if request.method == "HEAD":
        return unrendered(headers, status_code)
    identity = getattr(request.state, "identity", None)
    text = (
        environment()
        .get_template(template)
        .render(**{"path": request.url.path, "identity": identity, **context})
    )
    return HTMLResponse(text, status_code, headers)


def unrendered(headers: Mapping[str, str], status_code: int = 200) -> HTMLResponse:
    """Return the reply to a HEAD request for a page whose length is not known."""
    reply = HTMLResponse("", status_code, headers)
    del reply.headers["Content-Length"]
    return reply


_FOR_PROGRAMS = ("/v1", "/sdapi", "/mcp", "/static", "/metrics", "/openapi.json")


def for_people(request: Request) -> bool:
    """Whether a person's browser asks for a page: programs get ``application/problem+json``."""
    path = request.url.path
    if any(path == room or path.startswith(f"{room}/") for room in _FOR_PROGRAMS):
        return False
    return "text/html" in request.headers.get("accept", "")


def error_page(
    request: Request,
    status: int,
    detail: str,
    headers: Mapping[str, str] | None = None,
    *,
    like: str | None = None,
) -> Response:
    """Return a page with the error and its remedy; ``like``: a run that may be asked for anew."""
    try:
        title = http.HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    reply = page(
        request, "error.html.j2", status_code=status, status=status, title=title, detail=detail,
        like=like,
    )  # fmt: skip
    reply.headers.update(headers or {})
    return reply


router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get("/static/{name}")
async def static(name: str, if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """Return a file that pages load; browsers ask each time whether theirs is still the one."""
    found = assets().get(name)
    if found is None:
        raise NotFound("there is no such file: reload the page")
    return tagged_reply(found.data, found.media_type, found.tag, if_none_match, "no-cache")
