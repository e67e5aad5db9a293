"""Intervals of scores: against a plain bootstrap, voids derived anew, what cannot vary."""

from __future__ import annotations

import math

import numpy as np
import pytest

from scenewright.agents.panel import scores
from scenewright.agents.panel.panel import Panel
from scenewright.agents.panel.scores import score_intervals
from scenewright.config.profiles import Aggregation
from scenewright.core.facts import (
    Answer,
    Fact,
    FactError,
    ScoreCard,
    ScoreIntervals,
    resolve_verdicts,
)
from scenewright.core.formats import load_scene
from scenewright.core.questions import facts_of

TEXT = "red ball on blue table; dog left of table; cat on table; tree right of house; yellow car"
FACTS = facts_of(load_scene(TEXT))


def answers(n_judges: int, seed: int = 0) -> dict[str, list[Answer]]:
    """What noisy judges say of every fact."""
    rng = np.random.default_rng(seed)
    level = rng.uniform(0.2, 0.9, len(FACTS))
    return {
        f"j{judge}": [
            said(f"j{judge}", fact, float(np.clip(p + rng.normal(0, 0.3), 0.01, 0.99)))
            for fact, p in zip(FACTS, level, strict=True)
        ]
        for judge in range(n_judges)
    }


def said(judge: str, fact: Fact, probability: float) -> Answer:
    return Answer(
        fact_id=fact.id,
        judge_id=judge,
        state="yes" if probability > 0.5 else "no",
        probability=probability,
        method="logprob",
    )


def of(
    facts: tuple[Fact, ...], given: dict[str, list[Answer]], panel: Panel, **options: int
) -> tuple[ScoreCard, ScoreIntervals]:
    verdicts = panel.verdicts(facts, given)
    card = ScoreCard.of(facts, verdicts)
    return card, score_intervals(facts, given, verdicts, panel, card.alpha, **options)


def plain_bootstrap(given: dict[str, list[Answer]], panel: Panel, n: int) -> dict[str, list[float]]:
    """The same, one resample at a time, through the panel and the card themselves."""
    rng = np.random.default_rng(99)
    judges = list(given)
    found: dict[str, list[float]] = {"objects": [], "relations": [], "sgscore": [], "facts": []}
    kinds = {k: [f for f in FACTS if f.kind == k] for k in ("object", "attribute", "relation")}
    for _ in range(n):
        drawn = rng.integers(len(judges), size=len(judges))
        renamed = {
            f"{at}": [a.model_copy(update={"judge_id": f"{at}"}) for a in given[judges[j]]]
            for at, j in enumerate(drawn)
        }
        verdicts = resolve_verdicts(FACTS, {v.fact_id: v for v in panel.verdicts(FACTS, renamed)})
        facts = []
        for of_kind in kinds.values():
            for place, at in enumerate(rng.integers(len(of_kind), size=len(of_kind))):
                facts.append((of_kind[at], f"{of_kind[at].id}#{place}"))
        card = ScoreCard.of(
            [fact.model_copy(update={"id": name, "parents": ()}) for fact, name in facts],
            [verdicts[fact.id].model_copy(update={"fact_id": name}) for fact, name in facts],
        )
        for key, value in (
            ("objects", card.objects.value),
            ("relations", card.relations.value),
            ("sgscore", card.sgscore),
            ("facts", card.fact_recall),
        ):
            assert value is not None
            found[key].append(value)
    return found


@pytest.mark.parametrize("aggregation", ["mean", "majority"])
def test_intervals_are_those_of_a_plain_bootstrap(aggregation: Aggregation) -> None:
    """With every fact answered by everybody nothing is unknown, so both must tell the same, to
    one fact of the seven objects and four relations."""
    panel, given = Panel(aggregation), answers(3, seed=4)
    # Judged without voids, so that no answer is missing when an object is found by other judges.
    verdicts = panel.verdicts([f.model_copy(update={"parents": ()}) for f in FACTS], given)
    found = score_intervals(FACTS, given, verdicts, panel)
    plain = plain_bootstrap(given, panel, 500)
    for key, bounds, step in (
        ("objects", found.objects, 0.15),
        ("relations", found.relations, 0.26),
        ("sgscore", found.sgscore, 0.1),
        ("facts", found.fact_recall, 0.07),
    ):
        assert bounds == pytest.approx(np.quantile(plain[key], [0.025, 0.975]), abs=step), key


@pytest.mark.parametrize("aggregation", ["mean", "majority", "dawid_skene"])
@pytest.mark.parametrize("n_judges", [1, 2, 4])
def test_an_interval_holds_its_score_and_is_the_same_each_time(
    aggregation: Aggregation, n_judges: int
) -> None:
    given = answers(n_judges, seed=n_judges)
    card, found = of(FACTS, given, Panel(aggregation), resamples=300)
    for bounds, value in (
        (found.objects, card.objects.value),
        (found.attributes, card.attributes.value),
        (found.relations, card.relations.value),
        (found.sgscore, card.sgscore),
        (found.fact_recall, card.fact_recall),
    ):
        assert bounds is not None
        assert value is not None
        assert 0.0 <= bounds[0] <= value <= bounds[1] <= 1.0
    assert of(FACTS, given, Panel(aggregation), resamples=300)[1] == found


