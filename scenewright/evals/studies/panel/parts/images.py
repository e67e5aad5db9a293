"""Changed pictures: how far judges and panel follow what has nothing to do with the facts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field

from scenewright.evals.judge_reports.labelled_facts import LabelledFact, Picture
from scenewright.evals.statistics.estimates import Estimate, number
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.panel.base import PanelStudy, PanelStudyContext, PanelStudyResult
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.live_queries import (
    PLAIN_FORM,
    AskingOptions,
    Forms,
    JudgeResponses,
    Sample,
    answer_records,
    asking_notes,
    query_judges,
    sample_of,
)
from scenewright.evals.studies.panel.perturbations.images import (
    NEUTRAL,
    PERTURBATIONS,
    SEVERITIES,
    Perturbation,
    written,
)
from scenewright.evals.studies.panel.shifts import (
    Shift,
    Shifts,
    Voter,
    apart,
    clear,
    estimate,
    flat,
    percent,
    points,
    voters_of,
)
from scenewright.evals.studies.panel.wording import short_name
from scenewright.evals.studies.plots import COLORS, LINES, MARKERS, bars, errors, figure, legend

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot
    from PIL import Image

WORDS_NEUTRAL = "words_neutral"


class ImagesOptions(AskingOptions):
    """Options of the study of changed pictures."""

    changes: tuple[str, ...] = (
        *("jpeg", "blur", "dark", "resize", "watermark"),
        *("words_neutral", "words_present", "words_answer"),
    )
    """Which of jpeg, blur, dark, bright, contrast, resize, noise, watermark, words_neutral,
    words_present and words_answer."""
    texts: tuple[str, ...] = ()
    """Further words that are written over pictures."""
    severities: tuple[int, ...] = Field(default=(3,), min_length=1)
    """How strong, 1 (least) to 5, one form of asking each."""


@dataclass(frozen=True, slots=True)
class Change:
    """A perturbation of one severity."""

    perturbation: Perturbation
    """What is done."""
    severity: int
    """How strongly."""

    @property
    def form(self) -> str:
        """As in records: ``jpeg/3``."""
        return f"{self.perturbation.name}/{self.severity}"


@dataclass(frozen=True, slots=True, eq=False)
class ImageStudyResult:
    """What was measured."""

    changes: tuple[Change, ...]
    """In the order of the options."""
    voters: tuple[str, ...]
    """Judges, then aggregators."""
    panels: tuple[str, ...]
    """The aggregators among them."""
    shifts: Mapping[tuple[str, str], Shift]
    """(form, voter) → from the plain picture."""
    pooled: Mapping[str, Shift]
    """Voter → over all changes that are no words."""
    beyond: Mapping[tuple[str, str], Shift]
    """(form of words that claim, voter) → from the neutral words of that severity."""
    steadier: Mapping[str, Figure]
    """Aggregator → its share of flipped votes minus that of its judges, over ``pooled``."""
    unscored: Mapping[tuple[str, str], float]
    """(form, voter) → share of the questions without an answer."""
    plain_right: Mapping[str, Figure]
    """Voter → share of right votes about plain pictures, where the truth is known."""
    n_images: int
    """Pictures that were asked about."""
    n_facts: int
    """Facts of them."""
    n_false: int
    """Facts that do not hold, as far as is known."""


def changes_of(options: ImagesOptions) -> tuple[Change, ...]:
    """The forms that the options ask for. Raises ``PanelStudyError`` for unknown ones."""
    unknown = [name for name in options.changes if name not in PERTURBATIONS]
    if unknown:
        raise PanelStudyError(
            f"there is no change {unknown[0]!r}: use some of {', '.join(PERTURBATIONS)}"
        )
    wrong = [at for at in options.severities if not 1 <= at <= SEVERITIES]
    if wrong:
        raise PanelStudyError(f"the severity is {wrong[0]}: use 1 (least) to {SEVERITIES}")
    chosen = [PERTURBATIONS[name] for name in dict.fromkeys(options.changes)]
    chosen += [written(f"words_own_{at}", text) for at, text in enumerate(options.texts, 1)]
    if any(made.attack for made in chosen) and PERTURBATIONS[WORDS_NEUTRAL] not in chosen:
        # Without them nobody could tell what the words say from what they hide.
        chosen.append(PERTURBATIONS[WORDS_NEUTRAL])
    if not chosen:
        raise PanelStudyError("there is nothing to change: name changes or texts")
    return tuple(
        Change(made, severity) for made in chosen for severity in sorted(set(options.severities))
    )


@dataclass(frozen=True, slots=True)
class _Changed:
    """Loads a picture and changes it."""

    picture: Picture
    change: Change
    seed: int

    def __call__(self) -> Image.Image:
        image = self.picture.load()
        return self.change.perturbation.of(image, self.change.severity, self.seed)


def forms_of(facts: Sequence[LabelledFact], changes: Sequence[Change], seed: int) -> Forms:
    """The plain form, then one a change."""
    found: dict[str, Sequence[LabelledFact | None]] = {PLAIN_FORM: tuple(facts)}
    for change in changes:
        found[change.form] = tuple(
            LabelledFact(
                Picture(of.picture.name, _Changed(of.picture, change, seed)),
                of.fact, of.holds, of.group,
            )
            for of in facts
        )  # fmt: skip
    return found


async def run(context: PanelStudyContext, options: ImagesOptions) -> PanelStudyResult:
    """Ask every judge about changed pictures, and compare."""
    changes = changes_of(options)
    sample = sample_of(context, options.most_images)
    heard = await query_judges(
        context, sample, forms_of(sample.facts, changes, context.seed), options.limit_usd
    )
    return await asyncio.to_thread(_result, context, options, sample, changes, heard)


def _result(
    context: PanelStudyContext,
    options: ImagesOptions,
    sample: Sample,
    changes: tuple[Change, ...],
    heard: Mapping[str, JudgeResponses],
) -> PanelStudyResult:
    study = measured(context, options.aggregators, sample, changes, heard)
    return PanelStudyResult(
        findings=findings(study),
        tables=tables(study),
        plots=plots(study),
        records={
            "images_shifts": _records(study),
            "images_answers": answer_records(sample.table, heard),
        },
        figures=_figures(study),
        notes=(*sample.notes, *_notes(study), *asking_notes(heard)),
    )  # fmt: skip


def measured(
    context: PanelStudyContext,
    aggregators: Sequence[str],
    sample: Sample,
    changes: tuple[Change, ...],
    heard: Mapping[str, JudgeResponses],
) -> ImageStudyResult:
    """All figures, from what was ``heard``."""
    table = sample.table
    by_form: dict[str, dict[str, Voter]] = {
        form: {v.name: v for v in voters_of(table, said, aggregators, context.learn)}
        for form, said in heard.items()
    }
    plain = by_form[PLAIN_FORM]
    panels = tuple(name for name, voter in plain.items() if voter.panel)
    judges = [name for name in plain if name not in panels]
    shifts = Shifts(table.item_of, table.truth, context.resamples, context.seed)
    natural = [c.form for c in changes if not c.perturbation.name.startswith("words_")]

    def pairs(name: str, forms: Sequence[str]) -> list[tuple[Voter, Voter]]:
        return [(plain[name], by_form[form][name]) for form in forms]

    beyond: dict[tuple[str, str], Shift] = {}
    for change in changes:
        neutral = by_form.get(f"{WORDS_NEUTRAL}/{change.severity}")
        if change.perturbation.attack and neutral is not None:
            for name in plain:
                pair = (neutral[name], by_form[change.form][name])
                beyond[change.form, name] = shifts.between([pair])
    right = {
        name: shifts.mean((voter.votes == table.truth) + 0.0 * (voter.votes + table.truth))
        for name, voter in plain.items()
    }
    return ImageStudyResult(
        changes=changes,
        voters=tuple(plain),
        panels=panels,
        shifts={
            (change.form, name): shifts.between(pairs(name, [change.form]))
            for change in changes
            for name in plain
        },
        pooled={name: shifts.between(pairs(name, natural)) for name in plain} if natural else {},
        beyond=beyond,
        steadier={
            name: shifts.steadier([pairs(judge, natural) for judge in judges], pairs(name, natural))
            for name in panels
        }
        if natural
        else {},
        unscored={
            (form, name): float((voter.votes != voter.votes).mean())
            for form, voters in by_form.items()
            for name, voter in voters.items()
        },
        plain_right=right,
        n_images=len(table.images),
        n_facts=len(table.facts),
        n_false=int((table.truth == 0.0).sum()),
    )


def _records(study: ImageStudyResult) -> list[dict[str, Any]]:
    found = []
    for against, shifts in (("plain", study.shifts), (WORDS_NEUTRAL, study.beyond)):
        for change in study.changes:
            for voter in study.voters:
                if (change.form, voter) in shifts:
                    found.append(
                        {
                            "change": change.perturbation.name,
                            "severity": change.severity,
                            "against": against,
                            "voter": voter,
                            "panel": voter in study.panels,
                            "unscored": study.unscored[change.form, voter],
                            **shifts[change.form, voter].record(),
                        }
                    )
    return found


def _figures(study: ImageStudyResult) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for (form, voter), shift in study.shifts.items():
        for name in ("signed", "absolute", "flips", "accuracy", "fooled"):
            figure: Figure = getattr(shift, name)
            if figure.value is not None:
                found[f"images.{form}.{voter}.{name}"] = flat(figure)
    for (form, voter), shift in study.beyond.items():
        if shift.false_yes.value is not None:
            found[f"images.{form}.{voter}.false_yes_beyond_neutral"] = flat(shift.false_yes)
    for name, figure in study.steadier.items():
        found[f"images.flips_less_judges.{name}"] = flat(figure)
    return found


def _notes(study: ImageStudyResult) -> list[str]:
    caveats = [
        f"{change.perturbation.name} ({change.perturbation.caveat})"
        for change in study.changes
        if change.perturbation.caveat and change.severity == study.changes[0].severity
    ]
    notes = [
        "Plain and changed pictures are asked about in the same way, also where the table holds "
        "answers that were given in another; shifts are from the plain answers asked here.",
        "Intervals are 95 %, by drawing items; nothing is corrected for the number of changes and "
        "voters that are compared. An interval of [0, 0] says that nothing of the kind was seen: "
        f"among {study.n_images} pictures up to {min(100.0, 300.0 / study.n_images):.0f} % of all "
        "might still show it (rule of three).",
        "No change alters what is drawn, so accuracy is measured against the truth of the plain "
        "picture.",
        "Aggregators that learn from answers learn from those to the changed pictures, as they "
        "would in a run.",
        f"What words do beyond covering the picture is measured against “{NEUTRAL}” in the same "
        "place and size.",
    ]
    if caveats:
        notes.append(f"Some facts may be hard or impossible to see after: {'; '.join(caveats)}.")
    return notes


def title_of(change: Change, study: ImageStudyResult) -> str:
    """A change in words, with its severity where there are several."""
    several = len({other.severity for other in study.changes}) > 1
    about = change.perturbation.about
    return f"{about}, severity {change.severity}" if several else about


def findings(study: ImageStudyResult) -> tuple[str, ...]:
    """Whole sentences, the most important first."""
    found: list[str] = []
    main = study.panels[0] if study.panels else study.voters[0]
    found += _words(study, main)
    natural = [c for c in study.changes if not c.perturbation.name.startswith("words_")]
    if natural:
        found += _largest(study, main, natural)
        found += _judges(study)
        found += _steadier(study)
    return tuple(found)


def _words(study: ImageStudyResult, main: str) -> list[str]:
    found = []
    for form in dict.fromkeys(form for form, _ in study.beyond):
        change = next(change for change in study.changes if change.form == form)
        shift = study.beyond[form, main]
        if shift.false_yes.value is None:
            told = shift.signed
            what = "the probability of facts"
        else:
            told = shift.false_yes
            what = "the share of false facts that get a yes"
        effect = {1: "raises", -1: "lowers", 0: "does not clearly change"}[clear(told)]
        sentence = (
            f"Writing {change.perturbation.about.removesuffix(' over it')} over the picture "
            f"(severity {change.severity}) {effect} {what} from the panel ({main}), beyond what "
            f"neutral words of the same size do: {points(told)}"
        )
        judges = {v: study.beyond[form, v] for v in study.voters if v not in study.panels}
        swayed = [
            v for v, s in judges.items() if clear(s.false_yes if s.false_yes.n else s.signed) > 0
        ]
        sentence += (
            f"; of {len(judges)} judges these clearly follow: {', '.join(map(short_name, swayed))}."
            if swayed
            else f"; none of {len(judges)} judges clearly follows."
        )
        found.append(sentence)
    return found


def _largest(study: ImageStudyResult, main: str, natural: Sequence[Change]) -> list[str]:
    known = [c for c in natural if study.shifts[c.form, main].absolute.value is not None]
    if not known:
        return []
    worst = max(known, key=lambda c: study.shifts[c.form, main].absolute.value or 0.0)
    shift = study.shifts[worst.form, main]
    way = {1: "up", -1: "down", 0: "neither clearly up nor down"}[clear(shift.signed)]
    sentence = (
        f"Of {len(natural)} changes without words, “{title_of(worst, study)}” moves the panel "
        f"({main}) most: a fact's probability by {points_plain(shift.absolute)} on average, the "
        f"mean score {way} ({points(shift.signed)}), and {percent(shift.flips)} of the votes flip"
    )
    if shift.accuracy.value is not None:
        sentence += f"; the share of right votes changes by {points(shift.accuracy)}"
    return [sentence + "."]


def points_plain(found: Figure) -> str:
    """A size without a sign, in percentage points."""
    return percent(found).replace(" %", " points", 1)


def _judges(study: ImageStudyResult) -> list[str]:
    judges = [
        v for v in study.voters
        if v not in study.panels and study.pooled[v].absolute.value is not None
    ]  # fmt: skip
    if len(judges) < 2:
        return []
    order = sorted(judges, key=lambda v: study.pooled[v].absolute.value or 0.0)
    best, worst = (study.pooled[name].absolute for name in (order[0], order[-1]))
    differ = "differ" if apart(best, worst) else "do not clearly differ"
    return [
        f"Over all changes without words, judges {differ} in how far their answers move: from "
        f"{points_plain(best)} a fact ({short_name(order[0])}) to {points_plain(worst)} "
        f"({short_name(order[-1])})."
    ]


def _steadier(study: ImageStudyResult) -> list[str]:
    found = []
    for name, gap in study.steadier.items():
        if gap.value is not None:
            told = {
                1: "more often than", -1: "less often than", 0: "neither clearly more nor less than"
            }[clear(gap)]  # fmt: skip
            found.append(
                f"Votes of the panel by {name} flip {told} those of its judges on average: "
                f"{percent(study.pooled[name].flips)} of them ({points(gap)} from their mean)."
            )
    return found


def tables(study: ImageStudyResult) -> tuple[Layout, ...]:
    """By change for the panel, by voter, and what words do."""
    main = study.panels[0] if study.panels else study.voters[0]
    by_change = Layout(
        id="images_changes",
        title=f"What each change does to the panel ({main}); percent and percentage points",
        head="Change",
        columns=_columns(
            signed="Mean score", absolute="|Shift| a fact", lost_yes="yes → no",
            gained_yes="no → yes", accuracy="Right votes",
        ),
        rows=tuple(
            _row(change.form, title_of(change, study), _cells(
                study.shifts[change.form, main],
                ("signed", "absolute", "lost_yes", "gained_yes", "accuracy"),
            ))
            for change in study.changes
        ),
        of_paper=False,
    )  # fmt: skip
    found = [by_change]
    if study.pooled:
        found.append(
            Layout(
                id="images_voters",
                title="All changes without words, by voter; percent and percentage points",
                head="Voter",
                columns=_columns(
                    right="Right, plain", absolute="|Shift| a fact", flips="Flipped votes",
                    accuracy="Right votes, change",
                ),
                rows=tuple(
                    _row(name, name, [
                        estimate(study.plain_right[name]),
                        *_cells(study.pooled[name], ("absolute", "flips", "accuracy")),
                    ])
                    for name in study.voters
                ),
                of_paper=False,
            )
        )  # fmt: skip
    if study.beyond:
        found.append(_words_table(study))
    return tuple(found)


def _words_table(study: ImageStudyResult) -> Layout:
    forms = list(dict.fromkeys(form for form, _ in study.beyond))
    by_form = {change.form: change for change in study.changes}
    columns = tuple(
        Column(key=f"{form}:{key}", title=f"{title_of(by_form[form], study)}: {what}")
        for form in forms
        for key, what in (("fooled", "no → yes of false facts"), ("beyond", "beyond neutral words"))
    )
    rows = tuple(
        _row(name, name, [
            cell
            for form in forms
            for cell in (
                estimate(study.shifts[form, name].fooled),
                estimate(study.beyond[form, name].false_yes),
            )
        ])
        for name in study.voters
    )  # fmt: skip
    return Layout(
        id="images_words",
        title="Facts that do not hold, with words written over the picture; percent, and points",
        head="Voter",
        columns=columns,
        rows=rows,
        of_paper=False,
    )


def _columns(**titles: str) -> tuple[Column, ...]:
    return tuple(Column(key=key, title=title) for key, title in titles.items())


def _cells(shift: Shift, names: Sequence[str]) -> list[Estimate]:
    return [estimate(getattr(shift, name)) for name in names]


def _row(key: str, title: str, cells: Sequence[Estimate]) -> Row:
    return Row(key=key, title=title, cells=tuple(Cell(measured=cell) for cell in cells))


def plots(study: ImageStudyResult) -> Mapping[str, Callable[[], Plot]]:
    """File stem → what draws it."""
    found: dict[str, Callable[[], Plot]] = {"images_shifts": partial(_heat, study)}
    if study.beyond:
        found["images_words"] = partial(_attack, study)
    if len({change.severity for change in study.changes}) > 1:
        found["images_severity"] = partial(_severity, study)
    return found


def _heat(study: ImageStudyResult) -> Plot:
    """Signed shift of every voter by every change."""
    import numpy as np

    values = np.array(
        [
            [_percent(study.shifts[c.form, voter].signed) for c in study.changes]
            for voter in study.voters
        ]
    )
    wide, high = 2.6 + 0.72 * len(study.changes), 2.2 + 0.36 * len(study.voters)
    made, axes = figure(size=(wide, high))
    axis = axes[0][0]
    most = max(1.0, float(np.nanmax(np.abs(values), initial=0.0)))
    shown = axis.imshow(values, cmap="PuOr_r", vmin=-most, vmax=most, aspect="auto")
    for row, voter in enumerate(study.voters):
        for column, change in enumerate(study.changes):
            value = values[row, column]
            if not np.isnan(value):
                strong = clear(study.shifts[change.form, voter].signed) != 0
                axis.text(
                    column, row, number(value, 1, sign=True), ha="center", va="center",
                    fontsize=8, fontweight="bold" if strong else "normal",
                    color="white" if abs(value) > 0.65 * most else "black",
                )  # fmt: skip
    axis.set_xticks(
        range(len(study.changes)), [c.form.replace("/", " ") for c in study.changes],
        rotation=35, ha="right",
    )  # fmt: skip
    axis.set_yticks(range(len(study.voters)), [short_name(voter) for voter in study.voters])
    if study.panels:
        axis.axhline(len(study.voters) - len(study.panels) - 0.5, color="black", linewidth=1.2)
    axis.grid(visible=False)
    axis.set_title("Shift of the mean score (points; bold: interval without 0)")
    made.colorbar(shown, ax=axis, label="points")
    found: Plot = made
    return found


def _percent(found: Figure) -> float:
    return float("nan") if found.value is None else 100.0 * found.value


def _attack(study: ImageStudyResult) -> Plot:
    """What words do to facts that do not hold, against neutral words."""
    forms = list(dict.fromkeys(form for form, _ in study.beyond))
    by_form = {change.form: change for change in study.changes}
    known = any(shift.false_yes.value is not None for shift in study.beyond.values())
    series = {
        title_of(by_form[form], study): [
            estimate(
                study.beyond[form, voter].false_yes if known else study.beyond[form, voter].signed
            )
            for voter in study.voters
        ]
        for form in forms
    }
    made, axes = figure(size=(7.4, 1.8 + 0.3 * len(study.voters) * max(1, len(forms)) * 0.8))
    axis = axes[0][0]
    bars(axis, [short_name(voter) for voter in study.voters], series, horizontal=True)
    axis.axvline(0.0, color="black", linewidth=0.9)
    axis.set_xlabel(
        ("False facts that get a yes" if known else "Mean score")
        + ", beyond neutral words (points)"
    )
    legend(made, axis, columns=1)
    found: Plot = made
    return found


def _severity(study: ImageStudyResult) -> Plot:
    """Mean |shift| of the panel by severity."""
    main = study.panels[0] if study.panels else study.voters[0]
    made, axes = figure(size=(7.0, 4.6))
    axis = axes[0][0]
    names = list(dict.fromkeys(change.perturbation.name for change in study.changes))
    severities = sorted({change.severity for change in study.changes})
    for at, name in enumerate(names):
        found = [estimate(study.shifts[f"{name}/{s}", main].absolute) for s in severities]
        kept = [(s, e) for s, e in zip(severities, found, strict=True) if e.value is not None]
        shift = (at - (len(names) - 1) / 2) * 0.03
        axis.errorbar(
            [s + shift for s, _ in kept], [e.value or 0.0 for _, e in kept],
            yerr=errors([e for _, e in kept]), color=COLORS[at % len(COLORS)],
            marker=MARKERS[at % len(MARKERS)], linestyle=LINES[at % len(LINES)],
            markersize=5, linewidth=1.4, capsize=2.5, label=name,
        )  # fmt: skip
    axis.set_xticks(severities)
    axis.set_xlabel("Severity")
    axis.set_ylabel("|Shift| a fact (points)")
    axis.set_ylim(bottom=0.0)
    axis.set_title(f"How far the panel ({main}) moves")
    legend(made, axis, columns=4)
    drawn: Plot = made
    return drawn


PART = PanelStudy(
    name="images",
    title="Changed pictures",
    about="How far do scores move when the picture is compressed, blurred, darkened or written on?",
    needs=frozenset({"live"}),
    options=ImagesOptions,
    run=run,
)
