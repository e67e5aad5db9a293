"""Errors in OpenAI's format, whoever raised them: ``{"error": {message, type, param, code}}``."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scenewright.service.core.errors import ServiceError
from scenewright.service.core.outcomes import RunFailed

PATHS = ("/v1/images/generations", "/v1/images/edits")
"""Where errors have this format."""
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
    said = str(found["msg"]).removeprefix("Value error, ")
    match found["type"]:
        case "extra_forbidden":
            return WrongParameter(param, f"Unknown parameter: '{param}'.", "unknown_parameter")
        case "missing":
            return WrongParameter(
                param, f"Missing required parameter: '{param}'.", "missing_required_parameter"
            )
        case "json_invalid":
            return WrongParameter(None, f"the body is not valid JSON: {said}", "invalid_json")
    return WrongParameter(param, f"{param or 'the body'}: {said}", "invalid_value")


class OpenAIRoute(APIRoute):
    """A route whose errors tell which parameter is wrong."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """Return the handler, errors included."""
        handler = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handler(request)
            except RequestValidationError as error:
                refused: ServiceError = wrong_fields(error)
            except ServiceError as error:
                refused = error
            status, body = body_of(refused)
            return JSONResponse(body, status, refused.headers)

        return handled


class OpenAIErrors:
    """A middleware around everything else.

    What the service refuses before a route is reached (keys, limits, bodies) has OpenAI's format
    there too.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or not scope["path"].rstrip("/").endswith(PATHS):
            await self.app(scope, receive, send)
            return
        begun: Message | None = None
        parts: list[bytes] = []

        async def told(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start" and _is_problem(message):
                begun = message
            elif begun is None:
                await send(message)
            else:
                parts.append(message.get("body", b""))
                if not message.get("more_body"):
                    await _tell(begun, b"".join(parts), send)

        await self.app(scope, receive, told)


def _is_problem(message: Message) -> bool:
    kind: str = MutableHeaders(raw=message["headers"]).get("content-type", "")
    return kind.startswith("application/problem+json")


async def _tell(begun: Message, data: bytes, send: Send) -> None:
    status = begun["status"]
    detail = str(json.loads(data).get("detail", ""))
    status = _REFUSED if status == 422 else status
    body = json.dumps(error_body(status, detail)).encode()
    headers = MutableHeaders(raw=list(begun["headers"]))
    headers["content-type"] = "application/json"
    headers["content-length"] = str(len(body))
    await send({**begun, "status": status, "headers": headers.raw})
    await send({"type": "http.response.body", "body": body})
