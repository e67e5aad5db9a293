"""Two pictures side by side, or one over the other with a slider.

They are two rounds of one run, or rounds of two runs whose facts are matched by their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from scenewright.core.facts import Fact
from scenewright.core.vocabulary import canonical, canonical_key
from scenewright.runs.record import Round, RunRecord, Shown
from scenewright.runs.report import words
from scenewright.runs.report.content import title_parts
from scenewright.runs.report.pictures import Picture
from scenewright.service.api.common import Core, Reader, RunId
from scenewright.service.core.aside import size_of_request
from scenewright.service.core.errors import Conflict, NotFound
from scenewright.service.core.schemas import ENDED
from scenewright.service.core.store import Run
from scenewright.service.web.rendering import PageRoute, page
from scenewright.service.web.run_page import alt_of, held_line, picture_of, seen

router = APIRouter(include_in_schema=False, route_class=PageRoute)

Number = Annotated[int | None, Query(ge=0, lt=2**31)]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two pictures."""

    name: str
    """How the page calls it: ``Round 2``, or ``First run``."""
    run: str
    """Id of its run."""
    index: int
    """Its round."""
    kept: int | None
    """The kept round of its run."""
    rounds: tuple[Round, ...]
    """Rounds of its run that have a picture."""
    picture: Picture | None
    """The picture; none if its file is not there."""
    alt: str
    """What a reader who cannot see it should know."""
    score: float | None
    """SGScore by the judges of the loop."""
    sentence: tuple[tuple[str, str], ...]
    """What was asked, in parts, each with why it is not drawn or not checked; empty where it is."""
    unfinished: bool
    """Whether its run may still draw further rounds."""
    asked: str = ""
    """Of one of two runs: its profile, and its seed where the two differ."""
    about: str = ""
    """Of one of two runs: what tells it from the other, its sentence first."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A fact that both pictures were judged on."""

    fact: Fact
    """The fact, in the words of the first."""
    other: Fact
    """The same fact, in the words of the second."""
    before: Shown
    """Its state in the first picture."""
    after: Shown
    """Its state in the second."""


@dataclass(frozen=True, slots=True)
class Same:
    """Facts that stand alike in both pictures."""

    state: Shown
    """Their state."""
    facts: tuple[Fact, ...]
    """In their order."""


@dataclass(frozen=True, slots=True)
class OneSided:
    """Facts that only one of the runs asks."""

    name: str
    """Name of its side."""
    facts: tuple[tuple[Fact, Shown], ...]
    """Each with its state, in their order."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line about both runs."""

    label: str
    """What it is."""
    values: tuple[str, str]
    """That of the first run and that of the second."""


@router.get("/runs/{run_id}/compare")
async def compared(
    request: Request,
    run_id: RunId,
    service: Core,
    identity: Reader,
    a: Number = None,
    b: Number = None,
    other: Annotated[str | None, Query(alias="with", max_length=60)] = None,
) -> Response:
    """Show rounds ``a`` and ``b`` of a run, or ``a`` of it and ``b`` of the run ``with``.

    Without numbers: the first round and the kept one, or the kept rounds of both runs.
    """
    run = await service.run(identity, run_id)
    if not other:
        return await seen(service, run, lambda view, _: _rounds_page(request, run, view, a, b))
    if other == run.id:
        query = urlencode({name: n for name, n in (("a", a), ("b", b)) if n is not None})
        return RedirectResponse(f"/runs/{run.id}/compare{'?' if query else ''}{query}", 303)
    try:
        second = await service.run(identity, other)
    except NotFound as error:
        raise NotFound(
            f"the run to compare with, {other!r}, is not there: choose another one from the list "
            "of your runs"
        ) from error
    views = [await seen(service, one, lambda view, _: view) for one in (run, second)]
    size = max(size_of_request(one.request) for one in (run, second))
    return await service.aside.compute(
        size, _runs_page, request, (run, second), (views[0], views[1]), (a, b)
    )


def _rounds_page(
    request: Request, run: Run, view: RunRecord, a: int | None, b: int | None
) -> Response:
    drawn = _drawn(view)
    if len(drawn) < 2:
        raise Conflict("the run has fewer than two pictures: wait for its second round")
    first = _chosen(drawn, a, drawn[0])
    kept = view.best if view.best in drawn and view.best is not first else drawn[-1]
    second = _chosen(drawn, b, kept)
    facts = [
        Compared(fact, fact, first.state(fact.id), second.state(fact.id)) for fact in view.facts
    ]
    sides = tuple(_side(run, view, one, f"Round {one.index}") for one in (first, second))
    return _page(request, sides, facts, line=_rounds_line(facts, first, second))


