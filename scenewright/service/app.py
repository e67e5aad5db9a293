"""The service as an ASGI application: every door on one core."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.routing import Match

from scenewright.config.profiles import SettingsError
from scenewright.config.settings import Settings
from scenewright.core.facts import FactError
from scenewright.core.formats import FormatError
from scenewright.core.images import ImageError
from scenewright.core.intent import Passage
from scenewright.core.ports.backend import BackendError
from scenewright.core.ports.judge import JudgeError
from scenewright.core.scene import SceneError
from scenewright.core.validation import first_problem, problem_in_words
from scenewright.core.version import VERSION
from scenewright.providers import StoreError
from scenewright.runs.folder import RunError
from scenewright.service.api import health, images, refinements, scenes
from scenewright.service.api.access import AuthMiddleware, problem_reply
from scenewright.service.api.common import complete
from scenewright.service.compat.automatic1111 import errors as automatic1111_errors
from scenewright.service.compat.automatic1111 import routes as automatic1111
from scenewright.service.compat.openai_images import routes as openai_images
from scenewright.service.compat.openai_images.errors import (
    error_reply,
    has_openai_errors,
    status_reply,
    wrong_fields,
)
from scenewright.service.core.disclosure import MOST_DETAIL
from scenewright.service.core.errors import DamagedRun, ServiceError, UnsupportedMediaType
from scenewright.service.core.lifespan import running
from scenewright.service.core.observing.observers import (
    METHODS,
    Observability,
    ObservabilityMiddleware,
)
from scenewright.service.core.parts import Models
from scenewright.service.core.schemas import Problem
from scenewright.service.core.service import Service
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.mcp import http_transport as mcp_transport
from scenewright.service.mcp.http_transport import add_mcp, mcp_lifespan
from scenewright.service.web.rendering import error_page, for_people
from scenewright.service.web.router import router as pages

log = logging.getLogger(__name__)

_ABOUT = """Draws a scene, checks every fact of it with a panel of judges, and repairs what is
missing. A run is asked for with `POST /v1/refinements`, watched with `GET …/events`
(server-sent events) and corrected with `POST …/edits`. Errors are `application/problem+json`."""
_WRONG = (SceneError, FormatError, ImageError, FactError, SettingsError)
_FAILED = (RunError, StoreError, JudgeError, BackendError)
_FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
_MOST_PROBLEMS = 5
_LEAST_COMPRESSED = 1000
_COMPRESSION = 4
"""Level of gzip: higher ones take longer than a local network saves."""
_COMPRESSED_ASIDE = 32 * 1024
"""Bytes from which a thread compresses: a millisecond's work."""


