"""Adapter on which doors of other tools stand: from pictures that are asked for to their runs.

A door reads its own form of a request, has its runs taken in and waited for here, and writes its
own form of their outcomes: the pictures with the facts and scores beside them.
"""

from __future__ import annotations

import asyncio
import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, Field

from scenewright.core.answers import decided_lines
from scenewright.core.facts import FactKind, State
from scenewright.core.ports.backend import BackendError, BackendFeatures
from scenewright.core.scene import SceneGraph
from scenewright.graphs.reporting import Reporting
from scenewright.runs.model_factory.profiles import backend_of
from scenewright.runs.readiness import lacking
from scenewright.runs.result import RunResult
from scenewright.service.core.errors import KeyReused, ServiceError, Unavailable
from scenewright.service.core.identity import Identity
from scenewright.service.core.pictures import FileFormat, picture_file
from scenewright.service.core.requests import lacking_words, reading_warnings, stored_intent
from scenewright.service.core.schemas import Door, Link, RefinementRequest, Status
from scenewright.service.core.service import STANDS_STILL, Service
from scenewright.service.core.store import Run, link_of

Size = tuple[int, int]
"""(width, height) in pixels."""
SizeWords = str
"""``WIDTHxHEIGHT`` in pixels."""
_GRID = 16
"""All models draw sides that are multiples of it."""
_LEAST, _MOST = 0.5, 2.0
"""Shares of a model's own number of pixels between which it draws well: far from what they were
trained on, diffusion models repeat things or lose them."""
_LONGEST = 4.0
"""Most times that one side is as long as the other, likewise."""
_ANY = SceneGraph()
Body = TypeVar("Body")


class FactOutcome(BaseModel):
    """One fact, and what the judges of the loop say of it in the kept picture."""

    id: str
    """Names the fact."""
    kind: FactKind
    """Subject."""
    statement: str
    """It in words."""
    verdict: State | Literal["pending"]
    """Whether it holds; ``pending``: the picture was not judged."""
    probability: float | None
    """The panel's probability that it holds, 0–1; none where nothing was asked."""


class Scores(BaseModel):
    """SGScores of the kept picture, 0–1."""

    loop: float | None
    """By the judges that steered the loop."""
    report: float | None
    """By the judges of the report: the number to quote where :attr:`reporting` is independent."""
    reporting: Reporting = Reporting(kind="none")
    """Whether these are other models than those of the loop."""


class Outcome(BaseModel):
    """Outcome of one run."""

    id: str
    """The run: ``/v1/refinements/ID`` has all of it."""
    url: str
    """Address of that."""
    page: str
    """Its page for people."""
    status: Status
    """State of the run."""
    error: str | None
    """Why it failed."""
    profile: str
    """The profile whose models were at work."""
    seed: int
    """Its seed."""
    image: Link | None
    """The kept picture as the run has it; none if it has none."""
    rounds: int
    """Candidates."""
    best_round: int | None
    """The round of the kept one."""
    stop_reason: str | None
    """Why the loop stopped."""
    limit: str
    """Which limit ended it, with its figures; empty: none did."""
    prompt: str
    """Prompt that the kept picture was drawn from."""
    lost: tuple[str, ...] = ()
    """Passages of the sentence that it does not say."""
    added: tuple[str, ...] = ()
    """Words of it that the sentence does not say."""
    scene: SceneGraph
    """Scene that was asked for."""
    facts: tuple[FactOutcome, ...]
    """Checked facts."""
    warnings: tuple[str, ...] = ()
    """Parts of the scene that the profile's models cannot draw or judge (such facts are unscored),
    which words of the prompt were not read, and which could mean something else."""
    sgscore: Scores
    """The scores."""
    missing: SceneGraph | None
    """Facts missing in the kept picture; none if nothing is missing."""
    usage: dict[str, float] = Field(default_factory=dict)
    """images, seconds, tokens_in, tokens_out, usd, judge_calls, cached."""


