"""The service as an ASGI application: every door on one core."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from scenewright.agents.parsers.unread import Passage
from scenewright.config.profiles import SettingsError
from scenewright.config.settings import Settings
from scenewright.core.facts import FactError
from scenewright.core.formats import FormatError
from scenewright.core.images import ImageError
from scenewright.core.scene import SceneError
from scenewright.core.version import VERSION
from scenewright.providers import StoreError
from scenewright.runs.folder import RunError
from scenewright.service.api import health, images, parse, profiles, refinements, scores
from scenewright.service.api.access import AuthMiddleware, problem_reply
from scenewright.service.api.description import complete
from scenewright.service.compat.automatic1111 import routes as automatic1111
from scenewright.service.compat.openai_images import models as openai_models
from scenewright.service.compat.openai_images import routes as openai_images
from scenewright.service.compat.openai_images.errors import (
    error_body,
    error_reply,
    has_openai_errors,
    wrong_fields,
)
from scenewright.service.core.driving import Models
from scenewright.service.core.errors import ServiceError, Unavailable
from scenewright.service.core.lifespan import running
from scenewright.service.core.observing.observers import Observability, ObservabilityMiddleware
from scenewright.service.core.schemas import Problem
from scenewright.service.core.service import Service
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.mcp.http_transport import add_mcp, mcp_lifespan
from scenewright.service.web.rendering import error_page, for_people
from scenewright.service.web.router import router as pages

log = logging.getLogger(__name__)

_ABOUT = """Draws a scene, checks every fact of it with a panel of judges, and repairs what is
missing. A run is asked for with `POST /v1/refinements`, watched with `GET …/events`
(server-sent events) and corrected with `POST …/edits`. Errors are `application/problem+json`."""
_MOST_DETAIL = 4000
_AWAY = (OperationalError, InterfaceError, PoolTimeout)
"""What a database raises that is away, or that closes a connection in the middle."""
_WRONG = (SceneError, FormatError, ImageError, FactError, SettingsError)


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
    for room in (refinements, images, scores, parse, profiles, health):
        app.include_router(room.router)
    app.include_router(openai_images.router)
    app.include_router(openai_images.files)
    app.include_router(openai_models.router)
    app.include_router(automatic1111.router)
    app.include_router(pages)
    add_mcp(app)
    app.add_exception_handler(ServiceError, _told)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    for kind in (*_WRONG, RunError, StoreError):
        app.add_exception_handler(kind, _failed)
    for away in _AWAY:
        app.add_exception_handler(away, _away)
    complete(app)
    app.add_middleware(AuthMiddleware, settings=settings, refusal=_refused)
    app.add_middleware(ObservabilityMiddleware, observing=observing)
    return app


def create_health_app(service: Service) -> FastAPI:
    """Create the application of a worker without HTTP: the routes of ``api/health.py`` alone."""
    app = FastAPI(title="scenewright worker", openapi_url=None)
    app.state.service = service
    app.include_router(health.router)
    app.add_exception_handler(ServiceError, _told)
    app.add_exception_handler(HTTPException, _http)
    app.add_middleware(AuthMiddleware, settings=service.settings)
    return app


async def _told(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    if has_openai_errors(request.url.path, routed=True):
        return error_reply(error)
    return _problem(request, error.status, error.detail, error.headers, error.unread)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    if has_openai_errors(request.url.path, routed=True):
        return error_reply(wrong_fields(error))
    found = []
    for item in error.errors()[:5]:
        place = ".".join(str(part) for part in item["loc"])
        found.append(f"{place}: {str(item['msg']).removeprefix('Value error, ')}")
    return _problem(request, 422, "; ".join(found) + ". See /openapi.json for what is taken")


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = str(error.detail)
    if error.status_code == 404 and detail == "Not Found":
        detail = f"there is nothing at {request.url.path}: /openapi.json lists the routes"
    return _problem(request, error.status_code, detail, dict(error.headers or {}))


async def _away(request: Request, error: Exception) -> Response:
    log.warning("%s: the database does not answer: %s", request.url.path, error)
    away = Unavailable(
        "the database does not answer: send it again in a moment (with its idempotency key, if it "
        "asks for a run)",
        retry_after=2,
    )
    return _problem(request, away.status, away.detail, away.headers)


async def _failed(request: Request, error: Exception) -> Response:
    return _problem(request, 422 if isinstance(error, _WRONG) else 503, str(error))


def _problem(
    request: Request,
    status: int,
    detail: str,
    headers: dict[str, str] | None = None,
    unread: tuple[Passage, ...] = (),
) -> Response:
    # What was sent may stand in it: of any length, with halves of characters that no JSON holds.
    told = detail[:_MOST_DETAIL].encode(errors="replace").decode()
    if for_people(request):
        return error_page(request, status, told, headers)
    if has_openai_errors(request.url.path, routed=False):
        status = 400 if status == 422 else status
        return JSONResponse(error_body(status, told), status, headers)
    return problem_reply(status, told, headers, unread)


def _refused(path: str, error: ServiceError) -> Response:
    """Return the reply to a request that the middleware refuses before its route."""
    if has_openai_errors(path, routed=False):
        return error_reply(error)
    return problem_reply(error.status, error.detail, error.headers)
