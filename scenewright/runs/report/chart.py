"""The score by round as an SVG line chart."""

from __future__ import annotations

from html import escape

from scenewright.graphs.events import Role
from scenewright.runs.report.record import ROLES, RunView
from scenewright.runs.report.words import score

WIDTH, HEIGHT = 440.0, 230.0
LEFT, RIGHT, TOP, BOTTOM = 34.0, 76.0, 14.0, 30.0
NAMES: dict[Role, str] = {"loop": "loop", "report": "report"}


def draw_chart(view: RunView) -> str:
    """SVG markup: SGScore (0 to 1) over rounds, one line for the loop's judges and one for
    the report's; empty if nothing was scored."""
    series = {
        role: [(r.index, value) for r in view.rounds if (value := r.score(role)) is not None]
        for role in ROLES
    }
    if not any(series.values()):
        return ""
    last = max((r.index for r in view.rounds), default=0)
    spoken = "; ".join(
        f"{NAMES[role]} judges " + ", ".join(f"round {i} {score(v)}" for i, v in points)
        for role, points in series.items()
        if points
    )
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="group" '
        f'aria-label="Score by round: {escape(spoken)}">'
    ]
    parts.extend(_grid(last))
    if view.best is not None:
        x = _x(view.best.index, last)
        parts.append(
            f'<line class="kept" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
        )
    taken: list[float] = []
    for role, points in series.items():
        if points:
            parts.extend(_series(role, points, last, taken))
    parts.append("</svg>")
    return "".join(parts)


def _x(index: int, last: int) -> float:
    span = WIDTH - LEFT - RIGHT - 24
    return LEFT + 12 + (span * index / last if last else span / 2)


def _y(value: float) -> float:
    return TOP + (1.0 - value) * (HEIGHT - TOP - BOTTOM)


def _grid(last: int) -> list[str]:
    parts = []
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _y(value)
        parts.append(
            f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        if value in (0.0, 0.5, 1.0):
            parts.append(
                f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
                f"{value:g}</text>"
            )
    step = max(1, -(-(last + 1) // 10))
    for index in range(0, last + 1, step):
        parts.append(
            f'<text class="tick" x="{_x(index, last):.1f}" y="{HEIGHT - 9:.1f}" '
            f'text-anchor="middle">{"round " if last < 5 else ""}{index}</text>'
        )
    return parts


def _series(
    role: Role, points: list[tuple[int, float]], last: int, taken: list[float]
) -> list[str]:
    placed = [(_x(i, last), _y(v), i, v) for i, v in points]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y, _, _ in placed)
    parts = [f'<g class="series {role}"><path d="M{path}"/>']
    for x, y, index, value in placed:
        shape = (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
            if role == "loop"
            else f'<rect x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9" rx="1"/>'
        )
        text = f"Round {index}, {NAMES[role]} judges: {value:.3f}"
        parts.append(
            f'<g tabindex="0" role="img" aria-label="{text}"><title>{text}</title>{shape}</g>'
        )
    x, y, _, value = placed[-1]
    label_y = y
    while any(abs(label_y - other) < 17 for other in taken):
        label_y += 17 if y < HEIGHT - BOTTOM - 34 else -17
    taken.append(label_y)
    parts.append(
        f'<text class="end" x="{WIDTH - RIGHT + 8:.1f}" y="{label_y + 4:.1f}">'
        f"{NAMES[role]} {score(value)}</text></g>"
    )
    return parts
