"""The gallery: a tenant's runs as cards, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from scenewright.runs.report.words import count, moment, money, score
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
"""How a status is called on pages."""
assert set(WORDS) == set(get_args(Status))


@dataclass(frozen=True, slots=True)
class Card:
    """A run in the gallery."""

    run: RefinementBrief
    """The run."""
    line: str
    """How it stands with what was asked, in words."""
    mark: str
    """``yes``, ``no``, ``unscored`` or ``pending``: whether every fact was found."""
    score: str
    """SGScore of the kept image by the judges of the report, else of the loop; a dash for none."""
    judged: str
    """Which judges these are."""
    figures: str
    """Profile, rounds and cost."""
    alt: str
    """What the picture shows."""
    when: str
    """Date and time in UTC."""
    stamp: str
    """The same for machines."""
    state: str
    """Changes with all that the card shows."""
    link: str
    """Where it leads; empty for a run that cannot be chosen."""


@router.get("/runs")
async def gallery(
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
        cards=[card_of(brief_of(run), compare) for run in runs],
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


def card_of(run: RefinementBrief, compare: str = "") -> Card:
    """Return how the gallery shows a run; ``compare``: the run that it may be compared with."""
    summary = run.summary
    created = datetime.fromtimestamp(run.created, UTC)
    figures = [run.profile] if run.profile else []
    if summary.rounds:
        figures += [count(summary.rounds, "round"), money(summary.usd)]
    reported = summary.report_score is not None
    judged = "by judges that did not steer the drawing" if reported else "by the judges of the loop"
    if summary.reporting == "self":
        judged = "by the judges of the loop, a self-report"
    line, mark = _standing(run)
    return Card(
        run=run,
        line=line,
        mark=mark,
        score=score(summary.report_score if reported else summary.loop_score),
        judged=judged,
        figures=" · ".join(figures),
        alt=_alt(run),
        when=moment(created),
        stamp=created.isoformat(timespec="seconds"),
        state=f"{run.status}-{run.updated:.3f}",
        link=_link(run, compare),
    )


def _standing(run: RefinementBrief) -> tuple[str, str]:
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


def _link(run: RefinementBrief, compare: str) -> str:
    if not compare:
        return f"/runs/{run.id}"
    if run.id == compare or run.image is None:
        return ""
    return f"/runs/{compare}/compare?{urlencode({'with': run.id})}"


def _alt(run: RefinementBrief) -> str:
    if run.image is None:
        return f"No picture yet of: {run.title}"
    return f"Round {run.summary.best_round} of: {run.title}"
