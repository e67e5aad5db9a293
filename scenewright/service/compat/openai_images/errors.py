"""Errors in OpenAI's format, whoever raised them: ``{"error": {message, type, param, code}}``."""

from __future__ import annotations

import re
from typing import Any

from fastapi import Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.responses import JSONResponse

from scenewright.core.validation import problem_in_words
from scenewright.service.core.errors import ServiceError
from scenewright.service.core.outcomes import RunFailed

_IMAGES = re.compile(r"/v1/images/(generations|edits)/*$")
_MODELS = re.compile(r"/v1/models(/|$)")
_KINDS = {
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "permission_denied"),
    404: ("invalid_request_error", "not_found"),
    408: ("invalid_request_error", "request_timeout"),
    409: ("invalid_request_error", "conflict"),
    413: ("invalid_request_error", "request_too_large"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    503: ("server_error", "service_unavailable"),
}
_REFUSED = 400


class WrongParameter(ServiceError):
    """A parameter of the request that cannot be."""

    status = 400

    def __init__(self, param: str | None, detail: str, code: str | None = None) -> None:
        """``code``: a word for programs."""
        super().__init__(detail)
        self.param = param
        self.code = code


def error_body(
    status: int, message: str, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """Return the body of an error."""
    other = ("server_error", "server_error") if status >= 500 else ("invalid_request_error", None)
    kind, usual = _KINDS.get(status, other)
    return {"error": {"message": message, "type": kind, "param": param, "code": code or usual}}


def body_of(error: ServiceError) -> tuple[int, dict[str, Any]]:
    """Status and body of a refusal."""
    # OpenAI says 400 of all that is wrong in a request.
    status = _REFUSED if error.status == 422 else error.status
    if isinstance(error, RunFailed):
        return status, error_body(status, error.detail, code="run_failed")
    param = error.param if isinstance(error, WrongParameter) else None
    code = error.code if isinstance(error, WrongParameter) else None
    if status == _REFUSED and code is None:
        code = "invalid_value"
    return status, error_body(status, error.detail, param, code)


def wrong_fields(error: ValidationError | RequestValidationError) -> WrongParameter:
    """Return the first thing that is wrong in a request's fields."""
    found = error.errors()[0]
    place = [str(part) for part in found["loc"] if part != "body"]
    param = ".".join(place) or None
    said = problem_in_words(found)
    match found["type"]:
        case "extra_forbidden":
            return WrongParameter(param, f"Unknown parameter: '{param}'.", "unknown_parameter")
        case "missing":
            return WrongParameter(
                param, f"Missing required parameter: '{param}'.", "missing_required_parameter"
            )
        case "json_invalid":
            return WrongParameter(None, "the body is not valid JSON", "invalid_json")
    return WrongParameter(param, f"{param or 'the body'}: {said}", "invalid_value")


def has_openai_errors(path: str, *, routed: bool) -> bool:
    """Whether errors at ``path`` have OpenAI's format.

    ``routed``: the request has reached a route; keys, limits and bodies are checked before that.
    """
    return bool(_IMAGES.search(path) or (routed and _MODELS.search(path)))


def error_reply(error: ServiceError) -> Response:
    """Return the reply that tells ``error``."""
    status, body = body_of(error)
    return JSONResponse(body, status, error.headers)
