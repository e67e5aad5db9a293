"""Labelled facts put to judges, as a table of known truth that can be asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.panel import lead_of
from scenewright.config.settings import Settings
from scenewright.core.facts import Answer
from scenewright.core.ports.judge import Judge
from scenewright.evals.judge_reports.judge_runs import PLAIN, run_judges
from scenewright.evals.judge_reports.labelled_facts import LabelledFact
from scenewright.evals.studies.panel.base import LiveJudges
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.sources.base import Loaded, OnProgress
from scenewright.evals.studies.panel.table import AnswerTable, FactRow, ImageRow, JudgeColumn
from scenewright.providers import AnswerStore
from scenewright.providers.usage import ExpectedUsage


async def judges_of(specs: Sequence[str], settings: Settings) -> tuple[Judge, ...]:
    """The judges of ``specs``. Raises ``PanelStudyError`` where one cannot be asked in words or
    two are one model, and ``JudgeError`` and ``SettingsError`` as ``profiles.panel_of``."""
    from scenewright.agents.panel.panel import check_apart
    from scenewright.runs.model_factory.profiles import panel_of

    judges = await panel_of(specs, settings=settings)
    for judge in judges:
        if judge.caps.kinds is not None:
            raise PanelStudyError(
                f"{judge.id} answers facts of the kinds {', '.join(sorted(judge.caps.kinds))} "
                "alone: leave it out of judges"
            )
    await asyncio.to_thread(check_apart, judges, accounts=settings.accounts)
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
    """What ``judges`` say of ``facts``: every picture is an item of its own.

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
    votes = _array(answers, lambda a: {"yes": 1.0, "no": 0.0}.get(a.state, np.nan))
    said = np.array(
        [
            [np.nan if (lead := lead_of(one.fact, answer)) is None else lead for answer in row]
            for one, row in zip(ordered, zip(*answers, strict=True), strict=True)
        ]
    )
    table = AnswerTable(
        name=name,
        judges=tuple(JudgeColumn(j.id, fingerprint=j.fingerprint) for j in judges),
        images=tuple(ImageRow(picture, picture) for picture in numbers),
        facts=rows,
        said=np.where(np.isnan(said), votes, said),
        votes=votes,
        asked=np.ones(votes.shape, bool),
        truth=np.array([float(one.holds) for one in ordered]),
        usd=_array(answers, lambda a: a.usd),
        seconds=_array(answers, lambda a: a.seconds),
        tokens=_array(answers, lambda a: float(a.tokens_in + a.tokens_out)),
    )
    silent = int(np.isnan(table.said).sum())
    notes = tuple(one.mixture for one in found if one.mixture)
    if silent:
        notes += (f"{silent} of {total} answers could not be used, the first because: {lost}.",)
    return Loaded(table, about, LiveJudges(tuple(judges), ordered, store, limit), notes=notes)


def _array(answers: Sequence[Sequence[Answer]], by: Callable[[Answer], float]) -> Array:
    """(n_facts, n_judges) of one list of answers a judge."""
    return np.array([[by(answer) for answer in column] for column in answers], np.float64).T


async def expected(
    facts: Sequence[LabelledFact], judges: Sequence[Judge]
) -> dict[str, ExpectedUsage]:
    """Judge → what asking it ``facts`` is expected to take, without what is kept already; judges of
    this machine take nothing. Raises ``ImageError``."""
    remote = [judge for judge in judges if getattr(judge, "expected", None) is not None]
    if not remote:
        return {}
    by_picture: dict[str, list[LabelledFact]] = {}
    for fact in facts:
        by_picture.setdefault(fact.picture.name, []).append(fact)
    found = dict.fromkeys((judge.id for judge in remote), ExpectedUsage())
    for together in by_picture.values():
        size = await asyncio.to_thread(partial(_size, together[0]))
        for judge in remote:
            of = judge.expected(size, [one.fact for one in together])  # type: ignore[attr-defined]
            found[judge.id] += of
    return found


def _size(fact: LabelledFact) -> tuple[int, int]:
    return fact.picture.load().size
