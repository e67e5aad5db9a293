"""Whether the service lives, and whether it can take work."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel

from scenewright.service.api.common import Core, HeadRoute
from scenewright.service.core.errors import Unavailable
from scenewright.service.core.identity import Identity, allow
from scenewright.service.core.observing.observers import CONTENT_TYPE

router = APIRouter(tags=["health"], route_class=HeadRoute)


class Health(BaseModel):
    """Health of the service."""

    status: str
    """``ok``."""


@router.get("/healthz", summary="Whether the process answers", response_model=Health)
async def alive() -> Health:
    """Say that the process answers."""
    return Health(status="ok")


@router.get("/readyz", summary="Whether it can take work", response_model=Health)
async def ready(service: Core) -> Health:
    """Report whether the service can take work.

    Database and disk can be used, the runs of an earlier process are queued, and no shutdown is
    under way.
    """
    if service.worker.draining:
        raise Unavailable("the service is shutting down")
    if (problem := await service.storage.state()) is not None:
        raise Unavailable(problem.detail)
    if not service.worker.ready.is_set():
        raise Unavailable("the service is looking through the runs of an earlier process")
    return Health(status="ok")


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {
            "description": "Metrics in Prometheus's text form.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
    },
)
async def metrics(
    service: Core, identity: Annotated[Identity, Depends(allow("admin"))]
) -> Response:
    """Count and times of runs, judges, spending and requests, for Prometheus."""
    gauges = {
        "queue_limit": service.settings.queue,
        "active_runs": service.worker.active,
        "active_limit": service.settings.running if service.settings.work else 0,
        "worker_draining": service.worker.draining,
        "event_listeners": service.broadcaster.listeners,
    }
    text = service.observing.metrics.text(
        await service.store.counts(), gauges, service.broadcaster.dropped
    )
    return Response(text, media_type=CONTENT_TYPE)
