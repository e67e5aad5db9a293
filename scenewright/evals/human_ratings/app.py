"""The rating pages: a small web application over one study."""

from __future__ import annotations

import asyncio
import functools
import math
import re
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route

from scenewright.evals.human_ratings.asking import (
    asked_of,
    checked_value,
    implied,
    is_done,
    next_asked,
    said_of,
)
from scenewright.evals.human_ratings.objects.view import object_view
from scenewright.evals.human_ratings.security_middleware import SecurityMiddleware
from scenewright.evals.human_ratings.store import Rater, RatingStore, Showing, StoreFailed, now
from scenewright.evals.human_ratings.study import RatingError, StudyFolder
from scenewright.evals.human_ratings.view import address_of, end_of, picture_at, task_view

BODY_BYTES = 16 * 1024
BODY_SECONDS = 15.0
_LONGEST_SECONDS = 86_400.0
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00")
_PICTURE_HEADERS = {"Cache-Control": "private, max-age=86400, immutable"}
_KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


class RatingApp:
    """Answers the requests of raters' browsers."""

    def __init__(self, folder: StudyFolder, store: RatingStore) -> None:
        """``store``: the ratings of ``folder``; whoever opened it closes it."""
        self.folder = folder
        self.study = folder.study
        self.store = store

    async def start(self, request: Request) -> Response:
        """The page that asks for a name; with ``?rater=NAME`` straight to the tasks."""
        name = request.query_params.get("rater", "")
        return await self._begin(name) if name.strip() else self._page("start.html.j2", name="")

    async def begin(self, request: Request) -> Response:
        """A rater who gave a name."""
        return await self._begin((await _form(request)).get("rater", ""))

    async def resume(self, request: Request) -> Response:
        """On to the first open task, or to the end."""
        rater = await self._rater(request)
        return await self._onward(rater, 0)

    async def task(self, request: Request) -> Response:
        """The page of one place."""
        rater = await self._rater(request)
        showing = await self._showing(rater, request)
        values = await asyncio.to_thread(self.store.values, rater, showing.number)
        kind = self.study.kind_of(showing.task)
        steps = len(asked_of(kind, showing.task))
        current = next_asked(kind, showing.task, values)
        asked = request.query_params.get("fact", "")
        if re.fullmatch(r"\d{1,4}", asked) and 0 < int(asked) <= steps:
            current = int(asked) - 1
        progress = await asyncio.to_thread(self.store.progress, rater)
        following = await asyncio.to_thread(self.store.showing, rater, showing.number + 1)
        view = task_view(
            self.study,
            rater,
            showing,
            progress,
            values,
            current=0 if current is None and steps else current,
            following=following,
            done=is_done(kind, showing.task, values),
        )
        if kind != "objects":
            return self._page("task.html.j2", view=view, rater=rater, shown_at=now())
        thing = object_view(showing, values, current, view)
        return self._page("object.html.j2", view=view, thing=thing, rater=rater, shown_at=now())

    async def rate(self, request: Request) -> Response:
        """Keep an answer, then lead on."""
        rater = await self._rater(request)
        showing = await self._showing(rater, request)
        form = await _form(request)
        kind = self.study.kind_of(showing.task)
        fact, said, at = said_of(kind, showing.task, form.get("value", ""))
        checked_value(kind, showing.task, fact, said)
        shown_at = form.get("shown_at", "")
        values = await asyncio.to_thread(
            self.store.keep,
            rater,
            showing.number,
            fact,
            said,
            functools.partial(is_done, kind, showing.task),
            also=implied(kind, fact),
            seconds=_seconds(form.get("seconds", "")),
            shown_at=shown_at if _TIME.fullmatch(shown_at) else "",
        )
        if is_done(kind, showing.task, values):
            return await self._onward(rater, showing.number)
        again = next_asked(kind, showing.task, values, at)
        place = address_of(rater, showing.number)
        return RedirectResponse(place if again is None else f"{place}?fact={again + 1}", 303)

    async def end(self, request: Request) -> Response:
        """After the last place: thanks, or what was skipped."""
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
        """A picture of a showing, by its opaque address."""
        token, slot = request.path_params["token"], request.path_params["slot"]
        showing = await asyncio.to_thread(self.store.shown_as, token)
        image = None if showing is None else picture_at(showing, slot)
        if image is None:
            raise HTTPException(404, "there is no such picture")
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
            raise HTTPException(404, "nobody rates here: begin at the start page")
        return found

    async def _showing(self, rater: Rater, request: Request) -> Showing:
        number = request.path_params["number"]
        found = await asyncio.to_thread(self.store.showing, rater, min(number, 2**31))
        if found is None:
            raise HTTPException(404, "there is no such task: go on with the first open one")
        return found

    def _page(self, template: str, status: int = 200, **context: Any) -> Response:
        known = {"study": self.study, "problem": "", "rater": None} | context
        return HTMLResponse(environment().get_template(template).render(**known), status)

    def failure(self, status: int, told: str) -> Response:
        """A page that says what is wrong."""
        return self._page("problem.html.j2", status, problem=told[:1].upper() + told[1:])


def create_app(folder: StudyFolder, store: RatingStore, token: str | None = None) -> Starlette:
    """The application that lets raters rate ``folder``; with a ``token`` only who shows it."""
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
    """Styles and scripts of the pages."""
    found = _assets().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404, "there is no such file: reload the page")
    data, kind = found
    return Response(data, media_type=kind, headers={"Cache-Control": "no-cache"})


async def healthy(_: Request) -> Response:
    """Says that the server is there."""
    return PlainTextResponse("ok\n")


@functools.cache
def environment() -> Environment:
    """The templates of the pages."""
    return Environment(
        loader=PackageLoader("scenewright.evals.human_ratings", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


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
    """The fields of a form; raises ``HTTPException`` for a body too long, too slow or no form."""
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
        raise HTTPException(422, "that is no form that a browser sends") from None
    return {name: values[-1] for name, values in fields.items()}


def _seconds(text: str) -> float | None:
    """How long the rater took, if the page said so in earnest."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0.0 <= value <= _LONGEST_SECONDS else None
