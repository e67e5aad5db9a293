"""One judge in the loop and in the report: how much of a gain others confirm."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from pydantic import Field

from scenewright.evals.figures import Bootstrap, Figure
from scenewright.evals.panel_study.base import Options, Part, PartContext, PartResult
from scenewright.evals.panel_study.errors import PanelStudyError
from scenewright.evals.panel_study.parts.circularity_page import (
    HELD_OUT,
    TRUTH,
    findings,
    plots,
    tables,
)
from scenewright.evals.panel_study.selection import (
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
from scenewright.evals.panel_study.shifts import flat
from scenewright.evals.panel_study.simulated_picks import (
    Curve,
    PanelLike,
    curve_point,
    panel_like,
    simulated_picks,
)
from scenewright.evals.panel_study.table import AnswerTable
from scenewright.evals.panel_study.trajectories import (
    Round,
    columns_of,
    rounds_of,
    trajectories_of,
)


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
class Study:
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


async def run(context: PartContext, options: CircularityOptions) -> PartResult:
    """Measure it in loops, where there are any, in picks by each judge, and in simulated picks.

    Raises ``PanelStudyError`` for a correlation outside [0, 1).
    """
    wrong = [rho for rho in options.correlations if not 0.0 <= rho < 1.0]
    if wrong:
        raise PanelStudyError(f"the correlation is {wrong[0]}: use numbers from 0 to below 1")
    return await asyncio.to_thread(_result, context, options)


def _result(context: PartContext, options: CircularityOptions) -> PartResult:
    study = measured(context, options)
    return PartResult(
        findings=findings(study),
        tables=tables(study),
        plots=plots(study),
        records=_records(study),
        figures=_figures(study),
        notes=_notes(context.table, study, options),
    )


def measured(context: PartContext, options: CircularityOptions) -> Study:
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
    return Study(
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


def _records(study: Study) -> dict[str, Sequence[Mapping[str, Any]]]:
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
            for what, figure in zip(("own", "others", "truth"), three, strict=True):
                curves.append(
                    {
                        "source": source,
                        "best_of": number,
                        "reporter": what,
                        "gain": figure.value,
                        "low": figure.low,
                        "high": figure.high,
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


def _figures(study: Study) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, rounds in study.rounds.items():
        for what in ("gain", "reported", "gap", "confirmed"):
            figure: Figure = getattr(rounds[-1], what)
            if figure.value is not None:
                found[f"circularity.loop.{name}.{what}"] = flat(figure)
    for name, one in (*study.picked.items(), ("all", study.every)):
        if one is None:
            continue
        for what in ("own", "others", "gap", "confirmed", "true", "true_share", "rated"):
            figure = getattr(one, what)
            if figure.value is not None:
                found[f"circularity.pick.{name}.{what}"] = flat(figure)
    for rho, shares in study.simulated_shares.items():
        for what, figure in zip(("confirmed", "true_share"), shares, strict=True):
            if figure.value is not None:
                found[f"circularity.simulated.{rho:g}.{what}"] = flat(figure)
    return found


def _notes(table: AnswerTable, study: Study, options: CircularityOptions) -> tuple[str, ...]:
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


PART = Part(
    name="circularity",
    title="The judge that steers and the judge that reports",
    about="How much of a gain that a judge sees in what it picked do other judges confirm?",
    needs=frozenset({"several"}),
    options=CircularityOptions,
    run=run,
)
