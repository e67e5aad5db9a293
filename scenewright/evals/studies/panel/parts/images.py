"""Changed pictures: how far judges and panel follow what has nothing to do with the facts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from scenewright.evals.judge_reports.labelled_facts import LabelledFact, Picture
from scenewright.evals.reporting import plots
from scenewright.evals.statistics.figures import Figure
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
from scenewright.evals.studies.panel.perturbations import (
    NEUTRAL,
    PERTURBATIONS,
    SEVERITIES,
    Perturbation,
    written,
)
from scenewright.evals.studies.panel.presentation import (
    apart,
    report,
    short_name,
    side,
)
from scenewright.evals.studies.panel.shifts import Shift, Shifts, Voter, voters_of
from scenewright.evals.studies.panel.study import PanelStudy, PanelStudyContext, PanelStudyResult
from scenewright.evals.studies.panel.table import PanelStudyError

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot
    from PIL import Image

Rows = list[dict[str, Any]]
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


def changes_of(options: ImagesOptions) -> tuple[Change, ...]:
    """Return the forms that the options ask for.

    Raises ``PanelStudyError`` for unknown ones.
    """
    unknown = [name for name in options.changes if name not in PERTURBATIONS]
    if unknown:
        raise PanelStudyError(
            f"unknown change {unknown[0]!r}: use some of {', '.join(PERTURBATIONS)}"
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
        raise PanelStudyError("no changes are chosen: name changes or texts")
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
    """Return the plain form, then one a change."""
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
    table = sample.table
    by_form: dict[str, dict[str, Voter]] = {
        form: {v.name: v for v in voters_of(table, said, options.aggregators, context.learn)}
        for form, said in heard.items()
    }
    plain = by_form[PLAIN_FORM]
    panels = [name for name, voter in plain.items() if voter.panel]
    judges = [name for name in plain if name not in panels]
    main = panels[0] if panels else judges[0]
    shifts = Shifts(table.item_of, table.truth, context.resamples, context.seed)
    several = len({change.severity for change in changes}) > 1

    def row(change: Change, name: str, against: str, before: Voter) -> dict[str, Any]:
        voter = by_form[change.form][name]
        about = change.perturbation.about
        return {
            "change": change.perturbation.name,
            "severity": change.severity,
            "against": against,
            "voter": name,
            "panel": voter.panel,
            "unscored": float(np.isnan(voter.votes).mean()),
            **shifts.between([(before, voter)]).row(),
            "_form": change.form,
            "_title": f"{about}, severity {change.severity}" if several else about,
            "_words": about.removesuffix(" over it"),
        }

    shifted = [row(change, name, "plain", plain[name]) for change in changes for name in plain]
    # What words say, beyond what they cover: from the neutral words of the same severity.
    beyond = [
        row(change, name, WORDS_NEUTRAL, neutral[name])
        for change in changes
        if change.perturbation.attack
        and (neutral := by_form.get(f"{WORDS_NEUTRAL}/{change.severity}"))
        for name in plain
    ]
    natural = [c.form for c in changes if not c.perturbation.name.startswith("words_")]

    def pairs(name: str) -> list[tuple[Voter, Voter]]:
        return [(plain[name], by_form[form][name]) for form in natural]

    pooled = {name: shifts.between(pairs(name)) for name in plain} if natural else {}
    steadier = {
        name: shifts.steadier([pairs(judge) for judge in judges], pairs(name))
        for name in (panels if natural else ())
    }
    values = {
        "main": main,
        "words": _words(beyond, main),
        "largest": max(
            (
                row
                for row in shifted
                if row["voter"] == main
                and row["_form"] in natural
                and row["absolute"].value is not None
            ),
            key=lambda row: row["absolute"].value,
            default=None,
        ),
        "n_natural": len(natural),
        "steadiest": _ends({name: pooled[name] for name in judges if pooled}),
        "steadier": [
            (name, pooled[name].flips, gap)
            for name, gap in steadier.items()
            if gap.value is not None
        ],
        "n_images": len(table.images),
        "rule_of_three": f"{min(100.0, 300.0 / len(table.images)):.0f}",
        "neutral": NEUTRAL,
        "caveats": [
            f"{change.perturbation.name} ({change.perturbation.caveat})"
            for change in changes
            if change.perturbation.caveat and change.severity == changes[0].severity
        ],
        "shifted": shifted,
        "panel_rows": [row for row in shifted if row["voter"] == main],
        "pooled": [
            pooled[name].row()
            # NaN where there is no vote or no truth.
            | {"right": shifts.mean((v.votes == table.truth) + 0.0 * (v.votes + table.truth)),
               "_voter": name}
            for name, v in plain.items()
            if pooled
        ],
        "beyond": beyond,
        "titles": {row["_form"]: row["_title"] for row in beyond},
        "of_words": _of_words(shifted, beyond),
        "flips_less": steadier,
    }  # fmt: skip
    return report(
        "images",
        values,
        plots={
            "images_shifts": partial(_draw_shifts, shifted, len(panels)),
            "images_words": partial(_draw_words, beyond) if beyond else None,
            "images_severity": partial(_draw_severity, shifted, main) if several else None,
        },
        records_of={
            "images_shifts": [*shifted, *beyond],
            "images_answers": answer_records(table, heard),
        },
        before=sample.notes,
        after=asking_notes(heard),
    )


def _words(beyond: Rows, main: str) -> Rows:
    """Return, for each text that claims something, the panel's row and the judges that follow."""
    found = []
    for row in (row for row in beyond if row["voter"] == main):
        judges = [r for r in beyond if r["_form"] == row["_form"] and not r["panel"]]
        known = row["false_yes"].value is not None
        found.append(
            row
            | {
                "known": known,
                "effect": row["false_yes"] if known else row["signed"],
                "judges": len(judges),
                "swayed": [
                    short_name(r["voter"])
                    for r in judges
                    if side(r["false_yes"] if r["false_yes"].n else r["signed"]) > 0
                ],
            }
        )
    return found


