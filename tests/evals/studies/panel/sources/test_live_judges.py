"""Labelled facts put to judges: the table, and what can be asked again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scenewright.core.facts import Fact
from scenewright.evals.judge_reports.synthetic_facts import synthetic_facts
from scenewright.evals.studies.panel.sources.live_judges import expected, in_order, query_table
from scenewright.evals.studies.panel.table import PanelStudyError
from scenewright.providers import AnswerStore
from scenewright.providers.usage import ExpectedUsage, Usage
from tests.evals.oracle import Oracle, right

FACTS = synthetic_facts(3, seed=1)


def wrong_of_objects(fact: Fact, holds: bool) -> str | None:
    """Denies every object, and is silent about relations."""
    if fact.kind == "relation":
        return None
    return right(fact, holds and fact.kind != "object")


async def test_rows_are_facts_and_columns_are_judges() -> None:
    judges = (
        Oracle(FACTS, name="good", sure=0.9, seconds=0.5),
        Oracle(FACTS, wrong_of_objects, name="bad", sure=None),
    )
    told: list[tuple[str, int, int]] = []
    loaded = await query_table(
        "t", "About.", FACTS, judges, AnswerStore(None), told=lambda *now: told.append(now)
    )
    table = loaded.table
    assert table.judge_ids == ("oracle:good", "oracle:bad")
    assert [judge.fingerprint for judge in table.judges] == [j.fingerprint for j in judges]
    assert len(table.images) == table.n_items == 3
    np.testing.assert_array_equal(table.truth, [float(fact.holds) for fact in FACTS])
    np.testing.assert_array_equal(table.votes[:, 0], table.truth)
    # A choice counts by its option against the strongest other one.
    binary = table.kinds != "relation"
    assert set(np.round(table.said[binary, 0], 6)) == {0.9, 0.1}
    np.testing.assert_array_equal(table.said[:, 0] > 0.5, table.votes[:, 0] == 1.0)
    silent = table.kinds == "relation"
    assert np.isnan(table.said[silent, 1]).all()
    assert table.asked.all()
    # A judge without probabilities counts as its vote.
    objects = table.kinds == "object"
    np.testing.assert_array_equal(table.said[objects, 1], 0.0)
    assert loaded.notes[0].startswith(f"{silent.sum()} of {2 * len(FACTS)} answers could not")
    assert told[0] == ("asking the judges", 0, 2 * len(FACTS))
    assert told[-1][1:] == (2 * len(FACTS), 2 * len(FACTS))
    assert {fact.group for fact in table.facts} == {"holds", "wrong", "absent"}


async def test_what_can_be_asked_again_is_in_the_order_of_the_rows() -> None:
    # Facts of pictures in turn, as a table of labels may list them.
    mixed = tuple(sorted(FACTS, key=lambda fact: fact.fact.id[::-1]))
    judge = Oracle(FACTS)
    loaded = await query_table("t", "About.", mixed, [judge], AnswerStore(None))
    live = loaded.live
    assert live is not None
    assert live.facts == in_order(mixed)
    assert [fact.fact.id for fact in live.facts] == [fact.id for fact in loaded.table.facts]
    pictures = [loaded.table.images[fact.image].id for fact in loaded.table.facts]
    assert [fact.picture.name for fact in live.facts] == pictures
    assert sorted(pictures, key=pictures.index) == pictures


async def test_asked_again_it_asks_nobody_and_tells_the_same() -> None:
    store = AnswerStore(None)
    first = await query_table("t", "About.", FACTS, [Oracle(FACTS)], store)
    silent = Oracle(FACTS)
    again = await query_table("t", "About.", FACTS, [silent], store)
    assert silent.asked == []
    for name in ("said", "votes", "seconds", "tokens", "usd"):
        np.testing.assert_array_equal(getattr(again.table, name), getattr(first.table, name), name)
    assert (first.table.seconds > 0.0).all()


async def test_judges_that_say_nothing_at_all_are_told_with_the_reason() -> None:
    judge = Oracle(FACTS, failing=lambda call: True)
    with pytest.raises(PanelStudyError, match=r"no judge gave a usable answer: .+"):
        await query_table("t", "About.", FACTS, [judge], AnswerStore(None))
    with pytest.raises(PanelStudyError, match="t has no facts"):
        await query_table("t", "About.", (), [judge], AnswerStore(None))


async def test_the_plan_counts_every_picture_of_remote_judges() -> None:
    class Paid(Oracle):
        def expected(self, size: tuple[int, int], facts: list[Fact]) -> ExpectedUsage:
            assert size == FACTS[0].picture.load().size
            return ExpectedUsage(1, Usage(tokens_in=10 * len(facts)), 0.5)

    paid, free = Paid(FACTS, name="paid"), Oracle(FACTS, name="free")
    found = await expected(FACTS, [paid, free])
    (line,) = found.lines
    expected_usage = ExpectedUsage(3, Usage(tokens_in=10 * len(FACTS)), 1.5)
    assert (line.who, line.most) == ("oracle:paid", expected_usage)
    assert paid.asked == []
    assert (await expected(FACTS, [replace(free)])).lines == ()
