"""A gate for judges: is a judge right about fewer labelled facts than the one before?

Pictures take the place of scenes: their score is the share of labelled facts that a judge answers
right, among those that both judges could score. Answers are stored, so that a killed gate pays for
nothing twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scenewright.config.settings import Settings, load_settings
from scenewright.core.facts import Answer
from scenewright.core.ports.judge import Judge
from scenewright.evals.datasets.registry import rank
from scenewright.evals.errors import EvalError
from scenewright.evals.gate.page import write_page
from scenewright.evals.gate.result import (
    Comparison,
    FactTally,
    GateOptions,
    GateResult,
    decided_on,
    result_of,
)
from scenewright.evals.gate.running import (
    BATCH,
    Show,
    check_folder,
    levels,
    shared_settings,
    silent,
    write_result,
)
from scenewright.evals.judge_reports.judge_runs import PLAIN, run_judges
from scenewright.evals.judge_reports.labelled_facts import LabelledFact, read_labels
from scenewright.evals.reporting.pages import ChoiceError
from scenewright.evals.reporting.score_matrix import Column
from scenewright.evals.store.manifest import make_folder
from scenewright.providers import AnswerStore
from scenewright.runs.model_factory.profiles import build_panel

METRIC = "right answers"
STORE = "answers.db"
"""File of the answers in the gate's folder."""


@dataclass(frozen=True, slots=True)
class JudgeGate:
    """A gate of two judges that is ready to run."""

    judges: tuple[str, str]
    """``kind:model`` of baseline and candidate."""
    labels: str
    """Name of the file of labels."""
    facts: tuple[LabelledFact, ...]
    options: GateOptions
    folder: Path
    """Folder of the result, the page and the answers."""
    settings: Settings
    given: tuple[Judge, Judge] | None = None
    """Judges in place of those of :attr:`judges`."""


def plan_judge_gate(
    baseline: str,
    candidate: str,
    labels: str | Path,
    options: GateOptions,
    folder: str | Path,
    *,
    settings: Settings | None = None,
    given: tuple[Judge, Judge] | None = None,
) -> JudgeGate:
    """Return a gate of two judges, ``kind:model`` each, on the labelled facts of a file.

    Raises ``ChoiceError`` for judges that are the same and options that judges do not have,
    ``LabelError`` for the file, and ``EvalError`` if the folder holds another gate.
    """
    if baseline == candidate:
        raise ChoiceError(f"both sides are the judge {baseline}: name two judges")
    if options.metric or options.panel:
        raise ChoiceError("judges are compared by right answers: leave out --metric and --panel")
    gate = JudgeGate(
        (baseline, candidate),
        Path(labels).name,
        read_labels(labels),
        options,
        Path(folder),
        settings or load_settings(),
        given,
    )
    check_folder(gate.folder, shared_settings(baseline, candidate, options))
    return gate


async def run_judge_gate(
    gate: JudgeGate, *, batch: int = BATCH, limit_usd: float | None = None, show: Show = silent
) -> GateResult:
    """Run a gate of two judges, or go on with it, and write its result and page.

    Both judges answer about ``batch`` pictures between two looks at the scores. Raises what
    :func:`~scenewright.evals.judge_reports.judge_runs.run_judges` raises, and ``EvalError`` before
    a batch that would probably cost more than ``limit_usd`` with those before.
    """
    await asyncio.to_thread(make_folder, gate.folder)
    pictures: dict[str, list[LabelledFact]] = {}
    for fact in gate.facts:
        pictures.setdefault(fact.picture.name, []).append(fact)
    order = sorted(pictures, key=lambda name: rank(gate.options.seed, name))[: gate.options.limit]
    judges = gate.given or await build_panel(list(gate.judges), settings=gate.settings)
    facts: list[LabelledFact] = []
    answers: tuple[list[Answer], list[Answer]] = ([], [])
    spent, stop = 0.0, 0
    with closing(AnswerStore(gate.folder / STORE)) as store:
        while True:
            expected = spent / stop * (stop + batch) if stop else 0.0
            if limit_usd is not None and expected > limit_usd:
                raise EvalError(
                    f"{stop} pictures cost ${spent:.2f}, the next ones would pass the limit of "
                    f"${limit_usd:.2f}: raise --limit-usd; the same command goes on"
                )
            some = [fact for name in order[stop : stop + batch] for fact in pictures[name]]
            runs = await run_judges(
                judges, some, store=store, plan=PLAIN, limit=gate.settings.judge_timeout
            )
            stop = min(stop + batch, len(order))
            facts += some
            for mine, run in zip(answers, runs, strict=True):
                mine += [row[0] for row in run.answers]
            spent += sum(answer.usd for run in runs for row in run.answers for answer in row)
            found = await asyncio.to_thread(
                _finish, gate, order[:stop], len(order), facts, answers, spent
            )
            show(stop, len(order), "comparing", levels(found))
            if found.finished:
                return found


def _finish(
    gate: JudgeGate,
    names: Sequence[str],
    of: int,
    facts: Sequence[LabelledFact],
    answers: tuple[Sequence[Answer], Sequence[Answer]],
    usd: float,
) -> GateResult:
    """Compare the judges on the pictures ``names``, and write the result."""
    found, tally = compared_judges(names, facts, answers, gate.options)
    finished = found.decided.decision != "undecided" or len(names) == of
    baseline, candidate = gate.judges
    result = result_of(
        found,
        gate.options,
        tally,
        of=of,
        looked_at=len(names),
        finished=finished,
        baseline=baseline,
        candidate=candidate,
        usd=usd,
        of_judges=True,
    )
    write_result(result, gate.folder)
    if finished:
        write_page(result, found, gate.folder)
    return result


def compared_judges(
    names: Sequence[str],
    facts: Sequence[LabelledFact],
    answers: tuple[Sequence[Answer], Sequence[Answer]],
    options: GateOptions,
) -> tuple[Comparison, FactTally]:
    """Return the paired scores of pictures, and the facts lost and gained.

    ``answers`` of both judges are in the order of ``facts``.
    """
    right: dict[str, list[tuple[bool, bool]]] = {name: [] for name in names}
    tally = FactTally()
    for fact, *both in zip(facts, *answers, strict=True):
        states = [_right(answer, fact.holds) for answer in both]
        name = fact.picture.name
        what = tally.add(
            *(states[0], states[1], fact.fact.kind),
            item=name,
            seed=0,
            statement=f"{fact.fact.statement} ({'true' if fact.holds else 'false'})",
            image_before=name,
            image_after=name,
        )
        if what != "unscored":
            right[name].append((states[0] == "yes", states[1] == "yes"))
    scored = [name for name in names if right[name]]
    means = np.array([np.mean(right[name], axis=0) for name in scored]).reshape(-1, 2)
    left = {"no fact is scored by both judges": len(names) - len(scored)}
    comparison = Comparison(
        Column(METRIC, "", ""),
        tuple(scored),
        means[:, 1] - means[:, 0],
        means[:, 0],
        means[:, 1],
        decided_on(means[:, 1] - means[:, 0], options.rule),
        {why: n for why, n in left.items() if n},
        (),
    )
    return comparison, tally


def _right(answer: Answer, holds: bool) -> str:
    """Return whether an answer is right, as a state."""
    if answer.state not in ("yes", "no"):
        return "unscored"
    return "yes" if (answer.state == "yes") == holds else "no"
