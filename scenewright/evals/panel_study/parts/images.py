"""Changed pictures: how far judges and panel follow what has nothing to do with the facts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field

from scenewright.evals.figures import Figure
from scenewright.evals.labelled import LabelledFact, Picture
from scenewright.evals.panel_study.asking import (
    PLAIN_FORM,
    AskingOptions,
    Forms,
    Heard,
    Sample,
    answer_records,
    asking_notes,
    hear,
    sample_of,
)
from scenewright.evals.panel_study.base import Part, PartContext, PartResult
from scenewright.evals.panel_study.errors import PanelStudyError
from scenewright.evals.panel_study.parts.image_page import findings, plots, tables
from scenewright.evals.panel_study.perturbations.images import (
    NEUTRAL,
    PERTURBATIONS,
    SEVERITIES,
    Perturbation,
    written,
)
from scenewright.evals.panel_study.shifts import Shift, Shifts, Voter, flat, voters_of

if TYPE_CHECKING:
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
class Study:
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


async def run(context: PartContext, options: ImagesOptions) -> PartResult:
    """Ask every judge about changed pictures, and compare."""
    changes = changes_of(options)
    sample = sample_of(context, options.most_images)
    heard = await hear(
        context, sample, forms_of(sample.facts, changes, context.seed), options.limit_usd
    )
    return await asyncio.to_thread(_result, context, options, sample, changes, heard)


def _result(
    context: PartContext,
    options: ImagesOptions,
    sample: Sample,
    changes: tuple[Change, ...],
    heard: Mapping[str, Heard],
) -> PartResult:
    study = measured(context, options.aggregators, sample, changes, heard)
    return PartResult(
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
    context: PartContext,
    aggregators: Sequence[str],
    sample: Sample,
    changes: tuple[Change, ...],
    heard: Mapping[str, Heard],
) -> Study:
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
    return Study(
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


def _records(study: Study) -> list[dict[str, Any]]:
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


def _figures(study: Study) -> dict[str, Any]:
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


def _notes(study: Study) -> list[str]:
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


PART = Part(
    name="images",
    title="Changed pictures",
    about="How far do scores move when the picture is compressed, blurred, darkened or written on?",
    needs=frozenset({"live"}),
    options=ImagesOptions,
    run=run,
)
