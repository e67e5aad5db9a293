"""Limits of request bodies, counted as they come: before anything is parsed.

Whether a request comes from where it may: against web pages that drive a service of ours.

A page of another site can have a browser send requests here. It cannot read the replies, for there
are no CORS headers, but a request that changes something has done so by then; and a name that
the page's owner points at 127.0.0.1 (DNS rebinding) makes the page one of *this* site. So the
name under which the service is asked must be its own, and so must the page that asks.

Who is let in: a middleware before every door.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_to_bytes

from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scenewright.core.intent import Passage
from scenewright.core.sockets import host_of, is_loopback
from scenewright.service.core.errors import (
    Fault,
    Forbidden,
    ServiceError,
    TooLarge,
    TooSlow,
    Unauthorized,
    Unavailable,
    problem,
)
from scenewright.service.core.identity import LOCAL, require_scope
from scenewright.service.core.keys import ApiKey, holds_key
from scenewright.service.core.limits import RateLimits
from scenewright.service.core.settings import ServiceSettings

if TYPE_CHECKING:
    from scenewright.service.core.service import Service

JSON_BYTES = 2 * 2**20
"""Largest body without files."""
_SLACK = 2 * 2**20
"""The other fields of a form with files, and its boundaries."""
_MANY_FILES = "/v1/images/edits"
_FILES_IN_JSON = ("/mcp", _MANY_FILES, "/sdapi/v1/png-info")
_FILES = 4
"""As many of the largest files may come with an edit of pictures at once."""
IDLE_SECONDS = 30.0
"""Longest silence within a body."""
WHOLE_SECONDS = 300.0
"""Longest time for a whole body."""
_DRAIN_BYTES = 64 * 2**20
_DRAIN_SECONDS = 5.0
_DRAIN_IDLE_SECONDS = 0.5

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_PORTS = {"http": 80, "https": 443}
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


def limit_of(path: str, headers: Headers, settings: ServiceSettings) -> int:
    """Most bytes of a body for ``path``."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    under = path.rstrip("/")
    files = settings.upload_bytes * (_FILES if under == _MANY_FILES else 1)
    if kind == "multipart/form-data":
        return files + _SLACK
    # Base64 takes four bytes for three.
    return files * 4 // 3 + _SLACK if under in _FILES_IN_JSON else JSON_BYTES


class Body:
    """Passes a request's body on, and counts it."""

    def __init__(self, receive: Receive, limit: int, *, idle: float = IDLE_SECONDS) -> None:
        """``limit``: most bytes; ``idle``: longest wait for the next of them, seconds."""
        self._receive = receive
        self._limit = limit
        self._idle = idle
        self._count = 0
        self._began = time.monotonic()
        self._whole = False
        self.error: ServiceError | None = None
        """Why the body was refused, once it was: nothing that the application says of it holds."""

    async def __call__(self) -> Message:
        """Return the next message.

        Raises ``TooLarge`` or ``TooSlow``.
        """
        if self.error is not None:
            raise self.error
        if self._whole:
            return await self._receive()
        left = self._began + WHOLE_SECONDS - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, min(self._idle, left))):
                message = await self._receive()
        except TimeoutError:
            self.error = TooSlow("the body of the request did not come in time: send it again")
            raise self.error from None
        if message["type"] == "http.request":
            self._count += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            if self._count > self._limit:
                self.error = too_large(self._limit)
                raise self.error
        else:
            self._whole = True
        return message

    async def drain(self, headers: Headers) -> bool:
        """Take the rest of a refused body, if it is not too much; whether all of it came.

        A client that is still sending when the connection is closed never reads the reply.
        """
        if "expect" in headers or _length(headers) > _DRAIN_BYTES:
            return self._whole
        count, ends = 0, time.monotonic() + _DRAIN_SECONDS
        while not self._whole and count < _DRAIN_BYTES and time.monotonic() < ends:
            try:
                async with asyncio.timeout(_DRAIN_IDLE_SECONDS):
                    message = await self._receive()
            except TimeoutError:
                break
            count += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
        return self._whole


def check_length(headers: Headers, limit: int) -> None:
    """Raise ``TooLarge`` if the body says that it is over ``limit`` bytes."""
    if _length(headers) > limit:
        raise too_large(limit)


def too_large(limit: int) -> TooLarge:
    """Return the error of a body over ``limit`` bytes."""
    return TooLarge(f"the body is over {limit / 2**20:.0f} MiB, the limit here: send less")


def _length(headers: Headers) -> float:
    """Return the length that a body says it has; endless if that makes no sense."""
    said = headers.get("content-length", "0")
    sound = said.isascii() and said.isdecimal() and len(said) <= 18
    return int(said) if sound else math.inf


def check_host(headers: Headers, settings: ServiceSettings) -> None:
    """Raise ``Forbidden`` unless ``Host`` names this machine or one of the trusted hosts."""
    given = headers.getlist("host")
    name = host_of(f"//{given[0]}")[0] if len(given) == 1 else None
    if name is None or not (is_loopback(name) or name in _trusted(settings)):
        shown = given[0][:100] if given else "no host"
        raise Forbidden(
            f"the service is asked as {shown!r}, a name that it does not know: ask 127.0.0.1 or "
            "localhost, or name the host in SCENEWRIGHT_SERVICE_TRUSTED_HOSTS"
        )


