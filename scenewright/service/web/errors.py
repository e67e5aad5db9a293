"""Errors as pages, where a person looks and not a program."""

from __future__ import annotations

import http
from collections.abc import Mapping

from fastapi import Request, Response

from scenewright.service.web.rendering import page

_FOR_PROGRAMS = ("/v1", "/sdapi", "/mcp", "/static", "/metrics", "/openapi.json")


def for_people(request: Request) -> bool:
    """Whether a person's browser asks for a page: programs get ``application/problem+json``."""
    path = request.url.path
    if any(path == room or path.startswith(f"{room}/") for room in _FOR_PROGRAMS):
        return False
    return "text/html" in request.headers.get("accept", "")


def error_page(
    request: Request, status: int, detail: str, headers: Mapping[str, str] | None = None
) -> Response:
    """What is wrong and how to mend it, as a page."""
    try:
        title = http.HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    reply = page(
        request, "error.html.j2", status_code=status, status=status, title=title, detail=detail
    )
    reply.headers.update(headers or {})
    return reply
