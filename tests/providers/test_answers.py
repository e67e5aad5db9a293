"""Every keeper of answers keeps the port's promises: a file, memory, PostgreSQL."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scenewright.core.facts import Answer
from scenewright.core.formats import load_scene
from scenewright.core.questions import facts_of
from scenewright.providers import Answers, ask, fact_digest, open_answers
from tests.doubles import ScriptedJudge, painted
from tests.evals.served_judges import ServedJudge, changing
from tests.providers.postgres import database

FACTS = facts_of(load_scene("red ball on table"))
IMAGE = painted((8, 8), (128, 0, 0))
YES = Answer(fact_id="o:x", judge_id="j", state="yes", probability=0.75, tokens_in=7)
NO = Answer(fact_id="o:x", judge_id="j", state="no", reason='“none”: \\ " \n\t ♥')

Opened = Callable[[], Answers]


@pytest.fixture(params=["file", "memory", "postgresql"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """Opens the same answers again, but those in memory: they are the same object."""
    if request.param == "postgresql":
        with database() as url:
            yield lambda: open_answers(url, None)
    elif request.param == "file":
        yield lambda: open_answers(None, tmp_path / "answers.sqlite")
    else:
        store = open_answers(None, None)
        yield lambda: store


@pytest.fixture
def store(opened: Opened) -> Iterator[Answers]:
    with closing(opened()) as store:
        yield store


def test_what_is_put_is_got_and_nothing_else(store: Answers) -> None:
    assert store.get("j", "i", ["d", "e"]) == {}
    store.put("j", "i", [("d", YES), ("e", NO)], "here")
    assert store.get("j", "i", ["e", "d", "d", "f"]) == {"d": (YES, "here"), "e": (NO, "here")}
    assert store.get("k", "i", ["d"]) == store.get("j", "h", ["d"]) == store.get("j", "i", []) == {}
    assert len(store) == 2


def test_the_first_answer_stays_even_of_one_put(store: Answers) -> None:
    store.put("j", "i", [("d", YES), ("d", NO)], "one")
    store.put("j", "i", [("e", NO), ("d", NO)], "two")
    store.put("j", "i", [], "three")
    assert store.get("j", "i", ["d", "e"]) == {"d": (YES, "one"), "e": (NO, "two")}


@pytest.mark.parametrize("state", ["unscored", "void"])
def test_failures_are_refused_and_nothing_beside_them_is_kept(store: Answers, state: str) -> None:
    failed = Answer(fact_id="o:x", judge_id="j", state=state, reason="broken")
    with pytest.raises(ValueError, match="must not be stored"):
        store.put("j", "i", [("d", YES), ("e", failed)], "here")
    assert len(store) == 0


def test_what_one_keeps_another_finds(opened: Opened, store: Answers) -> None:
    other = opened()
    store.put("j", "i", [("d", YES)], "here")
    assert other.get("j", "i", ["d"]) == {"d": (YES, "here")}
    if other is not store:
        other.close()
        assert len(store) == 1


def test_served_versions_are_noted_with_the_first_and_the_last(
    opened: Opened, store: Answers
) -> None:
    assert store.noted_versions("j") == ("", "")
    for version in ("v1", "v2", "v3", "v2"):
        store.note_version("j", version)
    other = opened()
    assert other.noted_versions("j") == ("v1", "v2")
    assert other.noted_versions("k") == ("", "")
    if other is not store:
        other.close()


async def test_answers_of_another_served_version_are_asked_anew_and_both_are_kept(
    store: Answers,
) -> None:
    async def said(after: int) -> tuple[list[str], int]:
        found = await ask(judge, "i", IMAGE, FACTS, store=store, origin="here")
        return [answer.model for answer in found.answers], judge.calls

    judge = ServedJudge("a", serves=lambda call: ("v1", "v2", "v1")[call])
    assert await said(0) == (["v1"] * len(FACTS), 1)
    assert await said(0) == (["v1"] * len(FACTS), 1)
    # Another picture tells that the version changed: what was said of this one is not of it.
    await ask(judge, "h", IMAGE, FACTS, store=store)
    assert await said(0) == (["v1"] * len(FACTS), 3)
    store.note_version(judge.fingerprint, "v2")
    await ask(judge, "h", IMAGE, FACTS, store=store)
    assert judge.calls == 3
    assert len(store) == 2 * len(FACTS)


async def test_a_store_of_an_earlier_release_knows_versions_by_its_answers(
    store: Answers,
) -> None:
    judge = ServedJudge("a", serves=changing(0))
    old = [
        (fact_digest(fact), YES.model_copy(update={"model": "v1", "fact_id": fact.id}))
        for fact in FACTS
    ]
    store.put(judge.fingerprint, "i", old, "before")
    found = await ask(judge, "i", IMAGE, FACTS, store=store)
    assert (judge.calls, {answer.model for answer in found.answers}) == (0, {"v1"})
    await ask(judge, "h", IMAGE, FACTS, store=store)
    found = await ask(judge, "i", IMAGE, FACTS, store=store)
    assert (judge.calls, {answer.model for answer in found.answers}) == (2, {"v2"})


async def test_one_pair_has_one_turn_and_others_do_not_wait(store: Answers) -> None:
    inside: list[str] = []
    most = 0

    async def take(name: str) -> None:
        nonlocal most
        async with store.turn("j", name):
            inside.append(name)
            most = max(most, inside.count(name))
            await asyncio.sleep(0.005)
            inside.remove(name)

    await asyncio.gather(*(take("same") for _ in range(6)))
    assert most == 1
    async with store.turn("j", "a"), store.turn("j", "b"), store.turn("k", "a"):
        pass


@pytest.mark.parametrize("after", [0.0, 0.001, 0.02])
async def test_a_cancelled_waiter_leaves_the_turn_to_others(store: Answers, after: float) -> None:
    async def take(seconds: float) -> None:
        async with store.turn("j", "i"):
            await asyncio.sleep(seconds)

    holder = asyncio.create_task(take(0.05))
    waiters = [asyncio.create_task(take(0)) for _ in range(3)]
    await asyncio.sleep(after)
    for waiter in (holder, *waiters[:2]):
        waiter.cancel()
    await asyncio.wait_for(waiters[2], 60)
    await asyncio.wait_for(take(0), 60)
    assert [waiter.cancelled() for waiter in waiters] == [True, True, False]


async def test_a_question_is_paid_for_once_by_those_who_ask_together(store: Answers) -> None:
    judge = ScriptedJudge()
    asked = await asyncio.gather(
        *(ask(judge, "f" * 64, IMAGE, FACTS, store=store, origin=f"{n}") for n in range(4))
    )
    assert [a.cached for a in asked].count(False) == 1
    assert len({tuple(answer.probability for answer in a.answers) for a in asked}) == 1
    assert len(store) == len(FACTS)


@pytest.fixture(scope="module")
def all_kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Answers]]:
    with database() as url:
        folder = tmp_path_factory.mktemp("answers")
        kinds = [
            open_answers(None, None),
            open_answers(None, folder / "a"),
            open_answers(url, None),
        ]
        yield kinds
        for kind in kinds:
            kind.close()


NUMBER = itertools.count()
PUTS = st.lists(
    st.tuples(
        st.sampled_from("jk"),
        st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=4),
        st.sampled_from(["", "here", "there/x"]),
    ),
    max_size=6,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(PUTS)
def test_all_keepers_are_one_dictionary(all_kinds: list[Answers], puts: object) -> None:
    image = f"image {next(NUMBER)}"
    expected: dict[str, dict[str, tuple[Answer, str]]] = {"j": {}, "k": {}}
    for judge, answers, origin in puts:  # type: ignore[attr-defined]
        pairs = [(fact, YES if good else NO) for fact, good in answers]
        for fact, answer in pairs:
            expected[judge].setdefault(fact, (answer, origin))
        for store in all_kinds:
            store.put(judge, image, pairs, origin)
    for store in all_kinds:
        assert {j: store.get(j, image, "abcd") for j in "jk"} == expected
