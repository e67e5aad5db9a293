"""Ask judges about labelled facts, as a table of known truth that can be asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from scenewright.config.settings import Settings
from scenewright.core.ports.judge import Judge
from scenewright.evals.judge_reports.judge_runs import PLAIN, run_judges
from scenewright.evals.judge_reports.labelled_facts import LabelledFact
from scenewright.evals.runner.forecast import CostForecast, CostLine
from scenewright.evals.studies.panel.study import LiveJudges
from scenewright.evals.studies.panel.table import (
    AnswerTable,
    FactRow,
    ImageRow,
    JudgeColumn,
    PanelStudyError,
    answer_arrays,
)
from scenewright.providers import AnswerStore

OnProgress = Callable[[str, int, int], None]
"""Is told what is done, how far it is, and of how much; 0 of 0 where that is not known."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A table of answers, and what goes with it."""

    table: AnswerTable
    """The answers."""
    about: str
    """Where they come from, as a sentence."""
    live: LiveJudges | None = None
    """Judges to ask; None where only answers are there."""
    loop_judges: tuple[str, ...] = ()
    """Judges of the table that steered a loop."""
    notes: tuple[str, ...] = ()
    """What to know of them: what was left out, and why."""


async def judges_of(specs: Sequence[str], settings: Settings) -> tuple[Judge, ...]:
    """Return the judges of ``specs``.

    Raises ``PanelStudyError`` where one cannot be asked in words or two are one model, and
    ``JudgeError`` and ``SettingsError`` as ``profiles.build_panel``.
    """
    from scenewright.agents.panel.independence import check_independence
    from scenewright.runs.model_factory.profiles import build_panel

    judges = await build_panel(specs, settings=settings)
    for judge in judges:
        if judge.caps.kinds is not None:
            raise PanelStudyError(
                f"{judge.id} answers facts of the kinds {', '.join(sorted(judge.caps.kinds))} "
                "alone: leave it out of judges"
            )
    await asyncio.to_thread(check_independence, judges, accounts=settings.accounts)
    return judges


def in_order(facts: Sequence[LabelledFact]) -> tuple[LabelledFact, ...]:
    """``facts`` picture by picture, in the order in which the pictures appear."""
    by_picture: dict[str, list[LabelledFact]] = {}
    for fact in facts:
        by_picture.setdefault(fact.picture.name, []).append(fact)
    return tuple(fact for together in by_picture.values() for fact in together)


async def query_table(
    name: str,
    about: str,
    facts: Sequence[LabelledFact],
    judges: Sequence[Judge],
    store: AnswerStore,
    *,
    limit: float | None = None,
    told: OnProgress = lambda doing, done, total: None,
) -> Loaded:
    """Ask ``judges`` about ``facts``, with every picture as an item of its own.

    Answers come from ``store`` where they are there. Raises ``ImageError`` and ``StoreError``, and
    ``PanelStudyError`` where nothing at all could be used.
    """
    ordered = in_order(facts)
    if not ordered:
        raise PanelStudyError(f"{name} has no facts: there is nothing to ask")
    total = len(ordered) * len(judges)
    done = 0

    def heard(judge: str, n: int) -> None:
        nonlocal done
        done += n
        told(f"asking {judge}", done, total)

    told("asking the judges", 0, total)
    found = await run_judges(judges, ordered, store=store, plan=PLAIN, limit=limit, heard=heard)
    answers = [[row[0] for row in one.answers] for one in found]
    lost = next((a.reason for column in answers for a in column if a.state == "unscored"), "")
    if all(a.state == "unscored" for column in answers for a in column):
        raise PanelStudyError(f"no judge gave a usable answer: {lost}")
    numbers: dict[str, int] = {}
    rows = tuple(
        FactRow(
            id=one.fact.id,
            image=numbers.setdefault(one.picture.name, len(numbers)),
            kind=one.fact.kind,
            group=one.group,
            question=one.fact.question,
        )
        for one in ordered
    )
    table = AnswerTable(
        name=name,
        judges=tuple(JudgeColumn(j.id, fingerprint=j.fingerprint) for j in judges),
        images=tuple(ImageRow(picture, picture) for picture in numbers),
        facts=rows,
        truth=np.array([float(one.holds) for one in ordered]),
        **answer_arrays([one.fact for one in ordered], list(zip(*answers, strict=True))),
    )
    silent = int(np.isnan(table.said).sum())
    notes = tuple(one.mixture for one in found if one.mixture)
    if silent:
        notes += (f"{silent} of {total} answers could not be used, the first because: {lost}.",)
    return Loaded(table, about, LiveJudges(tuple(judges), ordered, store, limit), notes=notes)


async def expected(facts: Sequence[LabelledFact], judges: Sequence[Judge]) -> CostForecast:
    """Return the expected usage of asking each judge, without the answers in the store.

    Judges of this machine take nothing. Raises ``ImageError``.
    """
    remote = [judge for judge in judges if getattr(judge, "expected", None) is not None]
    if not remote:
        return CostForecast()
    by_picture: dict[str, list[LabelledFact]] = {}
    for fact in facts:
        by_picture.setdefault(fact.picture.name, []).append(fact)
    lines = []
    for together in by_picture.values():
        size = await asyncio.to_thread(partial(_size, together[0]))
        for judge in remote:
            of = judge.expected(size, [one.fact for one in together])  # type: ignore[attr-defined]
            lines.append(CostLine.of(judge.id, "judges", of))
    return CostForecast.of(lines)


def _size(fact: LabelledFact) -> tuple[int, int]:
    return fact.picture.load().size
