"""Resources: runs, their images and their pages, by URI."""

from __future__ import annotations

import asyncio
import base64
import re
from pathlib import Path

from mcp.types import (
    BlobResourceContents,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from scenewright.runs.folder import EVENTS
from scenewright.runs.report.record import PageError, read_run
from scenewright.runs.report.render import render_run
from scenewright.service.core.errors import NotFound
from scenewright.service.core.identity import Identity
from scenewright.service.core.service import Service
from scenewright.service.mcp.replies import ROOT

_RUN_ID = r"(run_[0-9a-f]{32})"
RUN = re.compile(rf"{ROOT}/{_RUN_ID}")
IMAGE = re.compile(rf"{ROOT}/{_RUN_ID}/images/([0-9a-f]{{64}})")
PAGE = re.compile(rf"{ROOT}/{_RUN_ID}/page")
_MOST = 50

TEMPLATES = [
    ResourceTemplate(
        uri_template=f"{ROOT}/{{id}}",
        name="run",
        title="Run",
        description="A run with its rounds, scores and what is missing.",
        mime_type="application/json",
    ),
    ResourceTemplate(
        uri_template=f"{ROOT}/{{id}}/images/{{hash}}",
        name="image",
        title="Image of a run",
        description="A whole image of a run by its content hash.",
        mime_type="image/png",
    ),
    ResourceTemplate(
        uri_template=f"{ROOT}/{{id}}/page",
        name="page",
        title="Page of a run",
        description="The run as one HTML file for people, with all its pictures.",
        mime_type="text/html",
    ),
]


async def listed(service: Service, identity: Identity) -> list[Resource]:
    """The identity's newest runs."""
    runs, _ = await service.store.list(identity.tenant, limit=_MOST)
    return [
        Resource(
            uri=f"{ROOT}/{run.id}",
            name=run.id,
            title=run.title,
            description=f"A run, {run.status}.",
            mime_type="application/json",
        )
        for run in runs
    ]


async def read(service: Service, identity: Identity, uri: str) -> ReadResourceResult:
    """What lies at ``uri``; ``NotFound`` if nothing does, or it is somebody else's."""
    if found := RUN.fullmatch(uri):
        view = await service.view(await service.run(identity, found[1]))
        text = view.model_dump_json()
        return ReadResourceResult(
            contents=[TextResourceContents(uri=uri, text=text, mime_type="application/json")]
        )
    if found := IMAGE.fullmatch(uri):
        data = await read_image_file(service, identity, found[1], found[2])
        blob = base64.b64encode(data).decode("ascii")
        return ReadResourceResult(
            contents=[BlobResourceContents(uri=uri, blob=blob, mime_type="image/png")]
        )
    if found := PAGE.fullmatch(uri):
        run = await service.run(identity, found[1])
        text = await asyncio.to_thread(_page, await service.artifacts.whole(run.id))
        return ReadResourceResult(
            contents=[TextResourceContents(uri=uri, text=text, mime_type="text/html")]
        )
    raise NotFound(
        f"there is nothing at {uri[:200]!r}: there are {ROOT}/ID, {ROOT}/ID/images/HASH and "
        f"{ROOT}/ID/page"
    )


async def read_image_file(service: Service, identity: Identity, run: str, image: str) -> bytes:
    """The PNG file of an image of the identity's run; ``NotFound`` if there is none.

    ``run`` and ``image`` are of the form of :data:`IMAGE`.
    """
    found = await service.run(identity, run)
    place = await service.artifacts.image(found.id, image)
    try:
        return await asyncio.to_thread(place.read_bytes)
    except OSError:
        raise NotFound(f"the run has no image {image}: look at its rounds") from None


def _page(folder: Path) -> str:
    if not (folder / EVENTS).is_file():
        raise NotFound("the run has not begun: there is no page of it yet")
    try:
        return render_run(read_run(folder))
    except PageError as error:
        raise NotFound(str(error)) from error
