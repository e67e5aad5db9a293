"""Judges asked again: about changed pictures, or in other words.

A *form* is a way in which facts are put. All forms are asked by the same path as the plain one, so
that what differs between two forms is the form: sheets of one picture, as in an interview
(:mod:`scenewright.evals.judge_reports.judge_runs`), never two forms in one sheet.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from scenewright.agents.judges.replay import ReplayJudge
from scenewright.agents.panel.aggregation import Array
from scenewright.core.facts import Answer, Fact
from scenewright.core.images import ImageError
from scenewright.core.ports.judge import Judge, JudgeCaps, unscored
from scenewright.evals.judge_reports.judge_runs import PLAIN, run_judges
from scenewright.evals.judge_reports.labelled_facts import LabelledFact, Picture
from scenewright.evals.studies.panel.study import LiveJudges, Options, PanelStudyContext
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError, numbers_of
from scenewright.providers import StoreError

if TYPE_CHECKING:
    from PIL import Image

PLAIN_FORM = "plain"
"""The form in which nothing is changed."""
Forms = Mapping[str, Sequence[LabelledFact | None]]
"""Form → one fact a row as it is put then; None: the form does not fit that row."""


class AskingOptions(Options):
    """Options of a study that asks judges."""

    most_images: int = Field(default=40, ge=2)
    """Pictures that are asked about, drawn by the study's seed if the table has more."""
    aggregators: tuple[str, ...] = ("mean", "median", "dawid_skene")
    """What makes the panel's answers of the judges'."""
    limit_usd: float = Field(default=1.0, ge=0.0)
    """What the judges may cost, in dollars. A study that is planned to cost more asks nothing;
    questions beyond it stay unscored. Judges whose price is not known count as free."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What is asked about: images of a table, with their pictures."""

    table: AnswerTable
    """The table of these images and of the judges that can be asked."""
    facts: tuple[LabelledFact, ...]
    """Its rows, as the judges are asked."""
    judges: tuple[Judge, ...]
    """Its columns."""
    notes: tuple[str, ...]
    """What was left out."""


@dataclass(frozen=True, slots=True, eq=False)
class JudgeResponses:
    """What the judges said to one form."""

    said: Array
    """Probability that the fact holds, (n_rows, n_judges); NaN without an answer."""
    votes: Array
    """1 yes, 0 no, NaN, likewise."""
    put: Array
    """1 where the form fits the row, (n_rows,)."""
    usd: float
    """What it cost, in dollars, earlier starts of the study included."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why answers could not be used → how many."""


def sample_of(context: PanelStudyContext, most: int) -> Sample:
    """Up to ``most`` images with facts. Raises ``PanelStudyError`` if no judge can be asked."""
    live = _live(context)
    table = context.table
    there = np.unique(table.image_of)
    notes: list[str] = []
    if len(there) > most:
        rng = np.random.default_rng([context.seed, 7])
        picked = np.sort(rng.choice(there, most, replace=False))
        notes.append(f"{most} of {len(there)} pictures were asked about, drawn by chance.")
    else:
        picked = there
    recorded = [at for at, judge in enumerate(live.judges) if isinstance(judge, ReplayJudge)]
    asked = [at for at in range(len(live.judges)) if at not in recorded]
    if recorded:
        names = ", ".join(live.judges[at].id for at in recorded)
        notes.append(f"Left out: {names}, which answer from a record and can say nothing new.")
    if not asked:
        raise PanelStudyError(
            "all judges answer from records: name judges that can be asked, such as "
            "local:miniature/judge-a"
        )
    rows = np.flatnonzero(np.isin(table.image_of, picked))
    return Sample(
        table.of_images(picked).with_judges(asked),
        tuple(live.facts[row] for row in rows),
        tuple(live.judges[at] for at in asked),
        tuple(notes),
    )


def _live(context: PanelStudyContext) -> LiveJudges:
    live = context.live
    if live is None:
        raise PanelStudyError("it needs judges that can be asked again")
    if len(live.facts) != len(context.table.facts) or len(live.judges) != len(context.table.judges):
        raise PanelStudyError(
            f"{context.table.name}: the facts or judges to ask are not those of the table"
        )
    return live


def planned_usd(sample: Sample, forms: Forms) -> float:
    """Return the expected cost of ``forms`` in dollars, as if the store were empty.

    By a judge's own estimate for each call, or by what its answers in the table cost on average.
    """
    table = sample.table
    answered = np.maximum((~np.isnan(table.said)).sum(0), 1)
    usual = table.usd.sum(0) / answered
    size: tuple[int, int] | None = None
    total = 0.0
    for at, judge in enumerate(sample.judges):
        expected: Any = getattr(judge, "expected", None)
        for facts in forms.values():
            there = [labelled for labelled in facts if labelled is not None]
            if expected is None:
                total += float(usual[at]) * len(there)
                continue
            size = size or sample.facts[0].picture.load().size
            by_picture: dict[str, list[Fact]] = {}
            for labelled in there:
                by_picture.setdefault(labelled.picture.name, []).append(labelled.fact)
            total += sum(expected(size, asked).usd or 0.0 for asked in by_picture.values())
    return total