def _runs_page(
    request: Request,
    runs: tuple[Run, Run],
    views: tuple[RunRecord, RunRecord],
    numbers: tuple[int | None, int | None],
) -> Response:
    chosen = []
    for name, run, view, number in zip(("first", "second"), runs, views, numbers, strict=True):
        drawn = _drawn(view)
        if not drawn:
            ended = "it ended without one" if run.status in ENDED else "wait for its first round"
            raise Conflict(
                f"the {name} run, “{words.shorten(run.title, 80)}”, has no picture: {ended}, or "
                "choose another run"
            )
        chosen.append(_chosen(drawn, number, view.best if view.best in drawn else drawn[-1]))
    first, second = chosen
    pairs, rests = matched(views[0].facts, views[1].facts)
    facts = [Compared(one, two, first.state(one.id), second.state(two.id)) for one, two in pairs]
    names = ("First run", "Second run")
    sides = _named(runs, tuple(map(_side, runs, views, chosen, names)))
    alone = tuple(
        OneSided(name, tuple((fact, r.state(fact.id)) for fact in rest))
        for name, r, rest in zip(names, chosen, rests, strict=True)
        if rest
    )
    return _page(
        request,
        sides,
        facts,
        line=f"{_more_line(chosen)} {_runs_line(facts, rests)}".strip(),
        alone=alone,
        figures=_figures(runs, views, (first, second)),
        notes=_notes(views, sides),
    )


def _page(
    request: Request,
    sides: Sequence[Side],
    facts: Sequence[Compared],
    *,
    line: str,
    alone: Sequence[OneSided] = (),
    figures: Sequence[Figure] = (),
    notes: Sequence[str] = (),
) -> Response:
    first, second = sides
    numbers = {"with": first.run, "a": second.index, "b": first.index}
    return page(
        request,
        "compare.html.j2",
        sides=sides,
        runs=first.run != second.run,
        same_sentence=_text(first) == _text(second),
        changes=[one for one in facts if one.before != one.after],
        same=same_of(facts),
        line=line,
        alone=alone,
        figures=figures,
        notes=notes,
        turned=f"/runs/{second.run}/compare?{urlencode(numbers)}",
    )


def same_of(facts: Sequence[Compared]) -> tuple[Same, ...]:
    """Return the facts that stand alike in both pictures, by state, those that fail first."""
    found: dict[Shown, list[Fact]] = {}
    for one in facts:
        if one.before == one.after:
            found.setdefault(one.before, []).append(one.fact)
    order = sorted(found, key=lambda state: (state == "yes", list(words.MEANINGS).index(state)))
    return tuple(Same(state, tuple(found[state])) for state in order)


def matched(
    first: Sequence[Fact], second: Sequence[Fact]
) -> tuple[list[tuple[Fact, Fact]], tuple[list[Fact], list[Fact]]]:
    """Return the facts that both lists have, in pairs, and those that only one has.

    All are in their order. Facts are paired by id and words, else by words, else by meaning
    (:func:`_meaning`), each with one other.
    """
    paired: dict[str, Fact] = {}
    rest = list(second)
    keys: tuple[Callable[[Fact], Hashable], ...] = (
        lambda fact: (fact.id, fact.kind, fact.statement),
        lambda fact: (fact.kind, fact.statement.casefold()),
        _meaning,
    )
    for key in keys:
        waiting: dict[Hashable, list[Fact]] = {}
        for fact in rest:
            waiting.setdefault(key(fact), []).append(fact)
        for fact in first:
            if fact.id not in paired and (found := waiting.get(key(fact))):
                paired[fact.id] = found.pop(0)
        taken = {fact.id for fact in paired.values()}
        rest = [fact for fact in rest if fact.id not in taken]
    pairs = [(fact, paired[fact.id]) for fact in first if fact.id in paired]
    return pairs, ([fact for fact in first if fact.id not in paired], rest)


def _meaning(fact: Fact) -> Hashable:
    """Return what two facts that mean the same have in common, whatever their words."""
    if not fact.classes:
        # Questions of data sets say nothing of their parts.
        return (fact.kind, fact.statement.casefold())
    classes = tuple(name.casefold() for name in fact.classes)
    key = "1" if fact.kind == "object" and fact.key is None else canonical_key(fact.key or "")
    predicate = canonical(fact.predicate) if fact.predicate else ""
    return (fact.kind, classes, key, (fact.value or "").casefold(), predicate)


def _drawn(view: RunRecord) -> list[Round]:
    return [r for r in view.rounds if r.candidate is not None]


def _chosen(drawn: list[Round], index: int | None, default: Round | None) -> Round:
    found = default if index is None else next((r for r in drawn if r.index == index), None)
    if found is None:
        numbers = ", ".join(str(r.index) for r in drawn)
        raise NotFound(f"round {index} has no picture: choose from rounds {numbers}")
    return found


def _side(run: Run, view: RunRecord, shown: Round, name: str) -> Side:
    return Side(
        name=name,
        run=run.id,
        index=shown.index,
        kept=None if view.best is None else view.best.index,
        rounds=tuple(_drawn(view)),
        picture=picture_of(view, shown),
        alt=alt_of(view, shown),
        score=shown.score("loop"),
        sentence=title_parts(view, shown),
        unfinished=run.status not in ENDED,
    )


def _text(side: Side) -> str:
    return " ".join("".join(text for text, _ in side.sentence).split())


