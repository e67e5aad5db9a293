"""The score by round as an SVG line chart."""

from __future__ import annotations

from scenewright.runs.record import ROLES, RunRecord
from scenewright.runs.report import templates
from scenewright.runs.report.words import score

WIDTH, HEIGHT = 440.0, 230.0
LEFT, RIGHT, TOP, BOTTOM = 34.0, 76.0, 14.0, 30.0


def draw_chart(view: RunRecord) -> str:
    """Return an SVG chart of SGScore (0 to 1) by round; empty if nothing was scored.

    One line for the judges of the loop, one for those of the report.
    """
    series = {
        role: [(r.index, value) for r in view.rounds if (value := r.score(role)) is not None]
        for role in ROLES
    }
    series = {role: points for role, points in series.items() if points}
    if not series:
        return ""
    last = max((r.index for r in view.rounds), default=0)
    spoken = "; ".join(
        f"{role} judges " + ", ".join(f"round {i} {score(v)}" for i, v in points)
        for role, points in series.items()
    )
    drawn = []
    taken: list[float] = []
    for role, points in series.items():
        placed = [(_x_of(i, last), _y_of(v), i, v) for i, v in points]
        y = label_y = placed[-1][1]
        while any(abs(label_y - other) < 17 for other in taken):
            label_y += 17 if y < HEIGHT - BOTTOM - 34 else -17
        taken.append(label_y)
        drawn.append((role, placed, label_y))
    return templates.render(
        "chart.svg.j2",
        spoken=spoken,
        last=last,
        step=max(1, -(-(last + 1) // 10)),
        kept=None if view.best is None else _x_of(view.best.index, last),
        series=drawn,
        size=_SIZES,
    )


def _x_of(index: int, last: int) -> float:
    span = WIDTH - LEFT - RIGHT - 24
    return LEFT + 12 + (span * index / last if last else span / 2)


def _y_of(value: float) -> float:
    return TOP + (1.0 - value) * (HEIGHT - TOP - BOTTOM)


_SIZES = {
    **{"WIDTH": WIDTH, "HEIGHT": HEIGHT, "LEFT": LEFT, "RIGHT": RIGHT, "TOP": TOP},
    **{"BOTTOM": BOTTOM, "x_of": _x_of, "y_of": _y_of},
}