async def query_judges(
    context: PanelStudyContext, sample: Sample, forms: Forms, limit_usd: float
) -> dict[str, JudgeResponses]:
    """Ask every judge of ``sample`` all ``forms``; form → what was said.

    Answers come from the store where they are there. ``context`` reports progress in questions.
    Raises ``PanelStudyError`` before anything is asked if that is planned to cost more than
    ``limit_usd``, and for pictures or a store that cannot be read.
    """
    live = _live(context)
    cost = await asyncio.to_thread(planned_usd, sample, forms)
    if cost > limit_usd:
        raise PanelStudyError(
            f"asking is planned to cost {cost:.2f} USD, above limit_usd = {limit_usd:g}: raise it, "
            "or ask about fewer images or in fewer forms"
        )
    places = [
        (form, row) for form, facts in forms.items() for row in range(len(facts))
        if facts[row] is not None
    ]  # fmt: skip
    asked = [_renamed(forms[form][row], form) for form, row in places]
    budget = _Budget(limit_usd)
    done, total = 0, len(asked) * len(sample.judges)

    def heard(judge: str, n: int) -> None:
        nonlocal done
        done += n
        context.told(done, total)

    try:
        found = await run_judges(
            [_Bounded(judge, budget) for judge in sample.judges], asked,
            store=live.store, plan=PLAIN, limit=live.limit, heard=heard,
        )  # fmt: skip
    except (ImageError, StoreError) as error:
        raise PanelStudyError(str(error)) from error
    except ExceptionGroup as errors:
        known, other = errors.split((ImageError, StoreError))
        if other is not None or known is None:
            raise
        raise PanelStudyError(str(_first(known))) from errors
    blank = {form: (len(facts), len(sample.judges)) for form, facts in forms.items()}
    said = {form: np.full(shape, np.nan) for form, shape in blank.items()}
    votes = {form: np.full(shape, np.nan) for form, shape in blank.items()}
    usd = dict.fromkeys(forms, 0.0)
    reasons: dict[str, Counter[str]] = {form: Counter() for form in forms}
    for column, interviewed in enumerate(found):
        for (form, row), (answer,) in zip(places, interviewed.answers, strict=True):
            labelled = forms[form][row]
            assert labelled is not None
            fact = labelled.fact
            said[form][row, column], votes[form][row, column] = numbers_of(fact, answer)
            usd[form] += answer.usd
            if answer.reason:
                reasons[form][answer.reason] += 1
    return {
        form: JudgeResponses(
            said[form],
            votes[form],
            np.array([fact is not None for fact in facts], float),
            usd[form],
            reasons[form],
        )
        for form, facts in forms.items()
    }


def _renamed(labelled: LabelledFact | None, form: str) -> LabelledFact:
    """With a picture of its own name, so that no sheet holds two forms."""
    assert labelled is not None
    name = f"{labelled.picture.name}\x1f{form}"
    return LabelledFact(
        Picture(name, labelled.picture.load), labelled.fact, labelled.holds, labelled.group
    )


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


@dataclass(slots=True)
class _Budget:
    """What may be spent."""

    limit: float
    spent: float = 0.0


@dataclass(slots=True)
class _Bounded:
    """A judge that is not asked any more when the budget is spent."""

    judge: Judge
    budget: _Budget = field(repr=False)

    @property
    def id(self) -> str:
        return self.judge.id

    @property
    def fingerprint(self) -> str:
        return self.judge.fingerprint

    @property
    def caps(self) -> JudgeCaps:
        return self.judge.caps

    async def load(self) -> None:
        load: Callable[[], object] | None = getattr(self.judge, "load", None)
        loading = None if load is None else load()
        if hasattr(loading, "__await__"):
            await loading

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        if self.budget.spent > self.budget.limit:
            reason = f"not asked: the study's limit of {self.budget.limit:g} USD is reached"
            return unscored(self.id, facts, reason)
        answers = await self.judge.answer(image, facts)
        self.budget.spent += sum(answer.usd for answer in answers)
        return answers

    async def aclose(self) -> None:
        await self.judge.aclose()


def asking_notes(heard: Mapping[str, JudgeResponses]) -> list[str]:
    """Describe unusable answers with the most frequent reason, and the cost of asking."""
    notes: list[str] = []
    lost = {
        form: float(np.isnan(one.said[one.put > 0]).mean())
        for form, one in heard.items()
        if np.isnan(one.said[one.put > 0]).any()
    }
    if lost:
        told = ", ".join(f"{form} {100 * share:.1f} %" for form, share in lost.items())
        total: Counter[str] = Counter()
        for one in heard.values():
            total.update(one.reasons)
        why, n = total.most_common(1)[0]
        notes.append(
            f"Left without a usable answer, which is left out, over all judges: {told}. "
            f"Most often ({n} of {sum(total.values())}): {why}."
        )
    usd = sum(one.usd for one in heard.values())
    if usd:
        notes.append(f"The judges cost {usd:.4f} USD.")
    return notes


def answer_records(table: AnswerTable, heard: Mapping[str, JudgeResponses]) -> list[dict[str, Any]]:
    """Return one record a form, row of ``table`` and judge that was asked, for parquet.

    The forms' rows are those of the table.
    """
    return [
        {
            "image": table.images[fact.image].id,
            "fact": fact.id,
            "kind": fact.kind,
            "group": fact.group,
            "form": form,
            "judge": judge,
            "truth": _or_none(table.truth[row]),
            "probability": _or_none(one.said[row, at]),
            "vote": _or_none(one.votes[row, at]),
        }
        for form, one in heard.items()
        for row, fact in enumerate(table.facts)
        if one.put[row]
        for at, judge in enumerate(table.judge_ids)
    ]


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
