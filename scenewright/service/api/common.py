"""What routes need: the core, and who asks."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Path, Request

from scenewright.service.core.identity import Identity, allow
from scenewright.service.core.service import Service


async def service_of(request: Request) -> Service:
    """The service that the application runs."""
    found: Service = request.app.state.service
    return found


Core = Annotated[Service, Depends(service_of)]
"""The service."""
Refiner = Annotated[Identity, Depends(allow("refine"))]
"""Somebody who may begin, edit and cancel runs."""
Reader = Annotated[Identity, Depends(allow("read"))]
"""Somebody who may see runs."""
RunId = Annotated[str, Path(max_length=60, description="Id of the run.")]
"""A run's id in a path."""
RunsKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="The same key with the same request gives the runs that are there.",
    ),
]
"""The key under which the runs of a request are found again, in a header."""