def check_origin(method: str, headers: Headers, scheme: str, settings: ServiceSettings) -> None:
    """Raise ``Forbidden`` for what a web page of another origin has a browser send.

    Such a page may lead people here (a link), but neither load nor send anything.
    """
    site = headers.get("sec-fetch-site")
    if method in SAFE_METHODS:
        if site in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate":
            raise Forbidden("a page of another site may not load this: open it in its own tab")
        return
    origin = headers.get("origin")
    if site in (None, "same-origin", "none"):
        # Without a referrer policy of ours a browser says null for a form; it says the site then.
        if origin is None or (origin == "null" and site == "same-origin"):
            return
        theirs = origin.partition("://")[0].lower()
        usual = _PORTS.get(theirs)
        (name, port), (own, own_port) = host_of(origin), host_of(f"//{headers.get('host', '')}")
        if usual is not None and name is not None and (scheme != "https" or theirs == "https"):
            # A proxy that ends TLS may say http to us: the port that goes without saying is the
            # page's.
            same = name == own and (port or usual) == (own_port or usual)
            if same or name in _trusted(settings):
                return
    raise Forbidden(
        f"a page of {(origin or 'another site')[:200]!r} may not send this: use the service's own "
        "pages, or send an API key in the header Authorization; a reverse proxy's name belongs in "
        "SCENEWRIGHT_SERVICE_TRUSTED_HOSTS"
    )


def _trusted(settings: ServiceSettings) -> set[str]:
    return {host.lower().rstrip(".") for host in settings.trusted_hosts}


class AuthMiddleware:
    """Gives every request its identity (``request.state.identity``) or refuses it."""

    def __init__(
        self,
        app: ASGIApp,
        settings: ServiceSettings,
        refusal: Callable[[str, ServiceError], Response] | None = None,
    ) -> None:
        """``refusal`` gives the reply of an error at a path: by default a problem document."""
        self.app = app
        self.settings = settings
        self._refusal = refusal or (
            lambda _, error: problem_reply(error.status, error.detail, error.headers)
        )
        self.rates = RateLimits()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the application's own life."""
        if scope["type"] == "websocket":
            # There are none, and a browser would let any page open one.
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, path, root = Headers(scope=scope), str(scope["path"]), scope.get("root_path", "")
        if root and path.startswith(f"{root}/"):
            # As the routes are matched with it.
            path = path[len(root) :]
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
            if not isinstance(error, ServiceError):
                # Said here, so that this reply has its headers too; the server logs what happened.
                told = Fault("something went wrong here: look at the service's log")
                await self._refusal(path, told)(scope, receive, reply.start)
                raise
            refusal = self._refusal(path, error)
            browser = "text/html" in headers.get("accept", "")
            if isinstance(error, Unauthorized) and browser and scope["method"] in ("GET", "HEAD"):
                # A page without a key: the way to the sign-in page.
                query = scope.get("query_string", b"").decode("latin-1")
                wanted = quote(path + (f"?{query}" if query else ""), safe="/")
                refusal = RedirectResponse(f"{root}{LOGIN}?next={wanted}", 303)
            if not await body.drain(headers):
                refusal.headers["Connection"] = "close"
            await refusal(scope, receive, reply.start)

    async def _admit(self, scope: Scope, headers: Headers, path: str) -> None:
        settings, method, scheme = self.settings, scope["method"], scope["scheme"]
        query = unquote_to_bytes(scope.get("query_string", b"")).decode("latin-1")
        if holds_key(query) or holds_key(scope["path"]):
            raise ServiceError(
                "an API key is in the address, where logs and histories keep it: send it in the "
                "header Authorization, and have this one revoked"
            )
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
        metrics = path.rstrip("/") == METRICS
        state["identity"] = require_scope(key.identity, "admin") if metrics else key.identity

    async def _key(self, scope: Scope, headers: Headers) -> ApiKey:
        """Return the key that a request shows, or that its browser signed in with."""
        service: Service = scope["app"].state.service
        text, by_browser = None, True
        kind, _, rest = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            text, by_browser = rest.strip(), False
        elif "x-api-key" in headers:
            text, by_browser = headers["x-api-key"].strip(), False
        elif kind.lower() == "basic":
            # Older plug-ins know names and passwords only: the password is the key.
            try:
                pair = base64.b64decode(rest.strip(), validate=True).decode("latin-1")
                text = pair.partition(":")[2]
            except (binascii.Error, ValueError):
                text = ""
        if by_browser:
            # A browser may send it by itself.
            check_origin(scope["method"], headers, scope["scheme"], self.settings)
        try:
            if text is not None:
                found = await service.keys.check(text)
            else:
                token = session_of(headers, scope["scheme"])
                found = None if token is None else await service.keys.session_key(token)
        except (SQLAlchemyError, OSError) as error:
            if not service.storage.note(error):
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
        """Forward the application's messages, but none of a request whose body was refused."""
        if self._body.error is None or self.begun:
            await self.start(message)

    async def start(self, message: Message) -> None:
        """Send the start of a response in any case."""
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
    """Return the token of a browser that signed in, from its cookie."""
    cookies = cookie_parser(headers.get("cookie", ""))
    return cookies.get(SECURE_SESSION if scheme == "https" else SESSION)


def problem_reply(
    status: int,
    detail: str,
    headers: Mapping[str, str] | None = None,
    unread: Sequence[Passage] = (),
) -> JSONResponse:
    """Return an error as ``application/problem+json``."""
    return JSONResponse(
        problem(status, detail, unread), status, headers, media_type="application/problem+json"
    )
