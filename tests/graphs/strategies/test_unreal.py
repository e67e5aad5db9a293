"""Which object is repaired next, and where: in order, in the picture, after two tries another."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.config.options import RealismRepair
from scenewright.core.facts import Answer, ScoreCard, Verdict
from scenewright.core.formats import load_scene
from scenewright.core.layout import Region
from scenewright.core.questions import QuestionForm
from scenewright.graphs.strategies.base import (
    Attempt,
    GenerationOverrides,
    RoundContext,
    UnrealisticObject,
)
from scenewright.graphs.strategies.registry import realism_strategy, strategies
from scenewright.graphs.strategies.repairs import (
    region_of_worst,
    unrealistic_objects,
    worst_object_line,
)
from tests.graphs.strategies.situations import round_context

FACTS = QuestionForm(realism=True).facts(load_scene("red ball on table; dog left of table"))
ASKED = [fact for fact in FACTS if fact.kind == "realism"]
SIZE = (200, 100)


def card(*likely: float | None) -> ScoreCard:
    """Facts that all hold, and realism by the facts' order; None is unscored."""
    verdicts = [Verdict(fact_id=f.id, state="yes") for f in FACTS if f.kind != "realism"]
    for fact, value in zip(ASKED, likely, strict=True):
        state: Any = "unscored" if value is None else "yes" if value > 0.5 else "no"
        verdicts.append(Verdict(fact_id=fact.id, state=state, probability=value))
    return ScoreCard.of(FACTS, verdicts)


def answer(fact_id: str, *box: float, judge: str = "j", state: Any = "no") -> Answer:
    reason = "blind" if state == "unscored" else ""
    return Answer(fact_id=fact_id, judge_id=judge, state=state, reason=reason, region=box)  # type: ignore[arg-type]


def attempt(object: str | None, better: bool = False) -> Attempt:
    none: frozenset[str] = frozenset()
    return Attempt(1, "inpaint", none, none, none, better, object)


def test_the_least_real_comes_first_and_what_looks_real_not_at_all() -> None:
    # ball: shape .4, texture .9; table: both real; dog: shape .2, texture not scored.
    found = unrealistic_objects(FACTS, card(0.4, 0.9, 0.6, 0.8, 0.2, None), (), SIZE)
    assert [(item.object, item.lacking) for item in found] == [
        ("dog.1", (("shape", 0.2),)),
        ("ball.1", (("shape", 0.4),)),
    ]
    assert [item.realism for item in found] == pytest.approx([0.2, 0.65])


def test_the_region_is_the_median_box_in_shares_of_the_picture() -> None:
    answers = [
        answer("real:dog.1:shape", 20, 10, 60, 50),
        answer("real:dog.1:texture", 20, 10, 60, 50),
        answer("real:dog.1:shape", 150, 90, 199, 99, judge="k"),
        answer("real:dog.1:texture", 0, 0, 9, 9, judge="l", state="unscored"),
        answer("real:ball.1:shape", -20, 10, 400, 50),
    ]
    found = unrealistic_objects(FACTS, card(0.3, 0.3, 0.9, 0.9, 0.2, 0.2), answers, SIZE)
    assert {item.object: item.region for item in found} == {
        "dog.1": Region(0.1, 0.1, 0.3, 0.5),
        "ball.1": Region(0.0, 0.1, 1.0, 0.5),
    }


@pytest.mark.parametrize(
    ("tried", "first"),
    [
        ([], "dog.1"),
        ([attempt("dog.1")], "dog.1"),
        ([attempt("dog.1"), attempt("dog.1")], "ball.1"),
        ([attempt("dog.1"), attempt("dog.1", better=True), attempt("dog.1")], "dog.1"),
        # Another picture altogether: what failed before says nothing of it.
        ([attempt("dog.1"), attempt("dog.1"), attempt(None, better=True)], "dog.1"),
        # A gain at another object leaves the dog as hopeless as it was.
        ([attempt("dog.1"), attempt("dog.1"), attempt("ball.1", better=True)], "ball.1"),
        ([attempt("dog.1")] * 2 + [attempt("ball.1")] * 2, "dog.1"),
    ],
)
def test_two_tries_without_gain_give_way(tried: list[Attempt], first: str) -> None:
    found = unrealistic_objects(FACTS, card(0.4, 0.4, 0.9, 0.9, 0.2, 0.2), (), SIZE, tried)
    assert found[0].object == first
    assert len(found) == 2


