"""The gallery: a tenant's runs as cards, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from scenewright.service.api.common import Core, Reader
from scenewright.service.core.schemas import RefinementBrief, Status
from scenewright.service.core.store import brief_of
from scenewright.service.web.rendering import PageRoute, page
from scenewright.service.web.start import EXAMPLES

router = APIRouter(include_in_schema=False, route_class=PageRoute)

PAGE = 24
"""Runs on a page."""
WORDS: Mapping[Status, str] = {
    "queued": "waiting",
    "running": "at work",
    "paused": "waits for you",
    "finished": "finished",
    "failed": "failed",
    "cancelled": "cancelled",
}
"""Names of the statuses on pages."""
assert set(WORDS) == set(get_args(Status))


@router.get("/runs")
async def show_gallery(
    request: Request,
    service: Core,
    identity: Reader,
    status: Annotated[list[str] | None, Query(max_length=len(WORDS) + 1)] = None,
    words: Annotated[str, Query(max_length=200)] = "",
    missing: Annotated[str, Query(max_length=10)] = "",
    before: Annotated[str | None, Query(max_length=60)] = None,
    compare: Annotated[str, Query(max_length=60)] = "",
) -> Response:
    """Your runs; filters stand in the address and work without scripts.

    With ``compare`` it is where a second run is chosen to compare that one with.
    """
    first = brief_of(await service.run(identity, compare)) if compare else None
    # A select without a choice sends an empty status.
    wanted: list[Status] = [known for known in WORDS if known in (status or ())]
    runs, following = await service.store.list(
        identity.tenant,
        status=wanted,
        words=words,
        missing=bool(missing),
        before=before,
        limit=PAGE,
        brief=True,
    )
    kept = [*(("status", name) for name in wanted), ("words", words), ("missing", missing)]
    filters = [(name, value) for name, value in kept if value]
    purpose = [("compare", compare)] if compare else []
    every = f"/runs?{urlencode(purpose)}" if purpose else "/runs"
    query = purpose + filters
    return page(
        request,
        "gallery.html.j2",
        cards=[(run, *_verdict_line(run)) for run in map(brief_of, runs)],
        compare=first,
        every=every,
        statuses=WORDS,
        wanted=wanted,
        words=words,
        missing=bool(missing),
        filtered=bool(filters),
        first=f"/runs?{urlencode(query)}" if query else "/runs",
        before=before,
        following=following and f"/runs?{urlencode([*query, ('before', following)])}",
        examples=EXAMPLES,
    )


def _verdict_line(run: RefinementBrief) -> tuple[str, str]:
    """Return how a run's picture meets the request, and whether every fact was found.

    The second is ``yes``, ``no``, ``unscored`` or ``pending``.
    """
    if run.status == "failed":
        return (run.error or "An error stopped it").partition("\n")[0].rstrip(":"), "no"
    if run.summary.satisfied is None:
        return ("Nothing judged yet" if run.summary.rounds else "Nothing drawn yet"), "pending"
    if run.summary.satisfied:
        doubted = run.summary.confirmed is False
        return run.summary.verdict or "Every fact found", "unscored" if doubted else "yes"
    # Nothing is known to be missing, but not all could be judged.
    mark = "unscored" if run.summary.stop_reason == "unscored" else "no"
    return run.summary.verdict or "Some facts are missing", mark
