"""Errors in OpenAI's format, whoever raised them: ``{"error": {message, type, param, code}}``."""

from __future__ import annotations

import re
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from scenewright.core.validation import problem_in_words
from scenewright.service.compat.adapter import RunFailed
from scenewright.service.core.errors import ServiceError, UnsupportedMediaType

_OURS = re.compile(r"(?<!/sdapi)/v1(?:$|/(?!(?:refinements|scores|parse|profiles)(?:/|$)))")
"""Paths below ``/v1`` but for those of the service's own API."""
_KINDS = {
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "permission_denied"),
    404: ("invalid_request_error", "not_found"),
    408: ("invalid_request_error", "request_timeout"),
    405: ("invalid_request_error", "method_not_allowed"),
    409: ("invalid_request_error", "conflict"),
    413: ("invalid_request_error", "request_too_large"),
    415: ("invalid_request_error", "unsupported_content_type"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    503: ("server_error", "service_unavailable"),
}
_REFUSED = 400
_MOST_DETAIL = 4000
_MOST_PARAM = 200


class WrongParameter(ServiceError):
    """A parameter of the request that cannot be."""

    status = 400

    def __init__(self, param: str | None, detail: str, code: str | None = None) -> None:
        """``code``: a word for programs."""
        super().__init__(detail)
        self.param = param
        self.code = code


class ModelNotFound(WrongParameter):
    """A model that is not here, or cannot run here."""

    status = 404

    def __init__(self, detail: str, param: str = "model") -> None:
        """``param``: the parameter that names it."""
        super().__init__(param, detail, "model_not_found")


def check_type(request: Request, *taken: str) -> str:
    """Return the media type of the request's body.

    Raises ``UnsupportedMediaType`` unless it is one of ``taken``.
    """
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in taken:
        raise UnsupportedMediaType.sent(given, *taken)
    return given


async def json_body(request: Request) -> None:
    """Refuse a body that is not JSON; a dependency of routes."""
    check_type(request, "application/json")


def error_body(
    status: int, message: str, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """Return the body of an error."""
    # What was sent may stand in it: of any length, with halves of characters that no JSON holds.
    message = message[:_MOST_DETAIL].encode(errors="replace").decode()
    param = param and param[:_MOST_PARAM].encode(errors="replace").decode()
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
    place = [str(part) for part in found["loc"] if part not in ("body", "path", "query", "header")]
    param = ".".join(place) or None
    match found["type"]:
        case "extra_forbidden":
            told = f"Unknown parameter: '{str(param)[:_MOST_PARAM]}'."
            return WrongParameter(param, told, "unknown_parameter")
        case "missing":
            return WrongParameter(
                param, f"Missing required parameter: '{param}'.", "missing_required_parameter"
            )
        case "json_invalid":
            return WrongParameter(None, "the body is not valid JSON", "invalid_json")
    told = f"{param or 'the body'}: {problem_in_words(found)}"
    return WrongParameter(param, told, "invalid_value")


def has_openai_errors(path: str) -> bool:
    """Return whether errors at ``path`` have OpenAI's format: unknown routes below ``/v1`` too."""
    return _OURS.search(path) is not None


def error_reply(error: ServiceError) -> Response:
    """Return the reply that tells ``error``."""
    status, body = body_of(error)
    # The clients send again what conflicts, and what is wrong stays wrong.
    more = {"x-should-retry": "false"} if status == 409 else {}
    return JSONResponse(body, status, {**error.headers, **more})


def status_reply(request: Request, status: int, detail: str, headers: dict[str, str]) -> Response:
    """Return the reply that tells an HTTP error which no ``ServiceError`` stands for."""
    status = _REFUSED if status == 422 else status
    method, path = request.method, request.url.path[:_MOST_PARAM]
    code = None
    if status == 404:
        code = "unknown_url"
        detail = (
            f"Invalid URL ({method} {path}): there are POST /v1/images/generations, POST "
            "/v1/images/edits and GET /v1/models here"
        )
    elif status == 405 and (allowed := Headers(headers).get("allow")) is not None:
        detail = f"Not allowed to {method} {path}: the methods there are {allowed}"
    return JSONResponse(error_body(status, detail, code=code), status, headers)
