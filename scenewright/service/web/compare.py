"""Two rounds of a run side by side, or one over the other with a slider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from scenewright.core.facts import Fact
from scenewright.runs.report import words
from scenewright.runs.report.parts import Picture
from scenewright.runs.report.record import RoundView, RunView, Shown
from scenewright.service.api.common import Core, Reader, RunId
from scenewright.service.core.errors import Conflict, NotFound
from scenewright.service.core.store import Run
from scenewright.service.web.rendering import page
from scenewright.service.web.run_page import alt_of, picture_of, seen

router = APIRouter(include_in_schema=False)

Number = Annotated[int | None, Query(ge=0, lt=2**31)]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two rounds."""

    index: int
    """Its number."""
    picture: Picture | None
    """Its candidate; none if the file is not there."""
    alt: str
    """What a reader who cannot see it should know."""
    score: float | None
    """SGScore by the judges of the loop."""


@dataclass(frozen=True, slots=True)
class Change:
    """A fact that the loop's panel sees otherwise in the other round."""

    fact: Fact
    """The fact."""
    before: Shown
    """Its state in the first round."""
    after: Shown
    """Its state in the second."""


@dataclass(frozen=True, slots=True)
class Same:
    """Facts that stand alike in both rounds."""

    state: Shown
    """Their state."""
    facts: tuple[Fact, ...]
    """In their order."""


@router.get("/runs/{run_id}/compare")
async def compared(
    request: Request,
    run_id: RunId,
    service: Core,
    identity: Reader,
    a: Number = None,
    b: Number = None,
) -> HTMLResponse:
    """Show rounds ``a`` (None: the first) and ``b`` (None: the kept one, or the last)."""
    run = await service.run(identity, run_id)
    return await seen(service, run, lambda view, _: _page(request, run, view, a, b))


def _page(request: Request, run: Run, view: RunView, a: int | None, b: int | None) -> HTMLResponse:
    drawn = [r for r in view.rounds if r.candidate is not None]
    if len(drawn) < 2:
        raise Conflict("the run has fewer than two pictures: wait for its second round")
    first = _chosen(drawn, a, drawn[0])
    kept = view.best if view.best in drawn and view.best is not first else drawn[-1]
    second = _chosen(drawn, b, kept)
    changes = changes_of(view, first, second)
    return page(
        request,
        "compare.html.j2",
        run=run.id,
        title=words.scene_words(view.scene),
        rounds=drawn,
        kept=view.best,
        sides=(_side(view, first), _side(view, second)),
        changes=changes,
        same=same_of(view, first, second),
        line=_line(changes, first, second),
    )


def changes_of(view: RunView, first: RoundView, second: RoundView) -> tuple[Change, ...]:
    """Return the facts that stand otherwise in ``second`` than in ``first``, in their order."""
    found = (Change(f, first.state(f.id), second.state(f.id)) for f in view.facts)
    return tuple(change for change in found if change.before != change.after)


def same_of(view: RunView, first: RoundView, second: RoundView) -> tuple[Same, ...]:
    """Return the facts that stand alike in both rounds, by state, those that fail first."""
    found: dict[Shown, list[Fact]] = {}
    for fact in view.facts:
        state = first.state(fact.id)
        if state == second.state(fact.id):
            found.setdefault(state, []).append(fact)
    order = sorted(found, key=lambda state: (state == "yes", list(words.MEANINGS).index(state)))
    return tuple(Same(state, tuple(found[state])) for state in order)


def _chosen(drawn: list[RoundView], index: int | None, default: RoundView | None) -> RoundView:
    found = default if index is None else next((r for r in drawn if r.index == index), None)
    if found is None:
        numbers = ", ".join(str(r.index) for r in drawn)
        raise NotFound(f"round {index} has no picture: choose two of rounds {numbers}")
    return found


def _side(view: RunView, shown: RoundView) -> Side:
    return Side(shown.index, picture_of(view, shown), alt_of(view, shown), shown.score("loop"))


def _line(changes: tuple[Change, ...], first: RoundView, second: RoundView) -> str:
    if first is second:
        return "Both are the same round: choose another one to compare it with."
    if not changes:
        return "The judges see the same facts in both pictures."
    won = sum(change.after == "yes" for change in changes)
    lost = sum(change.before == "yes" for change in changes)
    return (
        f"{words.count(won, 'fact')} won and {lost} lost "
        f"from round {first.index} to round {second.index}."
    )
