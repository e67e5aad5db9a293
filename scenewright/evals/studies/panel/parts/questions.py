"""Questions put otherwise: how far judges and panel follow the form and not the picture."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from pydantic import Field

from scenewright.core.facts import Fact
from scenewright.evals.judge_reports.labelled_facts import ABSENT, LabelledFact
from scenewright.evals.reporting import plots
from scenewright.evals.statistics.figures import Bootstrap, Figure
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
from scenewright.evals.studies.panel.presentation import (
    bare,
    percent,
    report,
    short_name,
    side,
)
from scenewright.evals.studies.panel.shifts import (
    CLAIM,
    CLAIM_NOT,
    HINT_AGAINST,
    HINT_FOR,
    NOT,
    SAME,
    Consistency,
    Shifts,
    Voter,
    consistency,
    voters_of,
)
from scenewright.evals.studies.panel.study import PanelStudy, PanelStudyContext, PanelStudyResult
from scenewright.evals.studies.panel.table import AnswerTable, FactRow, ImageRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

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


Voters = Mapping[str, Consistency]
"""Judges, then aggregators."""


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
    voters = {
        name: consistency(
            {form: there[name] for form, there in by_form.items()}, premise[name], shifts
        )
        for name in plain
    }
    shifted = [
        {
            "form": form,
            "voter": name,
            "panel": plain[name].panel,
            **shifts.between([(by_form[CLAIM if form == CLAIM_NOT else PLAIN_FORM][name], voter)])
            .row(),
        }
        for form, there in by_form.items()
        if form != PLAIN_FORM
        for name, voter in there.items()
    ]  # fmt: skip
    of_voters = [{"voter": voter, **dict(of.named())} for voter, of in voters.items()]
    values = {
        "main": main,
        "panel": voters[main],
        "forms": 1 + sum(form in by_form for form in SAME),
        "made": made,
        "subjects": options.subjects,
        **_judges({name: one for name, one in voters.items() if name not in panels}),
        "voters": of_voters,
        "measures": [field.name for field in fields(Consistency)],
        "shifted": [
            row | {"_title": TITLES.get(row["form"], row["form"])}
            for row in shifted
            if row["voter"] == main
        ],
    }
    panes = _panes(voters)
    steady = any(one.steady.value is not None for one in voters.values())
    return report(
        "questions",
        values,
        plots={
            "questions_forms": partial(_draw_forms, voters) if steady else None,
            "questions_consistency": partial(_draw_consistency, voters, panels, panes)
            if panes
            else None,
        },
        records_of={
            "questions_voters": [
                {"voter": voter, "panel": voter in panels, "measure": name, **bare("value", one),
                 "n": one.n}
                for voter, of in voters.items()
                for name, one in of.named()
            ],
            "questions_shifts": shifted,
            "questions_answers": answer_records(table, of_rows),
        },
        before=sample.notes,
        after=asking_notes(heard),
    )  # fmt: skip


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


def _judges(judges: Voters) -> dict[str, Any]:
    """Return the values of single judges for the sentences."""

    def those(of: str, sign: int) -> list[str]:
        return [short_name(n) for n, one in judges.items() if side(getattr(one, of)) == sign]

    def ends(of: str) -> str:
        """Name the judges with the least and the most, each with its figure.

        Empty if none has one, as where each fact was answered by another judge.
        """
        figure = {name: getattr(one, of) for name, one in judges.items()}
        order = sorted((n for n in figure if figure[n].value is not None),
                       key=lambda name: figure[name].value)  # fmt: skip
        told = [f"{short_name(name)} {percent(figure[name])}" for name in order]
        return f"judges: from {told[0]} to {told[-1]}" if told else ""

    return {
        "n_judges": len(judges),
        "gaining": len(those("averaging_gain", 1)),
        "losing": len(those("averaging_gain", -1)),
        "following": those("sway", 1),
        "opposing": those("sway", -1),
        "ends": {name: ends(name) for name in ("steady", "contradictions", "premise_yes")},
    }


def _draw_forms(voters: Voters) -> Plot:
    """Right votes of each voter, by form; without truth, how often all forms agree."""
    known = any(one.right.value is not None for one in voters.values())
    names = {
        "plain question": "right",
        "mean of all forms": "averaged_right",
        "right in every form": "worst_right",
    }
    if not known:
        names = {"same vote in every form": "steady"}
    return plots.bar_chart(
        [short_name(name) for name in voters],
        {title: [getattr(one, name) for one in voters.values()] for title, name in names.items()},
        x="Facts (%)",
        title="Right votes" if known else "Agreement of forms",
        factor=100.0,
        limits=(0.0, 100.0),
    )


def _panes(voters: Voters) -> dict[str, str]:
    titles = {
        "contradictions": "Contradictions (%)",
        "premise_yes": "Yes to false premises (%)",
        "sway": "Sway by a hint (points)",
    }
    return {
        name: title for name, title in titles.items()
        if any(getattr(one, name).value is not None for one in voters.values())
    }  # fmt: skip


def _draw_consistency(voters: Voters, panels: Sequence[str], titles: Mapping[str, str]) -> Plot:
    """Contradictions, false premises and sway of each voter, side by side."""
    size = (3.0 * len(titles) + 1.2, 1.4 + 0.34 * len(voters))
    made, axes = plots.panes(len(titles), size)
    for axis, (name, title) in zip(axes, titles.items(), strict=True):
        for place, (voter, one) in enumerate(voters.items()):
            found = getattr(one, name).times(100.0)
            if found.value is not None:
                at = int(voter in panels)
                axis.barh(
                    place, found.value, 0.7, color=plots.COLORS[at], hatch=plots.HATCHES[at],
                    edgecolor="white", linewidth=0.4, xerr=plots.errors([found]),
                    error_kw={"ecolor": plots.INK, "elinewidth": 0.9, "capsize": 2},
                )  # fmt: skip
        axis.axvline(0.0, color="black", linewidth=0.9)
        axis.set_yticks(range(len(voters)), [""] * len(voters))
        axis.set_ylim(len(voters) - 0.5, -0.5)
        axis.grid(axis="y", visible=False)
        axis.set_title(title, fontsize=10)
    axes[0].set_yticklabels([short_name(voter) for voter in voters])
    return plots.legend(made)


PART = PanelStudy(
    name="questions",
    title="Other questions",
    about="Do judges say the same when the question is put otherwise, turned round, or pressed?",
    needs=frozenset({"live"}),
    options=QuestionsOptions,
    run=run,
)
