"""Who is let in: a middleware before every door."""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_to_bytes

from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scenewright.service.api.bodies import Body, check_length, limit_of
from scenewright.service.api.origins import check_host, check_origin
from scenewright.service.core.errors import ServiceError, Unauthorized, Unavailable, problem
from scenewright.service.core.identity import LOCAL, Identity, permitted
from scenewright.service.core.keys import ApiKey, holds_key
from scenewright.service.core.limits import RateLimits
from scenewright.service.core.settings import ServiceSettings

if TYPE_CHECKING:
    from scenewright.service.core.service import Service

log = logging.getLogger(__name__)

LOGIN = "/login"
OPEN = ("/healthz", "/readyz", LOGIN)
"""Paths that need no key; so do all below ``OPEN_BELOW``."""
OPEN_BELOW = "/static/"
METRICS = "/metrics"
SESSION = "scenewright"
"""The cookie of a browser that signed in."""
SECURE_SESSION = f"__Host-{SESSION}"
"""The same where the service is reached by https: no other host and no http page can set it."""

_PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_DATA = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with it browsers hide the origin of a form from its own server too.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class AuthMiddleware:
    """Gives every request its identity (``request.state.identity``) or refuses it."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings) -> None:
        self.app = app
        self.settings = settings
        self.rates = RateLimits()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the application's own life."""
        if scope["type"] == "http":
            await self._request(scope, receive, send)
        elif scope["type"] == "websocket":
            # There are none, and a browser would let any page open one.
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self.app(scope, receive, send)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, path = Headers(scope=scope), _path(scope)
        limit = limit_of(path, headers, self.settings)
        body = Body(receive, limit)
        reply = _Reply(send, body)
        try:
            await self._admit(scope, headers, path)
            check_length(headers, limit)
            await self.app(scope, body, reply)
            if body.error is not None:
                raise body.error
        except Exception as found:
            error = body.error or found
            if reply.begun:
                raise
            if isinstance(error, ServiceError):
                refusal = _refusal(scope, headers, path, error)
                if not await body.drain(headers):
                    refusal.headers["Connection"] = "close"
                await refusal(scope, receive, reply.start)
                return
            # Said here, so that this reply has its headers too; the server logs what happened.
            told = "something went wrong here: look at the service's log"
            await _problem(500, told, {})(scope, receive, reply.start)
            raise

    async def _admit(self, scope: Scope, headers: Headers, path: str) -> None:
        settings, method, scheme = self.settings, scope["method"], scope["scheme"]
        _check_url(scope)
        state = scope.setdefault("state", {})
        if not settings.demands_keys:
            check_host(headers, settings)
            check_origin(method, headers, scheme, settings)
            state["identity"] = LOCAL
            return
        if path in OPEN or path.startswith(OPEN_BELOW):
            check_origin(method, headers, scheme, settings)
            return
        key = await self._key(scope, headers)
        self.rates.take(key.id, key.requests_per_minute)
        state["identity"] = _allowed(key.identity, path)

    async def _key(self, scope: Scope, headers: Headers) -> ApiKey:
        service: Service = scope["app"].state.service
        try:
            text, by_itself = _credentials(headers)
            if text is not None:
                if by_itself:
                    check_origin(scope["method"], headers, scope["scheme"], self.settings)
                found = await service.keys.check(text)
            else:
                check_origin(scope["method"], headers, scope["scheme"], self.settings)
                token = session_of(headers, scope["scheme"])
                found = None if token is None else await service.sessions.key_of(token)
        except (SQLAlchemyError, OSError):
            log.exception("keys cannot be looked up")
            raise Unavailable("the database does not answer", retry_after=5) from None
        if found is not None:
            return found
        if text is not None:
            raise Unauthorized("the API key is wrong, expired or revoked: have a new one made")
        raise Unauthorized(
            "an API key is needed: send it in the header 'Authorization: Bearer KEY' or "
            f"'X-API-Key: KEY', or sign in at {LOGIN}"
        )


class _Reply:
    """Passes a reply on with the headers that every reply has."""

    def __init__(self, send: Send, body: Body) -> None:
        self._send = send
        self._body = body
        self.begun = False

    async def __call__(self, message: Message) -> None:
        """What the application says; nothing of a request whose body was refused."""
        if self._body.error is None or self.begun:
            await self.start(message)

    async def start(self, message: Message) -> None:
        """What is said in any case."""
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            page = headers.get("content-type", "").startswith("text/html")
            headers.setdefault("Content-Security-Policy", _PAGE if page else _DATA)
            headers.setdefault("Cache-Control", "no-store")
            for name, value in _HEADERS.items():
                headers[name] = value
        await self._send(message)


def session_of(headers: Headers, scheme: str) -> str | None:
    """The token of a browser that signed in, from its cookie."""
    cookies = cookie_parser(headers.get("cookie", ""))
    return cookies.get(SECURE_SESSION if scheme == "https" else SESSION)


def _credentials(headers: Headers) -> tuple[str | None, bool]:
    """The key that a request shows, and whether a browser may have sent it by itself."""
    scheme, _, rest = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip(), False
    if "x-api-key" in headers:
        return headers["x-api-key"].strip(), False
    if scheme.lower() == "basic":
        # Older plug-ins know names and passwords only: the password is the key.
        try:
            pair = base64.b64decode(rest.strip(), validate=True).decode("latin-1")
        except (binascii.Error, ValueError):
            return "", True
        return pair.partition(":")[2], True
    return None, False


def _allowed(identity: Identity, path: str) -> Identity:
    return permitted(identity, "admin") if path.rstrip("/") == METRICS else identity


def _path(scope: Scope) -> str:
    """The path as the routes are matched with it."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def _check_url(scope: Scope) -> None:
    query = unquote_to_bytes(scope.get("query_string", b"")).decode("latin-1")
    if holds_key(query) or holds_key(scope["path"]):
        raise ServiceError(
            "an API key stands in the address, where logs and histories keep it: send it in the "
            "header Authorization, and have this one revoked"
        )


def _refusal(scope: Scope, headers: Headers, path: str, error: ServiceError) -> Response:
    browser = "text/html" in headers.get("accept", "")
    if isinstance(error, Unauthorized) and browser and scope["method"] == "GET":
        query = scope.get("query_string", b"").decode("latin-1")
        wanted = quote(path + (f"?{query}" if query else ""), safe="/")
        root = scope.get("root_path", "")
        return RedirectResponse(f"{root}{LOGIN}?next={wanted}", 303)
    return _problem(error.status, error.detail, error.headers)


def _problem(status: int, detail: str, headers: Mapping[str, str]) -> Response:
    return JSONResponse(
        problem(status, detail), status, dict(headers), media_type="application/problem+json"
    )
