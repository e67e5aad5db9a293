"""Questions put otherwise: how far judges and panel follow the form and not the picture."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from pydantic import Field

from scenewright.evals.figures import Bootstrap, Figure
from scenewright.evals.labelled import ABSENT, LabelledFact
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
from scenewright.evals.panel_study.consistency import (
    CLAIM,
    CLAIM_NOT,
    HINT_AGAINST,
    HINT_FOR,
    NOT,
    SAME,
    Consistency,
    consistency,
)
from scenewright.evals.panel_study.parts.question_page import findings, plots, tables
from scenewright.evals.panel_study.perturbations.questions import (
    claimed,
    claimed_not,
    hinted,
    hinted_against,
    negated,
    premises,
    reordered,
    rephrased,
    tagged,
)
from scenewright.evals.panel_study.shifts import Shift, Shifts, Voter, flat, voters_of
from scenewright.evals.panel_study.table import AnswerTable, FactRow, ImageRow
from scenewright.facts import Fact

Subject = Literal["paraphrase", "order", "negation", "premise", "pressure"]
PREMISE = "premise"
"""The form of questions about things of other pictures; its rows are none of the table."""


class QuestionsOptions(AskingOptions):
    """Options of the study of questions."""

    most_images: int = Field(default=30, ge=2)
    """Pictures that are asked about, drawn by the study's seed if the table has more."""
    subjects: tuple[Subject, ...] = Field(default=get_args(Subject), min_length=1)
    """What is tried: other words, other orders of options, the complement, things that are not
    there, and pressure."""
    premises: int = Field(default=2, ge=1, le=10)
    """Questions a picture about things of other pictures, where the table has no facts of the
    group ``absent``."""


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """What was measured."""

    voters: Mapping[str, Consistency]
    """Judges, then aggregators."""
    panels: tuple[str, ...]
    """The aggregators among them."""
    shifts: Mapping[tuple[str, str], Shift]
    """(form, voter) → from the form that it is compared with."""
    forms: tuple[str, ...]
    """Forms that ask the same as the plain one, as far as they were asked."""
    made_premises: bool
    """Whether things that are not there are presumed, from other pictures' questions."""
    n_images: int
    """Pictures."""
    n_facts: int
    """Facts of them."""


def forms_of(facts: Sequence[LabelledFact], options: QuestionsOptions, seed: int) -> Forms:
    """The plain form and those of the options' subjects, each with one fact a row, but for
    :data:`PREMISE`."""

    def put(by: Callable[[Fact], Fact | None]) -> tuple[LabelledFact | None, ...]:
        return tuple(
            None if (asked := by(of.fact)) is None
            else LabelledFact(of.picture, asked, of.holds, of.group)
            for of in facts
        )  # fmt: skip

    def nth(by: Callable[[Fact], Sequence[Fact]], at: int) -> Callable[[Fact], Fact | None]:
        return lambda fact: next(iter(by(fact)[at : at + 1]), None)

    found: dict[str, Sequence[LabelledFact | None]] = {PLAIN_FORM: tuple(facts)}
    wanted = options.subjects
    for subject, by in (("paraphrase", rephrased), ("order", reordered)):
        if subject in wanted:
            found |= {f"{subject}_{at + 1}": put(nth(by, at)) for at in range(2)}
    if "negation" in wanted:
        found |= {NOT: put(negated), CLAIM: put(claimed), CLAIM_NOT: put(claimed_not)}
    if "pressure" in wanted:
        found |= {
            "tag": put(tagged),
            HINT_FOR: put(hinted),
            HINT_AGAINST: put(hinted_against),
        }
    if "premise" in wanted and not any(of.group == ABSENT for of in facts):
        found[PREMISE] = premises(facts, options.premises, seed)
    return {form: rows for form, rows in found.items() if any(row is not None for row in rows)}


async def run(context: PartContext, options: QuestionsOptions) -> PartResult:
    """Ask every judge in other forms, and compare."""
    sample = sample_of(context, options.most_images)
    forms = forms_of(sample.facts, options, context.seed)
    heard = await hear(context, sample, forms, options.limit_usd)
    return await asyncio.to_thread(_result, context, options, sample, forms, heard)


def _result(
    context: PartContext,
    options: QuestionsOptions,
    sample: Sample,
    forms: Forms,
    heard: Mapping[str, Heard],
) -> PartResult:
    study = measured(context, options, sample, forms, heard)
    of_rows = {form: one for form, one in heard.items() if form != PREMISE}
    return PartResult(
        findings=findings(study),
        tables=tables(study),
        plots=plots(study),
        records={
            "questions_voters": _records(study),
            "questions_shifts": [
                {"form": form, "voter": voter, "panel": voter in study.panels, **shift.record()}
                for (form, voter), shift in study.shifts.items()
            ],
            "questions_answers": answer_records(sample.table, of_rows),
        },
        figures={
            f"questions.{voter}.{name}": flat(figure)
            for voter, one in study.voters.items()
            for name, figure in one.named()
        },
        notes=(*sample.notes, *_notes(study, options, heard)),
    )


