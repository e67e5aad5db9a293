"""Web application in which raters rate a study, its server, and its security middleware.

Another site's page can make a browser send requests here, and its owner can point a host name at
127.0.0.1 (DNS rebinding). So the host name and the origin of a request must be those of this
server. A server that other machines can reach requires a token instead of a loopback name.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hmac
import math
import re
import secrets
import string
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlencode

import uvicorn
from jinja2 import Environment, PackageLoader
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request, cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scenewright.core.servers import GuestServer, running
from scenewright.core.sockets import host_of, is_loopback, listening, url_of
from scenewright.evals.human_ratings.store import (
    Rater,
    RatingStore,
    Showing,
    StoreFailed,
    now,
)
from scenewright.evals.human_ratings.study import RatingError, StudyFolder
from scenewright.evals.human_ratings.view import address_of, end_of, picture_at, task_view
from scenewright.evals.reporting.pages import environment

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
    """Middleware that refuses foreign requests and sets security headers."""

    def __init__(self, app: ASGIApp, token: str | None = None) -> None:
        """Wrap ``app``; browsers must show ``token`` once as ``?token=…``; None: loopback only."""
        self.app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or a lifespan event."""
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
        """Return a redirect that moves a correct token from the address into a cookie."""
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


BODY_BYTES = 16 * 1024
BODY_SECONDS = 15.0
_LONGEST_SECONDS = 86_400.0
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(\d{3})?\+00:00")
_PICTURE_HEADERS = {"Cache-Control": "private, max-age=86400, immutable"}
_KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


class RatingApp:
    """Handlers of the rating pages."""

    def __init__(self, folder: StudyFolder, store: RatingStore) -> None:
        """Serve ``folder`` with its ratings in ``store``, which the caller closes."""
        self.folder = folder
        self.study = folder.study
        self.store = store

    async def start(self, request: Request) -> Response:
        """Show the page that asks for a name; with ``?rater=NAME`` go straight to the tasks."""
        name = request.query_params.get("rater", "")
        return await self._begin(name) if name.strip() else self._page("start.html.j2", name="")

    async def begin(self, request: Request) -> Response:
        """Accept the name of a rater."""
        return await self._begin((await _form(request)).get("rater", ""))

    async def resume(self, request: Request) -> Response:
        """Go to the first open task, or to the end."""
        rater = await self._rater(request)
        return await self._onward(rater, 0)

    async def task(self, request: Request) -> Response:
        """Show the page of one place."""
        rater = await self._rater(request)
        showing = await self._showing(rater, request)
        values = await asyncio.to_thread(self.store.values, rater, showing.number)
        steps = len(self.study.form(showing.task).parts)
        asked = request.query_params.get("fact", "")
        chosen = re.fullmatch(r"\d{1,4}", asked) and 0 < int(asked) <= steps
        progress = await asyncio.to_thread(self.store.progress, rater)
        following = await asyncio.to_thread(self.store.showing, rater, showing.number + 1)
        view = task_view(
            self.study,
            rater,
            showing,
            progress,
            values,
            current=int(asked) - 1 if chosen else None,
            following=following,
        )
        return self._page("task.html.j2", view=view, rater=rater, shown_at=now())

    async def rate(self, request: Request) -> Response:
        """Keep an answer, then go on."""
        rater = await self._rater(request)
        showing = await self._showing(rater, request)
        answer = await _form(request)
        form = self.study.form(showing.task)
        part, said, at = form.read(answer.get("value", ""))
        shown_at = answer.get("shown_at", "")
        values = await asyncio.to_thread(
            self.store.keep,
            rater,
            showing.number,
            part,
            said,
            seconds=_seconds(answer.get("seconds", "")),
            shown_at=shown_at if _TIME.fullmatch(shown_at) else "",
        )
        if form.is_done(values):
            return await self._onward(rater, showing.number)
        again = form.next_part(values, at)
        place = address_of(rater, showing.number)
        return RedirectResponse(place if again is None else f"{place}?fact={again + 1}", 303)

    async def end(self, request: Request) -> Response:
        """Show the page after the last place: thanks, or the skipped tasks."""
        rater = await self._rater(request)
        progress = await asyncio.to_thread(self.store.progress, rater)
        left = await asyncio.to_thread(self.store.open_after, rater)
        return self._page(
            "end.html.j2",
            progress=progress,
            rater=rater,
            left="" if left is None else address_of(rater, left),
            last=address_of(rater, progress.places) if progress.places else "",
        )

    async def picture(self, request: Request) -> Response:
        """Return a picture of a showing, by its opaque address."""
        token, slot = request.path_params["token"], request.path_params["slot"]
        showing = await asyncio.to_thread(self.store.shown_as, token)
        image = None if showing is None else picture_at(showing, slot)
        if image is None:
            raise HTTPException(404, "the picture is missing")
        file = self.folder.picture(image)
        if not file.is_file():
            raise HTTPException(404, "the picture is lost: tell who gave you this study")
        # A FileResponse would give the file's size and time as a tag that two arms do not share
        # and two showings of one picture do.
        data = await asyncio.to_thread(file.read_bytes)
        return Response(data, media_type="image/png", headers=_PICTURE_HEADERS)

    async def _begin(self, name: str) -> Response:
        try:
            rater = await asyncio.to_thread(self.store.rater, name)
        except RatingError as error:
            return self._page("start.html.j2", 422, name=name[:200], problem=str(error))
        return RedirectResponse(address_of(rater), 303)

    async def _onward(self, rater: Rater, number: int) -> Response:
        place = await asyncio.to_thread(self.store.open_after, rater, number)
        return RedirectResponse(end_of(rater) if place is None else address_of(rater, place), 303)

    async def _rater(self, request: Request) -> Rater:
        found = await asyncio.to_thread(self.store.rater_of, request.path_params["key"])
        if found is None:
            raise HTTPException(404, "unknown rater: begin at the start page")
        return found

    async def _showing(self, rater: Rater, request: Request) -> Showing:
        number = request.path_params["number"]
        found = await asyncio.to_thread(self.store.showing, rater, min(number, 2**31))
        if found is None:
            raise HTTPException(404, "unknown task: go on with the first open one")
        return found

    def _page(self, template: str, status: int = 200, **context: Any) -> Response:
        known = {"study": self.study, "problem": "", "rater": None} | context
        return HTMLResponse(templates().get_template(template).render(**known), status)

    def failure(self, status: int, told: str) -> Response:
        """Return a page with an error message."""
        return self._page("problem.html.j2", status, problem=told[:1].upper() + told[1:])