@dataclass(frozen=True, slots=True)
class AcceptedRequest(Generic[Body]):
    """A request whose runs were taken in."""

    body: Body
    """Body of the request."""
    request: RefinementRequest
    """Run that it asks for; of several the first."""
    runs: tuple[Run, ...]
    """One a picture."""
    size: Size | None
    """(width, height) to send pictures at; none: as they were drawn."""

    async def ended(self, service: Service, identity: Identity) -> Self:
        """Return the request once all of its runs stand still.

        Raises ``RunsGoOn`` if the service ends before.
        """
        finished = (service.finished(identity, run) for run in self.runs)
        runs = tuple(await asyncio.gather(*finished))
        check_still(runs)
        return replace(self, runs=runs)

    async def outcomes(
        self, service: Service, base_url: str, *, needed: bool = True
    ) -> tuple[Outcome, ...]:
        """Return the outcomes of the runs, which stand still: those without a picture last.

        ``base_url`` is the caller's address of the service. Raises ``RunFailed`` if a picture is
        ``needed`` and there is none.
        """
        found = [
            await asyncio.to_thread(_outcome, run, await service.result(run), base_url.rstrip("/"))
            for run in self.runs
        ]
        if needed and all(outcome.image is None for outcome in found):
            told = (
                f"run {one.id}: {one.error or f'it is {one.status} without a picture'}"
                for one in found
            )
            raise RunFailed(f"no picture was drawn: {'; '.join(told)}")
        return tuple(sorted(found, key=lambda outcome: outcome.image is None))


def _outcome(run: Run, result: RunResult | None, base: str) -> Outcome:
    request = RefinementRequest.model_validate(run.request)
    assert request.scene is not None
    best = result.best if result is not None else None
    link = link_of(run.id, best.image) if best is not None else None
    return Outcome(
        id=run.id,
        url=f"{base}/v1/refinements/{run.id}",
        page=f"{base}/runs/{run.id}",
        status=run.status,
        error=run.error,
        profile=request.profile or "",
        seed=request.seed,
        image=link and Link(hash=link.hash, url=base + link.url, preview=base + link.preview),
        rounds=len(result.rounds) if result is not None else 0,
        best_round=result.best_round if result is not None else None,
        stop_reason=result.stop_reason if result is not None else None,
        limit=result.limit if result is not None else "",
        prompt=best.prompt if best is not None else "",
        lost=tuple(passage.text for passage in best.lost) if best is not None else (),
        added=best.added if best is not None else (),
        scene=result.scene if result is not None else request.scene,
        facts=tuple(
            FactOutcome(
                id=fact.id,
                kind=fact.kind,
                statement=line.fact.statement,
                verdict="pending" if verdict is None else verdict.state,
                probability=None if verdict is None else verdict.probability,
            )
            for line, fact, verdict in decided_lines(result.facts, result.loop_card)
        )
        if result is not None
        else (),
        warnings=(*reading_warnings(run.request, result.scene), *result.warnings)
        if result is not None
        else stored_intent(run.request).warnings,
        sgscore=Scores(
            loop=result.score("loop") if result is not None else None,
            report=result.score("report") if result is not None else None,
            reporting=result.reporting if result is not None else Reporting(kind="none"),
        ),
        missing=best.missing if best is not None else None,
        usage=result.totals if result is not None else {},
    )


