"""Questions put otherwise: how far judges and panel follow the form and not the picture."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from pydantic import Field

from scenewright.core.facts import Fact
from scenewright.evals.judge_reports.labelled_facts import ABSENT, LabelledFact
from scenewright.evals.reporting.charts import Chart
from scenewright.evals.reporting.frames import Frame, percents, used, values_by_key
from scenewright.evals.reporting.sentences import in_words, short_name
from scenewright.evals.statistics.figures import Bootstrap, Figure, side_of_zero
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
from scenewright.evals.studies.panel.shifts import (
    CLAIM,
    CLAIM_NOT,
    CONSISTENCY,
    HINT_AGAINST,
    HINT_FOR,
    NOT,
    SAME,
    Shifts,
    Voter,
    consistency,
    voters_of,
)
from scenewright.evals.studies.panel.study import (
    PanelStudy,
    PanelStudyContext,
    PanelStudyResult,
    sentences_of,
)
from scenewright.evals.studies.panel.table import AnswerTable, FactRow, ImageRow

Subject = Literal["paraphrase", "order", "negation", "premise", "pressure"]
PREMISE = "premise"
"""The form of questions about things of other pictures; its rows are none of the table."""
TITLES: dict[str, str] = {
    "paraphrase_1": "other words (1)",
    "paraphrase_2": "other words (2)",
    "order_1": "options in another order (1)",
    "order_2": "options in another order (2)",
    "not": "the complement of a yes/no question",
    "claim": "a choice as a yes/no question",
    "claim_not": "the complement of that",
    "tag": "a claim that asks for agreement",
    "hint_for": "after words that it holds",
    "hint_against": "after words that it does not",
}
"""Form → in words."""


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


_FORMS = {
    "right": "Right, plain",
    "variant_right": "Right, mean form",
    "worst_right": "Right in all",
    "averaged_right": "Right, mean of forms",
    "averaging_gain": "Gain of the mean",
    "steady": "Same vote in all",
}
_CONSISTENCY = {
    "inconsistency": "|P(q) + P(not q) − 1|",
    "contradictions": "Contradictions",
    "both_yes": "Two yeses",
    "premise_yes": "Yes to false premises",
    "sway": "Sway",
    "swayed": "Swayed votes",
}
_SHIFTS = {
    "signed": "Mean score",
    "absolute": "|Shift| a fact",
    "flips": "Flipped votes",
    "accuracy": "Right votes, change",
}
_RIGHT = {
    "right": "plain question",
    "averaged_right": "mean of all forms",
    "worst_right": "right in every form",
}
_PANES = {
    "contradictions": "Contradictions (%)",
    "premise_yes": "Yes to false premises (%)",
    "sway": "Sway by a hint (points)",
}
Rows = list[dict[str, Any]]


def forms_of(facts: Sequence[LabelledFact], options: QuestionsOptions, seed: int) -> Forms:
    """Return the plain form and those of the options' subjects.

    Each has one fact a row, except :data:`PREMISE`.
    """

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


async def run(context: PanelStudyContext, options: QuestionsOptions) -> PanelStudyResult:
    """Ask every judge in other forms, and compare."""
    sample = sample_of(context, options.most_images)
    forms = forms_of(sample.facts, options, context.seed)
    heard = await query_judges(context, sample, forms, options.limit_usd)
    return await asyncio.to_thread(_result, context, options, sample, forms, heard)


def _result(
    context: PanelStudyContext,
    options: QuestionsOptions,
    sample: Sample,
    forms: Forms,
    heard: Mapping[str, JudgeResponses],
) -> PanelStudyResult:
    table = sample.table
    of_rows = {form: one for form, one in heard.items() if form != PREMISE}
    by_form: dict[str, dict[str, Voter]] = {
        form: {v.name: v for v in voters_of(table, one, options.aggregators, context.learn)}
        for form, one in of_rows.items()
    }
    plain = by_form[PLAIN_FORM]
    panels = [name for name, voter in plain.items() if voter.panel]
    main = next(iter([*panels, *plain]))
    shifts = Shifts(table.item_of, table.truth, context.resamples, context.seed)
    premise, made = _premise(context, options, sample, forms, heard, plain)
    voters: Rows = [
        {"voter": name, "panel": name in panels}
        | consistency({form: by[name] for form, by in by_form.items()}, premise[name], shifts)
        for name in plain
    ]
    shifted = [
        {
            "form": form,
            "voter": name,
            "panel": plain[name].panel,
            **shifts.between([(by_form[CLAIM if form == CLAIM_NOT else PLAIN_FORM][name], voter)]),
            "_title": TITLES.get(form, form),
        }
        for form, there in by_form.items()
        if form != PLAIN_FORM
        for name, voter in there.items()
    ]
    panel = next(row for row in voters if row["voter"] == main)
    judges = [row for row in voters if not row["panel"]]

    def those(of: str, sign: int) -> list[str]:
        return [short_name(row["voter"]) for row in judges if side_of_zero(row[of]) == sign]

    say = sentences_of("questions")
    following, opposing = those("sway", 1), those("sway", -1)
    values: dict[str, Any] = {
        **panel, "main": main, "forms": 1 + sum(form in by_form for form in SAME), "made": made,
        "subjects": options.subjects, "n_judges": len(judges),
        "gaining": len(those("averaging_gain", 1)), "losing": len(those("averaging_gain", -1)),
        "swaying": (f"; judges that clearly follow: {', '.join(following)}" if following else "")
        + (f"; judges that clearly go against: {', '.join(opposing)}" if opposing else ""),
        "ends_steady": _ends(judges, "steady", " ({})"),
        "ends_contradictions": _ends(judges, "contradictions", "; {}"),
        "ends_premise_yes": _ends(judges, "premise_yes", "; {}"),
    }  # fmt: skip
    values["worst"] = "".join(say(values, worst=panel["worst_right"].value is not None))
    known = {name for name in CONSISTENCY if any(row[name].value is not None for row in voters)}
    bars = _RIGHT if "right" in known else {"steady": "same vote in every form"}
    return PanelStudyResult(
        findings=say(
            values,
            averaging=panel["averaging_gain"].value is not None,
            steady=panel["steady"].value is not None,
            contradictions=panel["contradictions"].value is not None,
            sway=panel["sway"].value is not None,
            premise=panel["premise_yes"].value is not None,
        ),
        frames=(
            Frame.of("questions_forms", voters, "Forms that ask the same; percent and points",
                     used(percents(_FORMS), voters), head="Voter", label="{voter}", kept=False),
            Frame.of("questions_consistency", voters, "Complements, false premises, pressure; "
                     "percent and points", used(percents(_CONSISTENCY), voters), head="Voter",
                     label="{voter}", kept=False),
            Frame.of("questions_form_shifts", [row for row in shifted if row["voter"] == main],
                     f"What each form does to the panel ({main}); percent and points",
                     percents(_SHIFTS), head="Form", label="{_title}", kept=False),
            Frame.of("questions_voters", [
                {"voter": row["voter"], "panel": row["panel"], "measure": name, "value": row[name],
                 "n": row[name].n}
                for row in voters for name in CONSISTENCY if row[name].value is not None
            ]),
            Frame.of("questions_shifts", shifted),
            Frame.of("questions_answers", answer_records(table, of_rows)),
        ),
        charts=(
            *([Chart("questions_forms", [
                {"voter": row["voter"], "form": title, "share": row[name]}
                for name, title in bars.items() for row in voters
            ], "voter", "share", "bars", series="form", factor=100.0, limits=(0.0, 100.0),
                title="Right votes" if "right" in known else "Agreement of forms",
                xlabel="Facts (%)")] if "steady" in known else []),
            *([Chart("questions_consistency", [
                {"voter": row["voter"], "pane": title, "share": row[name]}
                for name, title in _PANES.items() if name in known for row in voters
            ], "voter", "share", "bars", pane="pane", factor=100.0,
                title="Contradictions, false premises and sway")] if known & set(_PANES) else []),
        ),
        figures=values_by_key("questions.{voter}.{name}", voters, CONSISTENCY),
        notes=(
            *sample.notes,
            *say(values, sheets=True, intervals=True, negated=True, swayed=True, made=made,
                 absent=not made and "premise" in options.subjects,
                 subjects=not {"pressure", "negation"} <= set(options.subjects)),
            *asking_notes(heard),
        ),
    )  # fmt: skip


def _ends(judges: Rows, of: str, told: str) -> str:
    """Name the judges with the least and the most, each with its figure.

    Empty if none has one, as where each fact was answered by another judge.
    """
    known = sorted(
        (row for row in judges if row[of].value is not None), key=lambda row: row[of].value
    )
    texts = [f"{short_name(row['voter'])} {in_words(row[of], '%')}" for row in known]
    return told.format(f"judges: from {texts[0]} to {texts[-1]}") if texts else ""


def _premise(
    context: PanelStudyContext,
    options: QuestionsOptions,
    sample: Sample,
    forms: Forms,
    heard: Mapping[str, JudgeResponses],
    plain: Mapping[str, Voter],
) -> tuple[dict[str, Figure], bool]:
    """Voter → share of false premises that get a yes, and whether they were made."""
    table = sample.table
    if PREMISE in heard:
        voters = _made(context, options, sample, heard[PREMISE])
        number = {of.picture.name: table.item_of[row] for row, of in enumerate(sample.facts)}
        items = np.array([number[of.picture.name] for of in forms[PREMISE] if of is not None])
        bootstrap = Bootstrap(int(table.item_of.max()) + 1, context.seed, context.resamples)
        return {voter.name: bootstrap.share(items, voter.votes) for voter in voters}, True
    shifts = Shifts(table.item_of, table.truth, context.resamples, context.seed)
    absent = np.array([fact.group == ABSENT for fact in table.facts])
    if "premise" not in options.subjects:
        absent[:] = False
    return {
        name: shifts.mean(np.where(absent, voter.votes, np.nan)) for name, voter in plain.items()
    }, False


def _made(
    context: PanelStudyContext, options: QuestionsOptions, sample: Sample, heard: JudgeResponses
) -> tuple[Voter, ...]:
    """Return the voters' answers to made premises.

    An aggregator that learns from answers learns from those alone.
    """
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


PART = PanelStudy(
    name="questions",
    title="Other questions",
    about="Do judges say the same when the question is put otherwise, turned round, or pressed?",
    needs=frozenset({"live"}),
    options=QuestionsOptions,
    run=run,
)
