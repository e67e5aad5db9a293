"""What the study of circularity says: findings, tables and plots, written from its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from scenewright.evals.figures import Figure
from scenewright.evals.panel_study.parts.image_page import short
from scenewright.evals.panel_study.shifts import apart, clear, estimate, percent, points
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.plots import bars, figure, legend, lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot

    from scenewright.evals.panel_study.parts.circularity import Study

HELD_OUT = "held-out judges"
"""The reporter that is the panel of judges which did not steer."""
TRUTH = "truth"
"""The reporter that knows what holds."""


def findings(study: Study) -> tuple[str, ...]:
    """Whole sentences, the most important first."""
    return (*_loops(study), *_picks(study), *_simulated(study))


def _gap(figure: Figure) -> str:
    told = {
        1: "the gap is above 0", -1: "the gap is below 0", 0: "the gap may be 0"
    }[clear(figure)]  # fmt: skip
    return f"{told} ({points(figure, 2)})"


def _loops(study: Study) -> list[str]:
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


def _picks(study: Study) -> list[str]:
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
            f"{percent(least, 0)} of what {short(order[0])} sees to {percent(most, 0)} of what "
            f"{short(order[-1])} sees"
        )
        found.append(
            f"The confirmed share differs between judges, from {ends}."
            if apart(least, most)
            else f"The confirmed share does not clearly differ between judges: from {ends}."
        )
    return found


def _signed(figure: Figure) -> str:
    return estimate(figure, 1.0).text(2, sign=True)


def _simulated(study: Study) -> list[str]:
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


def tables(study: Study) -> tuple[Layout, ...]:
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


def _round_table(study: Study) -> Layout:
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


def _reporter_table(study: Study) -> Layout:
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


def _pick_table(study: Study) -> Layout:
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


def plots(study: Study) -> Mapping[str, Callable[[], Plot]]:
    """File stem → what draws it."""
    found: dict[str, Callable[[], Plot]] = {}
    if HELD_OUT in study.rounds:
        found["circularity_rounds"] = partial(_draw_rounds, study)
    if study.picked and len(study.picked) > 1:
        found["circularity_picks"] = partial(_draw_picks, study)
    if study.simulated:
        found["circularity_best_of"] = partial(_draw_best_of, study)
    return found


def _draw_rounds(study: Study) -> Plot:
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


def _draw_picks(study: Study) -> Plot:
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
    bars(axis, [short(name) for name in study.picked], series, horizontal=True)
    axis.axvline(0.0, color="black", linewidth=0.9)
    axis.set_xlabel("Gain of the picked picture (points)")
    axis.set_title(f"Each judge picks the best among {study.what}")
    legend(made, axis)
    found: Plot = made
    return found


def _draw_best_of(study: Study) -> Plot:
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