class _NotAgain(ServiceError):
    """An error after which the client is not to send its request again by itself."""

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the reply."""
        return {**super().headers, "x-should-retry": "false"}


class RunsGoOn(_NotAgain):
    """The service ends while somebody waits for pictures: their runs go on without them.

    Without an idempotency key, the same request would begin others.
    """

    status = 503


class RunFailed(_NotAgain):
    """No run of a request gave a picture. Asking again would pay again."""

    status = 500


async def accept(
    service: Service,
    identity: Identity,
    body: Body,
    request: RefinementRequest,
    door: Door,
    *,
    count: int,
    size: Size | None,
    group: str,
    key: str | None,
    content: str,
) -> AcceptedRequest[Body]:
    """Take in a run a picture, with the request's seed and those after it: all of them or none.

    ``size``: as :class:`AcceptedRequest` has it. ``group`` is what the idempotency keys of the runs
    have in common, and ``key`` the caller's own, which errors name in place of these; ``content``
    is the digest of all that was sent, so that the key is refused with anything else. Raises
    ``ServiceError``.
    """
    drawn = None
    if size is not None:
        drawn = drawn_size(size, await features_of(service, request))
    if drawn is not None:
        request = request.model_copy(update={"width": drawn[0], "height": drawn[1]})
    runs: list[Run] = []
    begun: list[Run] = []
    try:
        for at in range(count):
            own = {"seed": request.seed + at, "idempotency_key": f"{door}:{group}:{at}"}
            asked = request.model_copy(update=own)
            run, new = await service.submit(identity, asked, door, body=content)
            runs.append(run)
            if new:
                begun.append(run)
    except ServiceError as error:
        for run in begun:
            await cancel_run(service, identity, run)
        if isinstance(error, KeyReused) and key is not None:
            raise KeyReused(key, error.run) from error
        raise
    return AcceptedRequest(body, request, tuple(runs), size)


async def cancel_run(service: Service, identity: Identity, run: Run) -> None:
    """Cancel a run unless it stands still by now."""
    found = await service.run(identity, run.id)
    if found.status not in STANDS_STILL:
        try:
            await service.cancel(identity, run.id)
        except ServiceError:
            # It has ended in this very moment.
            return


async def encoded_picture(
    service: Service, run: str, image: str, form: FileFormat = "png", **options: Any
) -> tuple[str, Size, Size]:
    """Return the file of a run's picture in base64, its size, and the one that it was drawn at.

    ``options``: of :func:`picture_file`.
    """
    path = await service.artifacts.image(run, image)

    def encode() -> tuple[str, Size, Size]:
        data, size, own = picture_file(path, form, **options)
        return base64.b64encode(data).decode(), size, own

    return await asyncio.to_thread(encode)


def size_words(size: Size) -> SizeWords:
    """Return a size in words."""
    return f"{size[0]}x{size[1]}"


def check_still(runs: Sequence[Run]) -> None:
    """Raise ``RunsGoOn`` if one of ``runs`` is still to go on."""
    going = [run.id for run in runs if run.status not in STANDS_STILL]
    if going:
        raise RunsGoOn(
            f"the service ends before the pictures are there; the runs go on when it is back: "
            f"look at /v1/refinements/{going[0]}"
            + (f" and {len(going) - 1} more" if len(going) > 1 else "")
        )


async def features_of(service: Service, request: RefinementRequest) -> BackendFeatures:
    """Return the features of the backend of ``request``.

    Raises ``ServiceError`` if the backend is missing.
    """

    def read() -> BackendFeatures:
        given = service.replaced(request).get("backend")
        backend = given or backend_of(service.profile(request).backend, service.base)
        features: BackendFeatures = backend.features
        return features

    try:
        return await asyncio.to_thread(read)
    except BackendError as error:
        raise Unavailable(str(error)) from error


def obstacles(service: Service, *names: str) -> dict[str, str]:
    """Return why profiles that may be asked for cannot run here, by name; empty: they can.

    Those of ``names``, or all. Where other machines may drive the runs, what is here says nothing
    of them.
    """
    known, found = service.profiles(), {}
    for name in names or known:
        given = service.replaced(RefinementRequest(scene=_ANY, profile=name))
        lost = lacking(known[name], service.base, replaced=given) if service.drives else ()
        found[name] = lacking_words(name, lost) if lost else ""
    return found


def drawn_size(wanted: Size, features: BackendFeatures) -> Size | None:
    """Return the size to draw for a picture of ``wanted``; none: the backend's own.

    ``wanted`` itself if the backend draws it well; else a size of much the same shape, from which
    the picture is scaled.
    """
    width, height = wanted
    if features.sizes is not None:
        found = min(
            features.sizes,
            key=lambda size: (
                round(abs(math.log(size[0] * height / (size[1] * width))), 3),
                abs(math.log(size[0] * size[1] / (width * height))),
            ),
        )
    else:
        own = features.default_size[0] * features.default_size[1]
        shape, area = width / height, width * height
        if not 1 / _LONGEST <= shape <= _LONGEST or not _LEAST <= area / own <= _MOST:
            shape = min(max(shape, 1 / _LONGEST), _LONGEST)
            width, height = round(math.sqrt(own * shape)), round(math.sqrt(own / shape))
        found = _on_grid(width), _on_grid(height)
    return None if found == features.default_size else found


def _on_grid(side: int) -> int:
    return max(1, round(side / _GRID)) * _GRID