def _named(runs: tuple[Run, Run], sides: tuple[Side, ...]) -> tuple[Side, ...]:
    """Return the sides of two runs with what tells them apart."""
    asked = [
        ", ".join(
            value if name == "profile" else f"{name} {value}"
            for name in ("profile", "strategy", "seed")
            if (value := _asked(run, name)) != "–"
            and (name == "profile" or len({_asked(one, name) for one in runs}) > 1)
        )
        for run in runs
    ]
    alike = len({_text(side) for side in sides}) == 1
    return tuple(
        replace(
            side,
            asked=said,
            about=said if alike else " · ".join(filter(None, (_shortened(side), said))),
        )
        for side, said in zip(sides, asked, strict=True)
    )


def _shortened(side: Side) -> str:
    return words.shorten(_text(side), 80)


def _more_line(chosen: Sequence[Round]) -> str:
    """Return which of two runs' pictures holds more of its facts; empty where one is unjudged."""
    cards = [r.cards.get("loop") for r in chosen]
    held = [
        (sum(v.state == "yes" for v in card.stated), len(card.stated)) if card is not None else None
        for card in cards
    ]
    if held[0] is None or held[1] is None or not (held[0][1] and held[1][1]):
        return ""
    (one, all_one), (two, all_two) = held[0], held[1]
    if one * all_two == two * all_one:
        both = f"{one} of {all_one}"
        both += "" if held[0] == held[1] else f" and {two} of {all_two}"
        return f"Both runs hold as many facts: {both}."
    shares = [f"{one} of {all_one}", f"{two} of {all_two}"]
    first = one * all_two > two * all_one
    more, less = shares if first else shares[::-1]
    name = "first" if first else "second"
    return f"The {name} run holds more facts: {more} against {less}."


def _rounds_line(facts: Sequence[Compared], first: Round, second: Round) -> str:
    if first is second:
        return "Both are the same round: choose another one to compare it with."
    won, lost, other = _counts(facts)
    if not won and not lost and not other:
        return "The judges see the same facts in both pictures."
    return (
        f"{words.count(won, 'fact')} won and {lost} lost "
        f"from round {first.index} to round {second.index}."
    )


def _runs_line(facts: Sequence[Compared], rests: tuple[list[Fact], list[Fact]]) -> str:
    if not facts:
        return "The two runs ask for no fact in common."
    won, lost, other = _counts(facts)
    asked = f"{words.count(len(facts), 'fact')} that both runs ask for"
    if not any(rests):
        asked = "one fact" if len(facts) == 1 else f"{len(facts)} facts"
    if not won and not lost and not other:
        verb = "is" if len(facts) == 1 else "are"
        return f"The {asked} {verb} judged alike in both pictures."
    return f"Of the {asked}, {lost} {_holds(lost)} only in the first and {won} only in the second."


def _holds(number: int) -> Literal["holds", "hold"]:
    return "holds" if number == 1 else "hold"


def _counts(facts: Sequence[Compared]) -> tuple[int, int, int]:
    """Return how many facts hold only in the second picture, only in the first, or differ else."""
    changes = [one for one in facts if one.before != one.after]
    won = sum(one.after == "yes" for one in changes)
    lost = sum(one.before == "yes" for one in changes)
    return won, lost, len(changes) - won - lost


def _figures(
    runs: tuple[Run, Run], views: tuple[RunRecord, RunRecord], chosen: tuple[Round, Round]
) -> tuple[Figure, ...]:
    """Return the lines about both runs: how they were asked, their scores and what they took."""
    lines = [
        ("Profile", [_asked(run, "profile") for run in runs]),
        ("Strategy", [_asked(run, "strategy") for run in runs]),
        ("Seed", [_asked(run, "seed") for run in runs]),
        ("Facts of the picture", [held_line(v, r) for v, r in zip(views, chosen, strict=True)]),
        ("Score by the judges of the loop", [words.score(r.score("loop")) for r in chosen]),
        ("Score by the judges of the report", [words.score(r.score("report")) for r in chosen]),
        ("Rounds", [str(len(_drawn(view))) for view in views]),
        ("Images drawn", [str(view.images) for view in views]),
        ("Judge calls", [str(view.judge_calls) for view in views]),
        ("Time", [words.duration(view.seconds) for view in views]),
        ("Cost", [words.money(view.usd) for view in views]),
    ]
    return tuple(Figure(label, (one, two)) for label, (one, two) in lines if {one, two} - {"–"})


def _asked(run: Run, name: str) -> str:
    value = run.request.get(name)
    return "–" if value is None or value == "" else str(value)


def _notes(views: tuple[RunRecord, RunRecord], sides: Sequence[Side]) -> tuple[str, ...]:
    notes = [
        f"The {side.name.lower()} has not ended: reload the page for its further rounds."
        for side in sides
        if side.unfinished
    ]
    first, second = (view.judges("loop") for view in views)
    if first != second:
        notes.append(
            "The two pictures were judged by different judges: part of a difference between their "
            f"scores may come from these ({', '.join(first) or 'none'} and "
            f"{', '.join(second) or 'none'})."
        )
    return tuple(notes)
