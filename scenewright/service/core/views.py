"""Runs as the HTTP API shows them."""

from __future__ import annotations

from scenewright.runs.records import RoundRecord, RunResult
from scenewright.service.core.schemas import (
    Link,
    Links,
    Refinement,
    RefinementBrief,
    RefinementRequest,
    RoundInfo,
    Summary,
)
from scenewright.service.core.store import Run


def link_of(run: str, image: str) -> Link:
    """Where an image of a run is."""
    url = f"/v1/refinements/{run}/images/{image}"
    return Link(hash=image, url=url, preview=f"{url}/preview")


def brief_of(run: Run) -> RefinementBrief:
    """A run in a list."""
    summary = Summary.model_validate(run.summary or {})
    return RefinementBrief(
        id=run.id,
        title=run.title,
        status=run.status,
        door=run.door,
        profile=str(run.request.get("profile") or ""),
        created=run.created,
        updated=run.updated,
        ended=run.ended,
        error=run.error,
        summary=summary,
        image=link_of(run.id, summary.image) if summary.image is not None else None,
    )


def refinement_of(
    run: Run, result: RunResult | None, position: int | None, warnings: tuple[str, ...] = ()
) -> Refinement:
    """A run whole; ``result`` is what its folder tells, none before it has begun. ``warnings``:
    what of its scene its models do not know."""
    request = RefinementRequest.model_validate(run.request)
    assert request.scene is not None
    path = f"/v1/refinements/{run.id}"
    return Refinement(
        **brief_of(run).model_dump(),
        scene=result.scene if result is not None else request.scene,
        facts=result.facts if result is not None else (),
        request=request,
        queue_position=position,
        warnings=warnings,
        rounds=tuple(_round(run.id, record) for record in result.rounds) if result else (),
        best_round=result.best_round if result is not None else None,
        totals=result.totals if result is not None else {},
        reporting=result.reporting if result is not None else None,
        links=Links(
            self=path, events=f"{path}/events", page=f"/runs/{run.id}", edit=f"{path}/edits"
        ),
    )


def _round(run: str, record: RoundRecord) -> RoundInfo:
    reference = record.reference_image
    return RoundInfo(
        round=record.round,
        prompt=record.prompt,
        strategy=record.strategy,
        does=record.does,
        why=record.why,
        image=link_of(run, record.image),
        reference=link_of(run, reference) if reference is not None else None,
        loop_card=record.loop_card,
        report_card=record.report_card,
        missing=record.missing,
        seconds=record.seconds,
    )