def measured(
    context: PartContext,
    options: QuestionsOptions,
    sample: Sample,
    forms: Forms,
    heard: Mapping[str, Heard],
) -> Study:
    """All figures, from what was ``heard``."""
    table = sample.table
    by_form: dict[str, dict[str, Voter]] = {
        form: {v.name: v for v in voters_of(table, one, options.aggregators, context.learn)}
        for form, one in heard.items()
        if form != PREMISE
    }
    plain = by_form[PLAIN_FORM]
    shifts = Shifts(table.item_of, table.truth, context.resamples, context.seed)
    same = tuple(form for form in SAME if form in by_form)
    against = {
        form: CLAIM if form == CLAIM_NOT else PLAIN_FORM for form in by_form if form != PLAIN_FORM
    }
    premise, made = _premise(context, options, sample, forms, heard, plain)
    voters = {
        name: consistency(
            {form: there[name] for form, there in by_form.items()}, premise[name], shifts
        )
        for name in plain
    }
    return Study(
        voters=voters,
        panels=tuple(name for name, voter in plain.items() if voter.panel),
        shifts={
            (form, name): shifts.between([(by_form[other][name], by_form[form][name])])
            for form, other in against.items()
            for name in plain
        },
        forms=same,
        made_premises=made,
        n_images=len(table.images),
        n_facts=len(table.facts),
    )


def _premise(
    context: PartContext,
    options: QuestionsOptions,
    sample: Sample,
    forms: Forms,
    heard: Mapping[str, Heard],
    plain: Mapping[str, Voter],
) -> tuple[dict[str, Figure], bool]:
    """Voter → share of false premises that get a yes, and whether they were made."""
    table = sample.table
    if PREMISE in heard:
        voters = _made(context, options, sample, heard[PREMISE])
        number = {of.picture.name: table.item_of[row] for row, of in enumerate(sample.facts)}
        items = np.array([number[of.picture.name] for of in forms[PREMISE] if of is not None])
        bootstrap = Bootstrap(int(table.item_of.max()) + 1, context.seed, context.resamples)
        found = {}
        for voter in voters:
            known = ~np.isnan(voter.votes)
            found[voter.name] = (
                bootstrap.share(items[known], voter.votes[known])
                if known.any()
                else Figure(value=None)
            )
        return found, True
    shifts = Shifts(table.item_of, table.truth, context.resamples, context.seed)
    absent = np.array([fact.group == ABSENT for fact in table.facts])
    if "premise" not in options.subjects:
        absent[:] = False
    return {
        name: shifts.mean(np.where(absent, voter.votes, np.nan)) for name, voter in plain.items()
    }, False


def _made(
    context: PartContext, options: QuestionsOptions, sample: Sample, heard: Heard
) -> tuple[Voter, ...]:
    """What the voters say of made premises; an aggregator that learns from answers learns from
    those alone."""
    n = len(heard.said)
    table = AnswerTable(
        name=sample.table.name,
        judges=sample.table.judges,
        images=tuple(ImageRow(str(row), str(row)) for row in range(n)),
        facts=tuple(FactRow(str(row), row) for row in range(n)),
        said=heard.said,
        votes=heard.votes,
    )
    return voters_of(table, heard, options.aggregators, context.learn)


def _records(study: Study) -> list[dict[str, Any]]:
    return [
        {
            "voter": voter,
            "panel": voter in study.panels,
            "measure": name,
            "value": figure.value,
            "low": figure.low,
            "high": figure.high,
            "n": figure.n,
        }
        for voter, one in study.voters.items()
        for name, figure in one.named()
    ]


def _notes(study: Study, options: QuestionsOptions, heard: Mapping[str, Heard]) -> list[str]:
    notes = [
        "Every form is asked by the same path, one form a sheet, so that no judge sees two forms "
        "of a question together.",
        "Intervals are 95 %, by drawing items; nothing is corrected for the number of voters and "
        "forms.",
        "A negated question is read as P(fact) too, with yes and no exchanged: "
        "|P(q) + P(not q) − 1| is how far the two are apart. Choices are compared as a yes/no "
        "question about their statement and its complement.",
        "Sway compares two forms of the same length that differ in what they suggest: it is not "
        "what more words do.",
    ]  # fmt: skip
    if study.made_premises:
        notes.append(
            "False premises are things that other pictures were asked about; nobody has checked "
            "that they are absent from these."
        )
    elif "premise" in options.subjects:
        notes.append("False premises are the table's own facts of the group absent.")
    if "pressure" not in options.subjects or "negation" not in options.subjects:
        notes.append(f"Asked were: {', '.join(options.subjects)}.")
    notes += asking_notes(heard)
    return notes


PART = Part(
    name="questions",
    title="Other questions",
    about="Do judges say the same when the question is put otherwise, turned round, or pressed?",
    needs=frozenset({"live"}),
    options=QuestionsOptions,
    run=run,
)
