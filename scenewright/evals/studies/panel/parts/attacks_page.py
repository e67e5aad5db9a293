"""The page of the study of attacks and drifts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from scenewright.evals.statistics.estimates import Estimate, number
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.panel.attacks import AttackKind, Breakdown
from scenewright.evals.studies.panel.base import PanelStudyResult
from scenewright.evals.studies.panel.drift import Watched
from scenewright.evals.studies.panel.parts.attacks_found import (
    CHANGED,
    SAYS,
    Attacked,
    Scored,
    records,
)
from scenewright.evals.studies.panel.parts.attacks_plots import (
    plot_attacks,
    plot_slow,
    plot_updates,
)


def page(study: Attacked) -> PanelStudyResult:
    """Findings, tables, plots and records."""
    tables = [_breakdowns(study), _third(study, study.enlarged, _a_third(study), "third")]
    if study.plain:
        tables.append(_third(study, study.plain, 1, "one"))
    tables += [_missing(study), _slow(study)]
    plots = {
        "attacks": partial(plot_attacks, study),
        "slow_judges": partial(plot_slow, study),
    }
    if study.watched:
        tables.append(_drifts(study))
        plots["updates"] = partial(plot_updates, study)
    return PanelStudyResult(
        findings=tuple(_findings(study)),
        tables=tuple(tables),
        plots=plots,
        records=records(study),
        figures={
            f"breakdown.{kind}.{name}": {"mean": b.share, "low": b.low, "high": b.high}
            for kind, by_name in study.enlarged.items()
            for name, b in by_name.items()
            if b.share is not None and b.low is not None and b.high is not None
        },
        notes=tuple(_notes(study)),
    )


def _findings(study: Attacked) -> list[str]:
    found = []
    if study.updated:
        found.append(
            f"{', '.join(study.updated)} changed the fingerprint since the learning set was made: "
            "what was learnt of it does not hold for it."
        )
    found += [_of_attack(study, kind, by) for kind, by in study.enlarged.items()]
    for (change, shift), seen in study.watched.items():
        if change != "worse":
            continue
        caught = [w.caught for w in seen]
        middle = [float(np.median(w.delays)) for w in seen]
        seen_by = [x for x in middle if np.isfinite(x)]
        after = f"after {_span(seen_by, '{:.0f}')} images (median)" if seen_by else ""
        if len(seen_by) < len(seen):
            late = (
                f"most streams end unnoticed for {len(seen) - len(seen_by)} of {len(seen)} judges"
            )
            after = ", ".join(filter(None, (after, late)))
        found.append(
            f"An unannounced update that {CHANGED[change].format(_percent(shift))} is noticed by "
            f"CUSUM in {_span([100 * c for c in caught], '{:.0f}')} % of streams of "
            f"{seen[0].watched} images (5 % would be false alarms): {after}. A changed fingerprint "
            "tells before the first image."
        )
    found.append(_of_limits(study))
    return found


def _of_attack(study: Attacked, kind: AttackKind, by_name: Mapping[str, Breakdown]) -> str:
    who = f"With judges that {SAYS[kind]}"
    broken = {name: b for name, b in by_name.items() if b.share is not None}
    whole = [name for name in by_name if name not in broken]
    if not broken:
        tried = max(next(iter(by_name.values())).shares)
        return (
            f"{who}, no aggregator loses half of its worth, up to {_percent(tried)} of the panel."
        )
    order = sorted(broken, key=lambda name: broken[name].share or 0.0)
    said = "; ".join(f"{name} at {_share(broken[name])}" for name in order)
    text = f"{who}, half of the worth is gone with this share of bad judges: {said}."
    if whole:
        text += f" Never half was lost by {', '.join(whole)}."
    first, last = broken[order[0]], broken[order[-1]]
    surely = first.high is not None and (last.low is None or first.high < last.low)
    if len(order) > 1 and not whole and not surely:
        text += " Their intervals overlap: no order of them is sure."
    return text


def _share(found: Breakdown) -> str:
    ends = [("beyond" if end is None else number(100 * end, 0)) for end in (found.low, found.high)]
    return f"{number(100 * (found.share or 0.0), 0)} % [{ends[0]}, {ends[1]}]"


def _of_limits(study: Attacked) -> str:
    name = study.names[0]
    rows = list(zip(study.cuts, study.slow, strict=True))
    cut, scores = rows[min(2, len(rows) - 1)]
    whole = rows[-1]
    kind = "modelled" if study.modelled else "measured"
    return (
        f"A limit of {cut.limit:.3g} s a call gives up {_percent(cut.lost, 1)} of the answers and "
        f"brings an image from {np.nanmean(whole[0].wall):.3g} s to {np.nanmean(cut.wall):.3g} s "
        f"({kind} times); {study.measure} of {name} is {scores[name][0].text(3)} with it and "
        f"{whole[1][name][0].text(3)} without."
    )


def _percent(share: float, digits: int = 0) -> str:
    return f"{number(100 * share, digits)} %"


def _span(values: Sequence[float], form: str) -> str:
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low}–{high}"


def _breakdowns(study: Attacked) -> Layout:
    return Layout(
        id="breakdown",
        title=f"Breakdown point: smallest share of bad judges (%) with which half of the worth is "
        f"gone ({study.size} judges)",
        head="Aggregator",
        columns=tuple(Column(key=kind, title=SAYS[kind], digits=0) for kind in study.enlarged),
        rows=tuple(
            Row(
                key=name,
                title=name,
                cells=tuple(
                    _point(by_name[name], study.added) for by_name in study.enlarged.values()
                ),
            )
            for name in study.names
        ),
        of_paper=False,
    )


def _point(found: Breakdown, added: bool) -> Cell:
    if found.share is None:
        return Cell(measured=Estimate(reason="it never loses half"), note="not broken")
    closed = found.low is not None and found.high is not None
    estimate = Estimate(
        value=found.share, low=found.low if closed else None, high=found.high if closed else None
    )
    of = "added to" if added else "of"
    note = f"({found.bad} {of} {found.judges})" if closed else "(interval open above)"
    return Cell(measured=estimate.times(100), note=note)


def _a_third(study: Attacked) -> int:
    return max(1, round(study.size / 3))


def _third(
    study: Attacked, by_kind: Mapping[AttackKind, Mapping[str, Breakdown]], bad: int, key: str
) -> Layout:
    first = next(iter(by_kind.values()))
    judges = next(iter(first.values())).judges
    joined = "added to" if study.added else "of"
    return Layout(
        id=f"attacked_{key}",
        title=f"{study.measure} with {bad} bad {'judge' if bad == 1 else 'judges'} {joined} "
        f"{judges}",
        head="Aggregator",
        columns=(
            Column(key="honest", title="all honest", digits=3),
            *(Column(key=kind, title=SAYS[kind], digits=3) for kind in by_kind),
        ),
        rows=tuple(
            Row(
                key=name,
                title=name,
                cells=(
                    Cell(measured=first[name].curve[0]),
                    *(Cell(measured=by_name[name].curve[bad]) for by_name in by_kind.values()),
                ),
            )
            for name in study.names
        ),
        of_paper=False,
    )


def _missing(study: Attacked) -> Layout:
    return Layout(
        id="missing",
        title=f"{study.measure} where answers are missing (the panel as it is)",
        head="Missing",
        columns=(
            Column(key="scored", title="facts scored (%)", digits=1),
            *(Column(key=name, title=name, digits=3) for name in study.names),
        ),
        rows=tuple(
            Row(key=what, title=what, cells=_scored_cells(study, by_name))
            for what, by_name in study.missing.items()
        ),
        of_paper=False,
    )


def _slow(study: Attacked) -> Layout:
    return Layout(
        id="slow",
        title=f"{study.measure} with a time limit a call"
        + (" (modelled seconds)" if study.modelled else ""),
        head="Limit (s)",
        columns=(
            Column(key="lost", title="answers given up (%)", digits=1),
            Column(key="wall", title="seconds an image", digits=2),
            Column(key="scored", title="facts scored (%)", digits=1),
            *(Column(key=name, title=name, digits=3) for name in study.names),
        ),
        rows=tuple(
            Row(
                key=f"{cut.limit:g}",
                title="none" if np.isinf(cut.limit) else f"{cut.limit:.3g}",
                cells=(
                    Cell(measured=Estimate(value=100 * cut.lost)),
                    Cell(measured=Estimate(value=float(np.nanmean(cut.wall)))),
                    *_scored_cells(study, by_name),
                ),
            )
            for cut, by_name in zip(study.cuts, study.slow, strict=True)
        ),
        of_paper=False,
    )


def _scored_cells(study: Attacked, by_name: Mapping[str, Scored]) -> tuple[Cell, ...]:
    shares = [by_name[name][1] for name in study.names]
    return (
        Cell(measured=Estimate(value=100 * min(shares))),
        *(Cell(measured=by_name[name][0]) for name in study.names),
    )


def _drifts(study: Attacked) -> Layout:
    keys = list(study.watched)
    judges = [seen.judge for seen in study.watched[keys[0]]]
    return Layout(
        id="updates",
        title="Images after an unannounced update until CUSUM tells: median [95 % of streams]; "
        "then the images that a two-sample test needs in 80 % of streams",
        head="Judge",
        columns=tuple(
            Column(
                key=f"{change}_{shift:g}", title=CHANGED[change].format(_percent(shift)), digits=0
            )
            for change, shift in keys
        ),
        rows=tuple(
            Row(
                key=judge,
                title=judge,
                cells=tuple(_delay(study.watched[key][at]) for key in keys),
            )
            for at, judge in enumerate(judges)
        ),
        of_paper=False,
    )


def _delay(seen: Watched) -> Cell:
    low, middle, high = np.quantile(seen.delays, [0.025, 0.5, 0.975], method="inverted_cdf")
    test = f"; test {'–' if seen.enough is None else seen.enough}"
    if not np.isfinite(middle):
        return Cell(
            measured=Estimate(reason="most streams end before it"),
            note=f"(seen in {_percent(seen.caught)}){test}",
        )
    ends = (float(low), float(high)) if np.isfinite(high) else (None, None)
    note = test if np.isfinite(high) else f"(seen in {_percent(seen.caught)}){test}"
    return Cell(measured=Estimate(value=float(middle), low=ends[0], high=ends[1]), note=note)


def _notes(study: Attacked) -> list[str]:
    found = [
        f"Quality is {study.measure}, {study.chance:g} by chance. Breakdown: what it exceeds "
        "chance by is half or less of what it is with all judges honest. Intervals are over items "
        "and over draws of who is bad; fits are not repeated in resamples.",
    ]
    if study.chance == 0.0:
        found.append(
            "Where all images score alike there is no correlation: curves end there, and the "
            "aggregator counts as broken."
        )
    if study.plain:
        found.append(
            f"The {study.real} judges of the table are enlarged to {study.size} by clones: a "
            "judge's own answers, dealt out anew among facts of the same kind and truth (where "
            "the truth is not known, drawn from the Dawid–Skene posterior). Clones err "
            "independently; real judges find the same facts hard and stand less."
        )
    if "adversarial" in study.enlarged:
        found.append(
            "Judges that always say the opposite tell the truth to whoever sees through them: "
            "Dawid–Skene turns them round while they are few, and is turned round itself once they "
            "weigh more than the honest ones, which may be before they are the majority."
        )
    if study.left_out:
        found.append(f"Left out for want of truth or ratings: {', '.join(study.left_out)}.")
    if not study.watched:
        found.append("Updates were not watched for: it takes 40 images and two judges.")
    if study.modelled:
        found.append("The table has no times: seconds of a call are drawn log-normal.")
    return found
