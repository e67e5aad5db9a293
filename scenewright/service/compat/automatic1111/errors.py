"""Errors in the form of AUTOMATIC1111's API: ``{"error", "detail", "body", "errors"}``."""

from __future__ import annotations

import http
import re
from collections.abc import Mapping

from fastapi import Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.responses import JSONResponse

from scenewright.core.validation import problem_in_words

_OURS = re.compile(r"/sdapi(?:/|$)")
_MOST_TOLD = 5


class WebUIError(BaseModel):
    """An error as AUTOMATIC1111 tells it."""

    error: str
    """Its kind: the words of the HTTP status."""
    detail: str
    """Problem with its remedy."""
    body: str = ""
    """Always empty."""
    errors: str
    """As ``detail``: some plug-ins show the one, some the other."""


def owns(path: str) -> bool:
    """Return whether errors at ``path`` have this form."""
    return _OURS.search(path) is not None


def error_reply(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the reply that tells an error."""
    try:
        kind = http.HTTPStatus(status).phrase
    except ValueError:
        kind = "Error"
    # What was sent may stand in it, with halves of characters that no JSON holds.
    told = detail.encode(errors="replace").decode()
    return JSONResponse(
        WebUIError(error=kind, detail=told, errors=told).model_dump(), status, headers
    )


def wrong_fields(error: RequestValidationError) -> str:
    """Return what is wrong in a request's fields, in words."""
    found = error.errors()
    told = []
    for problem in found[:_MOST_TOLD]:
        named = () if problem["type"] == "json_invalid" else problem["loc"]
        place = ".".join(str(part) for part in named if part not in ("body", "query"))
        told.append(f"{place[:200] or 'the body'}: {problem_in_words(problem)}")
    if len(found) > _MOST_TOLD:
        told.append(f"and {len(found) - _MOST_TOLD} more")
    return "; ".join(told)
