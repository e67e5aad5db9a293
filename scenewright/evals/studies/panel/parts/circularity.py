"""One judge in the loop and in the report: how much of a gain others confirm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from scenewright.evals.reporting import plots
from scenewright.evals.statistics.figures import Bootstrap, Figure
from scenewright.evals.studies.panel.presentation import (
    apart,
    bare,
    report,
    short_name,
)
from scenewright.evals.studies.panel.selection import (
    Curve,
    Gains,
    candidate_sets,
    columns_of,
    curve_point,
    gains_of,
    group_said,
    judge_scores,
    panel_like,
    ratio,
    rounds_of,
    simulated_picks,
    slopes,
    trajectories_of,
    true_scores,
    within_slope,
)
from scenewright.evals.studies.panel.study import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
    in_thread,
)
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

HELD_OUT = "held-out judges"
"""The reporter that is the panel of judges which did not steer."""
TRUTH = "truth"
"""The reporter that knows what holds."""


class CircularityOptions(Options):
    """Options of the study of circularity."""

    simulated_items: int = Field(default=300, ge=20)
    """Prompts of the simulation."""
    candidates: int = Field(default=8, ge=2, le=32)
    """Most pictures among which a simulated judge picks."""
    correlations: tuple[float, ...] = (0.0, 0.4, 0.8)
    """Correlations of the errors of simulated judges, each in [0, 1): a panel of one family."""
    quality_spread: float = Field(default=0.2, ge=0.0, lt=1.0)
    """Share of the variance of what holds that the facts of a simulated picture have in common: how
    unlike the candidates of one prompt are."""


_SEEN_BY = ("seen by the picking judge", "seen by the others", TRUTH)
Rows = list[dict[str, Any]]
ByReporter = Mapping[str, Rows]


def _result(context: PanelStudyContext, options: CircularityOptions) -> PanelStudyResult:
    """Measure it in loops, where there are any, in picks by each judge, and in simulated picks.

    Raises ``PanelStudyError`` for a correlation outside [0, 1).
    """
    wrong = [rho for rho in options.correlations if not 0.0 <= rho < 1.0]
    if wrong:
        raise PanelStudyError(f"the correlation is {wrong[0]}: use numbers from 0 to below 1")
    table = context.table
    step = context.steps(2 + len(options.correlations))
    bootstrap = Bootstrap(max(1, table.n_items), context.seed, context.resamples)
    rounds, loops = _rounds(table, context.loop_judges, bootstrap)
    step()
    units = slopes(table, table.said)
    scores = judge_scores(table) / units
    sets, what = candidate_sets(table, scores)
    n = len(table.judges)
    picks: Rows = []
    curves: dict[str, Curve] = {"measured": {}}
    if sets:
        truth = true_scores(table)
        gains = gains_of(table, sets, np.column_stack([scores, truth, table.ratings]), n)
        for at, judge in enumerate(table.judge_ids):
            rest = np.delete(scores, at, axis=1).mean(1)
            slope = within_slope(table, sets, scores[:, at], rest, bootstrap)
            picks.append(_pick(judge, gains, [at], slope, bootstrap))
        picks.append(_pick("all", gains, range(n), Figure(value=None), bootstrap))
        # The same sets for every number: others would be other prompts.
        for number in range(1, min(len(at) for at in sets) + 1):
            some = gains_of(table, sets, np.column_stack([scores, truth]), n, number)
            curves["measured"][number] = curve_point(some, bootstrap)
    step()
    like = panel_like(table)
    shares: Rows = []
    for rho in options.correlations:
        name = f"simulated, correlation {rho:g}"
        curves[name], (confirmed, real) = simulated_picks(
            like, rho, items=options.simulated_items, candidates=options.candidates,
            spread=options.quality_spread, seed=context.seed, resamples=context.resamples,
        )  # fmt: skip
        shares.append({"_rho": rho, "confirmed": confirmed, "true_share": real})
        step()
    every = picks[-1] if picks else None
    ends = sorted(
        (row for row in picks[:-1] if row["confirmed"].value is not None),
        key=lambda row: row["confirmed"].value,
    )
    simulated = [curves[name] for name in curves if name != "measured"]
    values = {
        "loops": loops,
        "last": rounds[HELD_OUT][-1] if rounds else None,
        "by_truth": rounds[TRUTH][-1] if TRUTH in rounds else None,
        "every": every if len(picks) > 2 and every and every["others"].value is not None else None,
        "what": what,
        "sets": len(sets),
        "least": ends[0] if len(ends) > 1 else None,
        "most": ends[-1] if ends else None,
        "apart": len(ends) > 1 and apart(ends[0]["confirmed"], ends[-1]["confirmed"]),
        "shares": [
            row for row in shares if None not in (row["confirmed"].value, row["true_share"].value)
        ],
        "best_of": max((max(found) for found in simulated), default=0),
        "scaled": bool((units != 1.0).any()),
        "source": like.source,
        "facts": like.facts,
        "items": options.simulated_items,
        "spread": f"{options.quality_spread:g}",
        "has_rounds": len({image.round for image in table.images} - {None}) >= 2,
        "n": n,
        "rounds": rounds,
        "ends": [{"_reporter": name, **found[-1]} for name, found in rounds.items()],
        "kept": [
            row | {"_truth": true["reporting"] if true else None}
            for row, true in zip(
                rounds.get(HELD_OUT, ()),
                rounds.get(TRUTH, [None] * len(rounds.get(HELD_OUT, ()))),
                strict=True,
            )
        ],
        "picks": picks,
        "titled_picks": [
            row | {"_title": "all in turn" if row is every else row["judge"]} for row in picks
        ],
        "simulated": shares,
    }
    shown = {
        name: found
        for name, found in curves.items()
        if name != "measured" or (len(found) > 1 and len(picks) > 2)
    }
    by_number = [
        {"source": source, "best_of": number, "reporter": reporter, **bare("gain", gain)}
        for source, found in curves.items()
        for number, three in found.items()
        for reporter, gain in zip(("own", "others", "truth"), three, strict=True)
    ]
    return report(
        "circularity",
        values,
        plots={
            "circularity_rounds": partial(_draw_rounds, rounds, loops) if rounds else None,
            "circularity_picks": partial(_draw_picks, picks[:-1], what) if picks[2:] else None,
            "circularity_best_of": partial(_draw_best_of, shown) if simulated else None,
        },
        records_of={
            "circularity_rounds": [
                {"reporter": name, **row} for name, found in rounds.items() for row in found
            ]
            or None,
            "circularity_picks": picks or None,
            "circularity_best_of": by_number or None,
        },
    )


def _rounds(
    table: AnswerTable, loop_judges: Sequence[str], bootstrap: Bootstrap
) -> tuple[dict[str, Rows], int]:
    """Return the rounds by each reporter, and the number of loops.

    Reporters: :data:`HELD_OUT` first, judges, :data:`TRUTH`. Nothing where no loop is known.
    """
    steered, held_out = columns_of(table, loop_judges)
    if not steered or not held_out:
        return {}, 0
    said = {HELD_OUT: group_said(table, held_out)}
    if len(held_out) > 1:
        said |= {table.judge_ids[at]: table.said[:, at] for at in held_out}
    steered_said = group_said(table, steered)
    steering = table.image_scores(steered_said)
    loops = trajectories_of(table, steering)
    if not len(loops.kept) or loops.rounds < 2:
        return {}, 0
    units = slopes(table, np.column_stack([steered_said, *said.values()]))
    seen = {name: (table.image_scores(p), float(units[1 + at]))
            for at, (name, p) in enumerate(said.items())}  # fmt: skip
    truth = true_scores(table)
    if not np.isnan(truth).all():
        seen[TRUTH] = truth, 1.0
    names = ("round", "drew", "steering", "reporting", "gain", "reported", "gap", "confirmed")
    found = {
        name: [
            {of: getattr(one, of) for of in names}
            for one in rounds_of(loops, steering, scores, bootstrap, (float(units[0]), unit))
        ]
        for name, (scores, unit) in seen.items()
    }
    return found, len(loops.kept)


def _pick(
    judge: str, gains: Gains, pickers: Sequence[int], slope: Figure, bootstrap: Bootstrap
) -> dict[str, Any]:
    """Return the gain of picking by one judge, or the mean over several: scores in [0, 1].

    ``own``: as the picking judge sees it; ``others``: as the mean of the other judges does;
    ``expected``: the confirmed share where scores are jointly normal; ``true``: gain in the share
    of facts that hold; ``rated``: gain in the mean human rating, in its own units.
    """
    at, n = list(pickers), gains.judges
    items = np.repeat(gains.items, len(at))
    own, others = gains.own()[:, at].ravel(), gains.others()[:, at].ravel()
    true, rated = gains.gains[:, at, n].ravel(), gains.gains[:, at, n + 1].ravel()
    return {
        "judge": judge,
        "own": bootstrap.share(items, own),
        "others": bootstrap.share(items, others),
        "gap": bootstrap.share(items, own - others),
        "confirmed": ratio(items, others, own, bootstrap),
        "expected": slope,
        "true": bootstrap.share(items, true),
        "true_share": ratio(items, true, own, bootstrap),
        "rated": bootstrap.share(items, rated),
    }


def _draw_rounds(rounds: ByReporter, loops: int) -> Plot:
    """Mean score of the kept pictures, by the judges that steered, the others, and the truth."""
    made, axis = plots.chart(
        f"Pictures kept by {loops} loops", "Round", "Mean score of kept pictures (%)"
    )
    series = {"judges that steered": (HELD_OUT, "steering"), HELD_OUT: (HELD_OUT, "reporting")}
    if TRUTH in rounds:
        series[TRUTH] = TRUTH, "reporting"
    for at, (label, (reporter, of)) in enumerate(series.items()):
        beside = 0.06 * (at - 1)
        points = [(row["round"] + beside, row[of]) for row in rounds[reporter]]
        plots.curve(axis, at, label, points, 100.0)
    axis.set_xticks([row["round"] for row in rounds[HELD_OUT]])
    return plots.legend(made, axis)


def _draw_picks(picks: Rows, what: str) -> Plot:
    """Own and others' gain of each judge's picks."""
    series = {
        title: [row[of] for row in picks]
        for title, of in zip(_SEEN_BY, ("own", "others", "true"), strict=True)
        if any(row[of].value is not None for row in picks)
    }
    return plots.bar_chart(
        [short_name(row["judge"]) for row in picks],
        series,
        x="Gain of the picked picture (points)",
        title=f"Each judge picks the best among {what}",
        factor=100.0,
    )


def _draw_best_of(curves: Mapping[str, Curve]) -> Plot:
    """Gain by the number of candidates, measured and simulated."""
    made, axes = plots.panes(len(curves), (1.0 + 2.7 * len(curves), 3.8))
    for axis, (title, found) in zip(axes, curves.items(), strict=True):
        for at, name in enumerate(_SEEN_BY):
            points = [(number + 0.06 * (at - 1), three[at]) for number, three in found.items()]
            plots.curve(axis, at, name, points, 100.0)
        plots.labelled(axis, "Best of", title=title)
    axes[0].set_ylabel("Gain (points)")
    tops = [axis.get_ylim() for axis in axes]
    for axis in axes:
        axis.set_ylim(min(low for low, _ in tops), max(high for _, high in tops))
    return plots.legend(made, axes[-1])


PART = PanelStudy(
    name="circularity",
    title="The judge that steers and the judge that reports",
    about="How much of a gain that a judge sees in what it picked do other judges confirm?",
    needs=frozenset({"several"}),
    options=CircularityOptions,
    run=in_thread(_result),
)