def _ends(pooled: Mapping[str, Shift]) -> dict[str, Any] | None:
    """Return the judges whose answers move least and most; None with fewer than two."""
    known = {name: s.absolute for name, s in pooled.items() if s.absolute.value is not None}
    if len(known) < 2:
        return None
    order = sorted(known, key=lambda name: known[name].value or 0.0)
    least, most = order[0], order[-1]
    return {
        "least": short_name(least),
        "least_shift": known[least],
        "most": short_name(most),
        "most_shift": known[most],
        "apart": apart(known[least], known[most]),
    }


def _of_words(shifted: Rows, beyond: Rows) -> Rows:
    """Return one row a voter: what words do to facts that do not hold, alone and beyond others."""
    found: dict[str, dict[str, Any]] = {}
    for rows, figure, name in ((shifted, "fooled", "fooled"), (beyond, "false_yes", "beyond")):
        for row in rows:
            cells = found.setdefault(row["voter"], {"_voter": row["voter"]})
            cells[f"{row['_form']}:{name}"] = row[figure]
    return list(found.values())


def _draw_shifts(shifted: Rows, panels: int) -> Plot:
    """Signed shift of every voter by every change."""
    forms = list(dict.fromkeys(row["_form"] for row in shifted))
    voters = list(dict.fromkeys(row["voter"] for row in shifted))
    by = {(row["voter"], row["_form"]): row["signed"] for row in shifted}
    grid = [[by[voter, form] for form in forms] for voter in voters]
    values = np.array(
        [[np.nan if f.value is None else 100.0 * f.value for f in row] for row in grid]
    )
    made, axis = plots.chart(
        "Shift of the mean score (points; bold: interval without 0)",
        size=(2.6 + 0.72 * len(forms), 2.2 + 0.36 * len(voters)),
    )
    shown = plots.heat(
        axis, values, [short_name(voter) for voter in voters],
        [form.replace("/", " ") for form in forms], colors="PuOr_r", sign=True,
        most=max(1.0, float(np.nanmax(np.abs(values), initial=0.0))),
        bold=np.array([[side(f) != 0 for f in row] for row in grid]),
    )  # fmt: skip
    if panels:
        axis.axhline(len(voters) - panels - 0.5, color="black", linewidth=1.2)
    made.colorbar(shown, ax=axis, label="points")
    return plots.legend(made)


def _draw_words(beyond: Rows) -> Plot:
    """Effect of words on facts that do not hold, against neutral words."""
    known = any(row["false_yes"].value is not None for row in beyond)
    series: dict[str, list[Figure]] = {}
    for row in beyond:
        series.setdefault(row["_title"], []).append(row["false_yes" if known else "signed"])
    return plots.bar_chart(
        [short_name(voter) for voter in dict.fromkeys(row["voter"] for row in beyond)],
        series,
        x=f"{'False facts that get a yes' if known else 'Mean score'}, beyond neutral words "
        "(points)",
        factor=100.0,
        columns=1,
    )


def _draw_severity(shifted: Rows, main: str) -> Plot:
    """Mean |shift| of the panel by severity."""
    made, axis = plots.chart(
        f"How far the panel ({main}) moves", "Severity", "|Shift| a fact (points)", (7.0, 4.6)
    )
    mine = [row for row in shifted if row["voter"] == main]
    names = list(dict.fromkeys(row["change"] for row in mine))
    for at, name in enumerate(names):
        beside = (at - (len(names) - 1) / 2) * 0.03
        points = [(r["severity"] + beside, r["absolute"]) for r in mine if r["change"] == name]
        plots.curve(axis, at, name, points, 100.0)
    axis.set_xticks(sorted({row["severity"] for row in mine}))
    axis.set_ylim(bottom=0.0)
    return plots.legend(made, axis, 4)


PART = PanelStudy(
    name="images",
    title="Changed pictures",
    about="How far do scores move when the picture is compressed, blurred, darkened or written on?",
    needs=frozenset({"live"}),
    options=ImagesOptions,
    run=run,
)