shares = st.floats(0.0, 1.0)
boxes = st.tuples(*[st.floats(-50, 300)] * 4)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RoundContext:
    """A picture that lacks nothing."""
    return round_context(tmp_path_factory.mktemp("whole"), ())


@given(
    likely=st.lists(st.one_of(st.none(), shares), min_size=len(ASKED), max_size=len(ASKED)),
    seen=st.lists(st.tuples(st.sampled_from([f.id for f in ASKED]), boxes), max_size=8),
)
def test_every_object_judged_no_is_there_once_and_its_region_within_the_picture(
    whole: RoundContext, likely: list[float | None], seen: list[tuple[str, tuple[float, ...]]]
) -> None:
    judged = card(*likely)
    answers = [answer(name, *box, judge=f"j{at}") for at, (name, box) in enumerate(seen)]
    found = unrealistic_objects(FACTS, judged, answers, SIZE)
    lacking = {v.fact_id.split(":")[1] for v in judged.verdicts if v.state == "no"}
    assert sorted(item.object for item in found) == sorted(lacking)
    assert [item.realism for item in found] == sorted(item.realism for item in found)
    for item in found:
        assert all(likely <= 0.5 for _, likely in item.lacking)
        if item.region is not None:
            where = region_of_worst(replace(whole, unrealistic=(item,)))
            assert where is not None
            assert 0 <= where.left < where.right <= 1
            assert 0 <= where.top < where.bottom <= 1


def test_the_words_name_aspects_and_the_rest(whole: RoundContext) -> None:
    items = [
        UnrealisticObject(f"dog.{n}", (("shape", 0.216), ("texture", 0.0)), 0.1) for n in (1, 2, 3)
    ]
    said = [worst_object_line(replace(whole, unrealistic=tuple(items[:n]))) for n in (1, 2, 3)]
    head = "dog.1 does not look real: shape .22, texture .00"
    assert said == [head, f"{head}; nor does dog.2", f"{head}; nor do 2 others"]


@pytest.mark.parametrize("name", sorted(strategies()))
def test_every_strategy_has_one_that_repairs_realism(whole: RoundContext, name: str) -> None:
    item = UnrealisticObject("ball.1", (("shape", 0.2),), 0.2, Region(0.2, 0.2, 0.4, 0.6))
    for edit, repair in itertools.product((True, False), get_args(RealismRepair)):
        features = replace(whole.features, edit=edit)
        options = whole.options.model_copy(update={"realism_repair": repair})
        here = replace(whole, unrealistic=(item,), features=features, options=options)
        acting = realism_strategy(strategies()[name], features, repair)
        if name not in ("resample", "best-of-n", "router"):
            in_place = edit and (repair == "inpaint" or name == "inpaint")
            assert acting.name == ("inpaint" if in_place else "resample")
        assert acting.unsupported_reason(features) is None
        repair_plan = acting.plan_repair(here)
        assert "ball.1 does not look real" in repair_plan.why
        redrawn = strategies()[repair_plan.strategy].redraw(here, repair_plan, None)
        if repair_plan.object is None:
            assert redrawn == GenerationOverrides()
        else:
            assert redrawn.start is not None
            mask = here.images.get(str(redrawn.start.mask))
            # A fifth by two fifths of 48 pixels, a tenth of that wider on each side.
            assert mask.getbbox() == (9, 8, 20, 31)
            assert redrawn.start.image == here.best


def test_what_is_missing_goes_before_realism(tmp_path: Path) -> None:
    item = UnrealisticObject("ball.1", (("shape", 0.2),), 0.2, Region(0.2, 0.2, 0.4, 0.6))
    lost = next(fact.id for fact in FACTS if fact.kind == "object" and "ball" in fact.id)
    both = round_context(tmp_path, [lost], unrealistic=(item,))
    for name, strategy in strategies().items():
        repair_plan = strategy.plan_repair(both)
        assert "look real" not in repair_plan.why, name
        assert repair_plan.object is None
