"""How far a caller's newest request is, and interrupting it."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Sequence

from scenewright.runs.records import RunResult
from scenewright.service.compat.automatic1111.bodies import Progress, State
from scenewright.service.compat.automatic1111.drawing import DOOR, group_of
from scenewright.service.core.errors import NotFound
from scenewright.service.core.identity import Identity
from scenewright.service.core.outcomes import give_up
from scenewright.service.core.picture_files import picture_file
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.service import Service
from scenewright.service.core.store import MAX_LISTED, Run

_DRAWN = 0.5
"""Share of a round that is over when its candidate is drawn and not judged yet."""
_NEARLY = 0.95


async def at_work(service: Service, identity: Identity) -> list[Run]:
    """The runs of the tenant's newest request here that wait or are at work, newest first."""
    found, _ = await service.store.list(
        identity.tenant, status=("queued", "running"), limit=MAX_LISTED
    )
    mine = [run for run in found if run.door == DOOR]
    return [run for run in mine if group_of(run)[0] == group_of(mine[0])[0]]


async def progress_of(service: Service, identity: Identity, shown: bool) -> Progress:
    """How far the newest request is; ``shown``: with the newest candidate."""
    runs = await at_work(service, identity)
    if not runs:
        return Progress()
    results = [await service.result(run) for run in runs]
    many = group_of(runs[0])[1]
    done = many - len(runs)
    shares = [_share(run, result) for run, result in zip(runs, results, strict=True)]
    share = min(_NEARLY, (done + sum(shares)) / many)
    began = min(run.created for run in runs)
    elapsed = max(0.0, time.time() - began)
    run, result = _foremost(runs, results)
    most = RefinementRequest.model_validate(run.request).rounds
    drawn = len(result.rounds) if result is not None else 0
    return Progress(
        progress=share,
        eta_relative=elapsed * (1 - share) / share if share > 0 else 0.0,
        state=State(
            job=run.id,
            job_count=many,
            job_timestamp=time.strftime("%Y%m%d%H%M%S", time.gmtime(began)),
            job_no=done,
            sampling_step=drawn,
            sampling_steps=most,
        ),
        current_image=await _newest(service, run, result) if shown else None,
        textinfo=f"round {drawn} of at most {most}" if drawn else "in line",
    )


async def interrupt(service: Service, identity: Identity) -> None:
    """Cancel the newest request; what it has drawn and judged is what it gives."""
    for run in await at_work(service, identity):
        await give_up(service, identity, run)


def _share(run: Run, result: RunResult | None) -> float:
    if result is None:
        return 0.0
    done = sum(1.0 if record.loop_card is not None else _DRAWN for record in result.rounds)
    return min(_NEARLY, done / RefinementRequest.model_validate(run.request).rounds)


def _foremost(
    runs: Sequence[Run], results: Sequence[RunResult | None]
) -> tuple[Run, RunResult | None]:
    """The newest run that has begun, else the newest."""
    pairs = list(zip(runs, results, strict=True))
    return next((pair for pair in pairs if pair[1] is not None and pair[1].rounds), pairs[0])


async def _newest(service: Service, run: Run, result: RunResult | None) -> str | None:
    if result is None or not result.rounds:
        return None
    path = await service.artifacts.image(run.id, result.rounds[-1].image)
    try:
        data, *_ = await asyncio.to_thread(picture_file, path)
    except NotFound:
        return None
    return base64.b64encode(data).decode()
