"""How real the objects of a run's pictures look, before and after, as the page and terminal say it.

The figure is object-centric realism (OcR): the mean probability, over objects and the aspects
shape and texture, that they look as in a photo.
"""

from __future__ import annotations

from scenewright.graphs.events import Role
from scenewright.runs.report import words
from scenewright.runs.report.parts import Stat
from scenewright.runs.report.record import ROLES, RunView

LOOP = "by the judges of the loop"


def realism_of(view: RunView, role: Role) -> tuple[float | None, float | None]:
    """OcR of the first round of the scene as it is now and of the kept one, each in [0, 1]; None
    where it is not known."""
    first = next((r for r in view.rounds if r.index == view.scenes[-1].round), None)
    before = None if first is None else first.cards.get(role)
    after = view.card(role)
    return (
        None if before is None else before.ocr,
        None if after is None else after.ocr,
    )


def realism_stats(view: RunView) -> tuple[Stat, ...]:
    """Figures of the page's head: realism after, and before; none in a run that does not ask."""
    found = []
    for role in reversed(ROLES):
        before, after = realism_of(view, role)
        if before is None and after is None:
            continue
        note = f"{words.score(before)} in round {view.scenes[-1].round}, {role} judges"
        found.append(Stat("Realism (OcR)", words.score(after), note))
    return tuple(found)


def realism_lines(view: RunView) -> list[tuple[str, str]]:
    """Label and value of the terminal's lines; none in a run that does not ask."""
    found: list[tuple[str, str]] = []
    for role in ROLES:
        before, after = realism_of(view, role)
        if before is None and after is None:
            continue
        since = ""
        if before is not None and after is not None:
            since = f" ({words.signed(after - before)} from round {view.scenes[-1].round})"
        label = "" if found else "realism"
        whose = LOOP if role == "loop" else view.reporting.line
        found.append((label, f"{words.score(after)} {whose}{since}"))
    return found
