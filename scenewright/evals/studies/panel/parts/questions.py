"""Questions put otherwise: how far judges and panel follow the form and not the picture."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from pydantic import Field

from scenewright.core.facts import Fact
from scenewright.evals.judge_reports.labelled_facts import ABSENT, LabelledFact
from scenewright.evals.statistics.figures import Bootstrap, Figure
from scenewright.evals.studies.layout import Cell, Column, Layout, Row
from scenewright.evals.studies.panel.base import PanelStudy, PanelStudyContext, PanelStudyResult
from scenewright.evals.studies.panel.consistency import (
    CLAIM,
    CLAIM_NOT,
    HINT_AGAINST,
    HINT_FOR,
    NOT,
    SAME,
    Consistency,
    consistency,
)
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
from scenewright.evals.studies.panel.perturbations.questions import (
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
    Shift,
    Shifts,
    Voter,
    clear,
    estimate,
    flat,
    percent,
    points,
    voters_of,
)
from scenewright.evals.studies.panel.table import AnswerTable, FactRow, ImageRow
from scenewright.evals.studies.panel.wording import short_name
from scenewright.evals.studies.plots import COLORS, HATCHES, bars, errors, figure, legend

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

    from scenewright.evals.studies.panel.consistency import Consistency

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


@dataclass(frozen=True, slots=True, eq=False)
class QuestionStudyResult:
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
    study = measured(context, options, sample, forms, heard)
    of_rows = {form: one for form, one in heard.items() if form != PREMISE}
    return PanelStudyResult(
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
    context: PanelStudyContext,
    options: QuestionsOptions,
    sample: Sample,
    forms: Forms,
    heard: Mapping[str, JudgeResponses],
) -> QuestionStudyResult:
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
    return QuestionStudyResult(
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
    context: PanelStudyContext, options: QuestionsOptions, sample: Sample, heard: JudgeResponses
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


def _records(study: QuestionStudyResult) -> list[dict[str, Any]]:
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


def _notes(
    study: QuestionStudyResult, options: QuestionsOptions, heard: Mapping[str, JudgeResponses]
) -> list[str]:
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


def findings(study: QuestionStudyResult) -> tuple[str, ...]:
    """Whole sentences, the most important first."""
    main = study.panels[0] if study.panels else next(iter(study.voters))
    panel = study.voters[main]
    judges = {name: one for name, one in study.voters.items() if name not in study.panels}
    return tuple(
        [
            *_averaging(main, panel, judges, len(study.forms) + 1),
            *_worst(main, panel, judges),
            *_complement(main, panel, judges),
            *_pressure(main, panel, judges),
            *_premise_yes(main, panel, judges, study.made_premises),
        ]
    )


def _ends(judges: Mapping[str, Consistency], of: Callable[[Consistency], Figure]) -> str:
    """The judges with the least and the most, each with its figure; empty if none has one, as where
    each fact was answered by another judge."""
    known = {name: of(one) for name, one in judges.items() if of(one).value is not None}
    order = sorted(known, key=lambda name: known[name].value or 0.0)
    told = [f"{short_name(name)} {percent(known[name])}" for name in order]
    return f"judges: from {told[0]} to {told[-1]}" if told else ""


def _averaging(
    main: str, panel: Consistency, judges: Mapping[str, Consistency], forms: int
) -> list[str]:
    gain = panel.averaging_gain
    if gain.value is None:
        return []
    better = [name for name, one in judges.items() if clear(one.averaging_gain) > 0]
    worse = [name for name, one in judges.items() if clear(one.averaging_gain) < 0]
    told = {1: "raises", -1: "lowers", 0: "does not clearly change"}[clear(gain)]
    brier = panel.averaging_brier
    error = {1: "rises", -1: "falls", 0: "does not clearly change"}[clear(brier)]
    return [
        f"The mean over up to {forms} forms of one question {told} the panel's ({main}) share of "
        f"right votes ({points(gain)}); its Brier score {error} ({brier.text(4)}). Of the "
        f"{len(judges)} single judges {len(better)} clearly gain and {len(worse)} clearly lose."
    ]  # fmt: skip


def _worst(main: str, panel: Consistency, judges: Mapping[str, Consistency]) -> list[str]:
    if panel.steady.value is None:
        return []
    ends = _ends(judges, lambda one: one.steady)
    sentence = (
        f"The panel ({main}) votes the same in all forms that ask the same for "
        f"{percent(panel.steady)} of the facts{ends and f' ({ends})'}"
    )
    if panel.worst_right.value is not None:
        sentence += (
            f"; {percent(panel.right)} of its plain votes are right, and "
            f"{percent(panel.worst_right)} of the facts are right in every form"
        )
    return [sentence + "."]


def _complement(main: str, panel: Consistency, judges: Mapping[str, Consistency]) -> list[str]:
    if panel.contradictions.value is None:
        return []
    ends = _ends(judges, lambda one: one.contradictions)
    return [
        f"Asked a question and its complement, the panel ({main}) contradicts itself for "
        f"{percent(panel.contradictions)} of the facts ({percent(panel.both_yes)} get two yeses)"
        f"{ends and f'; {ends}'}."
    ]


def _pressure(main: str, panel: Consistency, judges: Mapping[str, Consistency]) -> list[str]:
    if panel.sway.value is None:
        return []
    follow = [short_name(name) for name, one in judges.items() if clear(one.sway) > 0]
    against = [short_name(name) for name, one in judges.items() if clear(one.sway) < 0]
    told = {
        1: "follows", -1: "goes against", 0: "does not clearly follow or go against"
    }[clear(panel.sway)]  # fmt: skip
    sentence = (
        f"The panel ({main}) {told} what is said to be the answer: P(fact) differs by "
        f"{points(panel.sway)} between words that it holds and words that it does not, and "
        f"{percent(panel.swayed)} of its votes follow them"
    )
    if follow:
        sentence += f"; judges that clearly follow: {', '.join(follow)}"
    if against:
        sentence += f"; judges that clearly go against: {', '.join(against)}"
    return [sentence + "."]


def _premise_yes(
    main: str, panel: Consistency, judges: Mapping[str, Consistency], made: bool
) -> list[str]:
    if panel.premise_yes.value is None:
        return []
    ends = _ends(judges, lambda one: one.premise_yes)
    what = "things that other pictures were asked about" if made else "things that are absent"
    return [
        f"Of the questions about {what}, {percent(panel.premise_yes)} get a yes from the panel "
        f"({main}){ends and f'; {ends}'}."
    ]


def tables(study: QuestionStudyResult) -> tuple[Layout, ...]:
    """By voter: right votes over forms, and consistency; by form for the panel."""
    found = [
        _by_voter(
            study, "questions_forms", "Forms that ask the same; percent and points",
            right="Right, plain", variant_right="Right, mean form", worst_right="Right in all",
            averaged_right="Right, mean of forms", averaging_gain="Gain of the mean",
            steady="Same vote in all",
        ),
        _by_voter(
            study, "questions_consistency", "Complements, false premises, pressure; percent and "
            "points",
            inconsistency="|P(q) + P(not q) − 1|", contradictions="Contradictions",
            both_yes="Two yeses", premise_yes="Yes to false premises", sway="Sway",
            swayed="Swayed votes",
        ),
    ]  # fmt: skip
    main = study.panels[0] if study.panels else next(iter(study.voters))
    forms = [form for form, voter in study.shifts if voter == main]
    if forms:
        names = ("signed", "absolute", "flips", "accuracy")
        titles = ("Mean score", "|Shift| a fact", "Flipped votes", "Right votes, change")
        found.append(
            Layout(
                id="questions_shifts",
                title=f"What each form does to the panel ({main}); percent and points",
                head="Form",
                columns=_columns(dict(zip(names, titles, strict=True))),
                rows=tuple(
                    _row(
                        form,
                        TITLES.get(form, form),
                        [getattr(study.shifts[form, main], name) for name in names],
                    )
                    for form in forms
                ),
                of_paper=False,
            )
        )
    return tuple(found)


def _by_voter(study: QuestionStudyResult, key: str, title: str, **columns: str) -> Layout:
    kept = {
        name: head for name, head in columns.items()
        if any(getattr(one, name).value is not None for one in study.voters.values())
    }  # fmt: skip
    return Layout(
        id=key,
        title=title,
        head="Voter",
        columns=_columns(kept),
        rows=tuple(
            _row(voter, voter, [getattr(one, name) for name in kept])
            for voter, one in study.voters.items()
        ),
        of_paper=False,
    )


def _columns(titles: Mapping[str, str]) -> tuple[Column, ...]:
    return tuple(Column(key=key, title=title) for key, title in titles.items())


def _row(key: str, title: str, cells: Sequence[Figure]) -> Row:
    return Row(key=key, title=title, cells=tuple(Cell(measured=estimate(c)) for c in cells))


def plots(study: QuestionStudyResult) -> Mapping[str, Callable[[], Plot]]:
    """File stem → what draws it."""
    found: dict[str, Callable[[], Plot]] = {}
    if any(one.steady.value is not None for one in study.voters.values()):
        found["questions_forms"] = partial(_forms, study)
    if _panes(study):
        found["questions_consistency"] = partial(_consistency, study)
    return found


def _forms(study: QuestionStudyResult) -> Plot:
    """Right votes of each voter, by form; without truth, how often all forms agree."""
    known = any(one.right.value is not None for one in study.voters.values())
    names = (
        {
            "plain question": "right",
            "mean of all forms": "averaged_right",
            "right in every form": "worst_right",
        }
        if known
        else {"same vote in every form": "steady"}
    )
    series = {
        title: [estimate(getattr(one, name)) for one in study.voters.values()]
        for title, name in names.items()
    }
    made, axes = figure(size=(7.4, 1.6 + 0.55 * len(study.voters)))
    axis = axes[0][0]
    bars(axis, [short_name(name) for name in study.voters], series, horizontal=True)
    axis.set_xlim(0.0, 100.0)
    axis.set_xlabel("Facts (%)")
    axis.set_title("Right votes" if known else "Agreement of forms")
    legend(made, axis, columns=3)
    found: Plot = made
    return found


def _panes(study: QuestionStudyResult) -> dict[str, str]:
    titles = {
        "contradictions": "Contradictions (%)",
        "premise_yes": "Yes to false premises (%)",
        "sway": "Sway by a hint (points)",
    }
    return {
        name: title for name, title in titles.items()
        if any(getattr(one, name).value is not None for one in study.voters.values())
    }  # fmt: skip


def _consistency(study: QuestionStudyResult) -> Plot:
    """Contradictions, false premises and sway of each voter, side by side."""
    panes = _panes(study)
    made, axes = figure(
        1, len(panes), size=(3.0 * len(panes) + 1.2, 1.4 + 0.34 * len(study.voters))
    )
    voters = list(study.voters)
    for at, (name, title) in enumerate(panes.items()):
        axis = axes[0][at]
        for place, voter in enumerate(voters):
            found = estimate(getattr(study.voters[voter], name))
            if found.value is None:
                continue
            panel = voter in study.panels
            axis.barh(
                place, found.value, 0.7, color=COLORS[1 if panel else 0],
                hatch=HATCHES[1 if panel else 0], edgecolor="white", linewidth=0.4,
            )  # fmt: skip
            axis.errorbar(
                [found.value], [place], xerr=errors([found]), fmt="none", ecolor="#222222",
                elinewidth=0.9, capsize=2,
            )  # fmt: skip
        axis.axvline(0.0, color="black", linewidth=0.9)
        names = [short_name(voter) for voter in voters] if at == 0 else [""] * len(voters)
        axis.set_yticks(range(len(voters)), names)
        axis.set_ylim(len(voters) - 0.5, -0.5)
        axis.grid(axis="y", visible=False)
        axis.set_title(title, fontsize=10)
    drawn: Plot = made
    return drawn


PART = PanelStudy(
    name="questions",
    title="Other questions",
    about="Do judges say the same when the question is put otherwise, turned round, or pressed?",
    needs=frozenset({"live"}),
    options=QuestionsOptions,
    run=run,
)
