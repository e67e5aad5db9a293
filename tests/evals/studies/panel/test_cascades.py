"""Cascades on a table are those of the loop, image by image."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.agents.panel.panel import Panel
from scenewright.config.profiles import CascadeSpec
from scenewright.core.facts import Answer, Fact
from scenewright.evals.judge_reports.cascade_replay import (
    AskingCost,
    CascadeReport,
    replay_cascade,
)
from scenewright.evals.studies.panel.cascades import (
    CascadeReplay,
    CascadeReplayer,
    Plan,
    pareto,
    plans_of,
)
from scenewright.evals.studies.panel.subpanels import Combiner, panels_of
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError
from tests.evals.studies.panel.panel_tables import random_table


def answers_of(table: AnswerTable, image: int) -> tuple[list[Fact], dict[str, list[Answer]]]:
    """Facts and answers of one image, as a run keeps them."""
    rows = np.flatnonzero(table.image_of == image)
    facts = [
        Fact(
            id=table.facts[row].id,
            kind=table.facts[row].kind,
            statement="!",
            question="?",
            options=("yes", "no"),
            expected="yes",
            parents=tuple(table.facts[parent].id for parent in table.facts[row].parents),
            subject="s",
        )
        for row in rows
    ]
    given = {}
    for at, judge in enumerate(table.judge_ids):
        given[judge] = [
            Answer(
                fact_id=fact.id,
                judge_id=judge,
                state="unscored" if np.isnan(p) else ("yes" if p > 0.5 else "no"),
                probability=None if np.isnan(p) else float(p),
                reason="lost" if np.isnan(p) else "",
                tokens_in=int(table.tokens[row, at]),
                usd=float(table.usd[row, at]),
            )
            for fact, row in zip(facts, rows, strict=True)
            for p in (table.said[row, at],)
        ]
    return facts, given


def walked(table: AnswerTable, plan: Plan, name: str = "mean") -> CascadeReplay:
    combiner = Combiner(table)
    return CascadeReplayer(table).walk(
        plan, combiner.likely(name, plan.first), combiner.likely(name, plan.everyone)
    )


def spent(found: CascadeReplay) -> AskingCost:
    return AskingCost(
        calls=int(found.calls.sum()),
        answers=int(found.answers.sum()),
        tokens=int(found.tokens.sum()),
        usd=float(found.usd.sum()),
    )


@given(
    st.integers(0, 10_000),
    st.sampled_from([(0, 1, 2), (0,), (1,), (2,), (0, 1), (1, 2)]),
    st.sampled_from([(0.1, 0.9), (0.4, 0.6), (0.5, 0.5), (0.0, 1.0), (0.0, 0.5)]),
    st.booleans(),
    st.sampled_from([0.0, 0.3]),
)
@settings(max_examples=40, deadline=None)
def test_equals_the_replay_of_every_image(
    seed: int, first: tuple[int, ...], unsure: tuple[float, float], hard: bool, missing: float
) -> None:
    table = random_table(seed, n_items=4, hard=hard, missing=missing)
    others = tuple(at for at in range(3) if at not in first)
    plan = Plan(first, others, unsure)
    full = walked(table, Plan((0, 1, 2)))
    found = walked(table, plan)
    names = tuple(table.judge_ids[at] for at in first)
    if not others:
        names = names[:1]
    spec = CascadeSpec(first=names, unsure=unsure)
    reports = [
        replay_cascade(*answers_of(table, image), spec, Panel())
        for image in range(len(table.images))
        if (table.image_of == image).any()
    ]
    report = sum(reports, CascadeReport())
    for mine, theirs in ((full, report.full), *(((found, report.cascade),) if others else ())):
        assert asdict(spent(mine)) == pytest.approx(asdict(theirs))
    if not others:
        assert spent(found) == spent(full)
        return

    def state(one: CascadeReplay, row: int) -> str:
        if one.void[row]:
            return "void"
        if np.isnan(one.likely[row]):
            return "unscored"
        return "yes" if one.likely[row] > 0.5 else "no"

    counted: dict[tuple[str, str, str], int] = {}
    for row, fact in enumerate(table.facts):
        key = (fact.kind, state(full, row), state(found, row))
        counted[key] = counted.get(key, 0) + 1
    assert counted == report.states


def test_a_panel_that_is_never_unsure_asks_nobody_else() -> None:
    table = random_table(3, missing=0.0)
    alone = walked(table, Plan((0,)))
    sure = walked(table, Plan((0,), (1, 2), (0.5, 0.5)))
    assert not sure.unsure.any()
    np.testing.assert_array_equal(alone.likely, sure.likely)
    everything = walked(table, Plan((0,), (1, 2), (0.0, 1.0)))
    whole = walked(table, Plan((0, 1, 2)))
    np.testing.assert_allclose(everything.likely, whole.likely)
    assert asdict(spent(everything)) == pytest.approx(asdict(spent(whole)))


def test_refuses_a_judge_that_is_asked_twice_or_not_there() -> None:
    table = random_table(4)
    likely = table.said[:, 0]
    for plan in (Plan((0, 0)), Plan((0,), (0, 1)), Plan((), (1,))):
        with pytest.raises(PanelStudyError, match="each once"):
            CascadeReplayer(table).walk(plan, likely, likely)
    with pytest.raises(PanelStudyError, match="3 judges"):
        CascadeReplayer(table).walk(Plan((7,)), likely, likely)


def test_every_split_is_planned_and_a_limit_keeps_whole_ones() -> None:
    panels = panels_of(3, 99)
    plans, complete = plans_of(panels, ((0.1, 0.9), (0.4, 0.6)), 1000)
    assert complete
    assert len(plans) == 7 + 2 * (3**3 - 2 * 2**3 + 1)
    assert len(set(plans)) == len(plans)
    fewer, complete = plans_of(panels, ((0.1, 0.9),), 14)
    assert not complete
    assert {plan.first for plan in fewer if plan.others} == {
        (0,), (1,), (2,), (0, 1), (0, 2), (1, 2),
    }  # fmt: skip
    assert all(plan.everyone == (0, 1, 2) for plan in fewer if plan.others)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
def test_nothing_beats_what_is_on_the_frontier(points: list[tuple[int, int]]) -> None:
    plans = [Plan((at,)) for at in range(len(points))]
    quality = {plan: float(q) for plan, (q, _) in zip(plans, points, strict=True)}
    cost = {plan: float(c) for plan, (_, c) in zip(plans, points, strict=True)}
    front = pareto(quality, cost)

    def beats(one: Plan, other: Plan) -> bool:
        return (
            quality[one] >= quality[other]
            and cost[one] <= cost[other]
            and (quality[one], cost[one]) != (quality[other], cost[other])
        )

    assert not any(beats(one, other) for one in plans for other in front)
    for plan in set(plans) - set(front):
        assert any(
            beats(one, plan) or (quality[one], cost[one]) == (quality[plan], cost[plan])
            for one in front
        )
    assert list(front) == sorted(front, key=lambda plan: cost[plan])


def test_a_plan_without_quality_is_on_no_frontier() -> None:
    lost, known = Plan((0,)), Plan((1,))
    assert pareto({lost: float("nan"), known: 0.1}, {lost: 0.0, known: 1.0}) == (known,)
