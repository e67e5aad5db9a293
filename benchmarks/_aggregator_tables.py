"""The tables that aggregators are compared on: the miniature's judges, simulations, TIFA160."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks._pool import Progress
from scenewright.evals.judge_reports.labelled_facts import ABSENT
from scenewright.evals.judge_reports.synthetic_facts import synthetic_facts
from scenewright.evals.studies.panel.noise import noisy
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedModel,
    SimulationSpec,
    VoteRates,
    simulate,
)
from scenewright.evals.studies.panel.sources.live_judges import query_table
from scenewright.evals.studies.panel.table import AnswerTable
from scenewright.providers import AnswerStore
from scenewright.runs.model_factory.profiles import judge_of

JUDGES = ("a", "b", "c", "d", "weak", "eager")
SEEDS = {"learn": 7001, "test": 7003}


@dataclass(frozen=True, slots=True)
class Pair:
    """What is scored, and other items of the same judges to learn from."""

    test: AnswerTable
    """Scored."""
    learn: AnswerTable
    """Learnt from."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A noise model of the miniature."""

    judges: tuple[str, ...]
    """Who sits in it; noise is laid over the last."""
    noise: str = "clean"
    """What happens to the answers (:mod:`scenewright.evals.studies.panel.noise`)."""


PANELS: Mapping[str, Panel] = {
    "good": Panel(("a", "b", "c", "d")),
    "one_eager": Panel(("a", "eager")),
    "one_good": Panel(("b", "weak", "eager")),
    "bad": Panel(("weak", "eager")),
    "all": Panel(JUDGES),
    "clique": Panel(("a", "weak", "eager"), "clique"),
    "missing": Panel(JUDGES, "missing"),
    "yes_sayer": Panel(("a", "weak", "b"), "yes_sayer"),
    "guesser": Panel(("a", "weak", "b"), "guesser"),
    "adversary": Panel(("a", "weak", "b"), "adversary"),
}
"""Name → noise model; ``weak`` learned for a short time, ``eager`` says yes too easily."""


def miniature_tables(learn: int, test: int, folder: Path) -> dict[str, Pair]:
    """Every noise model's tables, from the answers to so many paintings; kept in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    store = AnswerStore(folder / "answers.sqlite")
    judges = [judge_of(f"local:miniature/judge-{name}") for name in JUDGES]

    async def ask(name: str, count: int) -> AnswerTable:
        # As in a run: what lacks its object is not asked.
        facts = tuple(
            fact
            for fact in synthetic_facts(count, SEEDS[name])
            if fact.group != ABSENT or fact.fact.kind == "object"
        )
        progress = Progress(len(facts) * len(judges), sys.stderr)
        done = 0

        def told(doing: str, at: int, total: int) -> None:
            nonlocal done
            for _ in range(at - done):
                progress.step()
            done = at

        return (await query_table(f"miniature {name}", "", facts, judges, store, told=told)).table

    async def both() -> Pair:
        return Pair(await ask("test", test), await ask("learn", learn))

    pair = asyncio.run(both())
    return {name: _of_panel(pair, panel) for name, panel in PANELS.items()}


def _of_panel(pair: Pair, panel: Panel) -> Pair:
    columns = [JUDGES.index(judge) for judge in panel.judges]
    return Pair(
        noisy(pair.test.with_judges(columns), panel.noise, 0),
        noisy(pair.learn.with_judges(columns), panel.noise, 1),
    )


def simulated_tables(items: int) -> dict[str, Pair]:
    """Simulated panels of five judges over ``items`` items by three models, each of one kind of
    trouble; learnt from another draw."""
    found = {}
    for name, changes in _SIMULATIONS.items():
        base = SimulationSpec(
            judges=_judges(),
            n_items=items,
            models=tuple(
                SimulatedModel(id=f"model-{at}", prevalence=share)
                for at, share in enumerate((0.6, 0.75, 0.9))
            ),
        )
        spec = base.model_copy(update=dict(changes))
        found[name] = Pair(
            simulate(spec.model_copy(update={"seed": 5})),
            simulate(spec.model_copy(update={"seed": 2})),
        )
    return found


def _judges(**changes: object) -> tuple[SimulatedJudge, ...]:
    """Five judges of different families that say yes too easily, all with ``changes``."""
    rates = ((0.95, 0.85), (0.9, 0.75), (0.9, 0.6), (0.85, 0.7), (0.95, 0.5))
    return tuple(
        SimulatedJudge(id=f"judge-{at}", sensitivity=se, specificity=sp).model_copy(
            update=dict(changes)
        )
        for at, (se, sp) in enumerate(rates)
    )


def _with_kinds() -> tuple[SimulatedJudge, ...]:
    hard = VoteRates(sensitivity=0.8, specificity=0.4)
    return tuple(
        judge.model_copy(update={"kinds": {("attribute", "relation")[at % 2]: hard}})
        for at, judge in enumerate(_judges())
    )


def _with_family() -> tuple[SimulatedJudge, ...]:
    judges = _judges()
    return tuple(
        judge.model_copy(update={"family": "family", "correlation": 0.8}) if at > 1 else judge
        for at, judge in enumerate(judges)
    )


_SIMULATIONS: Mapping[str, Mapping[str, object]] = {
    "independent": {},
    "votes": {"judges": _judges(votes_only=True)},
    "too_sure": {"judges": _judges(temperature=3.0)},
    "kinds": {"judges": _with_kinds()},
    "family": {"judges": _with_family()},
    "difficulty": {"difficulty": 0.5},
    "prompts": {"item_spread": 0.4},
    "missing": {"judges": _judges(unscored=0.4)},
}
