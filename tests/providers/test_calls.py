"""The one way to ask a judge: what is kept, what is asked again, what becomes unscored."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from scenewright.core.facts import Answer, Fact
from scenewright.core.flushing import Flusher
from scenewright.core.formats import load_scene
from scenewright.core.questions import facts_of
from scenewright.providers import AnswerStore, JudgeReply, StoreError, ask, fact_digest
from tests.doubles import ScriptedJudge, painted

FACTS = facts_of(load_scene("red ball on table; dog left of table"))
IMAGE = painted((8, 8), (128, 0, 0))
HASH = "f" * 64


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AnswerStore]:
    store = AnswerStore(tmp_path / "answers.sqlite")
    yield store
    store.close()


async def put_to(
    judge: ScriptedJudge,
    store: AnswerStore,
    facts: Sequence[Fact] = FACTS,
    *,
    origin: str = "here",
    limit: float | None = None,
) -> JudgeReply:
    return await ask(judge, HASH, IMAGE, facts, store=store, origin=origin, limit=limit)


def asked_of(judge: ScriptedJudge) -> list[str]:
    return [line.split()[-1] for line in judge.book.lines if line.startswith("begin")]


async def test_an_answer_is_paid_once_and_the_first_payer_stays_the_payer(
    store: AnswerStore,
) -> None:
    judge = ScriptedJudge()
    first = await put_to(judge, store)
    again = await put_to(judge, store)
    other = await put_to(judge, store, origin="elsewhere")
    assert len(asked_of(judge)) == len(FACTS)
    assert not first.cached
    assert again.answers == first.answers
    assert not again.cached
    assert other.cached
    assert other.seconds == 0
    assert [a.probability for a in other.answers] == [a.probability for a in first.answers]
    assert sum(a.tokens_in + a.tokens_out for a in other.answers) == 0
    assert sum(a.tokens_in for a in first.answers) == judge.tokens * len(FACTS)


async def test_a_judge_that_takes_all_at_once_is_asked_ahead_and_paid_once(
    store: AnswerStore,
) -> None:
    now, later = FACTS[:2], FACTS[2:]
    judge = ScriptedJudge(at_once=True, usd=0.5)
    first = await ask(judge, HASH, IMAGE, now, store=store, origin="w0", ahead=later)
    assert len(asked_of(judge)) == len(FACTS)
    assert [answer.fact_id for answer in first.answers] == [fact.id for fact in now]
    assert sum(answer.tokens_in for answer in first.answers) == judge.tokens * len(FACTS)
    assert sum(answer.usd for answer in first.answers) == pytest.approx(0.5 * len(FACTS))
    for origin in ("w0", "w1"):
        then = await ask(judge, HASH, IMAGE, later, store=store, origin=origin)
        assert len(asked_of(judge)) == len(FACTS)
        assert {answer.state for answer in then.answers} <= {"yes", "no"}
        assert sum(answer.tokens_in + answer.usd for answer in then.answers) == 0
    again = await ask(judge, HASH, IMAGE, now, store=store, origin="w0", ahead=later)
    assert again.answers == first.answers


async def test_other_judges_are_not_asked_ahead(store: AnswerStore) -> None:
    judge = ScriptedJudge()
    await ask(judge, HASH, IMAGE, FACTS[:2], store=store, origin="w0", ahead=FACTS[2:])
    assert len(asked_of(judge)) == 2


async def test_only_what_is_missing_is_asked(store: AnswerStore) -> None:
    judge = ScriptedJudge()
    await put_to(judge, store, FACTS[:2])
    result = await put_to(judge, store, FACTS[:4])
    assert asked_of(judge) == [fact_digest(fact) for fact in FACTS[:4]]
    assert [answer.fact_id for answer in result.answers] == [fact.id for fact in FACTS[:4]]


async def test_other_weights_or_another_image_are_asked_again(store: AnswerStore) -> None:
    await put_to(ScriptedJudge(), store)
    newer = ScriptedJudge(version="2")
    await put_to(newer, store)
    assert len(asked_of(newer)) == len(FACTS)
    same = ScriptedJudge()
    await ask(same, "0" * 64, IMAGE, FACTS, store=store)
    assert len(asked_of(same)) == len(FACTS)


async def test_the_same_question_is_asked_once(store: AnswerStore) -> None:
    twin = FACTS[0].model_copy(update={"id": "o:other", "subject": "other"})
    judge = ScriptedJudge()
    result = await put_to(judge, store, (FACTS[0], twin))
    assert len(asked_of(judge)) == 1
    assert [answer.fact_id for answer in result.answers] == [FACTS[0].id, "o:other"]
    assert sum(answer.tokens_in for answer in result.answers) == judge.tokens


async def test_two_tasks_asking_the_same_share_one_call(store: AnswerStore) -> None:
    judge = ScriptedJudge()
    await asyncio.gather(*(put_to(judge, store, origin=f"{n}") for n in range(5)))
    assert len(asked_of(judge)) == len(FACTS)


async def test_no_facts_need_no_judge(store: AnswerStore) -> None:
    judge = ScriptedJudge()
    assert (await put_to(judge, store, ())).answers == ()
    assert judge.book.lines == []


def changed(**update: object) -> object:
    def behave(judge: ScriptedJudge, facts: Sequence[Fact], answers: list[Answer]) -> object:
        return [answers[0].model_copy(update=update), *answers[1:]]

    return behave


def raising(error: Exception) -> object:
    def behave(judge: ScriptedJudge, facts: Sequence[Fact], answers: list[Answer]) -> object:
        raise error

    return behave


ALL_LOST = {
    "raises": (raising(RuntimeError("out of memory")), "RuntimeError: out of memory"),
    "own timeout": (raising(TimeoutError()), "TimeoutError"),
    "nothing": (lambda j, f, a: None, "returned NoneType"),
    "a text": (lambda j, f, a: "yes", "returned str"),
    "too few": (lambda j, f, a: a[:-1], "returned 5 answers to 6 facts"),
    "too many": (lambda j, f, a: [*a, a[0]], "returned 7 answers to 6 facts"),
    "dictionaries": (lambda j, f, a: [x.model_dump() for x in a], "a dict among its answers"),
    "wrong order": (lambda j, f, a: a[::-1], "was asked"),
    "another's name": (changed(judge_id="scripted:z"), "signed its answer as 'scripted:z'"),
}


@pytest.mark.parametrize("case", ALL_LOST)
async def test_a_judge_that_fails_or_lies_is_unscored_and_asked_again(
    store: AnswerStore, case: str
) -> None:
    behave, reason = ALL_LOST[case]
    judge = ScriptedJudge(behave=behave)  # type: ignore[arg-type]
    result = await put_to(judge, store)
    assert [answer.state for answer in result.answers] == ["unscored"] * len(FACTS)
    assert all(reason in answer.reason for answer in result.answers)
    assert len(store) == 0
    judge.behave = None
    assert all(a.state != "unscored" for a in (await put_to(judge, store)).answers)


ONE_LOST = {
    "void": ({"state": "void", "probability": None}, "only the panel decides"),
    "no option": ({"choice": "perhaps"}, "not an option"),
    "contradiction": ({"state": "yes", "choice": "no"}, "chose 'no' but said yes"),
}


@pytest.mark.parametrize("case", ONE_LOST)
async def test_an_answer_that_contradicts_itself_is_lost_alone(
    store: AnswerStore, case: str
) -> None:
    update, reason = ONE_LOST[case]
    judge = ScriptedJudge(behave=changed(**update))  # type: ignore[arg-type]
    first, *others = (await put_to(judge, store)).answers
    assert first.state == "unscored"
    assert reason in first.reason
    assert first.probability is None
    assert all(answer.state in ("yes", "no") for answer in others)
    assert len(store) == len(FACTS) - 1


async def test_a_slow_judge_is_unscored_after_the_limit(store: AnswerStore) -> None:
    async def wait(answers: list[Answer]) -> list[Answer]:
        await asyncio.sleep(30)
        return answers

    judge = ScriptedJudge(behave=lambda j, f, a: wait(a))
    result = await put_to(judge, store, limit=0.02)
    assert {answer.reason for answer in result.answers} == {"no answer within 0.02 s"}


async def test_cancelling_goes_through(store: AnswerStore) -> None:
    begun = asyncio.Event()

    async def wait(answers: list[Answer]) -> list[Answer]:
        begun.set()
        await asyncio.sleep(30)
        return answers

    task = asyncio.create_task(put_to(ScriptedJudge(behave=lambda j, f, a: wait(a)), store))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_unscored_answers_are_refused_by_the_store(store: AnswerStore) -> None:
    answer = Answer(fact_id="o:x", judge_id="j", state="unscored", reason="broken")
    with pytest.raises(ValueError, match="must not be stored"):
        store.put("j", HASH, [("d", answer)], "here")


def test_the_first_answer_to_a_fact_stays(store: AnswerStore) -> None:
    yes = Answer(fact_id="o:x", judge_id="j", state="yes")
    no = Answer(fact_id="o:x", judge_id="j", state="no")
    store.put("j", HASH, [("d", yes)], "one")
    store.put("j", HASH, [("d", no)], "two")
    assert store.get("j", HASH, ["d"]) == {"d": (yes, "one")}


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    program = (
        "import sys\nfrom pathlib import Path\nfrom scenewright.providers import AnswerStore\n"
        "from scenewright.core.facts import Answer\nstore = AnswerStore(Path(sys.argv[1]))\n"
        "for n in range(40):\n"
        "    a = Answer(fact_id='o:x', judge_id='j', state='yes')\n"
        "    store.put(sys.argv[2], 'i', [(f'd{n}', a)], 'here')\n"
    )
    workers = [
        subprocess.Popen([sys.executable, "-c", program, str(path), f"j{n}"]) for n in range(3)
    ]
    assert [worker.wait(60) for worker in workers] == [0, 0, 0]
    store = AnswerStore(path)
    assert len(store) == 120
    store.close()


def test_no_database_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "answers.sqlite").write_text("this is no database, but a text file\n" * 50)
    with pytest.raises(StoreError, match=r"answers\.sqlite"):
        AnswerStore(tmp_path / "answers.sqlite")


def test_a_power_cut_loses_nothing_that_was_put(store: AnswerStore) -> None:
    assert store.path is not None
    with sqlite3.connect(store.path) as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)


async def test_a_store_with_a_flusher_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "answers.sqlite"
    flusher = Flusher(delay=3600)
    noted: list[Path] = []
    monkeypatch.setattr(flusher, "note", lambda *paths: noted.extend(paths))

    with closing(AnswerStore(path, flusher=flusher)) as store:
        first = await put_to(ScriptedJudge(), store)
        assert noted == [path.with_name("answers.sqlite-wal")]
        assert noted[0].stat().st_size
        # What a killed process leaves: another one sees it without a close.
        with closing(AnswerStore(path)) as other:
            assert len(other) == len(FACTS)
            again = await put_to(ScriptedJudge(), other)
    assert again.answers == first.answers


async def test_who_must_wait_for_another_writer_waits_in_a_thread(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    flusher = Flusher(delay=3600)
    with (
        closing(flusher),
        closing(AnswerStore(path, flusher=flusher)) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        asking = asyncio.create_task(put_to(ScriptedJudge(), store))
        await asyncio.sleep(0.05)
        assert not asking.done()
        other.execute("COMMIT")
        assert not (await asking).cached
        assert len(store) == len(FACTS)


async def test_a_cancelled_task_ends_after_its_answers_are_stored(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    answered = asyncio.Event()

    def behave(judge: ScriptedJudge, facts: Sequence[Fact], answers: list[Answer]) -> object:
        answered.set()
        return answers

    judge = ScriptedJudge(behave=behave)
    with (
        closing(AnswerStore(path)) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        asking = asyncio.create_task(put_to(judge, store))
        await answered.wait()
        await asyncio.sleep(0.05)
        asking.cancel()
        await asyncio.sleep(0.05)
        assert not asking.done()
        other.execute("COMMIT")
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert len(store) == len(FACTS)
