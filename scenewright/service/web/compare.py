"""Two pictures side by side, or one over the other with a slider.

They are two rounds of one run, or rounds of two runs whose facts are matched by their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from scenewright.core.facts import Fact
from scenewright.core.vocabulary import canonical, canonical_key
from scenewright.graphs.events import Role
from scenewright.runs.record import Round, RunRecord
from scenewright.runs.report import words
from scenewright.runs.report.content import title_parts
from scenewright.runs.report.pictures import Picture
from scenewright.service.api.common import Core, Reader, RunId
from scenewright.service.core.errors import Conflict, NotFound
from scenewright.service.core.schemas import ENDED
from scenewright.service.core.store import Run
from scenewright.service.core.worker_thread import size_of_request
from scenewright.service.web.rendering import PageRoute, page
from scenewright.service.web.run_page import alt_of, held_line, picture_of, with_record

router = APIRouter(include_in_schema=False, route_class=PageRoute)

Number = Annotated[int | None, Query(ge=0, lt=2**31)]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two pictures."""

    name: str
    """Its name on the page: ``Round 2``, or ``First run``."""
    run: Run
    """Its run."""
    view: RunRecord
    """The record of its run."""
    shown: Round
    """Its round."""
    sentence: tuple[tuple[str, str], ...]
    """The sentence in parts, each with why it is not drawn or not checked; empty where it is."""

    @property
    def picture(self) -> Picture | None:
        """The picture; none if its file is not there."""
        return picture_of(self.view, self.shown)

    @property
    def alt(self) -> str:
        """Text for a reader who cannot see it."""
        return alt_of(self.view, self.shown)

    @property
    def text(self) -> str:
        """Its sentence."""
        return " ".join("".join(text for text, _ in self.sentence).split())

    def asked(self, name: str) -> str:
        """Return a field of the run's request; a dash where it has none."""
        value = self.run.request.get(name)
        return "–" if value is None or value == "" else str(value)


@dataclass(frozen=True, slots=True)
class Compared:
    """A fact that both pictures were judged on."""

    fact: Fact
    """The fact, in the words of the first."""
    other: Fact
    """The same fact, in the words of the second."""
    looks: tuple[words.VerdictMark, words.VerdictMark]
    """The verdicts on it in the first picture and in the second."""

    @property
    def before(self) -> str:
        """Its state in the first picture."""
        return self.looks[0].partition("-")[0]

    @property
    def after(self) -> str:
        """Its state in the second."""
        return self.looks[1].partition("-")[0]