def test_judges_who_disagree_widen_the_interval() -> None:
    half = [0.9 if at % 2 else 0.1 for at, _ in enumerate(FACTS)]
    alike = {j: [said(j, f, p) for f, p in zip(FACTS, half, strict=True)] for j in "ab"}
    apart = {
        "a": [said("a", fact, 0.95) for fact in FACTS],
        "b": [said("b", fact, 0.1) for fact in FACTS],
    }
    objects = tuple(fact for fact in FACTS if fact.kind == "object")
    agreed = of(objects, keep(alike, objects), Panel())[1].objects
    torn = of(objects, keep(apart, objects), Panel())[1].objects
    assert agreed is not None
    assert torn == (0.0, 1.0)
    assert agreed[1] - agreed[0] < 1.0


def keep(given: dict[str, list[Answer]], facts: tuple[Fact, ...]) -> dict[str, list[Answer]]:
    ids = {fact.id for fact in facts}
    return {judge: [a for a in row if a.fact_id in ids] for judge, row in given.items()}


BALL, TABLE, RED, ON = facts_of(load_scene("red ball on table"))


def test_voids_are_derived_anew_for_the_judges_that_were_drawn() -> None:
    """b alone denies the ball: with b drawn twice RED and ON are void, else they hold."""
    given = {
        "a": [said("a", fact, 0.9) for fact in (BALL, TABLE, RED, ON)],
        "b": [said("b", BALL, 0.2)] + [said("b", fact, 0.9) for fact in (TABLE, RED, ON)],
    }
    card, found = of((BALL, TABLE, RED, ON), given, Panel())
    assert card.satisfied
    assert found.attributes == found.relations == (0.0, 1.0)
    assert found.objects == (0.0, 1.0)
    assert found.fact_recall is not None
    assert found.fact_recall[0] == 0.0


def test_what_was_never_asked_is_unknown_to_judges_who_find_its_object() -> None:
    """Both together deny the ball, a finds it: there RED is unknown and left out, not satisfied
    nor void. With b twice, and with both, it is void."""
    given = {
        "a": [said("a", BALL, 0.6), said("a", TABLE, 0.9)],
        "b": [said("b", BALL, 0.1), said("b", TABLE, 0.9)],
    }
    card, found = of((BALL, TABLE, RED, ON), given, Panel())
    assert card.attributes.void == 1
    assert found.attributes == (0.0, 0.0)
    assert found.objects is not None
    assert found.objects[1] == 1.0


def test_a_fact_that_the_drawn_judges_did_not_answer_keeps_the_verdict() -> None:
    given = {"a": [said("a", TABLE, 0.9), said("a", BALL, 0.9)], "b": [said("b", TABLE, 0.9)]}
    panel = Panel()
    verdicts = panel.verdicts((BALL, TABLE), given, missing_means="unasked")
    assert score_intervals((BALL, TABLE), given, verdicts, panel).objects == (1.0, 1.0)


def test_many_judges_are_drawn_instead_of_counted() -> None:
    assert math.comb(2 * 12 - 1, 12) > scores.MOST_SETS
    given = answers(12, seed=2)
    few = {judge: row for judge, row in given.items() if judge in ("j0", "j1")}
    many_card, many = of(FACTS, given, Panel())
    assert many.sgscore is not None
    assert many_card.sgscore is not None
    assert many.sgscore[0] <= many_card.sgscore <= many.sgscore[1]
    assert of(FACTS, few, Panel())[1] != many


def test_the_bootstrap_covers_the_quality_of_a_judge() -> None:
    """One judge that confirms 70 % of twenty objects: over many pictures 95 % intervals hold 0.7
    almost always (they are a little short, as percentile intervals of few facts are)."""
    rng = np.random.default_rng(1)
    facts = tuple(BALL.model_copy(update={"id": f"o:{at}"}) for at in range(20))
    covered = 0
    for _ in range(100):
        given = {"a": [said("a", fact, 0.9 if rng.random() < 0.7 else 0.1) for fact in facts]}
        bounds = of(facts, given, Panel(), resamples=200)[1].objects
        assert bounds is not None
        covered += bounds[0] <= 0.7 <= bounds[1]
    assert 84 <= covered <= 100


def test_nothing_measured_has_no_interval() -> None:
    panel = Panel()
    empty = score_intervals((), {}, [], panel)
    assert empty == ScoreIntervals()
    unscored = {
        "a": [Answer(fact_id=BALL.id, judge_id="a", state="unscored", reason="broken")],
    }
    assert of((BALL,), unscored, panel)[1] == ScoreIntervals()
    objects_only = of((BALL, TABLE), {"a": [said("a", f, 0.9) for f in (BALL, TABLE)]}, panel)[1]
    assert objects_only.relations is None
    assert objects_only.sgscore == (1.0, 1.0)


def test_what_does_not_fit_is_an_error() -> None:
    with pytest.raises(FactError, match="one verdict a fact"):
        score_intervals((BALL,), {}, [], Panel())
    with pytest.raises(ValueError, match="2 or more"):
        score_intervals((), {}, [], Panel(), resamples=1)
