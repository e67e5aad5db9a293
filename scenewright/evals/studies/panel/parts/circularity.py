"""One judge in the loop and in the report: how much of a gain others confirm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field

from scenewright.evals.reporting.charts import Chart
from scenewright.evals.reporting.frames import Frame, percents, used, values_by_key
from scenewright.evals.statistics.figures import Bootstrap, Figure, side_of_zero
from scenewright.evals.studies.panel.resampling import intervals_apart
from scenewright.evals.studies.panel.selection import (
    candidate_sets,
    columns_of,
    gains_of,
    group_said,
    judge_scores,
    panel_like,
    rounds_of,
    selection_gains,
    selection_gains_by_number,
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
    sentences_of,
)
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError

HELD_OUT = "held-out judges"
"""The reporter that is the panel of judges which did not steer."""
TRUTH = "truth"
"""The reporter that knows what holds."""
_SEEN_BY = {"own": "seen by the picking judge", "others": "seen by the others", "true": TRUTH}
_ROUNDS = {
    "steering": "Loop judges",
    "reporting": "Held-out judges",
    "gain": "Gain, loop judges",
    "reported": "Gain, held-out",
    "gap": "Gap",
    "confirmed": "Confirmed (%)",
}
_PICKS = {
    "own": "Gain, own",
    "others": "Gain, others",
    "gap": "Gap",
    "confirmed": "Confirmed (%)",
    "expected": "Confirmed if normal (%)",
    "true": "Gain, truth",
    "true_share": "Real (%)",
}
Rows = list[dict[str, Any]]


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


def measure(context: PanelStudyContext, options: CircularityOptions) -> PanelStudyResult:
    """Measure it in loops, where there are any, in picks by each judge, and in simulated picks.

    Raises ``PanelStudyError`` for a correlation outside [0, 1).
    """
    wrong = [rho for rho in options.correlations if not 0.0 <= rho < 1.0]
    if wrong:
        raise PanelStudyError(f"the correlation is {wrong[0]}: use numbers from 0 to below 1")
    table, n = context.table, len(context.table.judges)
    step = context.steps(2 + len(options.correlations))
    bootstrap = Bootstrap(max(1, table.n_items), context.seed, context.resamples)
    rounds, loops = _rounds(table, context.loop_judges, bootstrap)
    step()
    units = slopes(table, table.said)
    scores = judge_scores(table) / units
    sets, what = candidate_sets(table, scores)
    picks: Rows = []
    curves: dict[str, list[dict[str, Figure]]] = {}
    if sets:
        reporters = np.column_stack([scores, true_scores(table), table.ratings])
        gains = gains_of(table, sets, reporters, n)
        for judge, at in (*zip(table.judge_ids, ([at] for at in range(n)), strict=True),
                          ("all", list(range(n)))):  # fmt: skip
            expected = Figure(value=None)
            if judge != "all":
                rest = np.delete(scores, at, axis=1).mean(1)
                expected = within_slope(table, sets, scores[:, at[0]], rest, bootstrap)
            rated = gains.gains[:, at, n + 1].ravel()
            picks.append(
                {"judge": judge, "_title": "all in turn" if judge == "all" else judge}
                | selection_gains(gains, at, bootstrap)
                | {"expected": expected}
                | {"rated": bootstrap.share(np.repeat(gains.items, len(at)), rated)}
            )
        # The same sets for every number: others would be other prompts.
        most = min(len(at) for at in sets)
        curves["measured"] = selection_gains_by_number(table, sets, reporters, most, bootstrap)
    step()
    like = panel_like(table)
    simulated: Rows = []
    for rho in options.correlations:
        name = f"simulated, correlation {rho:g}"
        curves[name] = simulated_picks(
            like, rho, items=options.simulated_items, candidates=options.candidates,
            spread=options.quality_spread, seed=context.seed, resamples=context.resamples,
        )  # fmt: skip
        simulated.append({"rho": rho, **curves[name][-1]})
        step()
    by_number = [
        {"source": source, "best_of": number, "reporter": TRUTH if of == "true" else of,
         "gain": found[of], "_by": seen_by}
        for source, each in curves.items()
        for number, found in enumerate(each, 1)
        for of, seen_by in _SEEN_BY.items()
    ]  # fmt: skip
    every = picks[-1] if n > 1 and picks and picks[-1]["others"].value is not None else None
    ends = sorted(
        (row for row in picks[:-1] if row["confirmed"].value is not None),
        key=lambda row: row["confirmed"].value,
    )
    last = rounds[HELD_OUT][-1] if rounds else None
    truth = rounds[TRUTH][-1] if TRUTH in rounds else None
    say = sentences_of("circularity")
    values: dict[str, Any] = {
        "last": last, "loops": loops, "truth": truth, "every": every, "what": what,
        "sets": len(sets), "source": like.source, "facts": like.facts,
        "items": options.simulated_items, "spread": options.quality_spread,
        "best_of": options.candidates,
        "shares": "; ".join(say({}, share=[
            r for r in simulated if None not in (r["confirmed"].value, r["true_share"].value)
        ])),
    }  # fmt: skip
    if last:
        known = last["confirmed"].value is not None
        (values["confirmed"],) = say(values, loop_confirmed=known, loop_unconfirmed=not known)
    if every:
        for name, of in (("confirmed_picks", "confirmed"), ("real", "true_share")):
            key = {"picks_confirmed" if of == "confirmed" else "picks_real":
                   every[of].value is not None}  # fmt: skip
            values[name] = "".join(say(values, **key))
    if len(ends) > 1:
        values |= {"least": ends[0], "most": ends[-1]}
        values["apart"] = intervals_apart(ends[0]["confirmed"], ends[-1]["confirmed"])
    rated_known = bool(every and every["rated"].value is not None)
    higher = bool(every and side_of_zero(every["rated"]) > 0)
    end_rows = [{"reporter": name, **found[-1]} for name, found in rounds.items()]
    kept = [
        row | {"truth": true} for row, true in zip(
            rounds.get(HELD_OUT, ()),
            [row["reporting"] for row in rounds.get(TRUTH, rounds.get(HELD_OUT, ()))],
            strict=True,
        )
    ]  # fmt: skip
    shown_rounds = percents(_ROUNDS | ({"truth": "Truth"} if truth else {}))
    frames = [
        Frame.of("circularity_kept", kept, "Kept pictures after each round; mean score in percent, "
                 "gains in points", shown_rounds, head="Round", kept=False,
                 label="{round} ({drew} drew)"),
        Frame.of("circularity_reporters", end_rows, "The loop's whole gain by who reports it; "
                 "points and percent", percents({
                     "reported": "Gain", "gap": "Gap to the loop's judges",
                     "confirmed": "Confirmed"}), head="Reporter", label="{reporter}", kept=False),
        Frame.of("circularity_rounds", [{"reporter": name, **row} for name, found in rounds.items()
                                        for row in found]),
        Frame.of("circularity_picks", picks, f"Each judge picks the best among {what}; points and "
                 "percent", used(percents(_PICKS), picks), head="Picking judge",
                 label="{_title}"),
        Frame.of("circularity_simulated", simulated, "Simulated picks of the best, by correlation "
                 "of errors; percent", percents({
                     "confirmed": "Confirmed by others", "true_share": "Real"}),
                 head="Correlation", label="{rho:g}", kept=False),
        Frame.of("circularity_best_of", by_number),
    ]  # fmt: skip
    return PanelStudyResult(
        findings=say(
            values,
            loop=bool(last),
            loop_truth=bool(last and truth and truth["confirmed"].value is not None),
            picks=bool(every),
            picks_truth=bool(every and every["true"].value is not None),
            rated_higher=rated_known and higher,
            rated_alike=rated_known and not higher,
            ends=bool(every and len(ends) > 1),
            simulated=bool(values["shares"]),
        ),
        frames=tuple(frames),
        charts=tuple(_charts(rounds, loops, picks, what, by_number)),
        figures=values_by_key("circularity.loop.{reporter}.{name}", end_rows,
                              ["gain", "reported", "gap", "confirmed"])
        | values_by_key("circularity.pick.{judge}.{name}", picks, [
            "own", "others", "gap", "confirmed", "true", "true_share", "rated"])
        | values_by_key("circularity.simulated.{rho:g}.{name}", simulated,
                        ["confirmed", "true_share"]),
        notes=say(
            values,
            intervals=True,
            scaled=bool((units != 1.0).any()),
            unscaled=bool((units == 1.0).all()),
            simulation=True,
            kept=bool(last),
            no_loops=not last and len({image.round for image in table.images} - {None}) >= 2,
            no_sets=not sets,
            alone=bool(sets) and n < 2,
        ),
    )  # fmt: skip


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
    found = {
        name: rounds_of(loops, steering, scores, bootstrap, (float(units[0]), unit))
        for name, (scores, unit) in seen.items()
    }
    return found, len(loops.kept)


def _charts(
    rounds: dict[str, Rows], loops: int, picks: Rows, what: str, by_number: Rows
) -> list[Chart]:
    found = []
    if rounds:
        shown = [("judges that steered", HELD_OUT, "steering"), (HELD_OUT, HELD_OUT, "reporting")]
        shown += [(TRUTH, TRUTH, "reporting")] if TRUTH in rounds else []
        points = [{"round": row["round"], "by": name, "score": row[of]}
                  for name, reporter, of in shown for row in rounds[reporter]]  # fmt: skip
        found.append(Chart("circularity_rounds", points, "round", "score", series="by",
                           title=f"Pictures kept by {loops} loops", xlabel="Round", factor=100.0,
                           ylabel="Mean score of kept pictures (%)"))  # fmt: skip
    several = len(picks) > 2
    if several:
        bars = [{"judge": row["judge"], "by": seen_by, "gain": row[of]}
                for of, seen_by in _SEEN_BY.items() for row in picks[:-1]
                if any(one[of].value is not None for one in picks[:-1])]  # fmt: skip
        found.append(Chart("circularity_picks", bars, "judge", "gain", "bars", series="by",
                           title=f"Each judge picks the best among {what}", factor=100.0,
                           xlabel="Gain of the picked picture (points)"))  # fmt: skip
    sources = {row["source"] for row in by_number if row["best_of"] > 1}
    curves = [row for row in by_number if row["source"] != "measured"
              or (several and "measured" in sources)]  # fmt: skip
    if sources - {"measured"}:
        found.append(Chart("circularity_best_of", curves, "best_of", "gain", series="_by",
                           pane="source", xlabel="Best of", ylabel="Gain (points)", factor=100.0,
                           title="Gain by the number of candidates", shared=True))  # fmt: skip
    return found


PART = PanelStudy(
    name="circularity",
    title="The judge that steers and the judge that reports",
    about="How much of a gain that a judge sees in what it picked do other judges confirm?",
    needs=frozenset({"several"}),
    options=CircularityOptions,
    run=in_thread(measure),
)