def create_app(
    settings: ServiceSettings,
    *,
    base: Settings | None = None,
    models: Models | None = None,
    observing: Observability | None = None,
) -> FastAPI:
    """Return the application of ``settings``.

    Its lifespan opens the database and starts the worker.

    ``base``: accounts and profiles, by default those of this machine; ``models`` replaces models
    of a request's profile; ``observing`` is told what happens, by default as the settings say.
    """
    observing = observing or Observability.of(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with running(settings, base=base, models=models, observing=observing) as service:
            app.state.service = service
            async with mcp_lifespan(app, service):
                yield

    app = FastAPI(
        title="scenewright",
        version=VERSION,
        description=_ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        responses={
            "default": {"model": Problem, "description": "An error: what is wrong, and the remedy."}
        },
    )
    for room in (refinements, images, scenes, health):
        app.include_router(room.router)
    app.include_router(openai_images.router)
    app.include_router(openai_images.files)
    app.include_router(openai_images.profiles)
    app.include_router(automatic1111.router)
    app.include_router(pages)
    add_mcp(app)
    app.add_exception_handler(ServiceError, _error_response)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    for kind in (*_WRONG, *_FAILED, ValidationError):
        app.add_exception_handler(kind, _failed)
    app.add_exception_handler(SQLAlchemyError, _storage)
    app.add_exception_handler(OSError, _storage)
    complete(app)
    # Streams of events and pictures are excluded: they go out as they come.
    app.add_middleware(
        GZipMiddleware,
        minimum_size=_LEAST_COMPRESSED,
        compresslevel=_COMPRESSION,
        thread_minimum_size=_COMPRESSED_ASIDE,
    )
    app.add_middleware(AuthMiddleware, settings=settings, refusal=_refused)
    app.add_middleware(ObservabilityMiddleware, observing=observing)
    return app


def create_health_app(service: Service) -> FastAPI:
    """Create the application of a worker without HTTP: the routes of ``api/health.py`` alone."""
    app = FastAPI(title="scenewright worker", openapi_url=None)
    app.state.service = service
    app.include_router(health.router)
    app.add_exception_handler(ServiceError, _error_response)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(SQLAlchemyError, _storage)
    app.add_middleware(AuthMiddleware, settings=service.settings)
    return app


async def _error_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    # Models and their loaders say in it where they looked.
    error.detail = _disclosed(request, error)
    if has_openai_errors(request.url.path) and not for_people(request):
        return error_reply(error)
    like = error.run if isinstance(error, DamagedRun) else None
    return _problem(
        request, error.status, error.detail, error.headers, like=like, unread=error.unread
    )


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    path, said = request.url.path, request.headers.get("content-type", "")
    kind = said.partition(";")[0].strip().lower()
    # A body that was not read because of its type: FastAPI leaves one as bytes that does not say
    # that it is JSON.
    wanted = "application/json" if isinstance(error.body, bytes) else None
    if isinstance(error.body, FormData) and kind not in _FORMS:
        wanted = "multipart/form-data"
    if wanted is not None:
        return await _error_response(request, UnsupportedMediaType.sent(said, wanted))
    if has_openai_errors(path):
        return error_reply(wrong_fields(error))
    if automatic1111_errors.owns(path):
        return automatic1111_errors.error_reply(422, automatic1111_errors.wrong_fields(error))
    told = []
    for problem in error.errors()[:_MOST_PROBLEMS]:
        place = problem["loc"]
        where = ".".join(str(part) for part in place)
        where = "the body" if where == "body" else where
        if problem["type"] == "json_invalid":
            told.append(f"the body is not valid JSON: look at character {int(place[-1]) + 1}")
        else:
            told.append(f"{where}: {problem_in_words(problem)}")
    found = "; ".join(dict.fromkeys(told))
    return _problem(request, 422, f"{found}. See /openapi.json for what is taken")


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path, detail, headers = request.url.path, str(error.detail), dict(error.headers or {})
    if error.status_code == 404 and detail == "Not Found":
        detail = (
            f"there is no page at {path}: begin with a new scene, or look at your runs"
            if for_people(request)
            else f"there is nothing at {path}: /openapi.json lists the routes"
        )
    elif error.status_code == 405:
        routes = request.app.router.routes
        scopes = {method: {**request.scope, "method": method} for method in sorted(METHODS)}
        headers["Allow"] = ", ".join(
            method
            for method, scope in scopes.items()
            if any(route.matches(dict(scope))[0] is Match.FULL for route in routes)
        )
        detail = f"{path} does not take {request.method}: use {headers['Allow']}"
    elif error.status_code == 400:
        # The reader of forms says in its own words what it could not read.
        detail = "the body cannot be read: check its encoding, its form and its Content-Type"
    return _problem(request, error.status_code, detail, headers)


async def _storage(request: Request, error: Exception) -> Response:
    """Answer an error of database or disk; one that is not about their state is the service's own.

    The log is told of an outage by the storage, once.
    """
    service: Service = request.app.state.service
    away = service.storage.error_of(error)
    if away is None:
        raise error
    return _problem(request, away.status, away.detail, away.headers)


async def _failed(request: Request, error: Exception) -> Response:
    """Answer an error of the package: of what was sent, or of what was to be done."""
    status = 422 if isinstance(error, (*_WRONG, ValidationError)) else 503
    if not isinstance(error, _WRONG):
        log.warning("%s: %s", request.url.path, error)
    if isinstance(error, ValidationError):
        return _problem(request, status, first_problem(error, "the request"))
    return _problem(request, status, _disclosed(request, error))


def _disclosed(request: Request, error: Exception) -> str:
    service: Service = request.app.state.service
    return service.disclosure.text(error)


def _problem(
    request: Request,
    status: int,
    detail: str,
    headers: dict[str, str] | None = None,
    *,
    like: str | None = None,
    unread: tuple[Passage, ...] = (),
) -> Response:
    # What was sent may stand in it: of any length, with halves of characters that no JSON holds.
    told = detail[:MOST_DETAIL].encode(errors="replace").decode()
    if for_people(request):
        return error_page(request, status, told, headers, like=like)
    if has_openai_errors(request.url.path):
        return status_reply(request, status, told, headers or {})
    return _door_reply(request.url.path, status, told, headers, unread)


def _refused(path: str, error: ServiceError) -> Response:
    """Return the reply to a request that the middleware refuses before its route."""
    if has_openai_errors(path):
        return error_reply(error)
    return _door_reply(path, error.status, error.detail, error.headers)


def _door_reply(
    path: str,
    status: int,
    detail: str,
    headers: dict[str, str] | None,
    unread: tuple[Passage, ...] = (),
) -> Response:
    """Return an error in the form of the door at ``path``."""
    if automatic1111_errors.owns(path):
        return automatic1111_errors.error_reply(status, detail, headers)
    if mcp_transport.owns(path):
        return mcp_transport.error_reply(status, detail, headers)
    return problem_reply(status, detail, headers, unread)
