"""Who may see and send ratings: a middleware before all pages.

A page of another site can have a browser send requests here, and a name that its owner points at
127.0.0.1 makes it one of this site (DNS rebinding): the name under which the server is asked and
the page that asks must be its own. A server that others reach demands its token instead of a
loopback name.
"""

from __future__ import annotations

import hmac
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scenewright.core.sockets import host_of, is_loopback

COOKIE = "scenewright-rating"
SHORTEST_TOKEN = 16
_SAFE = ("GET", "HEAD")
_PORTS = {"http": 80, "https": 443}
_PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_DATA = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with it browsers hide the origin of a form from its own server too.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class SecurityMiddleware:
    """Refuses what comes from where it may not, and gives every reply its headers."""

    def __init__(self, app: ASGIApp, token: str | None = None) -> None:
        """``token``: what a browser must show once, as ``?token=…``; none: loopback alone."""
        self.app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the application's own life."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def said(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                page = headers.get("content-type", "").startswith("text/html")
                headers["Content-Security-Policy"] = _PAGE if page else _DATA
                headers.setdefault("Cache-Control", "no-store")
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        refused = self._refusal(scope)
        await (self.app if refused is None else refused)(scope, receive, said)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self._token is None:
            host = host_of(f"//{headers.get('host', '')}")[0]
            if len(headers.getlist("host")) != 1 or host is None or not is_loopback(host):
                return _no("this server is asked by a name it does not know: ask 127.0.0.1")
        elif not self._knows(headers):
            return self._let_in(scope)
        return _foreign(scope, headers)

    def _knows(self, headers: Headers) -> bool:
        scheme, _, rest = headers.get("authorization", "").partition(" ")
        shown = rest.strip() if scheme.lower() == "bearer" else None
        if shown is None:
            shown = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        return self._same(shown)

    def _same(self, shown: str) -> bool:
        assert self._token is not None
        return hmac.compare_digest(shown.encode(), self._token.encode())

    def _let_in(self, scope: Scope) -> Response:
        """The cookie for who brings the token in the address, which then leaves the address."""
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        shown = query.get("token", [""])[-1]
        if scope["method"] not in _SAFE or not self._same(shown):
            return PlainTextResponse(
                "Open the whole address that you were given, with ?token=… at its end.\n", 401
            )
        rater = query.get("rater", [""])[-1]
        reply = RedirectResponse(f"/?{urlencode({'rater': rater})}" if rater else "/", 303)
        # Lax, not Strict: links in letters lead here.
        reply.set_cookie(
            COOKIE,
            shown,
            httponly=True,
            samesite="lax",
            secure=scope["scheme"] == "https",
            max_age=90 * 86400,
        )
        return reply


def _foreign(scope: Scope, headers: Headers) -> Response | None:
    site = headers.get("sec-fetch-site")
    if scope["method"] in _SAFE:
        if site in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate":
            return _no("a page of another site may not load this: open it in its own tab")
        return None
    origin = headers.get("origin")
    if site not in (None, "same-origin", "none"):
        return _no("a page of another site may not send ratings")
    # A browser says null for a form of a page without a referrer policy; it says the site then.
    if origin is None or (origin == "null" and site == "same-origin"):
        return None
    usual = _PORTS.get(origin.partition("://")[0].lower())
    name, port = host_of(origin)
    own, own_port = host_of(f"//{headers.get('host', '')}")
    if usual is None or name is None or (name, port or usual) != (own, own_port or usual):
        return _no("a page of another site may not send ratings")
    return None


def _no(why: str) -> Response:
    return PlainTextResponse(f"{why[0].upper()}{why[1:]}.\n", 403)