def create_app(folder: StudyFolder, store: RatingStore, token: str | None = None) -> Starlette:
    """Return the application for rating ``folder``; with a ``token`` only for those who show it."""
    pages = RatingApp(folder, store)

    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return pages.failure(error.status_code, str(error.detail))

    async def wrong(_: Request, error: Exception) -> Response:
        return pages.failure(422, str(error))

    async def failed(_: Request, error: Exception) -> Response:
        return pages.failure(503, f"Your answer is not kept. {error}")

    def post(path: str, what: Callable[[Request], Awaitable[Response]]) -> Route:
        return Route(path, what, methods=["POST"])

    return Starlette(
        routes=[
            Route("/", pages.start),
            post("/begin", pages.begin),
            Route("/r/{key}", pages.resume),
            Route("/r/{key}/end", pages.end),
            Route("/r/{key}/{number:int}", pages.task),
            post("/r/{key}/{number:int}", pages.rate),
            Route("/picture/{token}/{slot}", pages.picture),
            Route("/static/{name}", static),
            Route("/healthz", healthy),
        ],
        middleware=[Middleware(SecurityMiddleware, token=token)],
        exception_handlers={
            HTTPException: refused, RatingError: wrong, StoreFailed: failed,
            ClientDisconnect: wrong,
        },
    )  # fmt: skip


async def static(request: Request) -> Response:
    """Return a style sheet or a script of the pages."""
    found = _assets().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404, "unknown file: reload the page")
    data, kind = found
    return Response(data, media_type=kind, headers={"Cache-Control": "no-cache"})


async def healthy(_: Request) -> Response:
    """Report that the server is running."""
    return PlainTextResponse("ok\n")


@functools.cache
def templates() -> Environment:
    """Return the templates of the pages."""
    return environment(PackageLoader("scenewright.evals.human_ratings", "assets"))


@functools.cache
def _assets() -> dict[str, tuple[bytes, str]]:
    found = {}
    for package in ("scenewright.runs.report", "scenewright.evals.human_ratings"):
        for file in files(package).joinpath("assets").iterdir():
            kind = _KINDS.get(file.name.rpartition(".")[2])
            if kind is not None:
                found[file.name] = (file.read_bytes(), kind)
    return found


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a form.

    Raises ``HTTPException`` for a body that is too long or slow, or that is not a form.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415, "answers are sent as a form")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > BODY_BYTES:
                    raise HTTPException(413, "that is more than an answer can be")
    except TimeoutError:
        raise HTTPException(408, "the answer did not come in time: send it again") from None
    try:
        fields = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise HTTPException(422, "the body is not a form: send it from the page") from None
    return {name: values[-1] for name, values in fields.items()}


def _seconds(text: str) -> float | None:
    """Return the seconds that a rater took, if the page sent a valid number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0.0 <= value <= _LONGEST_SECONDS else None


_BACKLOG = 512
_GRACE_SECONDS = 5
_PLAIN = frozenset(string.ascii_letters + string.digits + "-_")


def token_for(host: str, given: str | None) -> str | None:
    """Return the token that a server on ``host`` requires.

    It is the one ``given``, else a new one if other machines can reach the host, else None. Raises
    ``RatingError`` for a token that is easy to guess.
    """
    if given is not None and len(given) < SHORTEST_TOKEN:
        raise RatingError(
            f"the token has {len(given)} signs, which can be guessed: give {SHORTEST_TOKEN} or "
            "more, or leave it out and one is made"
        )
    if given is not None and not set(given) <= _PLAIN:
        raise RatingError("a token is made of letters, digits, - and _: it stands in an address")
    return given or (None if is_loopback(host) else secrets.token_urlsafe(24))


@contextlib.asynccontextmanager
async def serving(
    folder: StudyFolder, host: str = "127.0.0.1", port: int = 0, token: str | None = None
) -> AsyncIterator[str]:
    """Serve the study in the running loop, and yield the address that raters open.

    Requests in progress have some seconds to end. Raises ``RatingError`` if the address is not
    available or would be open to others without a token, ``StoreFailed`` if ratings cannot be kept.
    """
    token = token_for(host, token)
    store = RatingStore(folder)
    try:
        place = listening(host, port, _BACKLOG, RatingError)
        url = url_of(host, place.getsockname()[1])
        server = GuestServer(
            uvicorn.Config(
                create_app(folder, store, token),
                http="h11",
                lifespan="off",
                log_config=None,
                log_level="error",
                # The address holds the raters' keys, and the token once.
                access_log=False,
                server_header=False,
                backlog=_BACKLOG,
                timeout_graceful_shutdown=_GRACE_SECONDS,
                forwarded_allow_ips="127.0.0.1,::1",
            )
        )
        async with running(server, place):
            yield f"{url}/" + (f"?token={token}" if token else "")
    finally:
        store.close()
