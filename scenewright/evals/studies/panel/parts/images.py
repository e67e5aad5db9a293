"""Changed pictures: how far judges and panel follow what has nothing to do with the facts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from scenewright.evals.judge_reports.labelled_facts import LabelledFact, Picture
from scenewright.evals.reporting.charts import Chart
from scenewright.evals.reporting.frames import Frame, across, percents, values_by_key
from scenewright.evals.reporting.sentences import short_name
from scenewright.evals.statistics.figures import side_of_zero
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
from scenewright.evals.studies.panel.resampling import intervals_apart
from scenewright.evals.studies.panel.shifts import Shifts, Voter, voters_of
from scenewright.evals.studies.panel.study import (
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
    sentences_of,
)
from scenewright.evals.studies.panel.table import PanelStudyError

if TYPE_CHECKING:
    from PIL import Image

Rows = list[dict[str, Any]]
WORDS_NEUTRAL = "words_neutral"
_CHANGED = {
    "signed": "Mean score",
    "absolute": "|Shift| a fact",
    "lost_yes": "yes → no",
    "gained_yes": "no → yes",
    "accuracy": "Right votes",
}
_POOLED = {
    "right": "Right, plain",
    "absolute": "|Shift| a fact",
    "flips": "Flipped votes",
    "accuracy": "Right votes, change",
}


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
            **shifts.between([(before, voter)]),
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

    pooled = [
        {"voter": name, **shifts.between(pairs(name))}
        # NaN where there is no vote or no truth.
        | {"right": shifts.mean((v.votes == table.truth) + 0.0 * (v.votes + table.truth))}
        for name, v in plain.items()
        if natural
    ]
    steadier = [
        {"voter": name, "gap": shifts.steadier([pairs(judge) for judge in judges], pairs(name)),
         "flips": next(row["flips"] for row in pooled if row["voter"] == name)}
        for name in panels if natural
    ]  # fmt: skip
    mine = [row for row in shifted if row["voter"] == main]
    moved = [r for r in mine if r["_form"] in natural and r["absolute"].value is not None]
    largest = max(moved, key=lambda row: row["absolute"].value, default=None)
    known = [r for r in pooled if r["voter"] in judges and r["absolute"].value is not None]
    known.sort(key=lambda row: row["absolute"].value)
    ends = {
        "least": known[0],
        "most": known[-1],
        "apart": intervals_apart(known[0]["absolute"], known[-1]["absolute"]),
    } if len(known) > 1 else None  # fmt: skip
    caveats = [
        f"{change.perturbation.name} ({change.perturbation.caveat})"
        for change in changes
        if change.perturbation.caveat and change.severity == changes[0].severity
    ]
    say = sentences_of("images")
    values: dict[str, Any] = {
        "main": main, "largest": largest, "n_natural": len(natural), "neutral": NEUTRAL,
        "n_images": len(table.images), "caveats": "; ".join(caveats),
        "rule_of_three": min(100.0, 300.0 / len(table.images)),
    }  # fmt: skip
    by_truth = bool(largest and largest["accuracy"].value is not None)
    values["accuracy"] = "".join(say(values, largest_accuracy=by_truth))
    told = {row["_form"]: row["_title"] for row in beyond}
    of_words = [
        {**fooled, **more}
        for fooled, more in zip(
            across(shifted, "voter", "{_form}:fooled", "fooled"),
            across(beyond, "voter", "{_form}:beyond", "false_yes"),
            strict=True,
        )
    ] if beyond else []  # fmt: skip
    by_word = percents(
        {
            f"{form}:{of}": f"{title}: {what}"
            for form, title in told.items()
            for of, what in (
                ("fooled", "no → yes of false facts"),
                ("beyond", "beyond neutral words"),
            )
        }
    )
    beyond_known = any(row["false_yes"].value is not None for row in beyond)
    charts = [
        Chart("images_shifts", [r | {"_form": r["_form"].replace("/", " ")} for r in shifted],
              "_form", "signed", "heat", series="voter", factor=100.0, ylabel="points",
              title="Shift of the mean score (points; bold: interval without 0)"),
        *([Chart("images_words", beyond, "voter", "false_yes" if beyond_known else "signed",
                 "bars", series="_title", factor=100.0,
                 xlabel=f"{'False facts that get a yes' if beyond_known else 'Mean score'}, beyond "
                 "neutral words (points)")] if beyond else []),
        *([Chart("images_severity", mine, "severity", "absolute", series="change", factor=100.0,
                 title=f"How far the panel ({main}) moves", xlabel="Severity",
                 ylabel="|Shift| a fact (points)", limits=(0.0, None))] if several else []),
    ]  # fmt: skip
    return PanelStudyResult(
        findings=say(
            values,
            words=_words(beyond, main),
            largest=largest is not None,
            steadiest=ends,
            steadier=[row for row in steadier if row["gap"].value is not None],
        ),
        frames=(
            Frame.of("images_changes", mine, f"What each change does to the panel ({main}); "
                     "percent and percentage points", percents(_CHANGED), head="Change",
                     label="{_title}", kept=False),
            Frame.of("images_voters", pooled, "All changes without words, by voter; percent and "
                     "percentage points", percents(_POOLED), head="Voter",
                     label="{voter}", kept=False),
            Frame.of("images_words", of_words, "Facts that do not hold, with words written over "
                     "the picture; percent, and points", by_word, head="Voter",
                     label="{voter}", kept=False),
            Frame.of("images_shifts", [*shifted, *beyond]),
            Frame.of("images_answers", answer_records(table, heard)),
        ),
        charts=tuple(charts),
        figures=values_by_key("images.{_form}.{voter}.{name}", shifted,
                              ["signed", "absolute", "flips", "accuracy", "fooled"])
        | values_by_key("images.{_form}.{voter}.{name}", beyond,
                        {"false_yes": "false_yes_beyond_neutral"})
        | values_by_key("images.flips_less_judges.{voter}", steadier, ["gap"]),
        notes=(
            *sample.notes,
            *say(values, same_way=True, intervals=True, truth=True, learns=True, neutral=True,
                 caveats=bool(caveats)),
            *asking_notes(heard),
        ),
    )  # fmt: skip


def _words(beyond: Rows, main: str) -> Rows:
    """Return, for each text that claims something, the panel's row and the judges that follow."""
    found = []
    for row in (row for row in beyond if row["voter"] == main):
        judges = [r for r in beyond if r["_form"] == row["_form"] and not r["panel"]]
        swayed = [
            short_name(r["voter"])
            for r in judges
            if side_of_zero(r["false_yes"] if r["false_yes"].n else r["signed"]) > 0
        ]
        known = row["false_yes"].value is not None
        follow = f"of {len(judges)} judges these clearly follow: {', '.join(swayed)}"
        if not swayed:
            follow = f"none of {len(judges)} judges clearly follows"
        found.append(
            row
            | {"known": known, "effect": row["false_yes" if known else "signed"], "follow": follow}
        )
    return found


PART = PanelStudy(
    name="images",
    title="Changed pictures",
    about="How far do scores move when the picture is compressed, blurred, darkened or written on?",
    needs=frozenset({"live"}),
    options=ImagesOptions,
    run=run,
)