@router.get("/runs/{run_id}/compare")
async def show_comparison(
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
        return await with_record(
            service, run, lambda view, _: _rounds_page(request, run, view, a, b)
        )
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
    runs = [(one, await with_record(service, one, lambda view, _: view)) for one in (run, second)]
    size = max(size_of_request(one.request) for one in (run, second))
    return await service.worker_thread.compute(size, _runs_page, request, runs, (a, b))


def _rounds_page(
    request: Request, run: Run, view: RunRecord, a: int | None, b: int | None
) -> Response:
    if len(view.drawn) < 2:
        raise Conflict("the run has fewer than two pictures: wait for its second round")
    first = _chosen(view, a, view.drawn[0])
    kept = view.best if view.best in view.drawn and view.best is not first else view.drawn[-1]
    second = _chosen(view, b, kept)
    facts = [Compared(fact, fact, (_look(first, fact), _look(second, fact))) for fact in view.facts]
    sides = tuple(
        Side(f"Round {r.index}", run, view, r, title_parts(view, r)) for r in (first, second)
    )
    won, lost, other = _counts(facts)
    if first is second:
        line = "Both are the same round: choose another one to compare it with."
    elif not won and not lost and not other:
        line = "The judges see the same facts in both pictures."
    else:
        line = (
            f"{words.count(won, 'fact')} won and {lost} lost "
            f"from round {first.index} to round {second.index}."
        )
    return _page(request, sides, facts, line=line)


def _look(shown: Round, fact: Fact) -> words.VerdictMark:
    return words.verdict_mark(shown.shown_verdicts.get(fact.id), shown.unjudged)


def _score_by(role: Role, side: Side) -> str:
    return words.card_score(side.shown.cards.get(role))


def _runs_page(
    request: Request, runs: Sequence[tuple[Run, RunRecord]], numbers: tuple[int | None, int | None]
) -> Response:
    sides = []
    for name, (run, view), number in zip(("First", "Second"), runs, numbers, strict=True):
        if not view.drawn:
            ended = "it ended without one" if run.status in ENDED else "wait for its first round"
            raise Conflict(
                f"the {name.lower()} run, “{words.shorten(run.title, 80)}”, has no picture: "
                f"{ended}, or choose another run"
            )
        default = view.best if view.best in view.drawn else view.drawn[-1]
        shown = _chosen(view, number, default)
        sides.append(Side(f"{name} run", run, view, shown, title_parts(view, shown)))
    first, second = (side.shown for side in sides)
    pairs, rests = matched(*(side.view.facts for side in sides))
    facts = [Compared(one, two, (_look(first, one), _look(second, two))) for one, two in pairs]
    alone = [
        (side.name, [(fact, _look(side.shown, fact)) for fact in rest])
        for side, rest in zip(sides, rests, strict=True)
        if rest
    ]
    asked = [
        ", ".join(
            value if name == "profile" else f"{name} {value}"
            for name in ("profile", "strategy", "seed")
            if (value := side.asked(name)) != "–"
            and (name == "profile" or len({one.asked(name) for one in sides}) > 1)
        )
        for side in sides
    ]
    alike = sides[0].text == sides[1].text
    # Their scores and what they took.
    lines: list[tuple[str, Callable[[Side], str]]] = [
        ("Profile", lambda side: side.asked("profile")),
        ("Strategy", lambda side: side.asked("strategy")),
        ("Seed", lambda side: side.asked("seed")),
        ("Facts of the picture", lambda side: held_line(side.view, side.shown)),
        ("Score by the judges of the report", lambda side: _score_by("report", side)),
        ("Score by the judges of the loop", lambda side: _score_by("loop", side)),
        ("Rounds", lambda side: str(len(side.view.drawn))),
        ("Images drawn", lambda side: str(side.view.images)),
        ("Judge calls", lambda side: str(side.view.judge_calls)),
        ("Time", lambda side: words.duration(side.view.seconds)),
        ("Cost", lambda side: words.money(side.view.usd)),
    ]
    figures = [(label, [value(side) for side in sides]) for label, value in lines]
    notes = [
        f"The {side.name.lower()} has not ended: reload the page for its further rounds."
        for side in sides
        if side.run.status not in ENDED
    ]
    judges, others = (side.view.judges("loop") for side in sides)
    if judges != others:
        notes.append(
            "The two pictures were judged by different judges: part of a difference between their "
            f"scores may come from these ({', '.join(judges) or 'none'} and "
            f"{', '.join(others) or 'none'})."
        )
    return _page(
        request,
        sides,
        facts,
        line=f"{_more_line(sides)} {_runs_line(facts, any(rests))}".strip(),
        asked=asked,
        about=[
            said if alike else " · ".join(filter(None, (words.shorten(side.text, 80), said)))
            for side, said in zip(sides, asked, strict=True)
        ],
        alone=alone,
        figures=[(label, values) for label, values in figures if {*values} - {"–"}],
        notes=notes,
    )


def _page(
    request: Request, sides: Sequence[Side], facts: Sequence[Compared], **context: Any
) -> Response:
    first, second = sides
    numbers = {"with": first.run.id, "a": second.shown.index, "b": first.shown.index}
    states: dict[str, list[Compared]] = {}
    for one in facts:
        if one.before == one.after:
            states.setdefault(one.before, []).append(one)
    # Facts that fail come first.
    order = sorted(states, key=lambda state: (state == "yes", list(words.MEANINGS).index(state)))  # type: ignore[arg-type]
    return page(
        request,
        "compare.html.j2",
        sides=sides,
        runs=first.run.id != second.run.id,
        same_sentence=first.text == second.text,
        changes=[one for one in facts if one.before != one.after],
        same=[(state, states[state]) for state in order],
        turned=f"/runs/{second.run.id}/compare?{urlencode(numbers)}",
        **{"about": None, "alone": (), "figures": (), "notes": (), **context},
    )


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


def _chosen(view: RunRecord, index: int | None, default: Round | None) -> Round:
    found = default if index is None else next((r for r in view.drawn if r.index == index), None)
    if found is None:
        numbers = ", ".join(str(r.index) for r in view.drawn)
        raise NotFound(f"round {index} has no picture: choose from rounds {numbers}")
    return found


def _more_line(sides: Sequence[Side]) -> str:
    """Return which of two runs' pictures holds more of its facts; empty where one is unjudged."""
    held = []
    for side in sides:
        card = side.shown.shown_card
        if card is None or not card.stated:
            return ""
        held.append((sum(verdict.state == "yes" for verdict in card.stated), len(card.stated)))
    (one, all_one), (two, all_two) = held
    shares = [f"{one} of {all_one}", f"{two} of {all_two}"]
    if one * all_two == two * all_one:
        return f"Both runs hold as many facts: {' and '.join(dict.fromkeys(shares))}."
    first = one * all_two > two * all_one
    more, less = shares if first else shares[::-1]
    return f"The {'first' if first else 'second'} run holds more facts: {more} against {less}."


def _runs_line(facts: Sequence[Compared], more: bool) -> str:
    """Return how the facts of two runs compare; ``more``: one of them asks further ones."""
    if not facts:
        return "The two runs ask for no fact in common."
    won, lost, other = _counts(facts)
    if more:
        asked = f"{words.count(len(facts), 'fact')} that both runs ask for"
    else:
        asked = "one fact" if len(facts) == 1 else f"{len(facts)} facts"
    if not won and not lost and not other:
        verb = "is" if len(facts) == 1 else "are"
        return f"The {asked} {verb} judged alike in both pictures."
    hold = "holds" if lost == 1 else "hold"
    return f"Of the {asked}, {lost} {hold} only in the first and {won} only in the second."


def _counts(facts: Sequence[Compared]) -> tuple[int, int, int]:
    """Return how many facts hold only in the second picture, only in the first, or differ else."""
    changes = [one for one in facts if one.before != one.after]
    won = sum(one.after == "yes" for one in changes)
    lost = sum(one.before == "yes" for one in changes)
    return won, lost, len(changes) - won - lost
