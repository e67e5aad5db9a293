"""Scripts, styles and symbols of the pages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Response

from scenewright.service.core.errors import NotFound
from scenewright.service.web.rendering import PageRoute, assets

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get("/static/{name}")
async def static(name: str, if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """Return a file that pages load; browsers ask each time whether theirs is still the one."""
    found = assets().get(name)
    if found is None:
        raise NotFound("there is no such file: reload the page")
    headers = {"ETag": found.tag, "Cache-Control": "no-cache"}
    if if_none_match is not None and found.tag in if_none_match:
        return Response(status_code=304, headers=headers)
    return Response(found.data, media_type=found.media_type, headers=headers)
