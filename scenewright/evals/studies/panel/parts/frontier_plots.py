"""Plots of the study of quorum, abstention and cascades."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scenewright.evals.statistics.estimates import number
from scenewright.evals.studies.panel.metric_evaluator import MEASURES
from scenewright.evals.studies.panel.wording import estimate, short_names
from scenewright.evals.studies.plots import COLORS, LINES, MARKERS, errors, figure, legend

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

    from scenewright.evals.studies.panel.parts.frontier_result import Frontier

_GREY = "#9aa3ab"
_AXES = {
    "calls": "calls an image",
    "answers": "answers an image",
    "tokens": "tokens an image",
    "usd": "dollars an image",
}


def cascades(found: Frontier) -> Plot:
    """Quality of every panel and cascade over its cost, and the frontier; for the cost that is to
    be saved, and calls if that is another."""
    of = found.cascades
    wanted = tuple(dict.fromkeys((of.cost, "calls")))
    made, axes = figure(1, len(wanted), size=(7.0 if len(wanted) == 1 else 9.5, 4.4))
    names = short_names(found.table.judge_ids)
    for axis, cost in zip(axes[0], wanted, strict=True):
        groups = {
            "a cascade": [p for p in of.points if p.others],
            "a panel": [p for p in of.points if not p.others],
        }
        for at, (label, plans) in enumerate(groups.items()):
            axis.scatter(
                [of.points[p][1][cost] for p in plans],
                [of.points[p][0] for p in plans],
                s=10 if at == 0 else 24, marker="o" if at == 0 else "s", alpha=0.55, linewidths=0,
                color=_GREY if at == 0 else COLORS[5], label=label, zorder=1 + at,
            )  # fmt: skip
        front = [p for p in of.fronts[cost] if of.plans[p].quality.value is not None]
        axis.errorbar(
            [of.points[p][1][cost] for p in front],
            [of.points[p][0] for p in front],
            yerr=errors([estimate(of.plans[p].quality) for p in front]),
            color=COLORS[0], marker="o", markersize=4, linewidth=1.4, elinewidth=0.7, capsize=2,
            label="Pareto frontier", zorder=4,
        )  # fmt: skip
        x, y = of.points[found.full][1][cost], of.points[found.full][0]
        axis.scatter([x], [y], s=110, marker="*", color=COLORS[1], label="full panel", zorder=5)
        for single in (p for p in of.points if len(p.everyone) == 1):
            value, spent = of.points[single]
            if value == value:
                axis.annotate(
                    names[single.first[0]], (spent[cost], value), fontsize=8,
                    xytext=(4, -9), textcoords="offset points", color="#444444",
                )  # fmt: skip
        axis.set_xlabel(_AXES[cost])
        axis.margins(x=0.08)
    axes[0][0].set_ylabel(MEASURES[found.measure].title)
    made.suptitle(f"Panels and cascades by cost ({found.names[0]})", fontsize=11)
    legend(made, axes[0][0], columns=4)
    plot: Plot = made
    return plot


def coverage(found: Frontier) -> Plot:
    """Accuracy over coverage of the panel and of each judge."""
    made, axes = figure(size=(7.0, 4.6))
    axis = axes[0][0]
    ids = found.table.judge_ids
    voters = [one for one in found.abstaining if one.kind != "spread"]
    for at, one in enumerate(voters):
        points = [(100.0 * c, f) for c, f in one.at.items() if f.value is not None and c >= 0.3]
        panel = one.kind == "margin"
        label = f"panel ({one.voter})" if panel else short_names(ids)[ids.index(one.voter)]
        axis.plot(
            [x for x, _ in points], [f.value for _, f in points],
            color=COLORS[at % len(COLORS)], linestyle=LINES[(at + at // len(COLORS)) % len(LINES)],
            linewidth=2.0 if panel else 1.3, label=label,
        )  # fmt: skip
        if at == 0:
            known = [(x, f) for x, f in points if f.low is not None]
            axis.fill_between(
                [x for x, _ in known], [f.low for _, f in known], [f.high for _, f in known],
                color=COLORS[0], alpha=0.15, linewidth=0,
            )  # fmt: skip
    axis.set_xlabel("facts with a verdict, the surest first (%)")
    axis.set_ylabel("accuracy of these verdicts")
    axis.set_title("Abstention: accuracy over coverage")
    legend(made, axis, columns=3)
    plot: Plot = made
    return plot


def rules(found: Frontier) -> Plot:
    """Quality over coverage by fixed bounds of probability and of disagreement."""
    made, axes = figure(size=(7.0, 4.2))
    axis = axes[0][0]
    kinds = {"threshold": "silent within [t, 1 − t]", "spread": "silent where judges differ by > d"}
    never = found.rules[0]
    for at, (kind, label) in enumerate(kinds.items()):
        mine = [never, *(rule for rule in found.rules if rule.kind == kind)]
        mine = [r for r in mine if r.quality.value is not None and r.coverage.value]
        axis.errorbar(
            [100.0 * (r.coverage.value or 0.0) for r in mine],
            [r.quality.value or 0.0 for r in mine],
            yerr=errors([estimate(r.quality) for r in mine]),
            color=COLORS[at], marker=MARKERS[at], linestyle=LINES[at], linewidth=1.4,
            markersize=5, elinewidth=0.8, capsize=2, label=label,
        )  # fmt: skip
        last: tuple[float | None, float | None] | None = None
        for rule in mine[1:]:
            place = (rule.coverage.value, rule.quality.value)
            if place != last:
                axis.annotate(
                    number(rule.bound or 0.0, 2), (100.0 * (place[0] or 0.0), place[1] or 0.0),
                    fontsize=8, xytext=(5, 5 if at == 0 else -12), textcoords="offset points",
                    color=COLORS[at],
                )  # fmt: skip
            last = place
    axis.set_xlabel("facts with a verdict (%)")
    axis.set_ylabel(MEASURES[found.measure].title)
    axis.set_title(f"Abstention by fixed bounds ({found.names[0]})")
    legend(made, axis, columns=2)
    plot: Plot = made
    return plot


def quorum(found: Frontier) -> Plot:
    """Share scored against quality, one line a share of missing answers."""
    made, axes = figure(size=(7.0, 4.2))
    axis = axes[0][0]
    for at, missing in enumerate(sorted({one.missing for one in found.quorums})):
        mine = [
            one for one in found.quorums
            if one.missing == missing and one.quality.value is not None and one.scored.value
        ]  # fmt: skip
        axis.errorbar(
            [100.0 * (one.scored.value or 0.0) for one in mine],
            [one.quality.value or 0.0 for one in mine],
            yerr=errors([estimate(one.quality) for one in mine]),
            color=COLORS[at % len(COLORS)], marker=MARKERS[at % len(MARKERS)],
            linestyle=LINES[at % len(LINES)], linewidth=1.4, markersize=5, elinewidth=0.8,
            capsize=2,
            label="answers as they are" if not missing else f"{100.0 * missing:g} % missing",
        )  # fmt: skip
        if missing:
            for one in mine:
                axis.annotate(
                    str(one.quorum), (100.0 * (one.scored.value or 0.0), one.quality.value or 0.0),
                    fontsize=8, xytext=(4, 5), textcoords="offset points",
                    color=COLORS[at % len(COLORS)],
                )  # fmt: skip
    axis.set_xlabel("facts with a verdict (%); numbers are quorums")
    axis.set_ylabel(MEASURES[found.measure].title)
    axis.set_title(f"Quorum ({found.names[0]})")
    legend(made, axis, columns=3)
    plot: Plot = made
    return plot
