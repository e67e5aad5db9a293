"""One judge in the loop and in the report: how much of a gain others confirm."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from scenewright.evals.statistics.figures import Bootstrap, Figure
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.panel.base import (
    Options,
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
)
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.selection import (
    Gains,
    candidate_sets,
    gains_of,
    group_said,
    judge_scores,
    mean_of,
    ratio,
    slopes,
    true_scores,
    within_slope,
)
from scenewright.evals.studies.panel.shifts import apart, clear, estimate, flat, percent, points
from scenewright.evals.studies.panel.simulated_picks import (
    Curve,
    PanelLike,
    curve_point,
    panel_like,
    simulated_picks,
)
from scenewright.evals.studies.panel.table import AnswerTable
from scenewright.evals.studies.panel.trajectories import (
    Round,
    columns_of,
    rounds_of,
    trajectories_of,
)
from scenewright.evals.studies.panel.wording import short_name
from scenewright.evals.studies.plots import bars, figure, legend, lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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


@dataclass(frozen=True, slots=True)
class Picked:
    """Picking by one judge, or the mean over all judges as pickers. Scores in [0, 1]."""

    own: Figure
    """What the picking judge sees as gained."""
    others: Figure
    """What the mean of the other judges sees."""
    gap: Figure
    """``own`` − ``others``."""
    confirmed: Figure
    """``others`` / ``own``."""
    expected: Figure
    """That share as it is where scores are jointly normal."""
    true: Figure
    """Gain in the share of facts that hold."""
    true_share: Figure
    """``true`` / ``own``."""
    rated: Figure
    """Gain in the mean human rating, in its own units."""


@dataclass(frozen=True, slots=True, eq=False)
class CircularityResult:
    """What was measured."""

    loop_judges: tuple[str, ...]
    """Judges that steered; empty where no loop is known."""
    held_out: tuple[str, ...]
    """Judges that did not."""
    loops: int
    """How many loops there are."""
    rounds: Mapping[str, tuple[Round, ...]]
    """Reporter (:data:`HELD_OUT`, single judges, :data:`TRUTH`) → its rounds."""
    picked: Mapping[str, Picked]
    """Judge → its picking."""
    every: Picked | None
    """Over all judges as pickers; None where nothing can be picked from."""
    by_number: Curve
    """Of how many candidates the best is picked → (own, others, true) gain over all judges."""
    sets: int
    """Sets of candidates."""
    what: str
    """What the candidates are."""
    simulated: Mapping[float, Curve]
    """Correlation of errors → as ``by_number``, simulated."""
    simulated_shares: Mapping[float, tuple[Figure, Figure]]
    """Correlation → (``others`` / ``own``, ``true`` / ``own``) at the most candidates."""
    like: PanelLike
    """What the simulated judges are like."""
    scaled: bool
    """Whether gains are on the scale of the truth."""


async def run(context: PanelStudyContext, options: CircularityOptions) -> PanelStudyResult:
    """Measure it in loops, where there are any, in picks by each judge, and in simulated picks.

    Raises ``PanelStudyError`` for a correlation outside [0, 1).
    """
    wrong = [rho for rho in options.correlations if not 0.0 <= rho < 1.0]
    if wrong:
        raise PanelStudyError(f"the correlation is {wrong[0]}: use numbers from 0 to below 1")
    return await asyncio.to_thread(_result, context, options)


def _result(context: PanelStudyContext, options: CircularityOptions) -> PanelStudyResult:
    study = measured(context, options)
    return PanelStudyResult(
        findings=findings(study),
        tables=tables(study),
        plots=plots(study),
        records=_records(study),
        figures=_figures(study),
        notes=_notes(context.table, study, options),
    )


def measured(context: PanelStudyContext, options: CircularityOptions) -> CircularityResult:
    """All figures."""
    table = context.table
    steps = 2 + len(options.correlations)
    bootstrap = Bootstrap(max(1, table.n_items), context.seed, context.resamples)
    rounds, loops = _rounds(table, context.loop_judges, bootstrap)
    context.told(1, steps)
    units = slopes(table, table.said)
    scaled = bool((units != 1.0).any())
    scores = judge_scores(table) / units
    sets, what = candidate_sets(table, scores)
    n = len(table.judges)
    picked: dict[str, Picked] = {}
    every: Picked | None = None
    by_number: Curve = {}
    if sets:
        truth, rating = true_scores(table), table.ratings
        gains = gains_of(table, sets, np.column_stack([scores, truth, rating]), n)
        for at, judge in enumerate(table.judge_ids):
            rest = np.delete(scores, at, axis=1).mean(1)
            slope = within_slope(table, sets, scores[:, at], rest, bootstrap)
            picked[judge] = _picked(gains, [at], slope, bootstrap)
        every = _picked(gains, range(n), Figure(value=None), bootstrap)
        # The same sets for every number: others would be other prompts.
        most = min(len(at) for at in sets)
        for number in range(1, most + 1):
            some = gains_of(table, sets, np.column_stack([scores, truth]), n, number)
            by_number[number] = curve_point(some, bootstrap)
    context.told(2, steps)
    panel = panel_like(table)
    simulated, shares = {}, {}
    for at, rho in enumerate(options.correlations):
        simulated[rho], shares[rho] = simulated_picks(
            panel, rho, items=options.simulated_items, candidates=options.candidates,
            spread=options.quality_spread, seed=context.seed, resamples=context.resamples,
        )  # fmt: skip
        context.told(3 + at, steps)
    steered, held_out = columns_of(table, context.loop_judges)
    return CircularityResult(
        loop_judges=tuple(table.judge_ids[at] for at in steered),
        held_out=tuple(table.judge_ids[at] for at in held_out),
        loops=loops,
        rounds=rounds,
        picked=picked,
        every=every,
        by_number=by_number,
        sets=len(sets),
        what=what,
        simulated=simulated,
        simulated_shares=shares,
        like=panel,
        scaled=scaled,
    )


def _rounds(
    table: AnswerTable, loop_judges: Sequence[str], bootstrap: Bootstrap
) -> tuple[dict[str, tuple[Round, ...]], int]:
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
    found = {
        name: rounds_of(
            loops, steering, table.image_scores(likely), bootstrap,
            (float(units[0]), float(units[1 + at])),
        )
        for at, (name, likely) in enumerate(said.items())
    }  # fmt: skip
    truth = true_scores(table)
    if not np.isnan(truth).all():
        found[TRUTH] = rounds_of(loops, steering, truth, bootstrap, (float(units[0]), 1.0))
    return found, len(loops.kept)


def _picked(gains: Gains, pickers: Sequence[int], slope: Figure, bootstrap: Bootstrap) -> Picked:
    at, n = list(pickers), gains.judges
    items = np.repeat(gains.items, len(at))
    own, others = gains.own()[:, at].ravel(), gains.others()[:, at].ravel()
    true, rated = gains.gains[:, at, n].ravel(), gains.gains[:, at, n + 1].ravel()
    return Picked(
        own=mean_of(items, own, bootstrap),
        others=mean_of(items, others, bootstrap),
        gap=mean_of(items, own - others, bootstrap),
        confirmed=ratio(items, others, own, bootstrap),
        expected=slope,
        true=mean_of(items, true, bootstrap),
        true_share=ratio(items, true, own, bootstrap),
        rated=mean_of(items, rated, bootstrap),
    )


def _records(study: CircularityResult) -> dict[str, Sequence[Mapping[str, Any]]]:
    rounds = [
        {"reporter": name, **_flattened(asdict_figures(one))}
        for name, found in study.rounds.items()
        for one in found
    ]
    picks = [
        {"judge": name, **_flattened(asdict_figures(one))}
        for name, one in (*study.picked.items(), ("all", study.every))
        if one is not None
    ]
    curves: list[dict[str, Any]] = []
    for source, found in (
        ("measured", study.by_number),
        *((f"simulated, correlation {rho:g}", one) for rho, one in study.simulated.items()),
    ):
        for number, three in found.items():
            for what, gain in zip(("own", "others", "truth"), three, strict=True):
                curves.append(
                    {
                        "source": source,
                        "best_of": number,
                        "reporter": what,
                        "gain": gain.value,
                        "low": gain.low,
                        "high": gain.high,
                    }
                )
    return {
        name: rows
        for name, rows in (
            ("circularity_rounds", rounds),
            ("circularity_picks", picks),
            ("circularity_best_of", curves),
        )
        if rows
    }


def asdict_figures(one: Round | Picked) -> dict[str, Any]:
    """Field → number or figure."""
    return {name: getattr(one, name) for name in asdict(one)}


def _flattened(values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Figure):
            found |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
        else:
            found[name] = value
    return found


def _figures(study: CircularityResult) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, rounds in study.rounds.items():
        for what in ("gain", "reported", "gap", "confirmed"):
            shown: Figure = getattr(rounds[-1], what)
            if shown.value is not None:
                found[f"circularity.loop.{name}.{what}"] = flat(shown)
    for name, one in (*study.picked.items(), ("all", study.every)):
        if one is None:
            continue
        for what in ("own", "others", "gap", "confirmed", "true", "true_share", "rated"):
            shown = getattr(one, what)
            if shown.value is not None:
                found[f"circularity.pick.{name}.{what}"] = flat(shown)
    for rho, shares in study.simulated_shares.items():
        for what, shown in zip(("confirmed", "true_share"), shares, strict=True):
            if shown.value is not None:
                found[f"circularity.simulated.{rho:g}.{what}"] = flat(shown)
    return found


def _notes(
    table: AnswerTable, study: CircularityResult, options: CircularityOptions
) -> tuple[str, ...]:
    notes = [
        "Intervals are 95 %, by drawing items, paired: both sides of a gap are of the same "
        "pictures.",
        "Gains are on the scale of the truth: each judge's are divided by how far its "
        "probabilities of facts that hold lie above those of facts that do not, so that a gap is "
        "no matter of scale."
        if study.scaled
        else "The truth is not known, so gains are on each judge's own scale: a confirmed share "
        "also falls where the other judges use a narrower one.",
        f"Simulated judges have the error rates of these, {study.like.source}, and one "
        f"correlation of errors; {options.simulated_items} prompts, {study.like.facts} "
        f"independent facts a picture, quality_spread = {options.quality_spread:g}; gains are on "
        "the scale of the truth.",
    ]
    if study.rounds:
        notes.append(
            "Kept is the picture with the highest mean probability by the loop's judges so far; "
            "a run may have kept another, by its own aggregation. A loop that has ended keeps what "
            "it had."
        )
    elif len({image.round for image in table.images} - {None}) >= 2:
        notes.append(
            "Loops were not studied: name the judges that steered (loop_judges), and have others "
            "look at all rounds (judge_rounds = 'all')."
        )
    if not study.sets:
        notes.append("Each prompt has one picture here: there is nothing to pick from.")
    elif len(table.judges) < 2:
        notes.append("One judge alone has nobody to confirm it.")
    return tuple(notes)


def findings(study: CircularityResult) -> tuple[str, ...]:
    """Whole sentences, the most important first."""
    return (*_loops(study), *_picks(study), *_simulated(study))


def _gap(figure: Figure) -> str:
    told = {
        1: "the gap is above 0", -1: "the gap is below 0", 0: "the gap may be 0"
    }[clear(figure)]  # fmt: skip
    return f"{told} ({points(figure, 2)})"


def _loops(study: CircularityResult) -> list[str]:
    if HELD_OUT not in study.rounds:
        return []
    last = study.rounds[HELD_OUT][-1]
    sentence = (
        f"From round 0 to round {last.round} of {study.loops} loops the kept pictures gain "
        f"{points(last.gain)} by the judges that steered and {points(last.reported)} by held-out "
        f"judges: {_gap(last.gap)}"
    )
    if last.confirmed.value is not None:
        sentence += f", and {percent(last.confirmed, 0)} of the gain is confirmed"
    else:
        sentence += "; the loop's own gain is not clearly above 0, so no share of it is told"
    found = [sentence + "."]
    true = study.rounds.get(TRUTH)
    if true is not None:
        sentence = (
            f"By the truth the kept pictures gain {points(true[-1].reported)}: of the gain that "
            "the loop's judges see, "
        )
        if true[-1].confirmed.value is not None:
            found.append(sentence + f"{percent(true[-1].confirmed, 0)} is real.")
    return found


def _picks(study: CircularityResult) -> list[str]:
    every = study.every
    if every is None or every.others.value is None or len(study.picked) < 2:
        return []
    sentence = (
        f"Where one judge picks the best among {study.what} ({study.sets} sets), it sees a gain of "
        f"{points(every.own)} and the other judges see {points(every.others)}: {_gap(every.gap)}"
    )
    if every.confirmed.value is not None:
        sentence += f"; {percent(every.confirmed, 0)} of the gain is confirmed"
    found = [sentence + " (over all judges in turn)."]
    if every.true.value is not None:
        sentence = f"By the truth such picks gain {points(every.true)}"
        if every.true_share.value is not None:
            sentence += f", {percent(every.true_share, 0)} of what the picking judge sees"
        found.append(sentence + ".")
    if every.rated.value is not None:
        found.append(
            f"People rate such picks {_signed(every.rated)} higher than the mean candidate, in "
            "units of their scale."
            if clear(every.rated) > 0
            else f"People do not clearly rate such picks otherwise: {_signed(every.rated)}."
        )
    known = {
        name: one.confirmed for name, one in study.picked.items()
        if one.confirmed.value is not None
    }  # fmt: skip
    if len(known) > 1:
        order = sorted(known, key=lambda name: known[name].value or 0.0)
        least, most = known[order[0]], known[order[-1]]
        ends = (
            f"{percent(least, 0)} of what {short_name(order[0])} sees to {percent(most, 0)} of "
            f"what {short_name(order[-1])} sees"
        )
        found.append(
            f"The confirmed share differs between judges, from {ends}."
            if apart(least, most)
            else f"The confirmed share does not clearly differ between judges: from {ends}."
        )
    return found


def _signed(figure: Figure) -> str:
    return estimate(figure, 1.0).text(2, sign=True)


def _simulated(study: CircularityResult) -> list[str]:
    told = [
        f"at a correlation of {rho:g}, {percent(confirmed, 0)} by the others and "
        f"{percent(true, 0)} by the truth"
        for rho, (confirmed, true) in study.simulated_shares.items()
        if confirmed.value is not None and true.value is not None
    ]
    if not told:
        return []
    most = max(max(found) for found in study.simulated.values())
    return [
        f"Simulated judges with these error rates that pick the best of {most}: of the gain that "
        f"they see is confirmed, {'; '.join(told)}."
    ]


def tables(study: CircularityResult) -> tuple[Layout, ...]:
    """Rounds, picks and simulated picks, as far as there are any."""
    found = []
    if HELD_OUT in study.rounds:
        found += [_round_table(study), _reporter_table(study)]
    if study.picked:
        found.append(_pick_table(study))
    if study.simulated_shares:
        found.append(
            Layout(
                id="circularity_simulated",
                title="Simulated picks of the best, by correlation of errors; percent",
                head="Correlation",
                columns=_columns(confirmed="Confirmed by others", true="Real"),
                rows=tuple(
                    _row(f"{rho:g}", f"{rho:g}", shares)
                    for rho, shares in study.simulated_shares.items()
                ),
                of_paper=False,
            )
        )
    return tuple(found)


def _round_table(study: CircularityResult) -> Layout:
    true = study.rounds.get(TRUTH)
    titles = {
        "steering": "Loop judges", "reporting": "Held-out judges", "gain": "Gain, loop judges",
        "reported": "Gain, held-out", "gap": "Gap", "confirmed": "Confirmed (%)",
    }  # fmt: skip
    if true is not None:
        titles["truth"] = "Truth"
    rows = []
    for at, one in enumerate(study.rounds[HELD_OUT]):
        cells = [
            one.steering, one.reporting, one.gain, one.reported, one.gap, one.confirmed,
        ]  # fmt: skip
        if true is not None:
            cells.append(true[at].reporting)
        rows.append(_row(str(one.round), f"{one.round} ({one.drew} drew)", cells))
    return Layout(
        id="circularity_rounds",
        title="Kept pictures after each round; mean score in percent, gains in points",
        head="Round",
        columns=_columns(**titles),
        rows=tuple(rows),
        of_paper=False,
    )


def _reporter_table(study: CircularityResult) -> Layout:
    return Layout(
        id="circularity_reporters",
        title="The loop's whole gain by who reports it; points and percent",
        head="Reporter",
        columns=_columns(reported="Gain", gap="Gap to the loop's judges", confirmed="Confirmed"),
        rows=tuple(
            _row(name, name, [found[-1].reported, found[-1].gap, found[-1].confirmed])
            for name, found in study.rounds.items()
        ),
        of_paper=False,
    )


def _pick_table(study: CircularityResult) -> Layout:
    titles = {
        "own": "Gain, own", "others": "Gain, others", "gap": "Gap", "confirmed": "Confirmed (%)",
        "expected": "Confirmed if normal (%)", "true": "Gain, truth", "true_share": "Real (%)",
    }  # fmt: skip
    shown = {**study.picked, **({"all in turn": study.every} if study.every else {})}
    kept = {
        name: title for name, title in titles.items()
        if any(getattr(one, name).value is not None for one in shown.values())
    }  # fmt: skip
    return Layout(
        id="circularity_picks",
        title=f"Each judge picks the best among {study.what}; points and percent",
        head="Picking judge",
        columns=_columns(**kept),
        rows=tuple(
            _row(judge, judge, [getattr(one, name) for name in kept])
            for judge, one in shown.items()
        ),
        of_paper=False,
    )


def _columns(**titles: str) -> tuple[Column, ...]:
    return tuple(Column(key=key, title=title) for key, title in titles.items())


def _row(key: str, title: str, cells: Sequence[Figure]) -> Row:
    return Row(key=key, title=title, cells=tuple(Cell(measured=estimate(c)) for c in cells))


def plots(study: CircularityResult) -> Mapping[str, Callable[[], Plot]]:
    """File stem → what draws it."""
    found: dict[str, Callable[[], Plot]] = {}
    if HELD_OUT in study.rounds:
        found["circularity_rounds"] = partial(_draw_rounds, study)
    if study.picked and len(study.picked) > 1:
        found["circularity_picks"] = partial(_draw_picks, study)
    if study.simulated:
        found["circularity_best_of"] = partial(_draw_best_of, study)
    return found


def _draw_rounds(study: CircularityResult) -> Plot:
    """Mean score of what is kept, by those who steered, the others, and the truth."""
    made, axes = figure(size=(7.0, 4.2))
    axis = axes[0][0]
    held = study.rounds[HELD_OUT]
    series = {
        "judges that steered": [(float(r.round), estimate(r.steering)) for r in held],
        HELD_OUT: [(float(r.round), estimate(r.reporting)) for r in held],
    }
    if TRUTH in study.rounds:
        series[TRUTH] = [
            (float(r.round), estimate(r.reporting)) for r in study.rounds[TRUTH]
        ]  # fmt: skip
    lines(axis, series)
    axis.set_xticks([r.round for r in held])
    axis.set_xlabel("Round")
    axis.set_ylabel("Mean score of kept pictures (%)")
    axis.set_title(f"What {study.loops} loops keep")
    legend(made, axis)
    found: Plot = made
    return found


def _draw_picks(study: CircularityResult) -> Plot:
    """Own and others' gain of each judge's picks."""
    known = any(one.true.value is not None for one in study.picked.values())
    names = {"seen by the picking judge": "own", "seen by the others": "others"}
    if known:
        names["truth"] = "true"
    series = {
        title: [estimate(getattr(one, name)) for one in study.picked.values()]
        for title, name in names.items()
    }
    made, axes = figure(size=(7.4, 1.6 + 0.5 * len(study.picked)))
    axis = axes[0][0]
    bars(axis, [short_name(name) for name in study.picked], series, horizontal=True)
    axis.axvline(0.0, color="black", linewidth=0.9)
    axis.set_xlabel("Gain of the picked picture (points)")
    axis.set_title(f"Each judge picks the best among {study.what}")
    legend(made, axis)
    found: Plot = made
    return found


def _draw_best_of(study: CircularityResult) -> Plot:
    """Gain by the number of candidates, measured and simulated."""
    panes: list[tuple[str, Mapping[int, Any]]] = []
    if len(study.by_number) > 1 and len(study.picked) > 1:
        panes.append(("measured", study.by_number))
    panes += [(f"simulated, correlation {rho:g}", one) for rho, one in study.simulated.items()]
    made, axes = figure(1, len(panes), size=(1.0 + 2.7 * len(panes), 3.8))
    for at, (title, found) in enumerate(panes):
        axis: Axes = axes[0][at]
        names = ("seen by the picking judge", "seen by the others", "truth")
        lines(
            axis,
            {
                name: [(float(n), estimate(three[of])) for n, three in found.items()]
                for of, name in enumerate(names)
            },
        )
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("Best of")
        if at == 0:
            axis.set_ylabel("Gain (points)")
    tops = [axes[0][at].get_ylim() for at in range(len(panes))]
    for at in range(len(panes)):
        axes[0][at].set_ylim(min(low for low, _ in tops), max(high for _, high in tops))
    legend(made, axes[0][-1])
    drawn: Plot = made
    return drawn


PART = PanelStudy(
    name="circularity",
    title="The judge that steers and the judge that reports",
    about="How much of a gain that a judge sees in what it picked do other judges confirm?",
    needs=frozenset({"several"}),
    options=CircularityOptions,
    run=run,
)
