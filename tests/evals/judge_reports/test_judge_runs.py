"""Asking judges about labelled facts."""

from __future__ import annotations

import asyncio
import csv
import hashlib
from collections import Counter
from pathlib import Path

import pytest

from scenewright.agents.judges.replay import ReplayJudge
from scenewright.core.images import png_bytes
from scenewright.evals.judge_reports.judge_runs import (
    PLAIN,
    VariantPlan,
    count_questions,
    run_judges,
)
from scenewright.evals.judge_reports.synthetic_facts import synthetic_facts
from scenewright.providers import AnswerStore
from tests.evals.oracle import Oracle

FACTS = synthetic_facts(3, seed=1)


async def test_every_variant_of_every_fact_gets_its_answer() -> None:
    judge = Oracle(FACTS)
    (found,) = await run_judges([judge], FACTS, store=AnswerStore(None))
    for labelled, variants, answers in zip(FACTS, found.variants, found.answers, strict=True):
        assert len(variants) == len(answers) >= 5
        assert {answer.fact_id for answer in answers} == {labelled.fact.id}
        assert {answer.state == "yes" for answer in answers} == {labelled.holds}
    total = sum(len(row) for row in found.answers)
    assert total == count_questions(judge, FACTS, VariantPlan())
    assert total == sum(call.questions for call in found.calls) == sum(map(len, judge.asked))


async def test_variants_and_rivals_are_not_seen_together() -> None:
    judge = Oracle(FACTS)
    await run_judges([judge], FACTS, store=AnswerStore(None))
    colors = ("black", "blue", "green", "purple", "red", "yellow")
    for sheet in judge.asked:
        assert len(set(sheet)) == len(sheet)
        things = Counter(
            question.rsplit(" ", 1)[0]
            for question in sheet
            if question.startswith("Is the ") and question.endswith(tuple(f"{c}?" for c in colors))
        )
        assert all(n == 1 for n in things.values())
        assert not any(f"{question} Yes or no?" in sheet for question in sheet)


async def test_a_stopped_interview_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    first = Oracle(FACTS, pause=0.002, local=True)
    store = AnswerStore(path)
    enough = asyncio.Event()

    def heard(judge: str, n: int) -> None:
        if len(first.asked) == 7:
            enough.set()

    task = asyncio.create_task(run_judges([first], FACTS, store=store, heard=heard))
    await enough.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    store.close()
    second = Oracle(FACTS, local=True)
    (found,) = await run_judges([second], FACTS, store=AnswerStore(path))
    whole = Oracle(FACTS, local=True)
    (other,) = await run_judges([whole], FACTS, store=AnswerStore(None))
    assert len(second.asked) <= len(whole.asked) - 7
    assert found.answers == other.answers
    # What was paid before the stop belongs to the report.
    assert [c.seconds for c in found.calls] == [c.seconds for c in other.calls]


async def test_a_failed_call_is_unscored_and_asked_again_next_time() -> None:
    store = AnswerStore(None)
    broken = Oracle(FACTS, failing=lambda call: call == 1)
    (found,) = await run_judges([broken], FACTS, store=store, plan=PLAIN)
    lost = [row[0] for row in found.answers if row[0].state == "unscored"]
    assert lost
    assert {answer.reason for answer in lost} == {"RuntimeError: the line is dead"}
    (again,) = await run_judges([Oracle(FACTS)], FACTS, store=store, plan=PLAIN)
    assert all(row[0].state != "unscored" for row in again.answers)


async def test_local_judges_take_turns_and_remote_ones_are_asked_side_by_side() -> None:
    facts = synthetic_facts(6, seed=2)
    local = [Oracle(facts, name=name, local=True, pause=0.001) for name in ("one", "two")]
    remote = Oracle(facts, name="far", pause=0.01)
    seen: list[str] = []
    await run_judges(
        [*local, remote],
        facts,
        store=AnswerStore(None),
        plan=PLAIN,
        at_once=4,
        heard=lambda judge, n: seen.append(judge),
    )
    assert [judge.most for judge in local] == [1, 1]
    assert remote.most == 4
    mine = [name for name in seen if name != remote.id]
    assert mine == sorted(mine)


async def test_a_judge_is_loaded_only_if_it_is_asked() -> None:
    class Loaded(Oracle):
        loads = 0

        async def load(self) -> None:
            self.loads += 1

    store = AnswerStore(None)
    first, second = Loaded(FACTS), Loaded(FACTS)
    await run_judges([first], FACTS, store=store, plan=PLAIN, at_once=1)
    await run_judges([second], FACTS, store=store, plan=PLAIN)
    assert (first.loads, second.loads) == (1, 0)


async def test_a_record_is_asked_plainly(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "fact_id", "answer"])
        for known in FACTS:
            name = hashlib.sha256(png_bytes(known.picture.load())).hexdigest()
            writer.writerow([name, known.fact.id, known.fact.expected])
    judge = ReplayJudge(path)
    (found,) = await run_judges([judge], FACTS, store=AnswerStore(None))
    assert found.recorded
    assert [len(row) for row in found.answers] == [1] * len(FACTS)
    assert {row[0].state for row in found.answers} == {"yes"}
