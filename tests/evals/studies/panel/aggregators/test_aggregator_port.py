"""What every aggregator keeps: missing answers, order, and that it never looks at the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scenewright.evals.studies.panel.aggregators.base import Aggregator, known_truth
from scenewright.evals.studies.panel.aggregators.registry import (
    AGGREGATORS,
    REPLACED,
    aggregator_of,
)
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedModel,
    SimulatedRaters,
    SimulationSpec,
    simulate,
)
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError

SPEC = SimulationSpec(
    judges=tuple(
        SimulatedJudge(id=f"judge-{at}", sensitivity=se, specificity=sp, unscored=0.2)
        for at, (se, sp) in enumerate(((0.95, 0.9), (0.9, 0.7), (0.85, 0.6)))
    ),
    n_items=40,
    models=(SimulatedModel(id="one", prevalence=0.6), SimulatedModel(id="two", prevalence=0.8)),
    raters=SimulatedRaters(number=3, noise=0.5),
)
TABLE = simulate(SPEC)
LEARN = simulate(SPEC.model_copy(update={"seed": 5}))
NAMES = sorted(AGGREGATORS)


def silenced(table: AnswerTable, rows: list[int]) -> AnswerTable:
    """``table`` without any answer to some facts."""
    said, votes = table.said.copy(), table.votes.copy()
    said[rows], votes[rows] = np.nan, np.nan
    return table.with_said(said, votes)


@pytest.mark.parametrize("name", NAMES)
def test_it_gives_probabilities_and_none_where_nobody_answered(name: str) -> None:
    table = silenced(TABLE, [0, 7, 11])
    aggregator = aggregator_of(name)
    assert isinstance(aggregator, Aggregator)
    assert aggregator.name == name
    found = aggregator.combine(table, LEARN)
    silent = np.isnan(table.said).sum(1) == len(table.judges)
    assert silent[[0, 7, 11]].all()
    np.testing.assert_array_equal(np.isnan(found), silent)
    assert ((found[~silent] >= 0.0) & (found[~silent] <= 1.0)).all()
    np.testing.assert_array_equal(found, aggregator_of(name).combine(table, LEARN))


@pytest.mark.parametrize("name", NAMES)
def test_it_never_reads_truth_or_ratings_of_what_it_scores(name: str) -> None:
    blind = replace(
        TABLE,
        truth=1.0 - TABLE.truth,
        images=tuple(replace(image, ratings=(1.0,)) for image in TABLE.images),
    )
    expected = aggregator_of(name).combine(TABLE, LEARN)
    np.testing.assert_array_equal(aggregator_of(name).combine(blind, LEARN), expected)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_judges_does_not_matter(name: str) -> None:
    turned = TABLE.with_judges([2, 0, 1])
    np.testing.assert_allclose(
        aggregator_of(name).combine(turned, LEARN),
        aggregator_of(name).combine(TABLE, LEARN),
        atol=2e-4,
    )


@pytest.mark.parametrize("name", NAMES)
def test_it_does_better_than_chance(name: str) -> None:
    found = aggregator_of(name).combine(TABLE, LEARN)
    known = ~np.isnan(found)
    holds = TABLE.truth[known] == 1.0
    said = found[known]
    # The area under the curve: P(a fact that holds gets more than one that does not).
    above = said[holds][:, None] - said[~holds][None, :]
    assert (np.sign(above) / 2 + 0.5).mean() > 0.8


@pytest.mark.parametrize(
    "name", [name for name in NAMES if aggregator_of(name).fitted_to in ("truth", "ratings")]
)
def test_what_learns_says_what_it_needs(name: str) -> None:
    unknown = replace(
        LEARN,
        truth=np.full(len(LEARN.facts), np.nan),
        images=tuple(replace(image, ratings=()) for image in LEARN.images),
    )
    for learn in (None, unknown):
        with pytest.raises(PanelStudyError, match=rf"{name} learns from"):
            aggregator_of(name).combine(TABLE, learn)


@pytest.mark.parametrize("name", ["stacked", "rated"])
def test_other_judges_are_refused(name: str) -> None:
    with pytest.raises(PanelStudyError, match=r"has no answers of judge-2"):
        aggregator_of(name).combine(TABLE, LEARN.with_judges([0, 1]))


def test_one_truth_is_no_truth() -> None:
    only = replace(LEARN, truth=np.ones(len(LEARN.facts)))
    with pytest.raises(PanelStudyError, match="some that do not"):
        known_truth(only, "stacked")


def test_an_unknown_name_tells_the_known_ones() -> None:
    with pytest.raises(PanelStudyError, match=r"unknown aggregator 'best'.*stacked"):
        aggregator_of("best")


@pytest.mark.parametrize(("name", "instead"), REPLACED.items())
def test_an_aggregator_that_is_gone_tells_what_to_use(name: str, instead: str) -> None:
    assert instead in AGGREGATORS
    with pytest.raises(PanelStudyError, match=f"{name!r} is no longer there: use {instead!r}"):
        aggregator_of(name)
